"""Random functions of pieces of a variable: split, chunk and unbind, of pieces too, as PyTorch differentiates them, in f64.

Run:     python tests/golden/make_pieces.py
Needs:   PyTorch 2.15.0 on the CPU
Writes:  pieces.jsonl.gz beside this file, a function per line

Some pieces are used more than once, some never, some have no elements; some are broadcast against another variable, or stand beside
the whole. Each line has the cuts and the terms of the sum, the value, its gradients, those of a piece, and the gradients of
`gradient * v`.
"""

import gzip
import json
import random
from pathlib import Path

import torch

torch.set_default_dtype(torch.float64)
TARGET = Path(__file__).resolve().parent / "pieces.jsonl.gz"
COUNT = 120


def cut(value, how):
    axis = how["axis"]
    match how["do"]:
        case "split":
            return list(value.split(how["size"], axis))
        case "sizes":
            return list(value.split(how["sizes"], axis))
        case "chunk":
            return list(value.chunk(how["count"], axis))
        case "unbind":
            return list(value.unbind(axis))


def draw_cut(rng, value):
    axis = rng.randrange(-value.dim(), value.dim())
    size = value.shape[axis]
    do = rng.choice(["split", "sizes", "chunk", "unbind", "unbind"])
    how = {"do": do, "axis": axis}
    if do == "split":
        how["size"] = rng.randint(1, size + 1)
    elif do == "sizes":
        ends = sorted(rng.randint(0, size) for _ in range(rng.randint(0, 3)))
        how["sizes"] = [b - a for a, b in zip([0] + ends, ends + [size])]
    elif do == "chunk":
        how["count"] = rng.randint(1, size + 2)
    return how


def draw_term(rng, count):
    do = rng.choice(["cube", "cube", "beside_w", "pair", "beside_x"])
    return {"do": do, "i": rng.randrange(count), "j": rng.randrange(count), "by": rng.choice([-2.0, -0.5, 0.5, 1.0, 3.0])}


def term(t, x, w, pieces):
    a, b = pieces[t["i"]], pieces[t["j"]]
    match t["do"]:
        case "cube":
            y = a.pow(3)
        case "beside_w":
            y = (a * w).sin()
        case "pair":
            y = a.sum() * b.square()
        case "beside_x":
            y = x * a.square().sum()
    return y.sum() * t["by"]


def written(tensor):
    return None if tensor is None else {"shape": list(tensor.shape), "values": tensor.detach().reshape(-1).tolist()}


def make(seed):
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    shape = [rng.choice([0, 1, 2, 2, 3, 3, 3, 4, 4, 5]) if rng.random() < 0.9 else 1 for _ in range(rng.randint(1, 3))]
    x, v = (torch.randn(shape, generator=generator) for _ in range(2))
    x.requires_grad_()
    cuts, pieces = [], [x]
    for _ in range(rng.choice([1, 1, 2, 3])):
        of = 0 if not cuts else rng.randrange(len(pieces))
        if pieces[of].dim() == 0:
            continue
        cuts.append({"of": of, **draw_cut(rng, pieces[of])})
        pieces += cut(pieces[of], cuts[-1])
    rank = max(p.dim() for p in pieces)
    w = torch.randn([2] + [1] * rank, generator=generator, requires_grad=True)
    terms = [draw_term(rng, len(pieces)) for _ in range(rng.randint(1, 5))]
    value = sum(term(t, x, w, pieces) for t in terms)
    piece = rng.randrange(len(pieces))
    first = torch.autograd.grad(value, [x, w, pieces[piece]], create_graph=True, allow_unused=True)
    second = [None, None]
    if first[0] is not None and first[0].requires_grad:
        second = torch.autograd.grad((first[0] * v).sum(), [x, w], allow_unused=True)
    return {
        "x": written(x), "w": written(w), "v": written(v), "cuts": cuts, "terms": terms, "piece": piece,
        "shapes": [list(p.shape) for p in pieces], "value": value.item(),
        "first": [written(g) for g in first], "second": [written(g) for g in second],
    }


def main():
    torch.set_num_threads(1)
    lines = "".join(json.dumps(make(seed)) + "\n" for seed in range(COUNT))
    TARGET.write_bytes(gzip.compress(lines.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
