"""PyTorch's parameters of every operation on the page "From PyTorch", so that none is forgotten unseen.

Run:     python tests/golden/make_parameters.py
Needs:   PyTorch 2.15.0
Writes:  parameters.txt beside this file: a line per operation, its name and the names of its parameters

They are those of the function in `torch.nn.functional`, or those in PyTorch's own list of functions. Names of dimensions (`Dimname`)
are left out.
"""

import inspect
import pathlib
import re

import torchgen
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE / "../../docs/src/from-pytorch.md"
FUNCTIONS = pathlib.Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"


METHODS = {"unfold"}  # the method of a tensor, not the function of that name
UNSEEN = {"implicit", "path"}  # in PyTorch's list, but in no documentation


def names():
    """The operations in the first column of the page's tables."""
    tables = PAGE.read_text().split("## Making and reading tensors")[0].split("<!-- tables")[1]
    for row in re.findall(r"^\| (`[^|]*) \|", tables, re.M):
        yield from (name.split("(")[0] for name in re.findall(r"`([^`]*)`", row))


def listed():
    """Parameters by the name of the function, all overloads together; their types stand before them."""
    found = {}
    for name, overload, arguments in re.findall(r"^- func: (\w+)(?:\.(\w+))?\((.*)\) ->", FUNCTIONS.read_text(), re.M):
        if "Dimname" in arguments or re.search(r"\*, .*!\)", arguments):  # the forms that write to `out`
            continue
        for argument in re.split(r", (?![^\[(]*[\])])", arguments.replace("*, ", "")):
            if argument:
                word = argument.split("=")[0].split(" ")[-1]
                found.setdefault(name, []).append("input" if word == "self" else word)
    return found


def of(name, found):
    given = []
    if name not in METHODS and callable(function := getattr(F, name, None)):
        try:
            given = [p.name for p in inspect.signature(function).parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        except ValueError:  # it is written in C++, and stands in the list
            pass
    given = given or found.get(name.replace(".", "_"), found.get(name.split(".")[-1], []))
    return sorted(word for word in set(given) if word not in UNSEEN and not word.startswith("_"))


if __name__ == "__main__":
    found = listed()
    lines = [f"{name} {' '.join(of(name, found))}" for name in names()]
    (HERE / "parameters.txt").write_text("\n".join(line for line in lines if " " in line.strip()) + "\n")
