"""What PyTorch's layers compute, in the format of docs/src/golden-cases.md.

Run:     python tests/golden/make_training_layers.py
Needs:   PyTorch 2.15.0 on the CPU
Writes:  training/layers.jsonl.gz beside this file

Inputs and weights are drawn by Python's own generator with a fixed seed; small shapes, so that a case fits a screen.
"""

import math
import random

import torch

from training_lines import DTYPES, draw_with, seed_with, tensor, write_lines

rng = random.Random(20)
lines = []


def draw(shape, low=-2.0, high=2.0):
    return draw_with(rng, shape, low, high)


def prepare(layer, dtype):
    layer.to(DTYPES[dtype])
    with torch.no_grad():
        for name, p in layer.named_parameters():
            p.copy_(draw(tuple(p.shape), -1.0, 1.0))
        for name, b in layer.named_buffers():
            if b.dtype.is_floating_point and name != "_random_samples":
                b.copy_(draw(tuple(b.shape), 0.3, 2.0))
            elif name.endswith("num_batches_tracked"):
                b.fill_(rng.randint(0, 3))


def build_input(spec, dtype):
    if isinstance(spec, torch.Tensor):
        return spec.clone().to(DTYPES[dtype]) if spec.dtype.is_floating_point else spec.clone()
    return draw(tuple(spec)).to(DTYPES[dtype])


def keyword(v):
    """What a case writes as a list is a tuple, and `inf` a number."""
    return tuple(v) if isinstance(v, list) else float(v) if isinstance(v, str) and v in ("inf", "-inf") else v


def case(layer, args, inputs, dtype="f64", mode="train", tags=(), warmup=0, names=("input",), grad=True, forward=None):
    """One line; `inputs` are shapes or tensors, by `names`; `forward` has what the call takes besides, or the
    `method` that is called in its place."""
    args = {k: v.to(DTYPES[dtype]) if isinstance(v, torch.Tensor) else v for k, v in args.items()}
    made = {k: tensor(v) if isinstance(v, torch.Tensor) else v for k, v in args.items()}
    line = {"kind": "layer", "id": len(lines), "layer": layer, "args": made, "dtype": dtype, "mode": mode, "tags": list(tags)}
    try:
        module = getattr(torch.nn, layer)(**{k: keyword(v) for k, v in args.items()})
    except Exception as e:
        line |= {"state": {}, "inputs": written(names, [build_input(s, dtype) for s in inputs])}
        finish_error(line, e, "new")
        return
    prepare(module, dtype)
    line["state"] = {k: tensor(v) for k, v in module.state_dict().items()}
    module.train(mode == "train")
    leaves = []
    for spec in inputs:
        x = build_input(spec, dtype)
        leaves.append(x.requires_grad_(True) if x.dtype.is_floating_point and grad else x)
    line["inputs"] = written(names, leaves)
    if warmup:
        warm = [build_input(inputs[0], dtype) for _ in range(warmup)]
        with torch.no_grad():
            for x in warm:
                module(x)
        line["warmup"] = [tensor(x) for x in warm]
    if forward:
        line["forward"] = forward
    try:
        given = dict(forward or {})
        y = getattr(module, given.pop("method", "forward"))(*leaves, **given)
    except Exception as e:
        finish_error(line, e, "forward")
        return
    ys = y if isinstance(y, tuple) else (y,)
    line["outputs"] = [tensor(y) for y in ys]
    if ys[0].requires_grad:
        # Of several results only the first is differentiated, but for a loss beside what it is made of.
        roots = [y for y in ys if y.requires_grad] if layer == "AdaptiveLogSoftmaxWithLoss" else [ys[0]]
        seeds = [seed_with(rng, y) for y in roots]
        torch.autograd.backward(roots, seeds)
        line["grad_outputs"] = [tensor(seed) for seed in seeds] + [None] * (len(ys) - len(seeds))
        line["grads"] = {
            "inputs": [tensor(x.grad) if x.grad is not None else None for x in leaves],
            "parameters": {k: tensor(p.grad) if p.grad is not None else None for k, p in module.named_parameters()},
        }
    else:
        line["grad_outputs"] = [None] * len(ys)
        line["grads"] = None
    line["state_after"] = {k: tensor(b) for k, b in module.named_buffers()}
    if "max_norm" in args:
        line["state_after"]["weight"] = tensor(module.weight)
    lines.append(line)


def finish_error(line, e, when):
    line["tags"].append("error")
    lines.append(line | {"error": str(e)[:200] or type(e).__name__, "error_type": type(e).__name__, "when": when})


def written(names, tensors):
    return [{"name": n} | tensor(t) | {"requires_grad": t.requires_grad} for n, t in zip(names, tensors)]


