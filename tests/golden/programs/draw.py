"""Chooses what a random program does next: leaves, and operations whose operands are values that are already there.

Every function of `STEPS` proposes statements, or nothing if the values at hand do not suit. `propose` in `grow.py` runs them.
"""

import math

import torch

from tables.case import FLOATS, NAMES, encode_number
from tables.samples import ANY, SEED, Domain, T, inf, nan

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
        found = [i for i, v in enumerate(self.machine.slots) if v is not None and suits(v)]
        return found

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


# Functions of one number ----------------------------------------------------------------------------------------------


def least(v):
    return v.detach().double().min().item() if v.numel() else 1.0


def most(v):
    return v.detach().double().max().item() if v.numel() else 0.0


def nearest(v):
    """The distance of the values from zero."""
    return v.detach().double().abs().min().item() if v.numel() else 1.0


def anywhere(v):
    return True


UNARY = {
    "neg": anywhere, "abs": anywhere, "sign": anywhere, "square": anywhere, "sin": anywhere, "cos": anywhere, "tanh": anywhere,
    "sigmoid": anywhere, "erf": anywhere, "relu": anywhere, "silu": anywhere, "gelu": anywhere, "softplus": anywhere,
    "exp": lambda v: most(v) < 5, "expm1": lambda v: most(v) < 5,
    "log": lambda v: least(v) > 0.05, "sqrt": lambda v: least(v) > 0.05, "rsqrt": lambda v: least(v) > 0.05,
    "log1p": lambda v: least(v) > -0.9, "reciprocal": lambda v: nearest(v) > 0.1,
}  # fmt: skip


def unary(d):
    name = d.rng.choice(list(UNARY))
    slot = d.slot(UNARY[name] if d.kind == "plain" else anywhere)
    if slot is None:
        return None
    args = {}
    if name == "gelu" and d.chance(0.5):
        args = {"approximate": "tanh"}
    if name == "softplus" and d.chance(0.5):
        args = {"beta": d.rng.choice([0.5, 2.0, -1.0]), "threshold": d.rng.choice([1.0, 20.0])}
    return [call(name, {"input": slot}, **args)]


def positive(d):
    """A positive value, so that roots and logarithms follow."""
    slot = d.slot()
    name = d.rng.choice(["square", "abs", "exp", "sigmoid"])
    if slot is None or name == "exp" and most(d.value(slot)) > 4:
        return None
    return [call(name, {"input": slot}), call("add", {"input": d.next()}, other=d.rng.choice([0.25, 0.5, 1]))]


# Functions of two numbers ---------------------------------------------------------------------------------------------


def partner(d, slot, suits=anywhere, floating=True):
    """A slot that broadcasts with another; rarely any slot."""
    if d.chance(0.01):
        return d.slot(floating=floating)
    shape = d.value(slot).shape

    def fits(v):
        common = broadcast(shape, v.shape)
        return common is not None and math.prod(common) <= 48 and suits(v)

    return d.slot(fits, floating)


def right_side(d, slot, suits=anywhere, floating=True):
    """Either a tensor or a number as `other`."""
    if d.chance(0.25):
        return {}, {"other": d.number()}
    other = partner(d, slot, suits, floating)
    return ({}, {"other": d.number()}) if other is None else ({"other": other}, {})


def divisible(d):
    return (lambda v: nearest(v) > 0.1) if d.kind == "plain" else anywhere


def arithmetic(d):
    name = d.rng.choice(["add", "sub", "mul", "mul", "div"])
    slot = d.slot(floating=not d.chance(0.05))
    if slot is None:
        return None
    inputs, args = right_side(d, slot, divisible(d) if name == "div" else anywhere, not d.chance(0.1))
    if name == "div" and d.chance(0.1):
        args["rounding_mode"] = d.rng.choice(["floor", "trunc"])
    if name in ("add", "sub") and d.chance(0.2):
        args["alpha"] = d.rng.choice([2.5, -0.5, 3, 0])
    if args.get("other") == 0 and name == "div" and d.kind == "plain":
        return None
    return [call(name, {"input": slot} | inputs, **args)]


