"""Pooling, interpolation and the shuffling of pixels: every argument, ties, padding, windows at the edges, what does not fit."""

from torch.nn import functional as F

from .samples import ANY, Domain, Op, T, eighths, inf, nan, ok, refused

TIES = Domain((1.0, 2.0), (1, 2))
NEGATIVE = Domain(eighths(-3, -0.125), (-3, -2, -1))

WINDOWS1D = [
    ([2, 2, 6], (2,), {}), ([1, 2, 7], (3,), dict(stride=2, padding=1)), ([2, 7], (3,), dict(stride=2, ceil_mode=True)),
    ([1, 1, 5], ([2],), dict(stride=[3], ceil_mode=True, padding=1)), ([0, 2, 4], (2,), {}),
]  # fmt: skip
WINDOWS2D = [
    ([1, 2, 4, 4], (2,), {}), ([2, 1, 5, 6], (3,), dict(stride=2, padding=1)), ([1, 1, 5, 4], ([2, 3],), dict(stride=[1, 2])),
    ([2, 5, 5], (2,), dict(ceil_mode=True)), ([1, 1, 6, 5], (3,), dict(stride=2, padding=1, ceil_mode=True)), ([1, 1, 3, 3], (3,), dict(stride=1, padding=1)),
    ([1, 1, 4, 7], ([2, 2],), dict(stride=[3, 4], padding=[1, 0], ceil_mode=True)), ([0, 1, 4, 4], (2,), {}), ([1, 1, 1, 1], (1,), {}),
]  # fmt: skip
DILATED1D = [([1, 2, 7], (3,), dict(dilation=2)), ([1, 1, 6], (2,), dict(dilation=3, stride=1, padding=1))]
DILATED2D = [([1, 1, 5, 6], (2,), dict(dilation=2, stride=1)), ([1, 1, 6, 5], (3,), dict(dilation=[2, 1], padding=[1, 1], stride=2, ceil_mode=True))]
MEANS1D = [([1, 1, 5], (3,), dict(padding=1, stride=2, count_include_pad=False)), ([1, 1, 6], (3,), dict(padding=1, stride=3, ceil_mode=True))]
MEANS2D = [
    ([1, 1, 5, 5], (3,), dict(padding=1, stride=2, count_include_pad=False)), ([1, 1, 4, 5], (3,), dict(padding=1, stride=2, ceil_mode=True, count_include_pad=False)),
    ([1, 1, 4, 4], (2,), dict(divisor_override=3)), ([1, 1, 4, 4], (2,), dict(divisor_override=-2, stride=[])), ([1, 1, 5, 5], ([3, 2],), dict(padding=1, ceil_mode=True, divisor_override=5)),
]  # fmt: skip
BAD2D = [
    ([1, 1, 4, 4], (5,), {}), ([1, 1, 4, 4], (2,), dict(padding=2)), ([1, 1, 4, 4], (0,), {}), ([1, 1, 4, 4], (2,), dict(stride=0)), ([4, 4], (2,), {}),
    ([1, 0, 4, 4], (2,), {}), ([1, 1, 0, 4], (2,), {}), ([1, 1, 4, 4], (2,), dict(padding=-1)), ([1, 1, 1, 4, 4], (2,), {}),
]  # fmt: skip
BAD1D = [([1, 1, 4], (5,), {}), ([1, 1, 4], (2,), dict(padding=2)), ([4], (2,), {}), ([1, 1, 0], (2,), {})]


def windows(rows, bad, values=ANY, more=(), extra={}):
    for x, (kernel,), named in [*rows, *more]:
        yield ok(input=T(x, values=values), kernel_size=kernel, **named, **extra)
    x, (kernel,), named = rows[1]
    yield ok(input=T(x, values=values), kernel_size=kernel, **named)
    named = named | extra
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T(x, layout, values), kernel_size=kernel, **named)
    yield ok(input=T(x, values=values, dtype="f32"), kernel_size=kernel, **named)
    yield ok(input=T(x, values=values, grad=False), kernel_size=kernel, **named)
    yield refused(input=T(x, dtype="bool"), kernel_size=kernel, **named)
    for x, (kernel,), named in bad:
        yield refused(input=T(x), kernel_size=kernel, **named)