def linear_and_embeddings():
    for args, shape in [({}, [4, 5]), ({"bias": False}, [4, 5]), ({}, [5]), ({}, [2, 3, 5]), ({}, [0, 5]), ({}, [4, 4])]:
        case("Linear", {"in_features": 5, "out_features": 3} | args, [shape])
    case("Linear", {"in_features": 5, "out_features": 3}, [[4, 5]], dtype="f32")
    two = ("input1", "input2")
    sizes = {"in1_features": 3, "in2_features": 4, "out_features": 2}
    for args, shapes in [({}, [[5, 3], [5, 4]]), ({"bias": False}, [[5, 3], [5, 4]]), ({}, [[2, 3, 3], [2, 3, 4]]), ({}, [[3], [4]]),
                         ({}, [[5, 3], [4, 4]]), ({}, [[5, 4], [5, 4]])]:
        case("Bilinear", sizes | args, shapes, names=two)
    case("Bilinear", sizes, [[5, 3], [5, 4]], names=two, dtype="f32")
    case("Bilinear", sizes | {"in1_features": 0}, [[5, 0], [5, 4]], names=two)
    table = {"num_embeddings": 6, "embedding_dim": 3}
    for args, ids in [({}, [0, 5, 2, 2]), ({}, [[1, 2], [2, 0]]), ({"padding_idx": 2}, [2, 0, 2, 5]), ({"padding_idx": -1}, [5, 1]),
                      ({}, [6]), ({}, [-1]), ({"padding_idx": 6}, [0]), ({"padding_idx": -7}, [0]), ({}, 3), ({}, [])]:
        case("Embedding", table | args, [torch.tensor(ids, dtype=torch.int64)])
    case("Embedding", table | {"padding_idx": 0}, [torch.tensor([0, 1])], dtype="f32")
    case("Embedding", table, [[2]])
    for args in ({"max_norm": 0.8}, {"max_norm": 1.0, "norm_type": 1.0}, {"max_norm": 9.0}, {"scale_grad_by_freq": True}, {"scale_grad_by_freq": True, "padding_idx": 2},
                 {"max_norm": 0.5, "padding_idx": 0, "scale_grad_by_freq": True}):
        case("Embedding", table | args, [torch.tensor([[2, 0], [2, 5], [2, 2]])])
        case("Embedding", table | args, [torch.tensor([1, 1, 4])], dtype="f32")
    case("Embedding", table | {"max_norm": 0.5}, [torch.tensor([6])])


def convolutions():
    one = {"in_channels": 2, "out_channels": 4, "kernel_size": 3}
    settings = [{}, {"bias": False}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, {"padding": "same"}, {"padding": "valid"},
                {"stride": 2, "padding": 2, "dilation": 2, "groups": 2, "bias": False}]
    modes = [{"padding": 1, "padding_mode": m} for m in ("zeros", "reflect", "replicate", "circular")]
    modes += [{"padding": "same", "padding_mode": "reflect", "kernel_size": 4}, {"padding": "same", "dilation": 2, "padding_mode": "circular"},
              {"padding": "same", "kernel_size": 2}]
    refused = [{"groups": 3}, {"groups": 0}, {"padding": "same", "stride": 2}, {"padding": "same", "stride": 2, "padding_mode": "reflect"},
               {"padding_mode": "mirror"}, {"stride": 0}, {"kernel_size": 9}, {"dilation": 0}, {"padding": "full"}]
    for args in settings + modes + refused:
        case("Conv1d", one | args, [[2, 2, 7]])
    case("Conv1d", one | {"padding": 4, "padding_mode": "reflect"}, [[2, 2, 4]])
    for shape in ([2, 7], [2, 3, 7], [7], [1, 2, 2, 7], [0, 2, 7]):
        case("Conv1d", one, [shape])
    case("Conv1d", one, [[2, 2, 7]], dtype="f32")
    pairs = [{"kernel_size": [3, 2]}, {"kernel_size": [1, 3], "padding": [0, 1]}, {"stride": [2, 1]}, {"dilation": [1, 2], "padding": [1, 2]},
             {"padding": [2, 1], "padding_mode": "reflect"}, {"padding": "same", "kernel_size": [2, 3], "padding_mode": "replicate"}]
    for args in settings + modes + refused + pairs:
        case("Conv2d", one | args, [[2, 2, 6, 5]])
    for shape in ([2, 5, 5], [2, 3, 5, 5], [5, 5], [2, 7]):
        case("Conv2d", one, [shape])
    case("Conv2d", one | {"padding": 1}, [[1, 2, 4, 4]], dtype="f32")
    back = {"in_channels": 4, "out_channels": 2, "kernel_size": 3}
    settings = [{}, {"bias": False}, {"stride": 2}, {"padding": 1}, {"stride": 3, "output_padding": 2}, {"dilation": 2}, {"groups": 2},
                {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2, "bias": False}]
    refused = [{"groups": 3}, {"output_padding": 1}, {"stride": 2, "output_padding": 2}, {"stride": 0}, {"padding_mode": "reflect"}, {"padding_mode": "zeros"}]
    for args in settings + refused:
        case("ConvTranspose1d", back | args, [[2, 4, 3]])
        case("ConvTranspose2d", back | args, [[2, 4, 3, 2]])
    for args in [{"kernel_size": [2, 3], "stride": [1, 2]}, {"stride": [2, 3], "output_padding": [1, 2]}, {"padding": [0, 1]}]:
        case("ConvTranspose2d", back | args, [[1, 4, 3, 2]])
    for shape in ([4, 3], [2, 3, 3], [3]):
        case("ConvTranspose1d", back, [shape])
    for shape in ([4, 3, 3], [2, 3, 3, 3], [3, 3]):
        case("ConvTranspose2d", back, [shape])
    case("ConvTranspose2d", back, [[1, 4, 2, 2]], dtype="f32")


