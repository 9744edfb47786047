"""Losses: every argument, every reduction, classes along axis 1 of any rank, ignored and empty batches."""

from torch.nn import functional as F

from .samples import POSITIVE, PROBABILITY, Op, T, V, below, inf, nan, ok, refused

REDUCTIONS = ["mean", "sum", "none"]
# Scores have their classes along axis 1, or along axis 0 when there is no batch; the target lacks that axis.
CLASS_SHAPES = [
    ([2, 3], [2]), ([3], []), ([4, 2], [4]), ([2, 3, 2], [2, 2]), ([2, 3, 1, 2], [2, 1, 2]), ([1, 3, 2, 1, 2], [1, 2, 1, 2]), ([2, 1], [2]),
]  # fmt: skip
EMPTY_SHAPES = [([0, 3], [0]), ([2, 3, 0], [2, 0]), ([0, 3, 2], [0, 2])]


def classes_of(scores):
    return scores[1] if len(scores) > 1 else scores[0]


def labels(scores, shape, layout="contiguous"):
    return T(shape, layout, below(classes_of(scores)), "i64")


def weights(scores, dtype="f64"):
    """Class weights: positive, not tracked, for PyTorch has no gradient for them."""
    return T([classes_of(scores)], values=[0.5 + 0.75 * k for k in range(classes_of(scores))], dtype=dtype, grad=False)


def class_labels(scores_layouts=True):
    """What nll_loss and cross_entropy share: targets that are class numbers.

    `scores_layouts`: of a 4-d input in any layout; PyTorch's nll_loss has no gradient for that.
    """
    for scores, target in CLASS_SHAPES + EMPTY_SHAPES:
        yield ok(input=T(scores), target=labels(scores, target))
        for reduction in REDUCTIONS:
            yield ok(input=T(scores), target=labels(scores, target), reduction=reduction, weight=weights(scores))
        yield ok(input=T(scores), target=labels(scores, target), reduction="none")
    for reduction in REDUCTIONS:
        ignored = V(1, -100, 2, dtype="i64")
        yield ok(input=T([3, 4]), target=ignored, reduction=reduction)
        yield ok(input=T([3, 4]), target=ignored, reduction=reduction, weight=weights([3, 4]))
        yield ok(input=T([3, 4]), target=V(1, 1, 2, dtype="i64"), reduction=reduction, ignore_index=1)
        yield ok(input=T([3, 4]), target=V(1, -1, 0, dtype="i64"), reduction=reduction, ignore_index=-1, weight=weights([3, 4]))
        yield ok(input=T([2, 3, 2]), target=T([2, 2], values=[0, 9, 9, 2], dtype="i64"), reduction=reduction, ignore_index=9)
        yield ok(input=T([2, 3]), target=V(-100, -100, dtype="i64"), reduction=reduction, tags=["special"])
        zero = V(0.0, 0.0, 0.0, grad=False)
        yield ok(input=T([2, 3]), target=labels([2, 3], [2]), reduction=reduction, weight=zero, tags=["special"])
        yield ok(input=T([3]), target=T([], values=[-100], dtype="i64"), reduction=reduction, tags=["special"])
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([3, 2], layout), target=labels([3, 2], [3], "strided"))
        yield ok(input=T([2, 3, 2], layout), target=labels([2, 3, 2], [2, 2], layout), weight=weights([2, 3, 2]))
        yield ok(input=T([2, 3, 2, 2], layout if scores_layouts else "offset"), target=labels([2, 3, 2, 2], [2, 2, 2], layout), reduction="sum")
    yield ok(input=T([2, 3], dtype="f32"), target=labels([2, 3], [2]), weight=weights([2, 3], "f32"))
    yield ok(input=T([16, 10], dtype="f32"), target=labels([16, 10], [16]))
    yield ok(input=T([2, 3], grad=False), target=labels([2, 3], [2]))
    for values in ([nan, 1.0, 2.0], [inf, 1.0, 2.0], [-inf, 1.0, 2.0], [-inf, -inf, -inf], [800.0, 0.0, -800.0]):
        for label in (0, 1):
            yield ok(input=T([1, 3], values=values), target=V(label, dtype="i64"), tags=["special"])
    for scores, target in [([2, 3], [3]), ([2, 3], [2, 1]), ([2, 3, 2], [2]), ([2, 3, 2], [2, 3]), ([], []), ([3], [2])]:
        yield refused(input=T(scores), target=T(target, values=below(1), dtype="i64"))
    yield refused(input=T([2, 3]), target=V(0, 3, dtype="i64"))
    yield refused(input=T([2, 3]), target=V(0, -1, dtype="i64"))
    yield refused(input=T([2, 3, 2]), target=T([2, 2], values=[0, 1, 3, 0], dtype="i64"))
    yield refused(input=T([2, 3]), target=labels([2, 3], [2]), weight=T([2]))
    yield refused(input=T([2, 3]), target=labels([2, 3], [2]), reduction="average")
    yield refused(input=T([2, 3], dtype="i64"), target=labels([2, 3], [2]))