def reflected(d):
    name = d.rng.choice(["__rsub__", "__rdiv__", "__rpow__"])
    suits = {"__rsub__": anywhere, "__rdiv__": lambda v: nearest(v) > 0.1, "__rpow__": lambda v: most(v) < 4}[name]
    slot = d.slot(suits if d.kind == "plain" else anywhere)
    number = d.rng.choice([1.5, 2, 0.5]) if name == "__rpow__" else d.number()
    return None if slot is None else [call(name, {"input": slot}, other=number)]


def power(d):
    if d.chance(0.5):
        slot = d.slot(lambda v: nearest(v) > 0.1 if d.kind == "plain" else True)
        exponent = d.rng.choice([2, 3, 2.0, -1, 0, 1, 4])
        if d.kind != "plain" and d.chance(0.4):
            exponent = d.rng.choice([0.5, -0.5, 1.5])
        return None if slot is None else [call("pow", {"input": slot}, exponent=exponent)]
    slot = d.slot(lambda v: least(v) > 0.1 if d.kind == "plain" else True)
    if slot is None:
        return None
    other = partner(d, slot, lambda v: -3 < least(v) and most(v) < 3 if d.kind == "plain" else True)
    return None if other is None else [call("pow", {"input": slot, "exponent": other})]


def extreme(d):
    slot = d.slot()
    other = None if slot is None else partner(d, slot)
    return None if other is None else [call(d.rng.choice(["maximum", "minimum"]), {"input": slot, "other": other})]


def clamp(d):
    slot = d.slot()
    if slot is None:
        return None
    inputs, args = {"input": slot}, {}
    for bound in d.rng.choice([["min"], ["max"], ["min", "max"]]):
        other = partner(d, slot)
        if other is None or d.chance(0.5):
            args[bound] = d.number()
        else:
            inputs[bound] = other
    if len(inputs) > 1 and args:  # PyTorch wants both to be numbers or both tensors
        return None
    return [call("clamp", inputs, **args)]


def compare(d):
    slot = d.slot()
    if slot is None:
        return None
    inputs, args = right_side(d, slot)
    return [call(d.rng.choice(["eq", "ne", "lt", "le", "gt", "ge"]), {"input": slot} | inputs, **args)]


def choose(d):
    """A comparison and a choice by it; or a choice by an older one."""
    condition = d.slot(lambda v: v.dtype == torch.bool, floating=False)
    first = []
    if condition is None or d.chance(0.5):
        first = compare(d)
        if first is None:
            return None
        value = d.value(first[0]["inputs"]["input"])
        condition = d.next()
        shape = value.shape if "other" not in first[0]["inputs"] else broadcast(value.shape, d.value(first[0]["inputs"]["other"]).shape)
    else:
        shape = d.value(condition).shape

    def fits(v):
        common = broadcast(shape, v.shape) if shape is not None else None
        return common is not None and math.prod(common) <= 48

    inputs, args = {"condition": condition}, {}
    a, b = d.slot(fits), d.slot(fits)
    if a is None or b is None or broadcast(shape, d.value(a).shape, d.value(b).shape) is None:
        return None
    inputs["input"] = a
    if d.chance(0.3):
        args["other"] = d.number()
    else:
        inputs["other"] = b
    return first + [call("where", inputs, **args)]


def logic(d):
    slot = d.slot(lambda v: v.dtype == torch.bool, floating=False)
    if slot is None:
        return None
    if d.chance(0.3):
        return [call("logical_not", {"input": slot})]
    other = partner(d, slot, lambda v: v.dtype == torch.bool, floating=False)
    name = d.rng.choice(["logical_and", "logical_or", "logical_xor"])
    return None if other is None else [call(name, {"input": slot, "other": other})]


def cast(d):
    slot = d.slot(floating=not d.chance(0.5))
    if slot is None:
        return None
    have = NAMES[d.value(slot).dtype]
    wanted = d.rng.choice(["f64", "f64", "i64", "bool"]) if d.dtypes == ["f64"] else d.rng.choice(["f64", "f32"])
    if have == wanted or wanted == "i64" and d.kind == "nonfinite":
        return None
    return [call("to", {"input": slot}, dtype=wanted)]


# Reductions -----------------------------------------------------------------------------------------------------------


