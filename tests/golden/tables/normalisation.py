"""Normalisation: over the last axes, groups, instances and batches, with and without weights, every way that rows can lie."""

from torch.nn import functional as F

from .samples import POSITIVE, Op, T, inf, nan, ok, refused


def with_weights(shape, parameter, bias=True, **named):
    """Without weights, with either, with both. PyTorch has no second derivative of a bias without a weight."""
    yield ok(input=T(shape), **named)
    yield ok(input=T(shape), weight=T(parameter), **named)
    if bias:
        yield ok(input=T(shape), weight=T(parameter, grad=False), bias=T(parameter), **named)
        yield ok(input=T(shape), weight=T(parameter), bias=T(parameter), eps=0.125, **named)


def weights_that_do_not_fit(shape, parameter, other, **named):
    yield refused(input=T(shape), weight=T(other), **named)
    yield refused(input=T(shape), weight=T(parameter, dtype="f32"), **named)
    yield refused(input=T(shape, dtype="f32"), weight=T(parameter), **named)
    yield refused(input=T(shape, dtype="i64"), **named)


def last_axes(bias=True):
    for shape, last in [([2, 3], [3]), ([2, 2, 3], [3]), ([2, 2, 3], [2, 3]), ([4], [4]), ([2, 1], [1]), ([1, 2, 1, 3], [1, 3])]:
        yield from with_weights(shape, last, bias, normalized_shape=last)
    for shape, last in [([0, 3], [3]), ([3, 0], [0]), ([2, 0, 3], [0, 3])]:
        yield ok(input=T(shape), normalized_shape=last, weight=T(last))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3, 4], layout), normalized_shape=[4], weight=T([4], "strided"))
        yield ok(input=T([2, 3], layout), normalized_shape=[2, 3], weight=T([2, 3], layout))
    yield ok(input=T([2, 3], grad=False), normalized_shape=[3], weight=T([3]))
    yield ok(input=T([2, 3]), normalized_shape=[3], weight=T([3], grad=False))
    yield ok(input=T([3, 70], dtype="f32"), normalized_shape=[70], weight=T([70], dtype="f32"))
    yield ok(input=T([1, 4], values=[1e5, 1e5 + 1, 1e5 + 3, 1e5 - 2]), normalized_shape=[4], tags=["special"])
    yield ok(input=T([2, 2], values=[nan, 1.0, 3.0, 5.0]), normalized_shape=[2], tags=["special"])
    yield ok(input=T([2, 2], values=[inf, 1.0, 3.0, 5.0]), normalized_shape=[2], tags=["special"])
    yield ok(input=T([2, 2], values=[2.0, 2.0, 0.0, 0.0]), normalized_shape=[2], tags=["ties"])
    yield ok(input=T([2, 2]), normalized_shape=[2], eps=-1e6, tags=["special"])
    yield refused(input=T([2, 3]), normalized_shape=[2])
    yield refused(input=T([2, 3]), normalized_shape=[])
    yield refused(input=T([3]), normalized_shape=[2, 3])
    yield refused(input=T([2, 3]), normalized_shape=[3], weight=T([1]))


def layers():
    yield from weights_that_do_not_fit([2, 3], [3], [2], normalized_shape=[3])


def groups():
    for shape, count in [([2, 4, 3], 2), ([2, 4], 2), ([3, 2, 2, 2], 1), ([2, 3, 2], 3), ([1, 4, 1, 2], 2)]:
        yield from with_weights(shape, [shape[1]], num_groups=count)
    yield ok(input=T([0, 4, 2]), num_groups=2, weight=T([4]))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 4, 3], layout), num_groups=2, weight=T([4], "strided"), bias=T([4]))
    yield ok(input=T([2, 4, 40], dtype="f32"), num_groups=2, weight=T([4], dtype="f32"))
    yield ok(input=T([2, 2, 2], values=[nan, 1.0, 2.0, 4.0, 1.0, inf, 3.0, 5.0]), num_groups=2, tags=["special"])
    for count in (3, 0, -1, 8):
        yield refused(input=T([2, 4, 3]), num_groups=count)
    for shape in ([4], [], [1, 4], [2, 4, 0], [2, 0, 3]):
        yield refused(input=T(shape), num_groups=4)
    yield from weights_that_do_not_fit([2, 4, 3], [4], [2], num_groups=2)


def instances():
    for shape in ([2, 3, 4], [1, 2, 3, 2], [2, 1, 2]):
        yield from with_weights(shape, [shape[1]])
    for shape in ([0, 2, 3], [2, 3, 0]):  # PyTorch has no gradient of nothing
        yield ok(input=T(shape, grad=False))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3, 4], layout), weight=T([3], "strided"), bias=T([3]))
    yield ok(input=T([2, 2, 40], dtype="f32"), weight=T([2], dtype="f32"))
    for shape in ([3], [2, 3], [2, 3, 1], [2, 3, 1, 1]):
        yield refused(input=T(shape))
    yield from weights_that_do_not_fit([2, 3, 4], [3], [2])
    yield from with_running_statistics()
    for shape in ([2, 3, 2], [2, 3], [2, 3, 1]):
        yield ok(input=T(shape), weight=T([3]), use_input_stats=False, **known(3))
    yield refused(input=T([2, 3, 2]), use_input_stats=False)


def known(c, dtype="f64"):
    return {"running_mean": T([c], dtype=dtype, grad=False), "running_var": T([c], values=POSITIVE, dtype=dtype, grad=False)}


def going_on(c, dtype="f64"):
    """Running statistics, and how fast they change."""
    for momentum in ({}, dict(momentum=0.5), dict(momentum=0.0), dict(momentum=1.0)):
        yield known(c, dtype) | momentum