def smoothing():
    for scores, target in CLASS_SHAPES + EMPTY_SHAPES[:1]:
        for reduction in REDUCTIONS:
            yield ok(input=T(scores), target=labels(scores, target), reduction=reduction, label_smoothing=0.25)
        yield ok(input=T(scores), target=labels(scores, target), weight=weights(scores), label_smoothing=0.1)
    for reduction in REDUCTIONS:
        ignored = V(1, -100, 2, dtype="i64")
        yield ok(input=T([3, 4]), target=ignored, reduction=reduction, label_smoothing=0.5, weight=weights([3, 4]))
        yield ok(input=T([3, 4]), target=V(1, 3, 2, dtype="i64"), reduction=reduction, label_smoothing=0.5, ignore_index=3)
    yield ok(input=T([2, 3]), target=labels([2, 3], [2]), label_smoothing=1.0)
    yield ok(input=T([2, 3]), target=labels([2, 3], [2]), label_smoothing=0.0)
    yield ok(input=T([1, 3], values=[-inf, 1.0, 2.0]), target=V(1, dtype="i64"), label_smoothing=0.25, tags=["special"])
    yield refused(input=T([2, 3]), target=labels([2, 3], [2]), label_smoothing=1.5)


def class_probabilities():
    for scores in ([2, 3], [3], [2, 3, 2], [2, 3, 1, 2], [0, 3], [2, 1]):
        for reduction in REDUCTIONS:
            yield ok(input=T(scores), target=T(scores, values=PROBABILITY), reduction=reduction)
            yield ok(input=T(scores), target=T(scores, values=PROBABILITY), reduction=reduction, weight=weights(scores), label_smoothing=0.25)
        yield ok(input=T(scores), target=T(scores, values=PROBABILITY), weight=weights(scores))
        yield ok(input=T(scores), target=T(scores, values=PROBABILITY, grad=False), label_smoothing=0.5)
    for layout in ("transposed", "strided", "expanded"):
        yield ok(input=T([3, 2], layout), target=T([3, 2], values=PROBABILITY))
        yield ok(input=T([3, 2]), target=T([3, 2], layout, PROBABILITY))
    yield ok(input=T([2, 3], grad=False), target=T([2, 3], values=PROBABILITY))
    yield ok(input=T([2, 3], dtype="f32"), target=T([2, 3], values=PROBABILITY, dtype="f32"))
    yield refused(input=T([2, 3]), target=T([2, 2]))
    yield refused(input=T([2, 3]), target=T([2]))
    yield refused(input=T([2, 3]), target=T([2, 3]), ignore_index=1)


def mse():
    for shape in ([2, 3], [], [3], [1], [0], [2, 0], [2, 1, 2]):
        for reduction in REDUCTIONS:
            yield ok(input=T(shape), target=T(shape), reduction=reduction)
    yield ok(input=T([2, 2]), target=T([2, 2]))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout), target=T([2, 3], "transposed"))
        yield ok(input=T([2, 3]), target=T([2, 3], layout), reduction="none")
    yield ok(input=T([2, 2]), target=T([2, 2], grad=False))
    yield ok(input=T([2, 2], grad=False), target=T([2, 2]), reduction="sum")
    yield ok(input=T([5], dtype="f32"), target=T([5], dtype="f32"))
    yield ok(input=T([5], dtype="f32"), target=T([5], dtype="f64"))
    yield ok(input=T([3]), target=T([3], dtype="i64"))
    yield ok(input=V(nan, inf, 1.0, inf), target=V(1.0, 2.0, -inf, inf), reduction="none", tags=["special"])
    for reduction in REDUCTIONS:
        yield ok(input=T([2, 3]), target=T([2, 3]), weight=T([2, 3], values=PROBABILITY), reduction=reduction)
    for shape, target in [([3, 1], [3]), ([2, 3], [3])]:  # PyTorch warns and broadcasts
        yield ok(input=T(shape), target=T(target), tags=["broadcast"])
    yield refused(input=T([3]), target=T([2]))
    yield refused(input=T([2, 3]), target=T([3, 2]))
    yield refused(input=T([3]), target=T([3]), reduction="average")
    yield refused(input=T([2, 3]), target=T([2, 3]), weight=T([3]))