def reduction(d):
    name = d.rng.choice(["sum", "sum", "mean", "amax", "amin", "logsumexp", "var", "std", "prod", "max", "min"])
    slot = d.slot()
    if slot is None:
        return None
    v = d.value(slot)
    axes, args = d.axes(v), {}
    if name in ("max", "min"):
        if d.chance(0.4):
            return [call(name, {"input": slot})]
        return [call(name, {"input": slot}, dim=d.axis(v), keepdim=d.chance(0.4))]
    if name == "prod":
        args = {"dim": d.axis(v), "keepdim": d.chance(0.4)} if d.chance(0.6) else {}
        return [call(name, {"input": slot}, **args)]
    if axes is None and name == "logsumexp":
        axes = list(range(v.dim()))
    if axes is not None:
        args = {"dim": axes, "keepdim": d.chance(0.4)}
    if name in ("var", "std"):
        args["correction"] = d.rng.choice([0, 1, 1])
        if axes is None:
            args["dim"] = None
    return [call(name, {"input": slot}, **args)]


def truth(d):
    slot = d.slot(floating=d.chance(0.5))
    if slot is None:
        return None
    v, name = d.value(slot), d.rng.choice(["any", "all", "argmax", "argmin"])
    if v.dtype == torch.bool and name.startswith("arg"):
        return None
    return [call(name, {"input": slot}, **({"dim": d.axis(v), "keepdim": d.chance(0.4)} if d.chance(0.7) else {}))]


def softmax(d):
    slot = d.slot()
    return None if slot is None else [call(d.rng.choice(["softmax", "log_softmax"]), {"input": slot}, dim=d.axis(d.value(slot)))]


def folded(d):
    slot = d.slot()
    if slot is None:
        return None
    shape = [n if d.chance(0.6) else 1 for n in d.value(slot).shape][d.rng.choice([0, 0, 1]) :]
    return [call("sum_to_size", {"input": slot}, size=shape)]


# Views ----------------------------------------------------------------------------------------------------------------


def view(d):
    slot = d.slot(floating=not d.chance(0.05))
    if slot is None:
        return None
    v, name = d.value(slot), d.rng.choice(list(VIEWS))
    args = VIEWS[name](d, v)
    return None if args is None else [call(name, {"input": slot}, **args)]


def expand(d, v):
    size = [d.size() if n == 1 else d.rng.choice([n, -1]) for n in v.shape]
    size = [d.size() for _ in range(d.rng.choice([0, 0, 1]))] + size
    full = [n if n >= 0 else m for n, m in zip(reversed(size), list(reversed(v.shape)) + [1] * 9)]
    return {"size": size} if math.prod(full) <= 48 and len(size) <= 5 else None


def reshape(d, v):
    rest, shape = v.numel(), []
    while rest > 1 and len(shape) < 4 and d.chance(0.8):
        n = d.rng.choice([n for n in range(1, rest + 1) if rest % n == 0])
        shape.append(n)
        rest //= n
    shape.append(rest)
    if d.chance(0.3) and v.numel():
        shape[d.rng.randrange(len(shape))] = -1
    return {"shape": shape}


def permute(d, v):
    return {"dims": d.rng.sample(range(v.dim()), v.dim())}


def unsqueeze(d, v):
    return {"dim": d.rng.randint(-v.dim() - 1, v.dim())} if v.dim() < 5 else None


def squeeze(d, v):
    return {} if d.chance(0.4) else {"dim": d.axis(v)}


def flatten(d, v):
    a, b = sorted([d.rng.randrange(max(v.dim(), 1)), d.rng.randrange(max(v.dim(), 1))])
    return {"start_dim": a, "end_dim": b}


def flip(d, v):
    return {"dims": d.rng.sample(range(v.dim()), d.rng.randint(0, v.dim()))}


def movedim(d, v):
    return {"source": d.axis(v), "destination": d.axis(v)} if v.dim() else None


def transpose(d, v):
    return {"dim0": d.axis(v), "dim1": d.axis(v)}


def t(d, v):
    return {} if v.dim() <= 2 else None


def narrow(d, v):
    if v.dim() == 0:
        return None
    axis = d.rng.randrange(v.dim())
    start = d.rng.randint(0, v.shape[axis])
    return {"dim": axis, "start": start, "length": d.rng.randint(0 if d.chance(0.1) else min(1, v.shape[axis] - start), v.shape[axis] - start)}


