"""What the steps of a random program choose from: leaves, slots whose values suit, numbers, axes, slices.

A step is a function of a `Draw` that proposes statements, or nothing if the values at hand do not suit; `grow.py` runs them.
"""

import math

import torch

from tables.case import FLOATS, encode_number
from tables.samples import ANY, Domain, T, inf, nan

# Few values, so that ties, zeros and kinks are common.
TIES = Domain((-2.0, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 1.0, 2.0), (-2, -1, 0, 1, 1, 2))
NONFINITE = Domain(TIES.floats + (inf, -inf, nan, -0.0), TIES.integers)
NUMBERS = [2, 3, -1, 0.5, 1.5, -0.25, 2.5]
TIE_NUMBERS = [0, 1, -1, 2, 0.5, 0.0]


def broadcast(*shapes):
    """The common shape, or none."""
    try:
        return list(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        return None


class Draw:
    """A random number generator, the values so far, and what kind of program it is to be."""

    def __init__(self, rng, machine, kind):
        self.rng, self.machine, self.kind = rng, machine, kind  # kind: plain, ties, nonfinite
        self.dtypes = rng.choices([["f64"], ["f32"], ["f64", "f32"]], [80, 10, 10])[0]

    @property
    def domain(self):
        return {"plain": ANY, "ties": TIES, "nonfinite": NONFINITE}[self.kind]

    def value(self, slot):
        return self.machine.slots[slot]

    def chance(self, p):
        return self.rng.random() < p

    def slots(self, suits):
        return [i for i, v in enumerate(self.machine.slots) if v is not None and suits(v)]

    def slot(self, suits=lambda v: True, floating=True):
        """A slot, rather a late one and rather a tracked one."""
        found = self.slots(lambda v: (not floating or v.dtype.is_floating_point) and suits(v))
        if not found:
            return None
        weights = [(1 + 3 * self.value(i).requires_grad) * (1 + i) for i in found]
        return self.rng.choices(found, weights)[0]

    def number(self):
        return self.rng.choice(NUMBERS if self.kind == "plain" else TIE_NUMBERS)

    def axis(self, v):
        """An axis, counted from either end; once in a while one that does not exist."""
        if self.chance(0.01):
            return v.dim() + 1
        return self.rng.randrange(-v.dim(), v.dim()) if v.dim() else self.rng.choice([0, -1])

    def axes(self, v):
        """None for all, one, or several of them."""
        if v.dim() == 0 or self.chance(0.25):
            return None
        if self.chance(0.6):
            return [self.axis(v)]
        chosen = self.rng.sample(range(v.dim()), self.rng.randint(1, v.dim()))
        return [d - v.dim() if self.chance(0.3) else d for d in chosen]

    def size(self):
        return self.rng.choices([0, 1, 2, 3, 4], [2, 20, 40, 30, 8])[0]

    def shape(self, most=12):
        while True:
            shape = [self.size() for _ in range(self.rng.choices(range(5), [10, 30, 40, 15, 5])[0])]
            if math.prod(shape) <= most:
                return shape

    def dtype(self):
        return self.rng.choice(self.dtypes)

    def leaf(self, shape=None, domain=None, dtype=None, grad=None, plain_layout=False):
        shape = self.shape() if shape is None else list(shape)
        layouts = ["contiguous"] * 12 + ["offset", "strided"]
        layouts += ["transposed"] if len(shape) > 1 else []
        layouts += ["expanded"] if max(shape, default=0) > 1 else []
        layout = "contiguous" if plain_layout else self.rng.choice(layouts)
        dtype = dtype or self.dtype()
        grad = dtype in FLOATS and not self.chance(0.15) if grad is None else grad
        written = T(shape, layout, domain or self.domain, dtype, grad).write("leaf", self.rng, True)
        return {"do": "leaf", "leaf": written}

    def index(self, shape, n):
        """Whole numbers below n, which must be more than 0 if any are wanted."""
        if n == 0 and math.prod(shape):
            return None
        return self.leaf(shape, Domain((), tuple(range(max(n, 1)))), "i64", False)

    def next(self, ahead=0):
        """The number that the next result gets."""
        return len(self.machine.slots) + ahead


def call(op, inputs, **args):
    return {"do": "call", "op": op, "inputs": inputs, "args": {k: encode_number(v) for k, v in args.items()}}


def least(v):
    return v.detach().double().min().item() if v.numel() else 1.0


def most(v):
    return v.detach().double().max().item() if v.numel() else 0.0


def nearest(v):
    """The distance of the values from zero."""
    return v.detach().double().abs().min().item() if v.numel() else 1.0


def anywhere(v):
    return True


def partner(d, slot, suits=anywhere, floating=True):
    """A slot that broadcasts with another; rarely any slot."""
    if d.chance(0.01):
        return d.slot(floating=floating)
    shape = d.value(slot).shape

    def fits(v):
        common = broadcast(shape, v.shape)
        return common is not None and math.prod(common) <= 48 and suits(v)

    return d.slot(fits, floating)


def divisible(d):
    return (lambda v: nearest(v) > 0.1) if d.kind == "plain" else anywhere


def slices(d, v):
    """A few leading axes, each with an index or a range."""
    items = []
    for n in v.shape[: d.rng.randint(0, v.dim())]:
        if n and d.chance(0.4):
            items.append(d.rng.randrange(-n, n))
        else:
            items.append([d.rng.choice([None, 0, 1, -1]), d.rng.choice([None, None, n, -1]), d.rng.choice([None, 1, 2])])
    return items
