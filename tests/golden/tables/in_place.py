"""In-place forms: the input is written, keeps its shape, layout and dtype, and only the other operand may broadcast.

PyTorch refuses to write into a leaf that requires a gradient, so the input is not tracked; a tracked operand makes it so.
"""

from torch.nn import functional as F

from .samples import (
    ABOVE_MINUS_ONE, ABOVE_ONE, ANY, GRID, INSIDE, NONZERO, POSITIVE, Op, T, V, inf, method, nan, ok, refused,
)  # fmt: skip

SHAPES = [
    ([2, 3], [2, 3]), ([2, 3], [3]), ([2, 3], [2, 1]), ([2, 3], []), ([], []), ([1], []), ([5, 3, 4, 1], [3, 1, 1]), ([0, 3], [1, 3]),
    ([4, 0], [4, 1]), ([2, 1, 3], [3]), ([1, 1], [1]),
]  # fmt: skip
# The result of broadcasting must have the input's shape; an input that repeats elements cannot be written.
BAD_SHAPES = [([1, 3, 1], [3, 1, 7]), ([3], [2, 3]), ([3], [4]), ([], [1]), ([1], [0]), ([2, 3], [3, 3])]
LAYOUTS = [("transposed", "contiguous"), ("strided", "transposed"), ("offset", "expanded"), ("contiguous", "strided")]


def untracked(shape, layout="contiguous", values=ANY, dtype="f64"):
    return T(shape, layout, values, dtype, grad=False)


def two(left=ANY, right=ANY, second="other"):
    """Writing forms of a function of two numbers."""
    for a, b in SHAPES:
        yield ok(**{"input": untracked(a, values=left), second: T(b, values=right)})
    for layout_a, layout_b in LAYOUTS:
        yield ok(**{"input": untracked([2, 3], layout_a, left), second: T([2, 3], layout_b, right)})
    yield ok(**{"input": untracked([2, 3], values=left), second: T([3], values=right, grad=False)})
    yield ok(**{"input": untracked([2, 3], values=left), second: 2})
    yield ok(**{"input": untracked([2, 3], "strided", left), second: 1.5})
    yield ok(**{"input": V(*GRID, grad=False), second: V(*GRID[::-1])}, tags=["special"])
    # The input keeps its dtype, whatever the other's, as long as the category is not lowered.
    yield ok(**{"input": untracked([2, 3], values=left, dtype="f32"), second: T([3], values=right, dtype="f64")})
    yield ok(**{"input": untracked([2, 3], values=left), second: T([3], values=right, dtype="f32")})
    yield ok(**{"input": untracked([2, 3], values=left), second: T([3], values=POSITIVE, dtype="i64")})
    yield refused(**{"input": untracked([3], dtype="i64"), second: T([3])})
    yield refused(**{"input": untracked([3], dtype="i64"), second: 1.5})
    for a, b in BAD_SHAPES:
        yield refused(**{"input": untracked(a, values=left), second: T(b, values=right)})
    yield refused(**{"input": untracked([3, 2], "expanded", left), second: T([3, 2], values=right)}, tags=["overlap"])
    yield refused(**{"input": T([3], values=left, grad=True), second: T([3], values=right)})


def integers(second="other", values=ANY):
    yield ok(**{"input": untracked([2, 2], dtype="i64"), second: T([2], values=values, dtype="i64")})
    yield ok(**{"input": untracked([2, 2], "transposed", dtype="i64"), second: 3})


def alpha():
    yield ok(input=untracked([2, 3]), other=T([3]), alpha=2.5)
    yield ok(input=untracked([2, 3], "strided"), other=T([2, 1]), alpha=-1)
    yield ok(input=untracked([3], dtype="i64"), other=T([3], dtype="i64"), alpha=2)
    yield ok(input=untracked([3]), other=2, alpha=0.5)
    yield refused(input=untracked([3], dtype="i64"), other=T([3], dtype="i64"), alpha=0.5)


def bools(outcome=ok):
    yield outcome(input=V(0, 0, 1, 1, dtype="bool"), other=V(0, 1, 0, 1, dtype="bool"))
    yield refused(input=V(0, 1, dtype="bool"), other=V(0, 1, dtype="i64"))


def few(right=ANY):
    for a, b in [([2, 3], [2, 3]), ([2, 3], [3]), ([], []), ([0, 3], [1, 3])]:
        yield ok(input=untracked(a), other=T(b, values=right))
    yield ok(input=untracked([2, 3], "transposed"), other=T([2, 1], "expanded", right))
    yield ok(input=untracked([2, 3], dtype="f32"), other=T([3], values=right))
    yield ok(input=V(*GRID, grad=False), other=V(*GRID[::-1], grad=False), tags=["special"])
    yield refused(input=untracked([3], dtype="i64"), other=T([3], values=right))
    yield refused(input=untracked([3]), other=T([2, 3], values=right))
    yield refused(input=T([3], grad=True), other=T([3], values=right))