def select(d, v):
    if v.dim() == 0:
        return None
    axis = d.rng.randrange(v.dim())
    if not v.shape[axis] and not d.chance(0.1):
        return None
    return {"dim": axis, "index": d.rng.randrange(-v.shape[axis], v.shape[axis]) if v.shape[axis] else 0}


def steps(d, v):
    if v.dim() == 0:
        return None
    axis = d.axis(v)
    return {"dim": axis, "start": d.rng.randint(-2, 1), "end": d.rng.randint(1, 5), "step": d.rng.choice([1, 1, 2, 3])}


def contiguous(d, v):
    return {}


VIEWS = {
    "expand": expand, "reshape": reshape, "permute": permute, "unsqueeze": unsqueeze, "squeeze": squeeze, "flatten": flatten,
    "flip": flip, "movedim": movedim, "transpose": transpose, "t": t, "narrow": narrow, "select": select, "slice": steps,
    "contiguous": contiguous,
}  # fmt: skip


def slices(d, v):
    """A few leading axes, each with an index or a range."""
    items = []
    for n in v.shape[: d.rng.randint(0, v.dim())]:
        if n and d.chance(0.4):
            items.append(d.rng.randrange(-n, n))
        else:
            items.append([d.rng.choice([None, 0, 1, -1]), d.rng.choice([None, None, n, -1]), d.rng.choice([None, 1, 2])])
    return items


def part(d):
    slot = d.slot()
    return None if slot is None else [{"do": "part", "input": slot, "slices": slices(d, d.value(slot))}]


# Joining and indexing -------------------------------------------------------------------------------------------------


def join(d):
    slot = d.slot()
    if slot is None:
        return None
    v, name = d.value(slot), d.rng.choice(["cat", "stack"])
    axis = d.axis(v)

    def fits(w):
        if w.dim() != v.dim() or w.numel() > 12:
            return False
        other = list(w.shape)
        if name == "cat" and v.dim() and -v.dim() <= axis < v.dim():
            other[axis] = v.shape[axis]
        return other == list(v.shape)

    members = [slot] + [d.slot(fits) for _ in range(d.rng.randint(0, 2))]
    if None in members:
        return None
    d.rng.shuffle(members)
    return [call(name, {f"tensors[{i}]": m for i, m in enumerate(members)}, dim=axis)]


def pick(d):
    slot = d.slot(lambda v: v.dim() > 0)
    if slot is None:
        return None
    v, name = d.value(slot), d.rng.choice(["index_select", "gather"])
    axis = d.rng.randrange(v.dim())
    shape = [d.rng.randint(1, 4)] if name == "index_select" else [d.rng.randint(1, n) if n else 0 for n in v.shape]
    if name == "gather":
        shape[axis] = d.rng.randint(1, 3)
    index = d.index(shape, v.shape[axis])
    return None if index is None else [index, call(name, {"input": slot, "index": d.next()}, dim=axis)]


def scatter(d):
    slot = d.slot(lambda v: v.dim() > 0 and v.numel() > 0)
    if slot is None:
        return None
    v = d.value(slot)
    axis, name = d.rng.randrange(v.dim()), d.rng.choice(["scatter_add", "index_add"])

    def fits(w):
        others = [n == m or i == axis for i, (n, m) in enumerate(zip(v.shape, w.shape))]
        return w.dim() == v.dim() and all(others) and w.dtype == v.dtype

    source = d.slot(fits)
    if source is None:
        return None
    shape = list(d.value(source).shape)
    index = d.index(shape if name == "scatter_add" else [shape[axis]], v.shape[axis])
    if index is None:
        return None
    given = {"src" if name == "scatter_add" else "source": source}
    return [index, call(name, {"input": slot, "index": d.next()} | given, dim=axis)]


# Products and losses --------------------------------------------------------------------------------------------------


