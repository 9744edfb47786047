"""Random programs: what PyTorch computes, differentiates and refuses when operations follow one another.

Run:     python tests/golden/make_programs.py                     the programs of this repository
         python tests/golden/make_programs.py FIRST COUNT FILE    COUNT programs, tried from the seed FIRST on
Needs:   PyTorch 2.15.0 on the CPU, NumPy
Writes:  programs.jsonl.gz beside this file, one program per line; see `docs/src/golden-cases.md`

A seed makes the same program on every run. Each program is run again before it is written, as it stands in its line; one whose
results hang on the last bits of a number is left out (`programs/steady.py`). `programs/draw.py` and the tables beside it say
what a program may do.
"""

import gzip
import itertools
import json
import os
import pathlib
import sys
import warnings

os.environ.setdefault("ATEN_CPU_CAPABILITY", "avx2")  # the last digits do not depend on a newer CPU

import torch

from make_cases import TORCH_VERSION
from programs.grow import Grower
from programs.machine import Machine
from programs.steady import steady
from tables import case

TARGET = pathlib.Path(__file__).resolve().parent / "programs.jsonl.gz"
COUNT = 1500
DIGITS = {torch.float64: "%.11g", torch.float32: "%.7g"}  # finer than any tolerance


def short(tensor):
    """A result as it is written down, to as many digits as are compared."""
    if tensor is None:
        return None
    written = case.encode(tensor)
    if tensor.dtype in DIGITS:
        written["data"] = [float(DIGITS[tensor.dtype] % v) if isinstance(v, float) else v for v in written["data"]]
    return written


def kept(program, machine, rng):
    """The slots whose values are written down: all gradients, and some of the others."""
    gradients, leaves = set(), set()

    def note(_, statement, made):
        if statement["do"] in ("grad", "read_grad"):
            gradients.update(made)
        elif statement["do"] == "leaf":
            leaves.update(made)
        else:
            leaves.difference_update(made)

    Machine().run(program, note)
    others = [i for i in range(len(machine.slots)) if i not in gradients | leaves]
    some = set(others[-1:]) | set(rng.sample(others, min(len(others), 1 + len(others) // 4)))
    return sorted(gradients | some)


def make(seed):
    """The program as a dictionary, or none if it is not worth keeping."""
    grower = Grower(seed)
    program = grower.grow()
    machine = grower.machine
    passes = any(s["do"] in ("backward", "grad") for s in program)
    if not passes or grower.flat or not steady(program, machine):
        return None
    values = {str(i): short(machine.slots[i]) for i in kept(program, machine, grower.rng)}
    tracked = [i for i, v in enumerate(machine.slots) if v is not None and v.requires_grad]
    tags = [grower.d.kind] + sorted(grower.passes)
    return {"id": seed, "tags": tags, "program": program, "values": values, "tracked": tracked}


def programs(first, count):
    """The lines of the first `count` programs from the seed `first` on."""
    found = (made for made in map(make, itertools.count(first)) if made is not None)
    for made in itertools.islice(found, count):
        yield json.dumps(made, separators=(",", ":"), allow_nan=False)


def main():
    version = torch.__version__.split("+")[0]
    if version != TORCH_VERSION:
        raise SystemExit(f"these programs are PyTorch {TORCH_VERSION}'s; here is {version}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    first, count, path = sys.argv[1:] if len(sys.argv) == 4 else (0, COUNT, TARGET)
    lines = list(programs(int(first), int(count)))
    text = "".join(line + "\n" for line in lines).encode()
    pathlib.Path(path).write_bytes(gzip.compress(text, compresslevel=9, mtime=0))
    print(f"{len(lines)} programs, {pathlib.Path(path).stat().st_size} bytes")


if __name__ == "__main__":
    main()