def normalisation():
    for args, shape in [({"normalized_shape": 4}, [3, 4]), ({"normalized_shape": [2, 3]}, [4, 2, 3]), ({"normalized_shape": [4], "eps": 0.1}, [2, 3, 4]),
                        ({"normalized_shape": 4, "elementwise_affine": False}, [3, 4]), ({"normalized_shape": 4, "bias": False}, [3, 4]),
                        ({"normalized_shape": 4, "elementwise_affine": False, "bias": False}, [3, 4]), ({"normalized_shape": 4}, [4]),
                        ({"normalized_shape": 4}, [3, 5]), ({"normalized_shape": [3, 4]}, [4]), ({"normalized_shape": 4}, [0, 4])]:
        case("LayerNorm", args, [shape])
        if "bias" not in args:
            case("RMSNorm", args, [shape])
    case("LayerNorm", {"normalized_shape": 5}, [[3, 5]], dtype="f32")
    case("RMSNorm", {"normalized_shape": 5}, [[3, 5]], dtype="f32")
    case("RMSNorm", {"normalized_shape": 5, "eps": None}, [[3, 5]])
    groups = {"num_groups": 2, "num_channels": 4}
    for args, shape in [({}, [3, 4]), ({}, [2, 4, 3]), ({}, [2, 4, 2, 3]), ({"eps": 0.1}, [2, 4, 3]), ({"affine": False}, [2, 4, 3]), ({"num_groups": 4}, [2, 4, 3]),
                        ({"num_groups": 1}, [2, 4, 3]), ({"num_groups": 3}, [2, 4, 3]), ({}, [2, 6, 3]), ({}, [4])]:
        case("GroupNorm", groups | args, [shape])
    case("GroupNorm", groups, [[2, 4, 3]], dtype="f32")
    case("GroupNorm", groups | {"bias": False}, [[2, 4, 3]])
    options = [{}, {"momentum": 0.5}, {"momentum": None}, {"eps": 0.1}, {"affine": False}, {"track_running_stats": False}, {"affine": True}, {"track_running_stats": True},
               {"affine": True, "track_running_stats": True, "momentum": 0.3}, {"track_running_stats": True, "momentum": None}, {"affine": True, "bias": False}]
    batch = [("BatchNorm1d", [[5, 3], [4, 3, 2]], [[3], [2, 3, 2, 2], [5, 4], [1, 3], [1, 3, 1]]),
             ("BatchNorm2d", [[3, 3, 2, 2]], [[3, 2, 2], [2, 4, 2, 2], [1, 3, 1, 1], [2, 3]]),
             ("InstanceNorm1d", [[2, 3, 4], [3, 4]], [[3], [2, 3, 1], [2, 3, 2, 2]]),
             ("InstanceNorm2d", [[2, 3, 2, 3], [3, 2, 3]], [[3, 3], [2, 3, 1, 1]])]
    for layer, shapes, refused in batch:
        for i, args in enumerate(options):
            for mode in ("train", "eval"):
                case(layer, {"num_features": 3} | args, [shapes[i % len(shapes)]], mode=mode, warmup=i % 3)
        for shape in shapes:
            for mode in ("train", "eval"):
                case(layer, {"num_features": 3}, [shape], mode=mode, dtype="f32")
                case(layer, {"num_features": 3}, [shape], mode=mode)
        for shape in refused:
            for args in ({}, {"affine": True, "track_running_stats": True}):
                case(layer, {"num_features": 3} | args, [shape])
        case(layer, {"num_features": 3, "affine": True}, [[2] + [4] + shapes[0][2:]])
        case(layer, {"num_features": 3, "affine": False}, [[2] + [4] + shapes[0][2:]])