def product(d):
    slot = d.slot(lambda v: v.dim() > 0)
    if slot is None:
        return None
    v = d.value(slot)
    inner = v.shape[-1]
    if d.chance(0.3) or v.dim() == 1:
        weight = d.slot(lambda w: w.dim() == 2 and w.shape[1] == inner and w.dtype == v.dtype)
        if weight is not None:
            bias = d.slot(lambda b: list(b.shape) == [d.value(weight).shape[0]] and b.dtype == v.dtype)
            given = {"input": slot, "weight": weight}
            return [call("linear", given if bias is None or d.chance(0.3) else given | {"bias": bias})]

    def fits(w):
        rows = w.shape[-2] if w.dim() > 1 else w.shape[0] if w.dim() else None
        batch = broadcast(v.shape[:-2], w.shape[:-2])
        return rows == inner and w.dtype == v.dtype and batch is not None and math.prod(batch) <= 6

    other = d.slot(fits)
    if other is None:
        fresh = [inner, d.rng.randint(1, 3)] if d.chance(0.8) else [inner]
        return [d.leaf(fresh, dtype=NAMES[v.dtype]), call("matmul", {"input": slot, "other": d.next()})]
    return [call("matmul", {"input": slot, "other": other})]


def loss(d):
    slot = d.slot(lambda v: v.dim() > 0 and v.numel() > 0)
    if slot is None:
        return None
    v = d.value(slot)
    reduction = d.rng.choice(["mean", "sum", "none"])
    name = d.rng.choice(["mse_loss", "binary_cross_entropy_with_logits", "cross_entropy"])
    if name == "cross_entropy":
        if v.dim() != 2:
            return None
        classes = d.index([v.shape[0]], v.shape[1])
        return [classes, call(name, {"input": slot, "target": d.next()}, reduction=reduction)]
    target = d.slot(lambda w: w.shape == v.shape and w.dtype == v.dtype)
    return None if target is None else [call(name, {"input": slot, "target": target}, reduction=reduction)]


# Writing, and what has no value of its own ----------------------------------------------------------------------------


def write(d):
    """An in-place operation on a result or on a value without history."""
    untouched = lambda v: not (v.is_leaf and v.requires_grad)
    slot = d.slot(anywhere if d.chance(0.05) else untouched)
    if slot is None:
        return None
    v, name = d.value(slot), d.rng.choice(["add_", "sub_", "mul_", "div_", "pow_", "clamp_"])
    into = {"do": "write", "into": slot, "op": name}
    small = lambda w: broadcast(v.shape, w.shape) == list(v.shape) and (name != "div_" or divisible(d)(w))
    if name == "pow_":
        return [into | {"inputs": {"input": slot}, "args": {"exponent": d.rng.choice([2, 3])}}]
    if name == "clamp_":
        return [into | {"inputs": {"input": slot}, "args": {"min": -1, "max": d.rng.choice([1, 1.5])}}]
    other = partner(d, slot) if d.chance(0.03) else d.slot(small)
    if other is None or d.chance(0.3):
        number = d.number()
        if number == 0 and name == "div_" and d.kind == "plain":
            return None
        return [into | {"inputs": {"input": slot}, "args": {"other": number}}]
    return [into | {"inputs": {"input": slot, "other": other}, "args": {}}]


def assign(d):
    untouched = lambda v: not (v.is_leaf and v.requires_grad)
    slot = d.slot(anywhere if d.chance(0.05) else untouched)
    if slot is None:
        return None
    items = slices(d, d.value(slot))
    from .machine import selection

    shape = list(d.value(slot).detach()[selection(items)].shape)
    value = d.slot(lambda w: len(w.shape) <= len(shape) and broadcast(shape, w.shape) == shape)
    return None if value is None else [{"do": "assign", "into": slot, "slices": items, "value": value}]


def detach(d):
    slot = d.slot()
    return None if slot is None else [{"do": "detach", "input": slot}]


def watch(d):
    """A hook, or a gradient to keep."""
    slot = d.slot(lambda v: v.requires_grad)
    if slot is None:
        return None
    if d.chance(0.5):
        return [{"do": "retain_grad", "input": slot}]
    return [{"do": "hook", "input": slot, "factor": d.rng.choice([2.0, -0.5, 10.0])}]


def new_leaf(d):
    return [d.leaf()]


STEPS = {
    unary: 20, positive: 5, arithmetic: 24, reflected: 3, power: 5, extreme: 5, clamp: 4, compare: 2, choose: 7, logic: 1, cast: 3,
    reduction: 14, truth: 2, softmax: 4, folded: 2, view: 14, part: 5, join: 6, pick: 5, scatter: 4, product: 7, loss: 4, write: 9,
    assign: 5, detach: 2, watch: 4, new_leaf: 4,
}  # fmt: skip
