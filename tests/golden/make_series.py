"""What the example `series` reaches in PyTorch: the same model, data and number of updates.

Run:     python tests/golden/make_series.py [SEED ..]
Needs:   PyTorch 2.15.0 on the CPU, and crates/foldback/examples/data/sunspots.csv
Prints:  the root mean square error on the test months for each seed, and their mean
"""

import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

DATA = pathlib.Path(__file__).resolve().parents[2] / "crates" / "foldback" / "examples" / "data" / "sunspots.csv"
AHEAD, UPDATES, WINDOW, BATCH, TRAINING = 12, 300, 264, 16, (1950 - 1749) * 12


def error(forecast, truth):
    spots = lambda x: (10 * x).square()
    return (spots(forecast) - spots(truth)).square().mean().sqrt().item()


def run(seed):
    torch.manual_seed(seed)
    numbers = [float(v) for line in DATA.read_text().splitlines() for v in line.split(",")[1:]]
    months = torch.tensor(numbers).sqrt()[:, None] / 10
    lstm, head = nn.LSTM(1, 32), nn.Linear(32, 1)
    adam = torch.optim.Adam([*lstm.parameters(), *head.parameters()], lr=1e-2)
    windows = months[:TRAINING].unfold(0, WINDOW + AHEAD, 1)
    clock = time.time()
    for update in range(1, UPDATES + 1):
        adam.param_groups[0]["lr"] = 1e-2 * (1 - update / (UPDATES + 1))
        batch = windows[torch.randint(0, len(windows), (BATCH,))].permute(2, 0, 1)
        adam.zero_grad()
        loss = F.mse_loss(head(lstm(batch[:WINDOW])[0]), batch[AHEAD:])
        loss.backward()
        adam.step()
    seconds = time.time() - clock
    with torch.no_grad():
        forecast = head(lstm(months[:-AHEAD])[0])
    off = error(forecast[TRAINING - AHEAD :], months[TRAINING:])
    print(f"seed {seed}: off by {off:.1f}, after {seconds:.1f} s of training", flush=True)
    return off


if __name__ == "__main__":
    torch.set_num_threads(2)
    results = [run(int(seed)) for seed in sys.argv[1:] or range(3)]
    print(f"mean: {sum(results) / len(results):.2f}")