def bce():
    """From scores: `weight` scales an element's loss, `pos_weight` the part for a true label; both broadcast, neither has a gradient."""
    shapes = [
        ([2, 3], [3], [3]), ([], [], []), ([3], [1], [1]), ([2, 3], [2, 3], [1]), ([2, 2, 2], [2, 1], [2]), ([0], [1], [1]),
        ([2, 0], [2, 1], [1]), ([2, 3], [2, 1], [2, 3]),
    ]  # fmt: skip
    for shape, weight, pos_weight in shapes:
        scores, truth = T(shape), T(shape, values=PROBABILITY)
        scale, pos_scale = T(weight, values=PROBABILITY, grad=False), T(pos_weight, values=PROBABILITY, grad=False)
        for reduction in REDUCTIONS:
            yield ok(input=scores, target=truth, reduction=reduction)
            yield ok(input=scores, target=truth, reduction=reduction, weight=scale)
            yield ok(input=scores, target=truth, reduction=reduction, pos_weight=pos_scale)
        yield ok(input=scores, target=truth, weight=scale, pos_weight=pos_scale)
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout), target=T([2, 3], "transposed", PROBABILITY))
        yield ok(input=T([2, 3]), target=T([2, 3], layout, PROBABILITY), weight=T([2, 3], layout, PROBABILITY, grad=False))
    yield ok(input=T([2, 2]), target=T([2, 2], values=PROBABILITY, grad=False))
    yield ok(input=T([2, 2], grad=False), target=T([2, 2], values=PROBABILITY))
    yield ok(input=T([5], dtype="f32"), target=T([5], values=PROBABILITY, dtype="f32"))
    edges = [nan, inf, -inf, 0.0, -0.0, 800.0, -800.0, 40.0, -40.0, 20.0, -20.0]
    for label in (0.0, 1.0, 0.5):
        truth = V(*[label] * len(edges))
        yield ok(input=V(*edges), target=truth, reduction="none", tags=["special"])
        yield ok(input=V(*edges), target=truth, reduction="none", pos_weight=V(2.5, grad=False), tags=["special"])
    yield refused(input=T([3]), target=T([2]))
    yield refused(input=T([3, 1]), target=T([3]))
    yield refused(input=T([2, 3]), target=T([3]))
    yield refused(input=T([3]), target=T([3]), reduction="average")
    yield refused(input=T([3]), target=T([3]), weight=T([2], grad=False))
    yield refused(input=T([3]), target=T([3]), pos_weight=T([2], grad=False))


def distances(*options):
    """Of a loss of the distance: every option with every reduction, equal operands, kinks."""
    for shape in ([2, 3], [], [0], [2, 0], [2, 1, 2]):
        for reduction in REDUCTIONS:
            yield ok(input=T(shape), target=T(shape), reduction=reduction)
    for option in options:
        for reduction in REDUCTIONS:
            yield ok(input=T([2, 3]), target=T([2, 3]), reduction=reduction, **option)
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout), target=T([2, 3], "transposed"))
        yield ok(input=T([2, 3]), target=T([2, 3], layout), reduction="none")
    yield ok(input=T([2, 2]), target=T([2, 2], grad=False))
    yield ok(input=T([2, 2], grad=False), target=T([2, 2]), reduction="sum")
    yield ok(input=T([5], dtype="f32"), target=T([5], dtype="f32"))
    yield ok(input=T([3], grad=False), target=T([3], dtype="i64"))
    edges = V(-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, nan, inf, -inf)
    yield ok(input=edges, target=V(*[0.0] * 10), reduction="none", tags=["special", "ties"])
    yield ok(input=V(*[0.0] * 10), target=edges, reduction="none", tags=["special", "ties"])
    for shape, target in [([3, 1], [3]), ([2, 3], [3])]:  # PyTorch warns and broadcasts
        yield ok(input=T(shape), target=T(target), tags=["broadcast"])
    yield refused(input=T([3]), target=T([2]))
    yield refused(input=T([3]), target=T([3]), reduction="average")
    yield refused(input=T([3], dtype="i64"), target=T([3], dtype="i64"))


def weighted_distances():
    for reduction in REDUCTIONS:
        yield ok(input=T([2, 3]), target=T([2, 3]), weight=T([2, 3], values=PROBABILITY), reduction=reduction)
    yield refused(input=T([2, 3]), target=T([2, 3]), weight=T([3]))


def refused_option(name, *values):
    for value in values:
        yield refused(input=T([2]), target=T([2]), **{name: value})