def dropouts():
    for layer, shape in [("Dropout", [3, 4]), ("Dropout1d", [2, 3, 4]), ("Dropout1d", [3, 4]), ("Dropout2d", [2, 3, 2, 2]), ("Dropout2d", [2, 3, 4])]:
        for p, mode in [(0.0, "train"), (1.0, "train"), (0.5, "eval")]:
            case(layer, {"p": p}, [shape], mode=mode)
        case(layer, {}, [shape], mode="eval")
        for p in (-0.1, 1.5):
            case(layer, {"p": p}, [shape])
    case("Dropout1d", {}, [[2, 3, 4, 5]])


def pools():
    for n, layer in [(1, "Pool1d"), (2, "Pool2d")]:
        shape = [2, 2] + [7, 6][:n]
        for args in [{"kernel_size": 2}, {"kernel_size": 3, "stride": 1}, {"kernel_size": 3, "padding": 1}, {"kernel_size": 2, "ceil_mode": True}, {"kernel_size": 9},
                     {"kernel_size": 2, "padding": 2}, {"kernel_size": 2, "stride": 0}, {"kernel_size": 0}]:
            case("Max" + layer, args, [shape])
            case("Avg" + layer, args, [shape])
        case("Max" + layer, {"kernel_size": 2, "dilation": 2, "stride": 1}, [shape])
        case("Avg" + layer, {"kernel_size": 3, "padding": 1, "count_include_pad": False}, [shape])
        case("Max" + layer, {"kernel_size": 2}, [shape[1:]])
        case("Avg" + layer, {"kernel_size": 2}, [shape[1:]], dtype="f32")
        case("Max" + layer, {"kernel_size": 2}, [shape[2:]])
        for size in (1, 3, 9):
            case("AdaptiveAvg" + layer, {"output_size": size}, [shape])
    case("MaxPool2d", {"kernel_size": [2, 3], "stride": [1, 2], "padding": [1, 0]}, [[2, 2, 5, 6]])
    case("AvgPool2d", {"kernel_size": [2, 3], "divisor_override": 5}, [[2, 2, 5, 6]])
    case("AdaptiveAvgPool2d", {"output_size": [None, 2]}, [[2, 2, 5, 6]])
    case("AdaptiveAvgPool2d", {"output_size": [2, 3]}, [[2, 5, 6]])
    case("MaxPool2d", {"kernel_size": 2}, [torch.tensor([[[[1.0, 1.0], [1.0, 0.0]]]])], tags=["ties"])