def with_running_statistics(**named):
    for running in going_on(2):
        yield ok(input=T([3, 2, 2]), weight=T([2]), bias=T([2]), **running, **named)
    for layout in ("transposed", "strided", "expanded"):
        running = {"running_mean": T([2], layout, grad=False), "running_var": T([2], layout, POSITIVE, grad=False)}
        yield ok(input=T([3, 2, 2], layout), **(running if layout != "expanded" else known(2)), **named)
    yield ok(input=T([4, 2, 3], dtype="f32"), **known(2, "f32"), **named)
    yield ok(input=T([2, 2, 0], grad=False), **known(2), **named)
    yield ok(input=T([2, 1, 2], values=[nan, 1.0, 2.0, inf]), **known(1), **named, tags=["special"])
    yield refused(input=T([3, 2, 2]), **known(3), **named)
    yield refused(input=T([3, 2, 2]), running_mean=known(2)["running_mean"], **named)


def batches():
    for shape in ([3, 2], [2, 3, 4], [2, 2, 1, 3], [4, 1]):
        yield from with_weights(shape, [shape[1]], **known(shape[1]))
        yield from with_weights(shape, [shape[1]], training=True)
    for shape in ([1, 2], [1, 2, 1]):
        yield ok(input=T(shape), **known(2))
        yield refused(input=T(shape), training=True)
    yield ok(input=T([0, 2]), weight=T([2]), **known(2))
    yield ok(input=T([0, 2]), training=True)
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3, 4], layout), weight=T([3], "strided"), **known(3))
        yield ok(input=T([2, 3, 4], layout), weight=T([3], "strided"), bias=T([3]), training=True)
    yield ok(input=T([20, 3], dtype="f32"), weight=T([3], dtype="f32"), training=True)
    yield ok(input=T([2, 3], dtype="f32"), **known(3, "f32"))
    yield ok(input=T([3, 2], values=[nan, 1.0, 2.0, 4.0, 1.0, 0.0]), training=True, tags=["special"])
    yield ok(input=T([2, 1]), running_mean=T([1], values=[0.0], grad=False), running_var=T([1], values=[-1.0], grad=False), tags=["special"])
    for training in (False, True):
        for shape in ([3], []):
            yield refused(input=T(shape), training=training, **(known(3) if not training else {}))
        yield from weights_that_do_not_fit([3, 2], [2], [3], training=training, **(known(2) if not training else {}))
        yield refused(input=T([3, 2]), training=training, eps=-1.0, **(known(2) if not training else {}))
    yield refused(input=T([3, 2]), **known(3))
    yield refused(input=T([3, 2]), **known(1))
    yield refused(input=T([3, 2]), **known(2, "f32"))
    yield refused(input=T([3, 2]), training=False)
    yield from with_running_statistics(training=True)
    for training in (False, True):
        yield ok(input=T([0], grad=False), training=training, **known(0))


def directions():
    for shape, axis in [([2, 3], 1), ([2, 3], 0), ([3], 0), ([2, 3, 2], -2), ([0, 3], 1), ([3, 0], 0)]:
        yield ok(input=T(shape), dim=axis)
    yield ok(input=T([2, 3]))
    for p in (1.0, 3.0, 0.5, inf):
        yield ok(input=T([2, 3]), p=p)
    yield ok(input=T([2, 3, 2]), dim=[0, -1])
    yield ok(input=T([2, 3]), eps=5.0)
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout))
    yield ok(input=T([2, 70], dtype="f32"))
    yield ok(input=T([], values=[-2.0]), dim=0)
    yield ok(input=T([3, 2], values=[0.0, 0.0, nan, 1.0, 3.0, inf], grad=False), tags=["special"])
    yield refused(input=T([3]))
    yield refused(input=T([2, 3]), dim=2)
    yield refused(input=T([2, 3], dtype="i64"))


def similar(a, b, **named):
    return ok(x1=T(a), x2=T(b), **named)


def angles():
    for a, b, axis in [([2, 3], [2, 3], 1), ([2, 3], [3], -1), ([2, 1, 3], [4, 3], -1), ([3], [3], 0), ([2, 3], [2, 3], 0), ([0, 3], [0, 3], 1), ([3, 0], [3, 0], 1)]:
        yield similar(a, b, dim=axis)
    yield similar([2, 3], [2, 3])
    yield similar([2, 3], [2, 3], eps=5.0)
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(x1=T([2, 3], layout), x2=T([2, 3]))
        yield ok(x1=T([2, 3]), x2=T([2, 3], layout))
    yield ok(x1=T([2, 40], dtype="f32"), x2=T([2, 40], dtype="f32"))
    yield ok(x1=T([2, 3], dtype="f32"), x2=T([2, 3]))
    yield ok(x1=T([2, 3], grad=False), x2=T([2, 3], dtype="i64"))
    yield ok(x1=T([2, 2], values=[0.0, 0.0, 1e-9, 0.0], grad=False), x2=T([2, 2]), tags=["special"])
    yield refused(x1=T([2, 3]), x2=T([2, 4]))
    yield refused(x1=T([3]), x2=T([3]))
    yield refused(x1=T([2, 3], dtype="i64"), x2=T([2, 3], dtype="i64"))


def batch_norm(input, running_mean=None, running_var=None, **named):
    return F.batch_norm(input, running_mean, running_var, **named)


OPS = [
    Op("layer_norm", F.layer_norm, [last_axes(), layers()]),
    Op("rms_norm", F.rms_norm, [last_axes(bias=False)]),
    Op("group_norm", F.group_norm, [groups()]),
    Op("instance_norm", F.instance_norm, [instances()]),
    Op("batch_norm", batch_norm, [batches()]),
    Op("normalize", F.normalize, [directions()]),
    Op("cosine_similarity", F.cosine_similarity, [angles()], operands=("x1", "x2")),
]