def numbers():
    yield ok(input=untracked([2, 3], "strided"), other=1.5)
    yield ok(input=untracked([2, 3]), other=2)
    yield refused(input=untracked([3], dtype="i64"), other=1.5)


def bits():
    yield from integers()
    yield ok(input=untracked([2, 2], dtype="bool"), other=untracked([2], dtype="bool"))
    yield ok(input=untracked([4], dtype="i64"), other=untracked([4], dtype="bool"))
    yield refused(input=untracked([4], dtype="bool"), other=untracked([4], dtype="i64"))
    yield refused(input=untracked([2]), other=1)


def three(second, third, **more):
    for a, b, c in [([2, 3], [3], [2, 1]), ([2, 3], [], []), ([0], [1], [])]:
        yield ok(**{"input": untracked(a), second: T(b, values=NONZERO), third: T(c, values=NONZERO)}, **more)
    yield ok(**{"input": untracked([2, 3], "transposed", dtype="f32"), second: T([3], dtype="f32"), third: T([2, 1], values=NONZERO, dtype="f32")}, **more)
    yield refused(**{"input": untracked([3]), second: T([2, 3]), third: T([3], values=NONZERO)}, **more)
    yield refused(**{"input": untracked([3], dtype="i64"), second: T([3]), third: T([3], values=NONZERO)}, **more)
    yield refused(**{"input": T([3], grad=True), second: T([3]), third: T([3], values=NONZERO)}, **more)


def settings(**more):
    yield ok(input=untracked([2, 3], "strided"), **more)
    yield ok(input=untracked([5], dtype="f32"), **more)


def rounding():
    for mode in ("floor", "trunc"):
        yield ok(input=untracked([2, 3]), other=T([3], values=NONZERO), rounding_mode=mode)
        yield ok(input=untracked([5], dtype="i64"), other=-4, rounding_mode=mode)
        yield ok(input=untracked([5], dtype="i64"), other=T([5], values=NONZERO, dtype="i64"), rounding_mode=mode)
    yield refused(input=untracked([5], dtype="i64"), other=T([5], values=NONZERO, dtype="i64"))


def one(values=ANY, keeps=(), differentiable=True):
    """Writing forms of a function of one number; `keeps` names the dtypes, besides the floats, whose results fit them."""
    for tensor in [untracked([2, 3], values=values), untracked([], values=values), untracked([0, 2], values=values)]:
        yield ok(input=tensor)
    for layout in ("offset", "transposed", "strided"):
        yield ok(input=untracked([2, 3], layout, values))
    yield ok(input=untracked([5], values=values, dtype="f32"))
    yield ok(input=V(nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, grad=False), tags=["special"])
    for dtype in ("i64", "bool"):
        outcome = ok if dtype in keeps else refused
        yield outcome(input=untracked([3], values=values, dtype=dtype))
    if differentiable:
        yield refused(input=T([3], values=values, grad=True))


def clamp():
    for low, high in [(-1, 1), (None, 0.5), (-0.5, None), (1, -1)]:
        yield ok(input=untracked([2, 3], "strided"), min=low, max=high)
    yield ok(input=untracked([2, 3]), min=T([3]), max=T([2, 1]))
    yield ok(input=untracked([2, 3]), min=T([3]))
    yield ok(input=untracked([5], dtype="i64"), min=-1, max=2)
    yield refused(input=untracked([5], dtype="i64"), min=-0.5)
    yield refused(input=untracked([1]), min=T([3]))
    yield refused(input=T([3], grad=True), min=0)


def replacements():
    yield from one(keeps=BOTH)
    for given in (dict(nan=2.0), dict(posinf=1.0), dict(nan=0.5, posinf=3.0, neginf=-3.0)):
        yield ok(input=V(nan, inf, -inf, 1.0, grad=False), **given, tags=["special"])


def one_bound(name):
    yield ok(input=untracked([2, 3], "strided"), **{name: 0.25})
    yield ok(input=untracked([2, 3]), **{name: T([3])})
    yield refused(input=untracked([1]), **{name: T([3])})


def truths(numbers):
    """The truth value is written in the input's own dtype."""
    yield ok(input=V(1.0, 2.0, 0.0, nan, inf, 0.0, -0.0, grad=False), other=V(1.0, 5.0, 3.0, nan, inf, -0.0, 1.0, grad=False), tags=["special"])
    yield ok(input=untracked([2, 3], "transposed"), other=untracked([2, 1]))
    yield ok(input=untracked([2, 3], dtype="f32"), other=T([3], dtype="i64"))
    yield ok(input=untracked([4], dtype="i64"), other=T([4], dtype="i64"))
    yield ok(input=untracked([4], dtype="bool"), other=T([4], dtype="bool"))
    for number in numbers:
        yield ok(input=untracked([2, 2], "strided"), other=number)
        yield ok(input=untracked([3], dtype="i64"), other=number)
    yield refused(input=untracked([3]), other=untracked([2, 3]))