def bce_of_probabilities():
    inside = [0.125, 0.25, 0.5, 0.75, 0.875, 0.0625]
    for shape in ([2, 3], [6], [1, 6, 1]):
        x, y = T(shape, values=inside), T(shape, values=PROBABILITY)
        for reduction in REDUCTIONS:
            yield ok(input=x, target=y, reduction=reduction)
            yield ok(input=x, target=y, reduction=reduction, weight=T(shape[-1:], values=PROBABILITY, grad=False))
    for layout in ("transposed", "strided", "offset"):
        yield ok(input=T([2, 3], layout, inside), target=T([2, 3], layout, PROBABILITY))
    for shape in ([0], [2, 0]):
        yield ok(input=T(shape), target=T(shape), reduction="sum")
    yield ok(input=T([], values=[0.25]), target=T([], values=[1.0]))
    yield ok(input=T([6], values=inside, grad=False), target=T([6], values=PROBABILITY))
    yield ok(input=T([6], values=inside, dtype="f32"), target=T([6], values=PROBABILITY, dtype="f32", grad=False))
    yield ok(input=V(0.0, 1.0, 0.0, 1.0, 1e-30), target=V(1.0, 0.0, 0.0, 1.0, 1.0, grad=False), reduction="none", tags=["special"])
    for outside in (1.5, -0.5, nan, inf):
        yield refused(input=V(0.5, outside), target=V(0.5, 0.5))
    yield refused(input=V(0.5, 0.5), target=V(0.5, 1.5))
    yield refused(input=T([3], values=PROBABILITY), target=T([3, 1], values=PROBABILITY))
    yield refused(input=V(0.5, 0.5), target=V(0, 1, dtype="i64"))
    yield refused(input=V(0.5, 0.5), target=V(0.5, 0.5, dtype="f32"))
    yield refused(input=V(0.5, 0.5), target=V(0.5, 0.5), reduction="average")
    yield refused(input=V(0.5, 0.5), target=V(0.5, 0.5), weight=T([3], grad=False))


def divergence():
    for shape in ([2, 3], [], [0], [2, 1, 2]):
        for reduction in REDUCTIONS:
            yield ok(input=T(shape), target=T(shape, values=POSITIVE), reduction=reduction)
            yield ok(input=T(shape), target=T(shape), reduction=reduction, log_target=True)
        yield ok(input=T(shape), target=T(shape, values=POSITIVE), reduction="batchmean")
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 3], layout), target=T([2, 3], "transposed", POSITIVE))
        yield ok(input=T([2, 3]), target=T([2, 3], layout), log_target=True)
    yield ok(input=T([5], dtype="f32"), target=T([5], values=POSITIVE, dtype="f32"))
    yield ok(input=T([2, 2]), target=T([2, 2], values=POSITIVE, grad=False))
    yield ok(input=T([2, 2], grad=False), target=T([2, 2], values=POSITIVE))
    yield ok(input=V(-1.0, -inf, -inf, nan, -2.0), target=V(0.0, 0.5, 0.0, 1.0, 1.0, grad=False), reduction="none", tags=["special"])
    yield ok(input=V(-1.0, -2.0, -inf), target=V(-inf, 0.0, -1.0, grad=False), reduction="none", log_target=True, tags=["special"])
    yield ok(input=T([2, 3]), target=T([3], values=POSITIVE), tags=["broadcast"])
    yield refused(input=T([3]), target=T([2]))
    yield refused(input=T([3]), target=T([3], dtype="i64"))
    yield refused(input=T([3], dtype="i64"), target=T([3]))
    yield refused(input=T([3]), target=T([3]), reduction="average")


OPS = [
    Op("cross_entropy", F.cross_entropy, [class_labels(), smoothing(), class_probabilities()]),
    Op("nll_loss", F.nll_loss, [class_labels(scores_layouts=False)]),
    Op("mse_loss", F.mse_loss, [mse()], operands=("input", "target")),
    Op("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, [bce()], operands=("input", "target")),
    Op("l1_loss", F.l1_loss, [distances(), weighted_distances()], operands=("input", "target")),
    Op("smooth_l1_loss", F.smooth_l1_loss, [distances({"beta": 0.5}, {"beta": 0.0}, {"beta": 4.0}), refused_option("beta", -1.0)], operands=("input", "target")),
    Op("huber_loss", F.huber_loss, [distances({"delta": 0.5}, {"delta": 2.0}), weighted_distances(), refused_option("delta", 0.0, -1.0, nan)], operands=("input", "target")),
    Op("binary_cross_entropy", F.binary_cross_entropy, [bce_of_probabilities()], operands=("input", "target")),
    Op("kl_div", F.kl_div, [divergence()], operands=("input", "target")),
]