def conventions(flat, extra={}):
    """Ties, not-a-number, infinities, negative numbers beside padding; `flat` leaves one axis out."""
    shape = (lambda n, m: [1, n * m]) if flat else (lambda n, m: [1, n, m])
    one = dict(kernel_size=3, stride=1, padding=1) | extra
    yield ok(input=T(shape(3, 3), values=TIES), **one, tags=["ties"])
    yield ok(input=T(shape(4, 4), values=TIES, dtype="f32"), kernel_size=2, stride=2, **extra, tags=["ties"])
    yield ok(input=T(shape(3, 3), values=NEGATIVE), **one)
    for numbers in ([nan, 1.0, 2.0, nan, 3.0, 4.0], [-inf, -inf, -inf, 1.0, -inf, -inf], [inf, nan, -inf, inf, 0.0, -0.0]):
        for dtype in ("f64", "f32"):
            yield ok(input=T(shape(2, 3), values=numbers, dtype=dtype), kernel_size=2, stride=1, **extra, tags=["special"])
            yield ok(input=T(shape(2, 3), values=numbers, dtype=dtype), kernel_size=2, stride=1, padding=1, **extra, tags=["special"])


ADAPTIVE1D = [([1, 2, 5], 2), ([2, 6], 4), ([1, 1, 3], 5), ([0, 2, 4], 2), ([1, 2, 4], 1), ([1, 1, 4], [3])]
ADAPTIVE2D = [
    ([1, 2, 5, 4], 2), ([2, 3, 5], [3, 4]), ([1, 1, 2, 3], [5, 2]), ([0, 1, 4, 4], 2), ([1, 2, 4, 4], 1), ([1, 1, 3, 7], [1, 7]),
    ([1, 2, 3, 4], [None, 2]), ([2, 3, 5], [4, None]), ([1, 2, 2], [None, None]),
]  # fmt: skip


def adaptive(rows, bad):
    for x, size in rows:
        yield ok(input=T(x), output_size=size)
    for layout in ("transposed", "strided", "expanded"):
        yield ok(input=T(rows[0][0], layout), output_size=rows[0][1])
    yield ok(input=T(rows[0][0], dtype="f32"), output_size=rows[0][1])
    yield refused(input=T(rows[0][0], dtype="i64"), output_size=rows[0][1])
    for x, size in bad:
        yield refused(input=T(x), output_size=size)


NEAREST = [
    ([1, 2, 2, 3], dict(size=[4, 6])), ([1, 1, 3, 4], dict(size=5)), ([1, 1, 5, 4], dict(size=[2, 3])), ([1, 1, 2, 3], dict(scale_factor=2.0)),
    ([1, 1, 3, 3], dict(scale_factor=[1.5, 2.5])), ([1, 1, 5, 4], dict(scale_factor=0.5)), ([0, 1, 2, 2], dict(size=3)), ([1, 1, 4, 7], dict(scale_factor=0.7)),
    ([1, 1, 1, 1], dict(size=[3, 2])), ([1, 1, 3, 3], dict(size=[3, 3])),
]  # fmt: skip
BETWEEN = [*NEAREST[:8], ([1, 1, 2, 3], dict(size=[4, 1])), ([1, 1, 1, 4], dict(size=[3, 7])), ([1, 1, 3, 3], dict(size=[3, 3]))]
LINES = [([1, 2, 4], dict(size=7)), ([2, 1, 5], dict(size=[3])), ([1, 1, 3], dict(scale_factor=1.7)), ([1, 1, 6], dict(scale_factor=0.6)), ([0, 1, 3], dict(size=5)), ([1, 1, 1], dict(size=4))]
BAD_SIZES = [
    ([1, 1, 2, 2], dict(size=0)), ([1, 0, 2, 2], dict(size=3)), ([1, 1, 0, 2], dict(size=3)), ([1, 1, 2, 2], dict(scale_factor=0.1)),
    ([2, 2], dict(size=3)), ([1, 1, 2, 2], dict(size=[2, 2, 2])), ([1, 1, 2, 2], {}),
]  # fmt: skip


