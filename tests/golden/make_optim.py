"""Parameters after each of some steps of PyTorch's optimisers, in f64.

Run:     python tests/golden/make_optim.py
Needs:   PyTorch 2.15.0 on the CPU
Writes:  optim.json beside this file

Two parameters, of shapes [2, 3] and [4], and their gradients in every step stand in the file, so that no other part of
the library has a say. In one step the second parameter has no gradient; before another the learning rate is halved.
"""

import json
import pathlib

import torch

TORCH_VERSION = "2.15.0"
HERE = pathlib.Path(__file__).resolve().parent
SHAPES = [(2, 3), (4,)]
STEPS, WITHOUT_GRADIENT, HALVED = 7, 2, 4

RUNS = [
    ("SGD", dict(lr=0.1)),
    ("SGD", dict(lr=0.1, weight_decay=0.3)),
    ("SGD", dict(lr=0.1, momentum=0.9)),
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.25)),
    ("SGD", dict(lr=0.1, momentum=0.8, weight_decay=0.05, nesterov=True)),
    ("Adam", dict(lr=0.05)),
    ("Adam", dict(lr=0.05, betas=(0.5, 0.75), eps=1e-3, weight_decay=0.2)),
    ("Adam", dict(lr=0.05, amsgrad=True, betas=(0.6, 0.3))),
    ("Adam", dict(lr=0.05, betas=(0.0, 0.0))),
    ("AdamW", dict(lr=0.05)),
    ("AdamW", dict(lr=0.05, weight_decay=0.5, betas=(0.8, 0.9))),
    ("AdamW", dict(lr=0.05, weight_decay=0.1, amsgrad=True, betas=(0.6, 0.3))),
]


def run(name, options, start, gradients):
    parameters = [p.clone().requires_grad_() for p in start]
    optimiser = getattr(torch.optim, name)(parameters, **options)
    steps = []
    for step, grads in enumerate(gradients):
        if step == HALVED:
            optimiser.param_groups[0]["lr"] /= 2
        for p, g in zip(parameters, grads):
            p.grad = None if g is None else g.clone()
        optimiser.step()
        steps.append([p.detach().flatten().tolist() for p in parameters])
    return steps


def main():
    version = torch.__version__.split("+")[0]
    if version != TORCH_VERSION:
        raise SystemExit(f"these steps are PyTorch {TORCH_VERSION}'s; here is {version}")
    generator = torch.Generator().manual_seed(20)
    draw = lambda shape: torch.randn(shape, generator=generator, dtype=torch.float64)
    start = [draw(shape) for shape in SHAPES]
    gradients = [[draw(shape) for shape in SHAPES] for _ in range(STEPS)]
    gradients[WITHOUT_GRADIENT][1] = None
    flat = lambda t: None if t is None else t.flatten().tolist()
    result = {
        "made_with": f"PyTorch {TORCH_VERSION}",
        "shapes": SHAPES,
        "lr_halved_before_step": HALVED,
        "start": [flat(p) for p in start],
        "gradients": [[flat(g) for g in grads] for grads in gradients],
        "runs": [{"name": n, "options": o, "steps": run(n, o, start, gradients)} for n, o in RUNS],
    }
    target = HERE / "optim.json"
    target.write_text(json.dumps(result) + "\n")
    print(f"{target.name}: {len(RUNS)} runs of {STEPS} steps, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