def fill():
    for value in (0, 1.5, -2, nan, inf):
        yield ok(input=untracked([2, 3], "strided"), value=value)
    yield ok(input=untracked([]), value=2.5)
    yield ok(input=untracked([0, 2]), value=2.5)
    yield ok(input=untracked([3], dtype="i64"), value=-3)
    yield ok(input=untracked([3], dtype="bool"), value=True)
    yield ok(input=untracked([2, 2]), value=T([]))


TWO = {
    "atan2_": [few(NONZERO)], "hypot_": [few()], "copysign_": [few()], "xlogy_": [few(POSITIVE), numbers()],
    "remainder_": [few(NONZERO), integers(values=NONZERO), numbers()], "fmod_": [few(NONZERO), integers(values=NONZERO), numbers()],
    "bitwise_and_": [bits()], "bitwise_or_": [bits()], "bitwise_xor_": [bits()],
    "add_": [two(), alpha(), integers(), bools()],
    "sub_": [two(), alpha(), integers(), bools(refused)],
    "mul_": [two(), integers(), bools()],
    "div_": [two(ANY, NONZERO), rounding()],
    "pow_": [two(POSITIVE, ANY, "exponent"), integers("exponent", POSITIVE)],
}
BOTH, I64 = ("i64", "bool"), ("i64",)
ONE = {
    "neg_": one(keeps=I64), "abs_": one(keeps=I64), "sign_": one(keeps=BOTH), "square_": one(keeps=I64), "relu_": one(keeps=I64),
    "exp_": one(), "expm1_": one(), "log_": one(POSITIVE), "log1p_": one(ABOVE_MINUS_ONE), "sqrt_": one(POSITIVE),
    "rsqrt_": one(POSITIVE), "reciprocal_": one(NONZERO), "sin_": one(), "cos_": one(), "tan_": one(), "tanh_": one(), "sigmoid_": one(), "erf_": one(),
    "logical_not_": one(keeps=BOTH, differentiable=False),
    "exp2_": one(), "log2_": one(POSITIVE), "log10_": one(POSITIVE), "asin_": one(INSIDE), "acos_": one(INSIDE), "atan_": one(),
    "sinh_": one(), "cosh_": one(), "asinh_": one(), "acosh_": one(ABOVE_ONE), "atanh_": one(INSIDE), "erfc_": one(),
    "floor_": one(keeps=I64), "ceil_": one(keeps=I64), "trunc_": one(keeps=I64), "frac_": one(), "nan_to_num_": replacements(),
}  # fmt: skip
COMPARE = ["eq_", "ne_", "lt_", "le_", "gt_", "ge_"]
LOGICAL = ["logical_and_", "logical_or_", "logical_xor_"]

OPS = [Op(name, method(name), groups, broadcasts=True, mutates=True) for name, groups in TWO.items()]
OPS += [Op(name, method(name), [samples], mutates=True) for name, samples in ONE.items()]
OPS += [Op(name, method(name), [truths([0.5, 2])], broadcasts=True, mutates=True) for name in COMPARE]
OPS += [Op(name, method(name), [truths([])], broadcasts=True, mutates=True) for name in LOGICAL]
OPS += [
    Op("round_", method("round_"), [one(keeps=I64), settings(decimals=1), settings(decimals=-1)], mutates=True),
    Op("lerp_", method("lerp_"), [three("end", "weight"), [ok(input=untracked([2, 3]), end=T([3]), weight=0.25)]], broadcasts=True, mutates=True),
    Op("addcmul_", method("addcmul_"), [three("tensor1", "tensor2"), three("tensor1", "tensor2", value=0.5)], broadcasts=True, mutates=True),
    Op("addcdiv_", method("addcdiv_"), [three("tensor1", "tensor2"), three("tensor1", "tensor2", value=0.5)], broadcasts=True, mutates=True),
    Op("elu_", F.elu_, [one(), settings(alpha=0.5)], mutates=True),
    Op("selu_", F.selu_, [one()], mutates=True),
    Op("celu_", F.celu_, [one(), settings(alpha=0.5)], mutates=True),
    Op("leaky_relu_", F.leaky_relu_, [one(), settings(negative_slope=0.5)], mutates=True),
    Op("hardtanh_", F.hardtanh_, [one(keeps=I64), settings(min_val=-0.5, max_val=2)], mutates=True),
    Op("bitwise_not_", method("bitwise_not_"), [[ok(input=untracked([2, 2], dtype="i64")), ok(input=untracked([3], dtype="bool")), refused(input=untracked([3]))]], mutates=True),
    Op("silu_", lambda input: F.silu(input, inplace=True), [one()], mutates=True),
    Op("clamp_", method("clamp_"), [clamp()], broadcasts=True, mutates=True),
    Op("clamp_min_", method("clamp_min_"), [one_bound("min")], broadcasts=True, mutates=True),
    Op("clamp_max_", method("clamp_max_"), [one_bound("max")], broadcasts=True, mutates=True),
    Op("fill_", method("fill_"), [fill()], mutates=True),
]
