"""What PyTorch's losses compute, in the format of docs/src/golden-cases.md.

Run:     python tests/golden/make_training_losses.py
Needs:   PyTorch 2.15.0 on the CPU
Writes:  training/losses.jsonl.gz beside this file
"""

import gzip
import json
import pathlib
import random

import torch

from training_lines import DTYPES, draw_with, seed_with, tensor, write_lines

rng = random.Random(21)
lines = []

# Functions among the keywords, which a case writes by name: `{"f": "cosine"}`.
DISTANCES = {
    "pairwise": torch.nn.PairwiseDistance(),
    "cosine": lambda a, b: 1 - torch.cosine_similarity(a, b, dim=-1),
    "l1": lambda a, b: (a - b).abs().sum(-1),
    "each": lambda a, b: (a - b) ** 2,
}


def draw(*shape, low=-2.0, high=2.0):
    return draw_with(rng, shape, low, high)


def ids(*values):
    return torch.tensor(values, dtype=torch.int64)


def signs(*shape):
    return torch.sign(draw(*shape)) + (draw(*shape) * 0)


def case(loss, args, inputs, dtype="f64", tags=(), fixed=("target",)):
    """One line; `inputs` are tensors by name, of which the floating-point ones that are not `fixed` get gradients."""
    made = {k: tensor(v.to(DTYPES[dtype])) if isinstance(v, torch.Tensor) else v for k, v in args.items()}
    leaves = {}
    for name, t in inputs.items():
        x = t.clone().to(DTYPES[dtype]) if t.dtype.is_floating_point else t.clone()
        leaves[name] = x.requires_grad_(True) if x.dtype.is_floating_point and name not in fixed else x
    line = {"kind": "loss", "id": len(lines), "loss": loss, "args": made, "dtype": dtype, "tags": list(tags)}
    args = {k: DISTANCES[v["f"]] if k == "distance_function" else v for k, v in args.items()}
    line["inputs"] = [{"name": n} | tensor(t) | {"requires_grad": t.requires_grad} for n, t in leaves.items()]
    when = "new"
    try:
        module = getattr(torch.nn, loss)(**{k: v.to(DTYPES[dtype]) if isinstance(v, torch.Tensor) else v for k, v in args.items()})
        when = "forward"
        y = module(*leaves.values())
    except Exception as e:
        line["tags"].append("error")
        lines.append(line | {"error": str(e)[:200] or type(e).__name__, "error_type": type(e).__name__, "when": when})
        return
    line["outputs"] = [tensor(y)]
    seed = seed_with(rng, y)
    y.backward(seed)
    line["grad_outputs"] = [tensor(seed)]
    line["grads"] = {"inputs": [tensor(x.grad) if x.grad is not None else None for x in leaves.values()], "parameters": {}}
    lines.append(line)


def reductions(loss, args, inputs, **more):
    for reduction in ("mean", "sum", "none"):
        case(loss, args | {"reduction": reduction}, inputs, **more)
    case(loss, args, inputs, dtype="f32", **more)


def distances():
    for loss, options in [("MSELoss", [{}]), ("L1Loss", [{}]), ("SmoothL1Loss", [{}, {"beta": 0.3}, {"beta": 0.0}]), ("HuberLoss", [{}, {"delta": 0.3}])]:
        for args in options:
            reductions(loss, args, {"input": draw(3, 4), "target": draw(3, 4)})
            case(loss, args, {"input": draw(2, 3), "target": draw(2, 3)}, fixed=())
        case(loss, {}, {"input": draw(3, 4), "target": draw(3, 5)})
        case(loss, {"reduction": "average"}, {"input": draw(3), "target": draw(3)})
    case("SmoothL1Loss", {"beta": -1.0}, {"input": draw(3), "target": draw(3)})
    case("HuberLoss", {"delta": 0.0}, {"input": draw(3), "target": draw(3)})


