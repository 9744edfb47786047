"""Convolutions and their transposes: every argument, missing batches and channels, groups, layouts, and what does not fit.

A row is (shape of the input, of the weight, arguments); a bias is added to every second one.
"""

from torch.nn import functional as F

from .samples import Op, T, ok, refused

CONV1D = [
    ([2, 2, 5], [3, 2, 2], {}), ([1, 2, 6], [2, 2, 3], dict(stride=2, padding=1)), ([2, 4, 5], [4, 2, 2], dict(groups=2, dilation=2)),
    ([2, 5], [3, 2, 3], dict(padding=2)), ([1, 1, 5], [1, 1, 4], dict(padding="same")), ([1, 2, 4], [2, 2, 2], dict(padding="valid", stride=[2])),
    ([0, 2, 5], [3, 2, 2], {}), ([1, 2, 3], [2, 1, 3], dict(groups=2, padding=[1])),
]  # fmt: skip
CONV2D = [
    ([2, 2, 4, 5], [3, 2, 2, 3], {}), ([1, 2, 5, 4], [2, 2, 3, 3], dict(padding=1)), ([1, 2, 5, 6], [2, 2, 2, 3], dict(stride=2)),
    ([1, 1, 6, 5], [2, 1, 3, 2], dict(stride=[1, 2], padding=[1, 0], dilation=[2, 1])), ([2, 3, 4, 4], [3, 1, 3, 3], dict(groups=3, padding=1)),
    ([1, 3, 5, 5], [3, 1, 3, 3], dict(groups=3, stride=2)), ([1, 2, 3, 3], [4, 1, 2, 2], dict(groups=2)), ([2, 3, 2, 3], [4, 3, 1, 1], {}),
    ([1, 2, 4, 4], [2, 2, 1, 1], dict(stride=2)), ([2, 4, 2, 2], [4, 2, 1, 1], dict(groups=2)), ([2, 4, 4], [3, 2, 2, 2], {}),
    ([2, 4, 4], [2, 2, 3, 3], dict(padding=2, dilation=2)), ([1, 1, 4, 5], [1, 1, 2, 3], dict(padding="same")),
    ([1, 1, 4, 5], [1, 1, 2, 4], dict(padding="same", dilation=[3, 1])), ([1, 1, 4, 3], [1, 1, 2, 3], dict(padding="valid")),
    ([1, 1, 2, 2], [1, 1, 3, 3], dict(padding=3, dilation=3)), ([1, 1, 3, 3], [1, 1, 2, 2], dict(stride=5, padding=1)),
    ([0, 2, 4, 4], [3, 2, 2, 2], {}), ([1, 1, 1, 1], [1, 1, 1, 1], {}), ([1, 1, 3, 3], [1, 1, 3, 3], dict(padding=[0, 2])),
]  # fmt: skip
TRANSPOSED1D = [
    ([2, 2, 4], [2, 3, 2], {}), ([1, 2, 3], [2, 2, 3], dict(stride=2, padding=1, output_padding=1)),
    ([2, 4, 3], [4, 1, 2], dict(groups=2, dilation=2)), ([2, 3], [2, 1, 2], dict(stride=3)), ([0, 2, 3], [2, 1, 2], {}),
]  # fmt: skip
TRANSPOSED2D = [
    ([2, 2, 3, 3], [2, 3, 2, 2], {}), ([1, 2, 3, 2], [2, 2, 3, 3], dict(padding=1)), ([1, 2, 2, 3], [2, 1, 3, 2], dict(stride=2, output_padding=1)),
    ([1, 1, 3, 2], [1, 2, 2, 3], dict(stride=[1, 3], padding=[1, 0], output_padding=[0, 2], dilation=[2, 1])),
    ([2, 4, 2, 2], [4, 1, 2, 2], dict(groups=2)), ([1, 3, 2, 2], [3, 1, 3, 3], dict(groups=3, stride=2, padding=1)), ([2, 2, 3], [2, 1, 2, 2], {}),
    ([1, 2, 2, 2], [2, 2, 2, 2], dict(stride=2, dilation=3, output_padding=2)), ([1, 2, 2, 2], [2, 2, 1, 1], dict(stride=2)),
    ([1, 2, 2, 2], [2, 3, 1, 1], {}), ([0, 2, 3, 3], [2, 1, 2, 2], {}), ([1, 2, 2, 2], [2, 2, 2, 2], dict(padding=1)),
]  # fmt: skip
BAD2D = [
    ([1, 2, 4, 4], [2, 3, 2, 2], {}), ([1, 4, 4, 4], [3, 2, 2, 2], dict(groups=2)), ([1, 3, 4, 4], [2, 1, 2, 2], dict(groups=2)),
    ([1, 1, 3, 3], [1, 1, 4, 2], {}), ([1, 1, 3, 3], [1, 1, 2, 2], dict(dilation=3)), ([1, 1, 3, 3], [1, 1, 2, 2], dict(stride=0)),
    ([1, 1, 3, 3], [1, 1, 2, 2], dict(padding=-1)), ([1, 1, 3, 3], [1, 1, 2, 2], dict(dilation=0)), ([1, 1, 3, 3], [1, 1, 2, 2], dict(groups=0)),
    ([3, 3], [1, 1, 2, 2], {}), ([1, 1, 3, 3], [1, 1, 2], {}), ([1, 1, 3, 3], [1, 1, 2, 2], dict(padding="same", stride=2)),
    ([1, 1, 0, 3], [1, 1, 2, 2], dict(padding=1)), ([1, 1, 3, 3], [1, 1, 0, 2], {}), ([1, 1, 3, 3], [0, 1, 2, 2], {}),
    ([1, 1, 1, 3, 3], [1, 1, 2, 2], {}), ([1, 1, 3, 3], [1, 1, 2, 2], dict(padding="same ")),
]  # fmt: skip
BAD_TRANSPOSED2D = [
    ([1, 2, 3, 3], [3, 2, 2, 2], {}), ([1, 3, 3, 3], [3, 1, 2, 2], dict(groups=2)), ([1, 1, 2, 2], [1, 1, 2, 2], dict(padding=2)),
    ([1, 1, 3, 3], [1, 1, 2, 2], dict(output_padding=1)), ([1, 1, 3, 3], [1, 1, 2, 2], dict(stride=0)), ([1, 1, 0, 3], [1, 1, 2, 2], {}),
    ([1, 1, 3, 3], [1, 0, 2, 2], {}), ([1, 1, 3, 3], [1, 1, 2, 2], dict(output_padding=-1)),
]  # fmt: skip


