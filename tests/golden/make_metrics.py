"""What scikit-learn's metrics are, in the format of docs/src/golden-cases.md.

Run:     python tests/golden/make_metrics.py
Needs:   scikit-learn 1.9, PyTorch 2.15.0 on the CPU
Writes:  training/metrics.jsonl.gz beside this file

Of equal scores the first is the best here, as PyTorch's argmax has it, and a NaN is better than all numbers; scikit-learn takes the last
and refuses NaN. So the best scores are PyTorch's (`argmax`, and `argsort` in a stable order), and scikit-learn's where there are no ties.
"""

import random
import warnings

import numpy as np
import torch
from sklearn import metrics

from training_lines import DTYPES, draw_with, number, tensor, write_lines

warnings.filterwarnings("ignore")
rng = random.Random(77)
lines = []


def ids(values, *shape):
    values = torch.tensor(list(values), dtype=torch.int64)
    return values.reshape(shape) if shape else values


def draw_ids(n, classes):
    return ids(rng.choice(classes) for _ in range(n))


def cut(n):
    """Where `n` rows are cut: whole, in pieces of one row and none among them, in halves."""
    yield [n]
    yield [1, 0, n - 1] if n > 1 else [n, 0]
    if n > 4:
        yield [n // 3, n - n // 3 - 2, 2]


def plain(found):
    if isinstance(found, dict):
        return {name: plain(value) for name, value in found.items()}
    if isinstance(found, torch.Tensor):
        return tensor(found)
    return [number(float(v)) for v in found] if np.ndim(found) else number(float(found))


def case(name, prediction, target, found, refused=(), tags=(), **args):
    """A line for each way to cut it; `found` are the numbers of all rows, and `refused` are batches that come between and do not count."""
    for sizes in cut(len(target)):
        pieces = zip(prediction.split(sizes), target.split(sizes))
        batches = [{"prediction": tensor(p), "target": tensor(t)} for p, t in pieces]
        batches[1:1] = [{"prediction": tensor(p), "target": tensor(t), "error": why} for p, t, why in refused]
        line = {"kind": "metric", "id": len(lines), "name": name, "args": args, "tags": list(tags)}
        lines.append(line | {"batches": batches, **plain(found)})


def refusal(f, *args, **more):
    try:
        f(*args, **more)
    except ValueError as error:
        return str(error).split("\n")[0]
    raise SystemExit(f"{f.__name__} of {args} is not refused")


def bad(f, prediction, target, **more):
    """A batch that scikit-learn refuses, and its words."""
    return prediction, target, refusal(f, target.numpy(), prediction.numpy(), **more)


def accuracies():
    for n, classes in [(1, 2), (7, 3), (20, 5)]:
        target, predicted = draw_ids(n, range(classes)), draw_ids(n, range(classes))
        value = metrics.accuracy_score(target, predicted)
        longer = bad(metrics.accuracy_score, ids([0, 1, 0]), ids([0, 1]))
        case("accuracy", predicted, target, {"value": value}, refused=[longer])
        case("accuracy", predicted > 0, target > 0, {"value": metrics.accuracy_score(target > 0, predicted > 0)})
        for dtype in DTYPES.values():
            scores = draw_with(rng, (n, classes), -2, 2).to(dtype)
            case("accuracy", scores, target, {"value": metrics.accuracy_score(target, scores.argmax(1))})
    # Of a picture the classes stand along axis 1.
    scores, target = draw_with(rng, (4, 3, 2, 2), -2, 2), draw_ids(16, range(3)).reshape(4, 2, 2)
    case("accuracy", scores, target, {"value": metrics.accuracy_score(target.flatten(), scores.argmax(1).flatten())})
    scores, target = draw_with(rng, (30, 4), 0, 3).round(), draw_ids(30, range(4))
    case("accuracy", scores, target, {"value": metrics.accuracy_score(target, scores.argmax(1))}, tags=["ties"])
    scores[::5, 2] = torch.nan
    case("accuracy", scores, target, {"value": metrics.accuracy_score(target, scores.argmax(1))}, tags=["ties", "nan"])


def top_k():
    def by_order(scores, target, k):
        order = scores.argsort(dim=1, descending=True, stable=True)
        return (order[:, :k] == target.unsqueeze(1)).any(1).double().mean().item()

    for n, classes in [(1, 3), (9, 4), (25, 6)]:
        scores, target = draw_with(rng, (n, classes), -2, 2), draw_ids(n, range(classes))
        assert all(len(set(row.tolist())) == classes for row in scores)
        labels = list(range(classes))
        beyond = (scores[:1], ids([classes]), refusal(metrics.top_k_accuracy_score, [classes], scores[:1].numpy(), labels=labels))
        for k in (1, 2, classes - 1, classes, classes + 3):
            value = metrics.top_k_accuracy_score(target, scores, k=k, labels=labels)
            assert abs(value - by_order(scores, target, k)) < 1e-12
            case("top_k_accuracy", scores, target, {"value": value}, refused=[beyond], k=k)
        coarse = scores.round()
        holed = coarse.clone()
        holed[::3, 1] = torch.nan
        for k in (1, 2):
            case("top_k_accuracy", coarse, target, {"value": by_order(coarse, target, k)}, tags=["ties"], k=k)
            case("top_k_accuracy", holed, target, {"value": by_order(holed, target, k)}, tags=["ties", "nan"], k=k)
    error = refusal(metrics.top_k_accuracy_score, [0, 1, 2], np.eye(3), k=0)
    lines.append({"kind": "metric", "id": len(lines), "name": "top_k_accuracy", "args": {"k": 0}, "tags": [], "batches": [], "error": error})


def confusions():
    def of(target, predicted, classes):
        t, p = target.flatten().numpy(), predicted.flatten().numpy()
        found = {"counts": torch.tensor(metrics.confusion_matrix(t, p, labels=range(classes))), "value": metrics.accuracy_score(t, p)}
        for name, f in [("precision", metrics.precision_score), ("recall", metrics.recall_score), ("f1", metrics.f1_score)]:
            found[name] = {average: f(t, p, average=average, zero_division=0) for average in ("macro", "micro", "weighted")}
            found[name + "_per_class"] = f(t, p, labels=range(classes), average=None, zero_division=0)
        return found

    everything, some = range(4), [0, 1, 3]
    for n, classes, targets, predictions in [
        (1, 2, range(2), range(2)),
        (12, 4, everything, everything),
        (40, 4, everything, everything),
        (20, 4, some, some),  # a class that occurs nowhere
        (20, 4, everything, some),  # one that is never predicted
        (20, 4, some, everything),  # one that is only predicted
        (15, 4, [2], everything),
        (15, 4, everything, [2]),
        (6, 4, [2], [2]),  # one class alone
        (6, 4, [2], [3]),  # and never right
        (6, 1, [0], [0]),
    ]:
        target, predicted = draw_ids(n, targets), draw_ids(n, predictions)
        longer = bad(metrics.confusion_matrix, ids([0, 0, 0]), ids([0, 0]))
        case("confusion_matrix", predicted, target, of(target, predicted, classes), refused=[longer], classes=classes)
    scores, target = draw_with(rng, (18, 3), 0, 3).round(), draw_ids(18, range(3))
    case("confusion_matrix", scores, target, of(target, scores.argmax(1), 3), tags=["ties"], classes=3)
    pictures, target = draw_with(rng, (3, 3, 4), -1, 1), draw_ids(12, range(3)).reshape(3, 4)
    case("confusion_matrix", pictures, target, of(target, pictures.argmax(1), 3), classes=3)


def areas():
    def area(scores, target):
        return metrics.roc_auc_score(target.flatten().long(), scores.double().flatten())

    for n in (2, 8, 40):
        target = ids([0, 1] + [rng.randrange(2) for _ in range(n - 2)])
        several = bad(metrics.roc_auc_score, torch.tensor([0.5, 0.5, 0.5]), ids([0, 1, 2]))
        without = bad(metrics.roc_auc_score, torch.tensor([0.5, torch.nan], dtype=torch.float64), ids([0, 1]))
        longer = bad(metrics.roc_auc_score, torch.tensor([0.5, 0.25, 0.5]), ids([0, 1]))
        for dtype in DTYPES.values():
            scores = draw_with(rng, (n,), -2, 2).to(dtype)
            case("roc_auc", scores, target, {"value": area(scores, target)}, refused=[several, without, longer])
            case("roc_auc", scores, target.bool(), {"value": area(scores, target)})
            coarse = scores.round()
            case("roc_auc", coarse, target, {"value": area(coarse, target)}, tags=["ties"])
            case("roc_auc", coarse * 0, target, {"value": area(coarse * 0, target)}, tags=["ties"])
        endless = draw_with(rng, (n,), -2, 2)
        endless[0], endless[-1] = -1e308, 1e308
        case("roc_auc", endless, target, {"value": area(endless, target)})
    scores, target = draw_with(rng, (6, 2), 0, 1), ids([0, 1, 1, 0] * 3, 6, 2)
    case("roc_auc", scores, target, {"value": area(scores, target)})
    for only in (0, 1):
        one = ids([only] * 5)
        case("roc_auc", draw_with(rng, (5,), 0, 1), one, {"value": area(draw_with(rng, (5,), 0, 1), one)})


def regressions():
    def root(target, prediction):
        # Of all elements alike: scikit-learn's own root_mean_squared_error is the mean over the outputs' roots.
        return metrics.mean_squared_error(target, prediction) ** 0.5

    functions = [("r2_score", metrics.r2_score), ("mean_absolute_error", metrics.mean_absolute_error), ("root_mean_squared_error", root)]
    for dtype in DTYPES.values():
        for shape in [(1,), (2,), (11,), (6, 1), (9, 3), (1, 2)]:
            target, prediction = draw_with(rng, shape, -3, 3).to(dtype), draw_with(rng, shape, -3, 3).to(dtype)
            longer = bad(metrics.r2_score, draw_with(rng, (4,), -1, 1), draw_with(rng, (5,), -1, 1))
            for name, f in functions:
                pair = target.double().numpy(), prediction.double().numpy()
                case(name, prediction, target, {"value": f(*pair)}, refused=[longer])
    whole = draw_ids(9, range(-4, 5))
    same, far = torch.full((5,), 2.5, dtype=torch.float64), draw_with(rng, (8,), -1, 1) + 1000
    equal = torch.stack([same, draw_with(rng, (5,), -1, 1)], 1)
    for target, prediction in [
        (whole, draw_with(rng, (9,), -4, 4)),
        (draw_with(rng, (9,), -4, 4), whole),
        (same, same),  # targets without variance, met and missed
        (same, draw_with(rng, (5,), -1, 1)),
        (equal, draw_with(rng, (5, 2), -1, 1)),
        (far, far + draw_with(rng, (8,), -1, 1)),
    ]:
        for name, f in functions:
            case(name, prediction, target, {"value": f(target.numpy(), prediction.numpy())})
    # A NaN, which scikit-learn refuses, is seen in the value, whatever stands beside it.
    holed = same.clone()
    holed[3] = torch.nan
    for target in (draw_with(rng, (5,), -1, 1), same):
        for prediction, target in [(holed, target), (target, holed)]:
            for name, f in functions:
                refusal(f, target.numpy(), prediction.numpy())
                case(name, prediction, target, {"value": float("nan")}, tags=["nan"])


for family in (accuracies, top_k, confusions, areas, regressions):
    family()
write_lines("metrics", lines)
