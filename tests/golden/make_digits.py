"""The first 20 losses of training a small network on the handwritten digits, in f32 and in f64.

Run:     python tests/golden/make_digits.py
Needs:   PyTorch 2.15.0 on the CPU, and crates/foldback/examples/data/digits.csv.gz
Writes:  digits.json.gz beside this file

The file holds the rule in words and the losses, no weights: both sides generate the weights from the formula below.

- Split:   sort the rows by digit (stable, so file order within a digit); rows 0, 5, 10, ... of that order are the test set,
           360 images; the other 1437 are the training set. Within either set the rows stand in file order.
- Inputs:  pixel / 16, row-major, 64 to an image. Targets: the digit.
- Network: Linear(64, 128), ReLU, Linear(128, 64), ReLU, Linear(64, 10); a weight is [out, in].
- Weights: parameter number 1, 2, 3, ... (weight 1, bias 1, weight 2, bias 2, weight 3, bias 3) has its own splitmix64 stream with that
           number as the initial state; element i (row-major) is bound * (2u - 1), u = (i-th output >> 11) * 2^-53,
           bound = 1 / sqrt(in) of its layer, computed in f64 and then cast.
- Step k:  training rows 64k .. 64k+64, cross-entropy (mean); its loss is written down before Adam(lr=1e-3) takes its step.
"""

import gzip
import json
import pathlib

import torch
from torch.nn import functional as F

TORCH_VERSION = "2.15.0"
HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent.parent / "crates" / "foldback" / "examples" / "data" / "digits.csv.gz"
WIDTHS = [64, 128, 64, 10]
BATCH, STEPS = 64, 20

RULE = {
    "split": "sort rows by digit (stable); every fifth row of that order, from row 0, is a test row; each set keeps file order",
    "inputs": "pixel / 16",
    "network": "Linear(64,128) ReLU Linear(128,64) ReLU Linear(64,10), weights [out,in]",
    "weights": "splitmix64 with state 1..6 for weight1,bias1,weight2,bias2,weight3,bias3; "
    "value = bound*(2u-1), u = (next >> 11) * 2^-53, bound = 1/sqrt(in), in f64 and then cast",
    "batches": "training rows 64k..64k+64 in step k, no shuffling",
    "loss": "cross-entropy, mean over the batch, before the step",
    "optimiser": "Adam lr=1e-3 betas=(0.9,0.999) eps=1e-8",
}


def splitmix64(state):
    """The stream of Steele, Lea and Flood (2014), as in Java's SplittableRandom: endless 64-bit integers."""
    mask = (1 << 64) - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


def parameter(number, shape, fan_in, dtype):
    bound = 1 / fan_in**0.5
    stream = splitmix64(number)
    values = [bound * (2 * ((next(stream) >> 11) * 2.0**-53) - 1) for _ in range(torch.Size(shape).numel())]
    return torch.tensor(values, dtype=torch.float64).reshape(shape).to(dtype).requires_grad_()


def parameters(dtype):
    """weight 1, bias 1, weight 2, bias 2, weight 3, bias 3."""
    out = []
    for fan_in, fan_out in zip(WIDTHS, WIDTHS[1:]):
        out.append(parameter(len(out) + 1, (fan_out, fan_in), fan_in, dtype))
        out.append(parameter(len(out) + 1, (fan_out,), fan_in, dtype))
    return out


def forward(x, params):
    w1, b1, w2, b2, w3, b3 = params
    x = F.relu(F.linear(x, w1, b1))
    x = F.relu(F.linear(x, w2, b2))
    return F.linear(x, w3, b3)


def load():
    """(pixels [1797, 64] as integers, digits [1797]) in file order."""
    with gzip.open(DATA, "rt", encoding="ascii") as file:
        rows = torch.tensor([[int(field) for field in line.split(",")] for line in file])
    return rows[:, :64], rows[:, 64]


def split(digits):
    """(training rows, test rows), each in file order."""
    by_digit = sorted(range(len(digits)), key=lambda row: int(digits[row]))
    test = sorted(by_digit[::5])
    train = sorted(set(by_digit) - set(test))
    assert (len(train), len(test)) == (1437, 360)
    return train, test


def losses(pixels, digits, dtype):
    x, params = pixels.to(dtype) / 16, parameters(dtype)
    adam = torch.optim.Adam(params, lr=1e-3)
    out = []
    for step in range(STEPS):
        rows = slice(BATCH * step, BATCH * (step + 1))
        loss = F.cross_entropy(forward(x[rows], params), digits[rows])
        out.append(loss.item())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return out


def main():
    version = torch.__version__.split("+")[0]
    if version != TORCH_VERSION:
        raise SystemExit(f"these losses are PyTorch {TORCH_VERSION}'s; here is {version}")
    torch.set_num_threads(1)
    pixels, digits = load()
    train, _ = split(digits)
    pixels, digits = pixels[train], digits[train]
    result = {
        "made_with": f"PyTorch {TORCH_VERSION}",
        "rule": RULE,
        "losses_f32": losses(pixels, digits, torch.float32),
        "losses_f64": losses(pixels, digits, torch.float64),
    }
    target = HERE / "digits.json.gz"
    target.write_bytes(gzip.compress(json.dumps(result, indent=1).encode(), compresslevel=9, mtime=0))
    worst = max(abs(a - b) for a, b in zip(result["losses_f32"], result["losses_f64"]))
    print(f"{target.name}: {target.stat().st_size} bytes, first {result['losses_f64'][0]:.6f}, "
          f"last {result['losses_f64'][-1]:.6f}, largest |f32 - f64| {worst:.1e}")


if __name__ == "__main__":
    main()
