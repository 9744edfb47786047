"""Derivatives of some functions as torch.autograd.functional computes them, in f64.

Run:     python tests/golden/make_functional.py
Needs:   PyTorch 2.15.0 on the CPU
Writes:  functional.json beside this file

Each case has the function's arguments, directions for arguments and outputs, and what came out.
"""

import json
from pathlib import Path

import torch
from torch.autograd import functional as F

torch.set_default_dtype(torch.float64)


def broadcast(a, b):
    return (a / (1 + b * b)).sin()


def layer(x, w):
    return torch.softmax(torch.tanh(x @ w.T), -1)


def views(x):
    return (x.T.reshape(2, 3).cumsum(1) * x.exp()).flip(0)


def reductions(x):
    return x.prod(1) + x.logsumexp(0).sum() + x.amax()


def two(x, y):
    return x * y.sum(), y.exp() - x[0]


def number(x, w):
    return torch.log_softmax(x @ w, -1)[:, 0].square().sum() + (x[0] / w[:, 1]).pow(3).sum()


def linear(x):
    return (x * 3).sum()


def unused(x, y):
    return x.square().sum()


def arguments(generator, shapes):
    return tuple(torch.randn(s, generator=generator) for s in shapes)


CASES = [
    (broadcast, [(3,), (2, 1)]),
    (layer, [(2, 3), (4, 3)]),
    (views, [(2, 3)]),
    (reductions, [(3, 3)]),
    (two, [(2,), (3,)]),
    (number, [(2, 3), (3, 2)]),
    (linear, [(3,)]),
    (unused, [(2,), (2,)]),
]


def plain(x):
    if isinstance(x, tuple):
        return [plain(y) for y in x]
    return {"shape": list(x.shape), "values": x.flatten().tolist()}


def case(f, shapes):
    generator = torch.Generator().manual_seed(len(f.__name__))
    x = arguments(generator, shapes)
    y = f(*x)
    outputs = y if isinstance(y, tuple) else (y,)
    v = arguments(generator, shapes)
    u = arguments(generator, [o.shape for o in outputs])
    found = {
        "name": f.__name__,
        "arguments": x,
        "tangents": v,
        "cotangents": u,
        "value": outputs,
        "vjp": F.vjp(f, x, u if len(u) > 1 else u[0])[1],
        "jvp": F.jvp(f, x, v)[1],
        "jacobian": F.jacobian(f, x),
    }
    for name in ("jvp", "jacobian"):
        if not isinstance(y, tuple):
            found[name] = (found[name],)
    if y.numel() == 1 if isinstance(y, torch.Tensor) else False:
        found |= {"hessian": F.hessian(f, x), "hvp": F.hvp(f, x, v)[1], "vhp": F.vhp(f, x, v)[1]}
    return {k: n if isinstance(n, str) else plain(n) for k, n in found.items()}


def main():
    lines = ",\n".join(json.dumps(case(f, shapes)) for f, shapes in CASES)
    (Path(__file__).parent / "functional.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
