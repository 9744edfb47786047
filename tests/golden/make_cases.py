"""Golden cases: what PyTorch computes, differentiates and refuses, for every operation that Foldback shares with it.

Run:     python tests/golden/make_cases.py            all operations
         python tests/golden/make_cases.py exp clamp  only these
Needs:   PyTorch 2.15.0 on the CPU, NumPy
Writes:  cases/<operation>.jsonl.gz beside this file, one case per line, in the format of the conformance replayer

The operations and their samples stand in `tables/`, an operation per row. To add a case, add a sample there and run this script.
Random numbers depend on the operation and on the case's number only; the files are the same bytes on every run. Each file is
read back and every case in it run again before the script is content.
"""

import gzip
import importlib
import json
import os
import pathlib
import random
import sys
import warnings

os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")  # the last digits do not depend on a newer CPU

import torch

from tables import case
from tables.samples import SEED

TORCH_VERSION = "2.15.0"
TABLES = [
    "pointwise_one", "pointwise_two", "activations", "pairs", "choice", "in_place", "reductions", "extremes", "products",
    "joining", "indexing", "places", "moves", "views", "softmax", "losses", "order", "norms", "labels",
    "convolutions", "images", "normalisation", "attention",
]  # fmt: skip
TARGET = pathlib.Path(__file__).resolve().parent / "cases"


def operations():
    for name in TABLES:
        yield from importlib.import_module(f"tables.{name}").OPS


def drawn_like(rng):
    """Draws a seed or a direction with the shape and dtype of a tensor."""

    def draw(tensor):
        dtype = case.NAMES[tensor.dtype]
        return case.decode_data(SEED.draw(rng, tensor.numel(), dtype), tensor.shape, dtype)

    return draw


def make(op, sample, number):
    """The case as a dictionary in the order of the format page."""
    rng = random.Random(f"{op.name}/{number}")
    track = not sample.refused
    inputs = [tensor.write(name, rng, track) for name, tensor in sample.inputs.items()]
    out = {"op": op.name, "id": number, "src": "own"}
    body = {"inputs": inputs, "args": sample.args}
    if sample.refused:
        return out | {"tags": ["error", *sample.tags]} | body | case.refusal(op, inputs, sample.args)
    found = case.automatic_tags(op, inputs, sample.args)
    tags = sorted({*sample.tags, *(tag for tag, holds in found.items() if holds)})
    dtypes = [w["dtype"] for w in inputs]
    dtype = next((d for d in dtypes if d in case.FLOATS), dtypes[0] if dtypes else "")
    return out | {"variant": "", "dtype": dtype, "tags": tags} | body | case.run(op, inputs, sample.args, drawn_like(rng))


def as_line(made):
    return json.dumps(made, separators=(",", ":"), allow_nan=False)


def write(op, lines):
    path = TARGET / f"{op.name}.jsonl.gz"
    path.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode(), compresslevel=9, mtime=0))
    return path


def verify(op, path):
    """Reads the file back, builds and runs every case from what stands there, and compares every digit."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            again = as_line(case.rerun(op, json.loads(line)))
            assert again == line.strip(), f"{path.name}: differs when run again\n{line}{again}"


def main():
    version = torch.__version__.split("+")[0]
    if version != TORCH_VERSION:
        raise SystemExit(f"these cases are PyTorch {TORCH_VERSION}'s; here is {version}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    TARGET.mkdir(exist_ok=True)
    wanted, cases, size = set(sys.argv[1:]), 0, 0
    for op in operations():
        if wanted and op.name not in wanted:
            continue
        made = []
        for number, sample in enumerate(op.samples()):
            try:
                made.append(make(op, sample, number))
            except Exception as error:
                raise SystemExit(f"{op.name}/{number}: {sample}\n{error}") from error
        path = write(op, [as_line(m) for m in made])
        verify(op, path)
        errors = sum("error" in m for m in made)
        second = sum("grad2" in m for m in made)
        print(f"{op.name:34} {len(made):4} cases {errors:4} refused {second:4} second order {path.stat().st_size:7} bytes")
        cases, size = cases + len(made), size + path.stat().st_size
    print(f"{cases} cases, {size} bytes")


if __name__ == "__main__":
    main()