def kinds(rows, bad, channels):
    """`channels` gives the channels of the output, which a bias has."""
    for number, (x, w, named) in enumerate(rows):
        bias = {"bias": T([channels(w, named.get("groups", 1))])} if number % 2 == 0 else {}
        yield ok(input=T(x), weight=T(w), **bias, **named)
    x, w, named = rows[1]
    count = channels(w, named.get("groups", 1))
    yield ok(input=T(x, grad=False), weight=T(w), bias=T([count]), **named)
    yield ok(input=T(x), weight=T(w, grad=False), bias=T([count], grad=False), **named)
    for layout_x, layout_w in [("transposed", "strided"), ("expanded", "offset"), ("strided", "transposed"), ("offset", "expanded")]:
        yield ok(input=T(x, layout_x), weight=T(w, layout_w), bias=T([count], "strided"), **named)
    yield ok(input=T(x, dtype="f32"), weight=T(w, dtype="f32"), bias=T([count], dtype="f32"), **named)
    yield refused(input=T(x, dtype="f32"), weight=T(w), **named)
    yield refused(input=T(x), weight=T(w, dtype="f32"), **named)
    yield refused(input=T(x), weight=T(w), bias=T([count + 1]), **named)
    yield refused(input=T(x, dtype="bool"), weight=T(w, dtype="bool"), **named)
    for x, w, named in bad:
        yield refused(input=T(x), weight=T(w), **named)


def forward(w, groups):
    return w[0]


def transposed(w, groups):
    return w[1] * groups


OPS = [
    Op("conv1d", F.conv1d, [kinds(CONV1D, [], forward)]),
    Op("conv2d", F.conv2d, [kinds(CONV2D, BAD2D, forward)]),
    Op("conv_transpose1d", F.conv_transpose1d, [kinds(TRANSPOSED1D, [], transposed)]),
    Op("conv_transpose2d", F.conv_transpose2d, [kinds(TRANSPOSED2D, BAD_TRANSPOSED2D, transposed)]),
]