def interpolations():
    for mode, rows in [({}, NEAREST), (dict(mode="nearest"), NEAREST[:1]), (dict(mode="bilinear"), BETWEEN), (dict(mode="bilinear", align_corners=True), BETWEEN)]:
        for x, named in rows:
            yield ok(input=T(x), **mode, **named)
            yield ok(input=T(x, dtype="f32"), **mode, **named)
        for layout in ("transposed", "strided", "expanded"):
            yield ok(input=T(rows[0][0], layout), **mode, **rows[0][1])
    yield ok(input=T([1, 1, 2, 2], values=[inf, 1.0, nan, -0.0]), size=4, tags=["special"])
    yield ok(input=T([1, 1, 2, 2], values=[inf, 1.0, nan, -0.0]), size=3, mode="bilinear", tags=["special"])
    corners = dict(align_corners=True)
    exact, line, cubic = (dict(mode=mode) for mode in ("nearest-exact", "linear", "bicubic"))
    for mode, rows in [(exact, NEAREST[:6]), (exact, LINES[:4]), (line, LINES), (line | corners, LINES), (cubic, BETWEEN), (cubic | corners, BETWEEN)]:
        for x, named in rows:
            yield ok(input=T(x), **mode, **named)
        for x, named in rows[:3]:
            yield ok(input=T(x, dtype="f32"), **mode, **named)
        yield ok(input=T(rows[0][0], "transposed"), **mode, **rows[0][1])
    for mode in (line, cubic):
        x = [1, 1, 5] if mode is line else [1, 1, 4, 5]
        yield ok(input=T(x), scale_factor=1.7, recompute_scale_factor=True, **mode)
    yield ok(input=T([1, 1, 1, 6], values=[inf, 1.0, 2.0, 0.5, nan, -0.0]), size=[1, 12], **cubic, tags=["special"])
    for x, mode in [([1, 1, 2, 2], line), ([1, 1, 2], cubic), ([1, 1, 2], dict(mode="bilinear")), ([1, 1, 2, 2], exact | corners), ([1, 1, 2], exact | dict(align_corners=False)), ([2, 2], line)]:
        yield refused(input=T(x), size=4, **mode)
    for mode in (exact, line):
        yield refused(input=T([1, 1, 2], dtype="i64"), size=4, **mode)
    yield refused(input=T([1, 1, 2, 2]), size=4, align_corners=True)
    yield refused(input=T([1, 1, 2, 2], dtype="i64"), size=4, mode="bilinear")
    for x, named in BAD_SIZES:
        yield refused(input=T(x), **named)


SHUFFLE = [([1, 4, 2, 3], 2), ([2, 9, 1, 2], 3), ([8, 2, 2], 2), ([2, 1, 4, 1, 2], 2), ([0, 4, 2, 2], 2), ([1, 2, 2, 2], 1), ([4, 0, 2], 2)]
BAD_SHUFFLE = [([1, 3, 2, 2], 2), ([4, 2], 2), ([4, 2, 2], 0), ([4, 2, 2], -1)]
UNSHUFFLE = [([1, 1, 4, 6], 2), ([2, 2, 3, 3], 3), ([2, 2, 4], 2), ([1, 2, 2, 2], 1)]
BAD_UNSHUFFLE = [([1, 1, 3, 2], 2), ([4, 2], 2), ([1, 2, 2], 0)]


def shuffles(rows, bad, name):
    for x, r in rows:
        # Of an empty batch PyTorch refuses its own gradient.
        yield ok(input=T(x, grad=None if 0 not in x else False), **{name: r})
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T(rows[0][0], layout), **{name: rows[0][1]})
    for dtype in ("f32", "i64", "bool"):
        yield ok(input=T(rows[0][0], dtype=dtype), **{name: rows[0][1]})
    for x, r in bad:
        yield refused(input=T(x), **{name: r})


PLACES = dict(return_indices=True)

OPS = [
    Op("max_pool1d", F.max_pool1d, [windows(WINDOWS1D, BAD1D, more=DILATED1D, extra=PLACES), conventions(True, PLACES)]),
    Op("max_pool2d", F.max_pool2d, [windows(WINDOWS2D, BAD2D, more=DILATED2D, extra=PLACES), conventions(False, PLACES)]),
    Op("avg_pool1d", F.avg_pool1d, [windows(WINDOWS1D, BAD1D, more=MEANS1D), conventions(True)]),
    Op("avg_pool2d", F.avg_pool2d, [windows(WINDOWS2D, BAD2D, more=MEANS2D), conventions(False)]),
    Op("adaptive_avg_pool1d", F.adaptive_avg_pool1d, [adaptive(ADAPTIVE1D, [([4], 2), ([1, 1, 0], 2), ([1, 1, 4], -1)])]),
    Op("adaptive_avg_pool2d", F.adaptive_avg_pool2d, [adaptive(ADAPTIVE2D, [([4, 4], 2), ([1, 1, 0, 4], 2), ([1, 1, 4, 4], -1)])]),
    Op("interpolate", F.interpolate, [interpolations()]),
    Op("pixel_shuffle", F.pixel_shuffle, [shuffles(SHUFFLE, BAD_SHUFFLE, "upscale_factor")]),
    Op("pixel_unshuffle", F.pixel_unshuffle, [shuffles(UNSHUFFLE, BAD_UNSHUFFLE, "downscale_factor")]),
]