def shapes():
    case("Identity", {}, [[2, 3]])
    for args, shape in [({}, [2, 3, 4]), ({"start_dim": 0}, [2, 3]), ({"start_dim": 1, "end_dim": 2}, [2, 3, 2, 2]), ({}, [3]), ({"start_dim": -2}, [2, 3, 4]), ({"start_dim": 4}, [2, 3])]:
        case("Flatten", args, [shape])
    for sizes, dim, shape in [([2, 3], 1, [4, 6]), ([3, -1], -1, [4, 6]), ([6], 1, [2, 6]), ([4, 2], 1, [2, 6]), ([-1, -1], 1, [2, 6]), ([4, -1], 1, [2, 6]), ([2, 3], 2, [2, 6])]:
        case("Unflatten", {"dim": dim, "unflattened_size": sizes}, [shape])
    for args, shape in [({"scale_factor": 2}, [1, 2, 3]), ({"scale_factor": 2}, [1, 2, 3, 2]), ({"size": [4, 5]}, [1, 2, 3, 2]), ({"scale_factor": 1.5}, [1, 2, 4, 3]),
                        ({"scale_factor": 2, "mode": "bilinear"}, [1, 2, 3, 2]), ({"size": [5, 4], "mode": "bilinear", "align_corners": True}, [1, 2, 3, 2]),
                        ({"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True}, [1, 2, 3, 4]), ({"scale_factor": [2, 3]}, [1, 1, 2, 2]),
                        ({"scale_factor": 2, "mode": "bilinear"}, [1, 2, 3]), ({"scale_factor": 2, "align_corners": True}, [1, 2, 3, 2]), ({"scale_factor": 2}, [3, 2])]:
        case("Upsample", args, [shape])
    case("PixelShuffle", {"upscale_factor": 2}, [[1, 8, 2, 3]])
    case("PixelShuffle", {"upscale_factor": 2}, [[1, 6, 2, 3]])
    case("PixelUnshuffle", {"downscale_factor": 2}, [[1, 2, 4, 6]])
    case("PixelUnshuffle", {"downscale_factor": 2}, [[1, 2, 3, 6]])
    for kind in ("Zero", "Constant", "Reflection", "Replication", "Circular"):
        more = {"value": 3.5} if kind == "Constant" else {}
        for padding, shape in [(1, [2, 3, 4]), ([2, 1], [2, 3, 4]), ([0, 2], [3, 4]), ([-1, 1], [2, 3, 4]), (5, [2, 3, 4])]:
            case(kind + "Pad1d", {"padding": padding} | more, [shape])
        for padding, shape in [(1, [2, 3, 4, 3]), ([2, 1, 0, 1], [2, 3, 4, 3]), ([1, 1, 1, 1], [3, 4, 3]), (6, [2, 3, 4, 3])]:
            case(kind + "Pad2d", {"padding": padding} | more, [shape])
        case(kind + "Pad1d", {"padding": 1} | more, [[2, 3, 4]], dtype="f32")


def activations():
    settings = {
        "ReLU": [{}], "ReLU6": [{}], "SELU": [{}], "SiLU": [{}], "Mish": [{}], "Hardsigmoid": [{}], "Hardswish": [{}], "Tanh": [{}], "Sigmoid": [{}],
        "LogSigmoid": [{}], "Softsign": [{}], "Tanhshrink": [{}], "GELU": [{}, {"approximate": "tanh"}, {"approximate": "none"}],
        "Softplus": [{}, {"beta": 2.0}, {"beta": 3.0, "threshold": 2.0}], "ELU": [{}, {"alpha": 0.5}], "CELU": [{}, {"alpha": 0.5}],
        "LeakyReLU": [{}, {"negative_slope": 0.3}], "Hardtanh": [{}, {"min_val": -0.3, "max_val": 1.2}, {"min_val": 1.0, "max_val": 0.0}], "Hardshrink": [{}, {"lambd": 1.1}, {"lambd": -0.5}],
        "Softshrink": [{}, {"lambd": 1.1}, {"lambd": -0.5}], "Threshold": [{"threshold": 0.4, "value": 7.0}], "GLU": [{}, {"dim": 0}],
        "Softmax": [{"dim": 0}, {"dim": -1}, {"dim": 2}], "Softmin": [{"dim": 1}], "LogSoftmax": [{"dim": 0}, {"dim": -1}],
        "RReLU": [{}, {"lower": 0.1, "upper": 0.9}, {"lower": 0.5, "upper": 0.1}], "PReLU": [{}, {"num_parameters": 4}, {"num_parameters": 3}, {"init": 0.5}],
    }
    for layer, all_args in settings.items():
        for args in all_args:
            case(layer, args, [[6, 4]], mode="eval")
            if layer != "RReLU":
                case(layer, args, [[6, 4]], dtype="f32")
        # What PyTorch's slopes of these are at NaN depends on where the element stands in the tensor.
        if layer in ("ELU", "SELU", "CELU", "Hardswish", "Hardtanh", "ReLU6"):
            continue
        case(layer, settings[layer][0], [torch.tensor([[math.nan, math.inf], [-math.inf, 1.0]], dtype=torch.float64)], mode="eval", tags=["nan"])
    case("Softmax2d", {}, [[2, 3, 2, 2]])
    case("Softmax2d", {}, [[3, 2, 2]])
    case("Softmax2d", {}, [[3, 2]])
    case("GLU", {}, [[3, 5]])
    kinks = torch.tensor([-0.5, 0.5, 0.0, -1.0, 1.0, 3.0, -3.0, 6.0], dtype=torch.float64)
    for layer in ("ReLU", "ReLU6", "Hardtanh", "Hardshrink", "Softshrink", "LeakyReLU", "ELU", "Hardsigmoid", "Hardswish", "PReLU"):
        case(layer, {}, [kinks], tags=["ties"])
    case("Threshold", {"threshold": 0.5, "value": 2.0}, [kinks], tags=["ties"])


def distances():
    two = ("x1", "x2")
    for args, shapes in [({}, [[3, 4], [3, 4]]), ({"dim": 0}, [[3, 4], [3, 4]]), ({"dim": -1, "eps": 0.5}, [[2, 3, 4], [2, 3, 4]]), ({}, [[3, 4], [1, 4]]), ({}, [[3, 4], [3, 5]])]:
        case("CosineSimilarity", args, shapes, names=two)
    for args, shapes in [({}, [[3, 4], [3, 4]]), ({"p": 1.0}, [[3, 4], [3, 4]]), ({"p": 3.0, "keepdim": True}, [[3, 4], [3, 4]]), ({"eps": 0.1}, [[4], [4]]), ({}, [[3, 4], [3, 5]])]:
        case("PairwiseDistance", args, shapes, names=two)


def picked():
    for n in (1, 2):
        layer, shape = f"AdaptiveMaxPool{n}d", [2, 2] + [7, 5][:n]
        for size in (1, 2, 3, 5, 9):
            case(layer, {"output_size": size}, [shape])
            case(layer, {"output_size": size, "return_indices": True}, [shape[1:]])
        case(layer, {"output_size": 2}, [shape], dtype="f32")
        case(layer, {"output_size": 0}, [shape], grad=False)
        case(layer, {"output_size": 2}, [shape[2:]])
        case(layer, {"output_size": 2}, [[1] + shape])
        case(layer, {"output_size": 2}, [shape[:2] + [0] * n])
        case(layer, {"output_size": 2}, [[0] + shape[1:]], grad=False)
        wild = torch.tensor([2.0, 2.0, math.nan, math.nan, 1.0, 1.0, math.inf], dtype=torch.float64)
        case(layer, {"output_size": 3, "return_indices": True}, [wild.reshape([1, 7] if n == 1 else [1, 1, 7])], tags=["nan", "ties"])
        for args in [{"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 2, "dilation": 2, "stride": 1}, {"kernel_size": 9}]:
            case(f"MaxPool{n}d", args | {"return_indices": True}, [shape])
    case("AdaptiveMaxPool2d", {"output_size": [None, 2]}, [[2, 2, 5, 6]])
    case("AdaptiveMaxPool2d", {"output_size": [4, 3], "return_indices": True}, [[2, 2, 5, 6]])
    two = ("input", "indices")
    ids = torch.tensor([[[1, 2, 5], [0, 3, 4]]])
    for args, forward in [({"kernel_size": 2}, {}), ({"kernel_size": 2}, {"output_size": [7]}), ({"kernel_size": 2}, {"output_size": [8]}), ({"kernel_size": 3, "stride": 2, "padding": 1}, {"output_size": [6]}),
                          ({"kernel_size": 3, "stride": 2}, {}), ({"kernel_size": 1}, {}), ({"kernel_size": 2, "padding": 4}, {})]:
        case("MaxUnpool1d", args, [[1, 2, 3], ids], names=two, forward=forward)
    case("MaxUnpool1d", {"kernel_size": 2}, [[2, 3], ids[0]], names=two)
    case("MaxUnpool1d", {"kernel_size": 2}, [[2, 3], ids[0]], names=two, dtype="f32")
    for bad in (ids + 1, ids - 1, ids[:, :, :2], ids[0], ids.double()):
        case("MaxUnpool1d", {"kernel_size": 2}, [[1, 2, 3], bad], names=two)
    grid = torch.tensor([[[[0, 3], [14, 10]]], [[[5, 2], [8, 15]]]])
    for args, forward in [({"kernel_size": 2}, {}), ({"kernel_size": 2}, {"output_size": [5, 4]}), ({"kernel_size": 2}, {"output_size": [6, 4]}),
                          ({"kernel_size": [2, 3], "stride": [2, 3]}, {}), ({"kernel_size": 4, "stride": 2, "padding": 1}, {}), ({"kernel_size": 2, "stride": 1}, {})]:
        case("MaxUnpool2d", args, [[2, 1, 2, 2], grid], names=two, forward=forward)
    case("MaxUnpool2d", {"kernel_size": 2}, [[1, 2, 2], grid[0]], names=two)
    case("MaxUnpool2d", {"kernel_size": 2}, [[2, 2], grid[0, 0]], names=two)
    for n in (1, 2):
        layer, shape = f"LPPool{n}d", [2, 2] + [7, 6][:n]
        for args in [{"norm_type": 2.0, "kernel_size": 2}, {"norm_type": 1.0, "kernel_size": 3}, {"norm_type": 2.0, "kernel_size": 3, "stride": 1}, {"norm_type": 4.0, "kernel_size": 2, "ceil_mode": True},
                     {"norm_type": "inf", "kernel_size": 2}, {"norm_type": "-inf", "kernel_size": 2}, {"norm_type": 0.0, "kernel_size": 2}, {"norm_type": 2.0, "kernel_size": 9},
                     {"norm_type": 2.0, "kernel_size": 2, "stride": 0}]:
            case(layer, args, [shape])
        case(layer, {"norm_type": 2.0, "kernel_size": 2}, [shape[1:]], dtype="f32")
        case(layer, {"norm_type": 2.0, "kernel_size": 2}, [shape[2:]])
        case(layer, {"norm_type": 2.0, "kernel_size": 2}, [torch.zeros([1] + [2] * n, dtype=torch.float64)], tags=["ties"])
        positive = draw([1] + [4] * n, 0.5, 2.0)
        for p in (2.5, -1.0):
            case(layer, {"norm_type": p, "kernel_size": 2}, [positive])
    case("LPPool2d", {"norm_type": 2.0, "kernel_size": [2, 3], "stride": [1, 2]}, [[1, 2, 4, 5]])


def patches():
    settings = [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"kernel_size": [3, 2]}, {"kernel_size": [1, 3], "padding": [0, 2], "stride": [2, 1], "dilation": [1, 2]}, {"padding": 2, "stride": 3}]
    refused = [{"kernel_size": 6}, {"kernel_size": 0}, {"stride": 0}, {"dilation": 0}]
    for args in settings + refused:
        args = {"kernel_size": 2} | args
        case("Unfold", args, [[2, 3, 5, 4]])
        try:
            columns = torch.nn.Unfold(**{k: keyword(v) for k, v in args.items()})(torch.zeros(2, 3, 5, 4)).shape
        except Exception:
            columns = [2, 12, 12]
        case("Fold", {"output_size": [5, 4]} | args, [list(columns)])
    case("Unfold", {"kernel_size": 2}, [[3, 5, 4]])
    case("Unfold", {"kernel_size": 2}, [[5, 4]])
    case("Unfold", {"kernel_size": 2}, [[0, 3, 5, 4]])
    case("Unfold", {"kernel_size": 2}, [[1, 3, 5, 4]], dtype="f32")
    for shape in ([12, 12], [12, 11], [11, 12], [1, 1, 12, 12], [12], [1, 8, 12]):
        case("Fold", {"output_size": [5, 4], "kernel_size": 2}, [shape])
    case("Fold", {"output_size": 3, "kernel_size": 2}, [[1, 8, 4]], dtype="f32")
    for groups, shape in [(2, [2, 4, 3]), (3, [1, 6, 2, 2]), (1, [1, 4, 2]), (4, [1, 4, 2]), (3, [1, 4, 2]), (0, [1, 4, 2]), (2, [4, 2]), (2, [1, 4, 2, 1, 2])]:
        case("ChannelShuffle", {"groups": groups}, [shape])


def alphas():
    for layer, shape in [("AlphaDropout", [3, 4]), ("FeatureAlphaDropout", [2, 3, 4])]:
        for p, mode in [(0.0, "train"), (1.0, "train"), (0.5, "eval")]:
            case(layer, {"p": p}, [shape], mode=mode)
        for p in (-0.1, 1.5):
            case(layer, {"p": p}, [shape])
    case("FeatureAlphaDropout", {}, [[3]])


def losses_with_parameters():
    two, sizes = ("input", "target"), {"in_features": 5, "num_classes": 4}
    ids = torch.tensor([0, 3, 1])
    loss = "LinearCrossEntropyLoss"
    for args in [{}, {"bias": True}, {"reduction": "sum"}, {"reduction": "none"}, {"weight": draw([4], 0.1), "bias": True}, {"ignore_index": 1}, {"ignore_index": -1, "reduction": "sum"},
                 {"label_smoothing": 0.2}, {"label_smoothing": 0.2, "weight": draw([4], 0.1), "ignore_index": 3}]:
        case(loss, sizes | args, [[3, 5], ids], names=two)
        case(loss, sizes | args, [[3, 5], draw([3, 4]).softmax(1)], names=two)
    case(loss, sizes | {"bias": True, "weight": draw([4], 0.1)}, [[3, 5], ids], names=two, dtype="f32")
    case(loss, sizes, [[5], torch.tensor(2)], names=two)
    case(loss, sizes, [[5], draw([4]).softmax(0)], names=two)
    for out, args in [([2], {"bias": True}), ([2, 3], {"label_smoothing": 0.1, "reduction": "none"}), ([1], {"weight": draw([4], 0.1)})]:
        case(loss, sizes | {"out_features": out} | args, [[3, 5], (draw([3] + out).abs() * 2).long()], names=two)
        case(loss, sizes | {"out_features": out} | args, [[3, 5], draw([3, 4] + out).softmax(1)], names=two)
    for args, shape, target in [({}, [3, 6], ids), ({}, [1, 3, 5], ids), ({}, [3, 5], ids + 1), ({}, [3, 5], ids[:2]), ({"out_features": [2]}, [5], ids[:2]), ({"out_features": [2]}, [3, 5], ids),
                                ({"label_smoothing": 1.5}, [3, 5], ids), ({"weight": draw([3])}, [3, 5], ids), ({"reduction": "average"}, [3, 5], ids)]:
        case(loss, sizes | args, [shape, target], names=two)


def many_classes():
    layer, two = "AdaptiveLogSoftmaxWithLoss", ("input", "target")
    sizes = {"in_features": 6, "n_classes": 9, "cutoffs": [2, 4]}
    ids = torch.tensor([0, 8, 3, 1, 5])
    for args in [{}, {"head_bias": True}, {"div_value": 2.0}, {"cutoffs": [8]}, {"cutoffs": [1, 2, 3], "head_bias": True}, {"div_value": 0.75}]:
        case(layer, sizes | args, [[5, 6], ids], names=two)
        for method in ("log_prob", "predict"):
            case(layer, sizes | args, [[3, 6]], forward={"method": method})
    case(layer, sizes | {"head_bias": True}, [[5, 6], ids], names=two, dtype="f32")
    # All in the head, all in one cluster, an input without a batch, nothing.
    for shape, target in [([3, 6], [0, 1, 1]), ([3, 6], [4, 5, 4]), ([6], 7), ([6], 0), ([1, 6], [2])]:
        case(layer, sizes, [shape, torch.tensor(target)], names=two)
    for cutoffs in ([], [0, 2], [4, 2], [2, 2], [9]):
        case(layer, sizes | {"cutoffs": cutoffs}, [[5, 6], ids], names=two)
    for shape, target in [([5, 6], ids + 1), ([5, 6], ids - 1), ([4, 6], ids), ([5, 7], ids), ([6], ids[:1]), ([5, 6], ids[0]), ([1, 5, 6], ids[None])]:
        case(layer, sizes, [shape, target], names=two)
    case(layer, sizes, [[6]], forward={"method": "log_prob"})


def fractional():
    layer, shape = "FractionalMaxPool2d", [2, 2, 7, 6]
    samples = lambda *planes: {"_random_samples": draw([*planes, 2], 0.0, 1.0)}
    for args in [{"output_size": 3}, {"output_size": [4, 5]}, {"output_size": [1, 2]}, {"output_ratio": 0.5}, {"output_ratio": [0.6, 0.9]}, {"kernel_size": [3, 1], "output_size": [5, 6]},
                 {"kernel_size": [7, 6], "output_size": 1}]:
        args = {"kernel_size": 2} | args
        case(layer, args | samples(2, 2), [shape])
        case(layer, args | samples(1, 2) | {"return_indices": True}, [shape[1:]])
    case(layer, {"kernel_size": 2, "output_size": 3} | samples(2, 2), [shape], dtype="f32")
    ends = {"_random_samples": torch.tensor([[[0.0, 0.999], [0.5, 0.001]]], dtype=torch.float64)}
    case(layer, {"kernel_size": 2, "output_size": [5, 4], "return_indices": True} | ends, [shape[1:]])
    wild = torch.tensor([2.0, 2.0, math.nan, math.nan, 1.0, 1.0, math.inf, -math.inf, 0.0], dtype=torch.float64).reshape(1, 3, 3)
    case(layer, {"kernel_size": 2, "output_size": 2, "return_indices": True} | samples(1, 1), [wild], tags=["nan", "ties"])
    case(layer, {"kernel_size": 2, "output_size": 0} | samples(2, 2), [shape], grad=False)
    case(layer, {"kernel_size": 2, "output_size": 2} | samples(2, 2), [[0] + shape[1:]], grad=False)
    for args in [{}, {"output_size": 2, "output_ratio": 0.5}, {"output_ratio": 1.0}, {"output_ratio": [0.5, 0.0]}, {"output_ratio": -0.5}, {"output_size": [6, 6]}, {"output_size": [7, 5]},
                 {"kernel_size": 7, "output_size": 1}, {"kernel_size": 0, "output_size": 1}, {"kernel_size": [2], "output_size": 1}]:
        case(layer, {"kernel_size": 2} | args, [shape])
    for own in (samples(1, 2), samples(2, 1), {"_random_samples": draw([2, 2, 3], 0.0, 1.0)}, {"_random_samples": draw([2, 2], 0.0, 1.0)}):
        case(layer, {"kernel_size": 2, "output_size": 2} | own, [shape])
    for own in ([7, 6], [2, 2, 2, 7, 6], [2, 0, 7, 6], [2, 2, 7, 0]):
        case(layer, {"kernel_size": 2, "output_size": 2}, [own])


def upsampled():
    line, cubic, exact = ({"mode": mode} for mode in ("linear", "bicubic", "nearest-exact"))
    for args, shape in [({"scale_factor": 2} | line, [1, 2, 3]), ({"size": 5, "align_corners": True} | line, [1, 2, 3]), ({"scale_factor": 1.7, "recompute_scale_factor": True} | line, [2, 1, 4]),
                        ({"scale_factor": 2} | cubic, [1, 2, 3, 2]), ({"size": [5, 4], "align_corners": True} | cubic, [1, 2, 3, 2]), ({"scale_factor": [1.5, 0.6]} | cubic, [1, 1, 4, 5]),
                        ({"size": 5} | exact, [1, 2, 3]), ({"scale_factor": 1.6} | exact, [1, 2, 3, 4]),
                        ({"scale_factor": 2} | line, [1, 2, 3, 2]), ({"scale_factor": 2} | cubic, [1, 2, 3]), ({"scale_factor": 2, "align_corners": True} | exact, [1, 2, 3])]:
        case("Upsample", args, [shape])
    case("Upsample", {"scale_factor": 2} | cubic, [[1, 1, 3, 3]], dtype="f32")


for family in (linear_and_embeddings, convolutions, normalisation, dropouts, pools, shapes, activations, distances, picked, patches, alphas, losses_with_parameters, many_classes, fractional, upsampled):
    family()
write_lines("layers", lines)