def probabilities():
    for args in ({}, {"weight": draw(4, low=0.1)}):
        reductions("BCELoss", args, {"input": draw(3, 4, low=0.05, high=0.95), "target": draw(3, 4, low=0.0, high=1.0)})
        reductions("BCEWithLogitsLoss", args, {"input": draw(3, 4), "target": draw(3, 4, low=0.0, high=1.0)})
    reductions("BCEWithLogitsLoss", {"pos_weight": draw(4, low=0.1)}, {"input": draw(3, 4), "target": draw(3, 4, low=0.0, high=1.0)})
    case("BCELoss", {}, {"input": draw(3, low=1.1), "target": draw(3, low=0.0, high=1.0)})
    case("BCELoss", {}, {"input": draw(3, low=0.1, high=0.9), "target": draw(4, low=0.0, high=1.0)})
    case("BCEWithLogitsLoss", {}, {"input": draw(3), "target": draw(4, low=0.0, high=1.0)})
    for args in ({}, {"log_target": True}):
        target = draw(3, 4, low=0.05, high=0.9)
        target = target.log() if args else target
        reductions("KLDivLoss", args, {"input": draw(3, 4, low=0.05, high=0.9).log(), "target": target})
        case("KLDivLoss", args | {"reduction": "batchmean"}, {"input": draw(3, 4), "target": target})
    reductions("PoissonNLLLoss", {}, {"input": draw(3, 4), "target": draw(3, 4, low=0.0, high=4.0)})
    reductions("PoissonNLLLoss", {"full": True}, {"input": draw(3, 4), "target": draw(3, 4, low=0.0, high=4.0)})
    reductions("PoissonNLLLoss", {"log_input": False, "eps": 0.01}, {"input": draw(3, 4, low=0.1), "target": draw(3, 4, low=0.0, high=4.0)})
    case("PoissonNLLLoss", {}, {"input": draw(3), "target": draw(4)})
    for shape in ((3, 4), (3, 1), (3,)):
        for args in ({}, {"full": True, "eps": 0.5}):
            reductions("GaussianNLLLoss", args, {"input": draw(3, 4), "target": draw(3, 4), "var": draw(*shape, low=0.1)})
    case("GaussianNLLLoss", {}, {"input": draw(3), "target": draw(3), "var": draw(3, low=-2.0, high=-0.1)})
    case("GaussianNLLLoss", {}, {"input": draw(3, 4), "target": draw(3, 4), "var": draw(4, low=0.1)})
    case("GaussianNLLLoss", {}, {"input": draw(3, 4), "target": draw(3, 5), "var": draw(3, low=0.1)})


def classes():
    for loss in ("CrossEntropyLoss", "NLLLoss"):
        x = lambda *shape: draw(*shape) if loss == "CrossEntropyLoss" else draw(*shape).log_softmax(1 if len(shape) > 1 else 0)
        for args in ({}, {"weight": draw(4, low=0.1)}, {"ignore_index": 1}, {"weight": draw(4, low=0.1), "ignore_index": 2}):
            reductions(loss, args, {"input": x(5, 4), "target": ids(0, 3, 1, 2, 2)})
            case(loss, args, {"input": x(2, 4, 3), "target": ids(0, 1, 2, 3, 0, 1).reshape(2, 3)})
        case(loss, {}, {"input": x(4), "target": torch.tensor(2)})
        for target in (ids(0, 4), ids(0, -1), ids(0, 1, 2), ids(0)):
            case(loss, {}, {"input": x(2, 4), "target": target})
        case(loss, {"weight": draw(3, low=0.1)}, {"input": x(2, 4), "target": ids(0, 1)})
    for args in ({"label_smoothing": 0.1}, {"label_smoothing": 0.2, "weight": draw(4, low=0.1)}, {"label_smoothing": 0.2, "ignore_index": 1}):
        reductions("CrossEntropyLoss", args, {"input": draw(5, 4), "target": ids(0, 3, 1, 2, 2)})
    for args in ({}, {"label_smoothing": 0.1}, {"weight": draw(4, low=0.1)}):
        reductions("CrossEntropyLoss", args, {"input": draw(5, 4), "target": draw(5, 4).softmax(1)})
    case("CrossEntropyLoss", {"label_smoothing": 1.5}, {"input": draw(2, 4), "target": ids(0, 1)})
    for args in ({}, {"p": 2}, {"margin": 0.3}, {"weight": draw(4, low=0.1)}):
        reductions("MultiMarginLoss", args, {"input": draw(3, 4), "target": ids(0, 3, 1)})
        case("MultiMarginLoss", args, {"input": draw(4), "target": torch.tensor(2)})
    case("MultiMarginLoss", {"p": 3}, {"input": draw(3, 4), "target": ids(0, 3, 1)})
    case("MultiMarginLoss", {}, {"input": draw(3, 4), "target": ids(0, 4, 1)})
    case("MultiMarginLoss", {}, {"input": draw(3, 4), "target": ids(0, 1)})
    listed = ids(3, 0, -1, 1, 1, -1, 0, 0, -1, 2, 2, 2).reshape(3, 4)
    reductions("MultiLabelMarginLoss", {}, {"input": draw(3, 4), "target": listed})
    case("MultiLabelMarginLoss", {}, {"input": draw(4), "target": ids(1, 3, -1, 0)})
    case("MultiLabelMarginLoss", {}, {"input": draw(4), "target": ids(1, 4, -1, 0)})
    case("MultiLabelMarginLoss", {}, {"input": draw(4), "target": ids(1, 2, -1)})
    for args in ({}, {"weight": draw(4, low=0.1)}):
        reductions("MultiLabelSoftMarginLoss", args, {"input": draw(3, 4), "target": (draw(3, 4) > 0).double()})
    case("MultiLabelSoftMarginLoss", {}, {"input": draw(3, 4), "target": draw(3, 5)})


def margins():
    for args in ({}, {"margin": 0.3}):
        reductions("CosineEmbeddingLoss", args, {"input1": draw(6, 3), "input2": draw(6, 3), "target": signs(6)})
        case("CosineEmbeddingLoss", args, {"input1": draw(3), "input2": draw(3), "target": torch.tensor(-1.0)})
        reductions("MarginRankingLoss", args, {"input1": draw(6), "input2": draw(6), "target": signs(6)})
        reductions("HingeEmbeddingLoss", args, {"input": draw(6), "target": signs(6)})
    case("CosineEmbeddingLoss", {}, {"input1": draw(6, 3), "input2": draw(6, 4), "target": signs(6)})
    case("CosineEmbeddingLoss", {}, {"input1": draw(6, 3), "input2": draw(6, 3), "target": signs(5)})
    case("MarginRankingLoss", {}, {"input1": draw(6), "input2": draw(5), "target": signs(6)})
    case("HingeEmbeddingLoss", {}, {"input": draw(6), "target": signs(5)})
    three = lambda: {"anchor": draw(5, 3), "positive": draw(5, 3), "negative": draw(5, 3)}
    for args in ({}, {"margin": 2.5}, {"p": 1.0}, {"swap": True}, {"p": 3.0, "eps": 0.1, "margin": 0.7}):
        reductions("TripletMarginLoss", args, three(), fixed=())
    case("TripletMarginLoss", {}, {"anchor": draw(3), "positive": draw(3), "negative": draw(3)}, fixed=())
    case("TripletMarginLoss", {"margin": 0.0}, three(), fixed=())
    case("TripletMarginLoss", {}, {"anchor": draw(5, 3), "positive": draw(5, 3), "negative": draw(5, 4)}, fixed=())
    reductions("SoftMarginLoss", {}, {"input": draw(3, 4), "target": signs(3, 4)})
    case("SoftMarginLoss", {}, {"input": draw(3, 4), "target": signs(3, 5)})


def sequences():
    def inputs(steps, targets, input_lengths, target_lengths, classes=4, batch=None):
        n = len(input_lengths) if batch is None else batch
        shape = (steps, n, classes) if n else (steps, classes)
        log_p = draw(*shape).log_softmax(-1)
        return {"log_probs": log_p, "targets": targets, "input_lengths": torch.tensor(input_lengths), "target_lengths": torch.tensor(target_lengths)}

    padded = ids(1, 2, 2, 3, 3, 0, 2, 0, 0).reshape(3, 3)
    lengths = dict(input_lengths=[6, 5, 3], target_lengths=[3, 2, 1])
    reductions("CTCLoss", {}, inputs(6, padded, **lengths))
    reductions("CTCLoss", {"blank": 3}, inputs(6, ids(1, 2, 2, 0, 1, 0).reshape(2, 3), [6, 4], [3, 2]))
    case("CTCLoss", {}, inputs(6, ids(1, 2, 2, 3, 3, 2), **lengths))
    case("CTCLoss", {"reduction": "none"}, inputs(4, padded, [4, 4, 4], [3, 0, 1]))
    for reduction in ("mean", "sum", "none"):
        case("CTCLoss", {"reduction": reduction, "zero_infinity": True}, inputs(3, padded, [3, 2, 3], [3, 2, 1]))
        case("CTCLoss", {"reduction": reduction}, inputs(5, ids(1, 1, 2), 5, 3, batch=0))
    case("CTCLoss", {"blank": 4}, inputs(6, padded, **lengths))
    case("CTCLoss", {}, inputs(6, padded, [7, 5, 3], [3, 2, 1]))
    case("CTCLoss", {}, inputs(6, padded, [6, 5, 3], [4, 2, 1]))
    case("CTCLoss", {}, inputs(6, padded, [6, 5], [3, 2, 1], batch=3))


def triplets():
    loss = "TripletMarginWithDistanceLoss"
    three = lambda *shape: {"anchor": draw(*shape), "positive": draw(*shape), "negative": draw(*shape)}
    own = lambda name: {"distance_function": {"f": name}}
    for args in ({}, {"swap": True}, own("cosine") | {"margin": 0.5}, own("l1") | {"margin": 2.5, "swap": True}):
        reductions(loss, args, three(5, 3), fixed=())
    case(loss, own("pairwise"), three(3), fixed=())
    case(loss, own("each"), three(2, 2, 2), fixed=())
    for margin in (0.0, -1.0):
        case(loss, {"margin": margin}, three(5, 3), fixed=())
    for other in ((5, 3, 1), (4,), (5, 4)):
        case(loss, {}, three(5, 3) | {"negative": draw(*other)}, fixed=())


for family in (distances, probabilities, classes, margins, sequences, triplets):
    family()
write_lines("losses", lines)
