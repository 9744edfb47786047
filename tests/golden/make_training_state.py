"""Names of what models hold, what loading by name takes and refuses, the laws of fresh weights, and what a call costs, by PyTorch.

Run:     python tests/golden/make_training_state.py
Needs:   PyTorch 2.15.0 on the CPU
Writes:  training/state_dict.jsonl.gz, training/init.jsonl.gz and training/summary.jsonl.gz beside this file, in the format of docs/src/golden-cases.md

The laws are those of PyTorch's sources, written down here; each is tested on PyTorch's own draws before it is written.
"""

import math
import re

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from training_lines import NAMES, tensor, write_lines


def layer(name, **args):
    return {"layer": name, "args": args}


class Parts(nn.Module):
    """A user's struct, a parameter or a buffer of it, or a list, as a case writes them."""

    def __init__(self, fields, ties):
        super().__init__()
        for name, part in fields.items():
            if "parameter" in part:
                self.register_parameter(name, nn.Parameter(torch.zeros(part["parameter"])))
            elif "buffer" in part:
                self.register_buffer(name, torch.zeros(part["buffer"]), persistent=part.get("persistent", True))
            else:
                setattr(self, name, build(part))
        for to, source in ties:
            field, parameter = to.split(".")
            setattr(getattr(self, field), parameter, dict(self.named_parameters())[source])


def build(model):
    if "layer" in model:
        return getattr(nn, model["layer"])(**model["args"])
    if "sequential" in model:
        return nn.Sequential(*map(build, model["sequential"]))
    if "list" in model:
        return nn.ModuleList(map(build, model["list"]))
    return Parts(model["module"], model.get("tie", []))


MLP = {"sequential": [layer("Linear", in_features=2, out_features=3), layer("ReLU"), layer("Linear", in_features=3, out_features=1)]}
NORMED = {"sequential": [layer("Linear", in_features=2, out_features=3), layer("BatchNorm1d", num_features=3)]}
TIED = {
    "module": {
        "wte": layer("Embedding", num_embeddings=5, embedding_dim=4),
        "blocks": {"list": [{"sequential": [layer("LayerNorm", normalized_shape=4), layer("Linear", in_features=4, out_features=4, bias=False)]}] * 3},
        "pos": {"parameter": [6, 4]},
        "mask": {"buffer": [6, 6], "persistent": False},
        "seen": {"buffer": [1], "persistent": True},
        "head": layer("Linear", in_features=4, out_features=5, bias=False),
    },
    "tie": [["head.weight", "wte.weight"]],
}
SMALL = {
    "module": {
        "encoder": MLP,
        "scale": {"parameter": [3]},
        "mean": {"buffer": [3], "persistent": True},
        "table": {"buffer": [2, 2], "persistent": False},
        "layers": {"list": [layer("Linear", in_features=3, out_features=3), layer("Dropout", p=0.1), layer("Tanh")]},
        "head": layer("Linear", in_features=3, out_features=2),
    }
}
SAME = {
    "module": {"first": layer("Linear", in_features=3, out_features=3), "second": layer("Linear", in_features=3, out_features=3)},
    "tie": [["second.weight", "first.weight"]],
}

MODELS = [
    layer("Linear", in_features=3, out_features=2),
    layer("Linear", in_features=3, out_features=2, bias=False),
    layer("Bilinear", in1_features=2, in2_features=3, out_features=4),
    layer("Dropout", p=0.5),
    layer("Embedding", num_embeddings=7, embedding_dim=3),
    layer("Conv1d", in_channels=2, out_channels=4, kernel_size=3),
    layer("Conv2d", in_channels=4, out_channels=6, kernel_size=[3, 2], groups=2, bias=False),
    layer("ConvTranspose2d", in_channels=4, out_channels=6, kernel_size=3, groups=2),
    layer("LayerNorm", normalized_shape=[2, 3]),
    layer("LayerNorm", normalized_shape=4, bias=False),
    layer("LayerNorm", normalized_shape=4, elementwise_affine=False),
    layer("RMSNorm", normalized_shape=4),
    layer("GroupNorm", num_groups=2, num_channels=4),
    layer("BatchNorm1d", num_features=4),
    layer("BatchNorm2d", num_features=4, track_running_stats=False),
    layer("BatchNorm2d", num_features=4, affine=False),
    layer("InstanceNorm2d", num_features=4),
    layer("InstanceNorm2d", num_features=4, affine=True, track_running_stats=True),
    layer("PReLU", num_parameters=3),
    layer("RNN", input_size=3, hidden_size=4),
    layer("LSTM", input_size=3, hidden_size=4, num_layers=2, bidirectional=True),
    layer("GRU", input_size=3, hidden_size=4, bias=False),
    layer("LSTMCell", input_size=3, hidden_size=4),
    layer("MultiheadAttention", embed_dim=4, num_heads=2),
    layer("MultiheadAttention", embed_dim=4, num_heads=2, kdim=3, vdim=5, bias=False),
    layer("TransformerEncoderLayer", d_model=4, nhead=2, dim_feedforward=6),
    layer("TransformerDecoderLayer", d_model=4, nhead=2, dim_feedforward=6),
    layer("LinearCrossEntropyLoss", in_features=3, num_classes=4, out_features=[2], bias=True),
    layer("AdaptiveLogSoftmaxWithLoss", in_features=8, n_classes=9, cutoffs=[2, 5], head_bias=True),
    {"sequential": []},
    {"sequential": [layer("ReLU"), MLP, layer("Tanh")]},
    {"list": [layer("Linear", in_features=1, out_features=1)] * 12},
    MLP,
    NORMED,
    SMALL,
    SAME,
    TIED,
]


def shapes(pairs):
    return [[name, list(t.shape)] for name, t in pairs]


def loads(model):
    """What is loaded: the entries, and whether strictly."""
    whole = shapes(build(model).state_dict().items())
    wrong = [[name, shape + [1]] for name, shape in whole]
    for strict in [True, False]:
        yield whole, strict
        yield whole[::-1], strict
        yield whole[1:], strict
        yield whole[:-1], strict
        yield whole + [["extra.weight", [2]]], strict
        yield whole[2:] + [["extra", []], ["another", [0, 3]]], strict
        yield wrong[:1] + whole[1:], strict
        yield whole[1:-1] + wrong[-1:] + [["extra", [1]]], strict
        yield [[f"module.{name}", shape] for name, shape in whole], strict
        yield [], strict


def transposed(model):
    whole = shapes(build(model).state_dict().items())
    return [[name, shape[::-1]] for name, shape in whole]


def load_result(model, entries, strict):
    """PyTorch's verdict on zeros of these shapes, and the names."""
    module = build(model)
    given = {name: torch.zeros(shape) for name, shape in entries}
    try:
        found = module.load_state_dict(given, strict=strict)
        return {"missing": found.missing_keys, "unexpected": found.unexpected_keys, "mismatched": [], "verdict": "load"}
    except RuntimeError as error:
        text = str(error)

    # What it did not say because it is not strict, it is not asked for.
    def named(title):
        part = text.split(title)[1].split("\n")[0] if title in text else ""
        return [name.strip(' "') for name in part.rstrip(". ").split(",") if name.strip(' "')]

    lists = {"missing": named("Missing key(s) in state_dict:"), "unexpected": named("Unexpected key(s) in state_dict:")}
    return {**lists, "mismatched": re.findall(r"size mismatch for (\S+):", text), "verdict": "refuse"}


def state_cases():
    for model in MODELS:
        module = build(model)
        about = {
            "kind": "state_dict",
            "model": model,
            "tags": [],
            "named_parameters": shapes(module.named_parameters()),
            "named_buffers": shapes(module.named_buffers()),
            "state_dict": [[name, list(t.shape), NAMES[t.dtype]] for name, t in module.state_dict().items()],
            "count": sum(p.numel() for p in module.parameters()),
        }
        yield about
        if model in [MLP, NORMED, SMALL, SAME, TIED]:
            for entries, strict in [*loads(model), (transposed(model), True)]:
                yield {**about, "tags": ["load"], "load": {"entries": entries, "strict": strict}, "load_result": load_result(model, entries, strict)}


def uniform(bound, low=None):
    low = -bound if low is None else low
    return {"law": "uniform", "low": low, "high": bound, "mean": (low + bound) / 2, "std": (bound - low) / math.sqrt(12)}


def normal(mean, std):
    return {"law": "normal", "low": "-inf", "high": "inf", "mean": mean, "std": std}


def truncated(mean, std, low, high):
    a, b = (low - mean) / std, (high - mean) / std
    density = lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    mass = (math.erf(b / math.sqrt(2)) - math.erf(a / math.sqrt(2))) / 2
    shift = (density(a) - density(b)) / mass
    spread = math.sqrt(1 + (a * density(a) - b * density(b)) / mass - shift * shift)
    return {"law": "truncated_normal", "low": low, "high": high, "of_mean": mean, "of_std": std, "mean": mean + std * shift, "std": std * spread}


def constant(value):
    return {"law": "constant", "low": value, "high": value, "mean": value, "std": 0.0}


def fan_uniform(fan):
    return uniform(1 / math.sqrt(fan))


def recurrent(gates, args):
    """Everything uniform by the hidden size."""
    law = fan_uniform(args["hidden_size"])
    return {name: law for name, _ in build(layer(gates, **args)).named_parameters()}


def layers():
    """Layers and the law of each parameter."""
    linear = lambda fan: {"weight": fan_uniform(fan), "bias": fan_uniform(fan)}
    yield layer("Linear", in_features=30, out_features=20), linear(30)
    yield layer("Linear", in_features=7, out_features=50, bias=False), {"weight": fan_uniform(7)}
    yield layer("Linear", in_features=1, out_features=40), linear(1)
    yield layer("Bilinear", in1_features=9, in2_features=4, out_features=30), linear(9)
    yield layer("Conv1d", in_channels=4, out_channels=20, kernel_size=5), linear(20)
    yield layer("Conv2d", in_channels=4, out_channels=20, kernel_size=[3, 2], groups=2), linear(12)
    yield layer("ConvTranspose2d", in_channels=4, out_channels=6, kernel_size=3, groups=2), linear(27)
    yield layer("Embedding", num_embeddings=50, embedding_dim=10), {"weight": normal(0.0, 1.0)}
    yield layer("Embedding", num_embeddings=50, embedding_dim=10, padding_idx=3), {"weight": {**normal(0.0, 1.0), "zero_rows": [3]}}
    yield layer("LayerNorm", normalized_shape=[3, 4]), {"weight": constant(1.0), "bias": constant(0.0)}
    yield layer("RMSNorm", normalized_shape=6), {"weight": constant(1.0)}
    yield layer("GroupNorm", num_groups=2, num_channels=6), {"weight": constant(1.0), "bias": constant(0.0)}
    yield layer("BatchNorm2d", num_features=6), {"weight": constant(1.0), "bias": constant(0.0)}
    yield layer("PReLU", num_parameters=5), {"weight": constant(0.25)}
    yield layer("PReLU", num_parameters=5, init=0.1), {"weight": constant(0.1)}
    yield layer("LinearCrossEntropyLoss", in_features=30, num_classes=4, out_features=[5], bias=True), {f"linear.{p}": law for p, law in linear(30).items()}
    clusters = {"tail.0.0.weight": fan_uniform(20), "tail.0.1.weight": fan_uniform(10), "tail.1.0.weight": fan_uniform(20), "tail.1.1.weight": fan_uniform(5)}
    adaptive = layer("AdaptiveLogSoftmaxWithLoss", in_features=20, n_classes=30, cutoffs=[5, 10], div_value=2.0, head_bias=True)
    yield adaptive, {**clusters, "head.weight": fan_uniform(20), "head.bias": fan_uniform(20)}
    for name in ["RNN", "LSTM", "GRU"]:
        args = {"input_size": 8, "hidden_size": 16, "num_layers": 2, "bidirectional": True}
        yield layer(name, **args), recurrent(name, args)
    # The projections of attention: Xavier's over all three, or each its own; Linear's for the result but for the bias.
    xavier = lambda inputs, outputs: uniform(math.sqrt(6 / (inputs + outputs)))
    attention = {"in_proj_bias": constant(0.0), "out_proj.weight": fan_uniform(16), "out_proj.bias": constant(0.0)}
    yield layer("MultiheadAttention", embed_dim=16, num_heads=2), {"in_proj_weight": xavier(16, 48), **attention}
    apart = {"q_proj_weight": xavier(16, 16), "k_proj_weight": xavier(6, 16), "v_proj_weight": xavier(9, 16)}
    yield layer("MultiheadAttention", embed_dim=16, num_heads=2, kdim=6, vdim=9), {**apart, **attention}
    norms = lambda n: {f"norm{i}.{p}": constant(v) for i in range(1, n) for p, v in [("weight", 1.0), ("bias", 0.0)]}
    feedforward = {"linear1.weight": fan_uniform(16), "linear1.bias": fan_uniform(16), "linear2.weight": fan_uniform(24), "linear2.bias": fan_uniform(24)}
    attends = lambda name: {f"{name}.{key}": law for key, law in {"in_proj_weight": xavier(16, 48), **attention}.items()}
    args = {"d_model": 16, "nhead": 2, "dim_feedforward": 24}
    yield layer("TransformerEncoderLayer", **args), {**attends("self_attn"), **feedforward, **norms(3)}
    yield layer("TransformerDecoderLayer", **args), {**attends("self_attn"), **attends("multihead_attn"), **feedforward, **norms(4)}


def functions():
    """Functions with their arguments, shapes and laws."""
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75, "conv2d": 1.0}
    leaky = lambda slope: math.sqrt(2 / (1 + slope * slope))
    for shape, fan_in, fan_out in [([40, 30], 30, 40), ([6, 4, 3, 3], 36, 54)]:
        for gain in [1.0, 2.5]:
            std = gain * math.sqrt(2 / (fan_in + fan_out))
            yield "xavier_uniform_", {"gain": gain}, shape, uniform(math.sqrt(3) * std)
            yield "xavier_normal_", {"gain": gain}, shape, normal(0.0, std)
        kinds = [({"nonlinearity": name}, gain) for name, gain in gains.items()]
        for args, gain in [({}, leaky(0)), ({"a": 0.3}, leaky(0.3)), ({"a": 0.3, "nonlinearity": "relu"}, math.sqrt(2)), *kinds]:
            for mode, fan in [("fan_in", fan_in), ("fan_out", fan_out)]:
                std = gain / math.sqrt(fan)
                yield "kaiming_uniform_", {**args, "mode": mode}, shape, uniform(math.sqrt(3) * std)
                yield "kaiming_normal_", {**args, "mode": mode}, shape, normal(0.0, std)
    yield "uniform_", {}, [50], uniform(1.0, 0.0)
    yield "uniform_", {"a": -3.0, "b": -1.0}, [4, 5], uniform(-1.0, -3.0)
    yield "normal_", {}, [50], normal(0.0, 1.0)
    yield "normal_", {"mean": 4.0, "std": 0.5}, [3, 2, 2], normal(4.0, 0.5)
    yield "trunc_normal_", {}, [60], truncated(0.0, 1.0, -2.0, 2.0)
    yield "trunc_normal_", {"std": 0.02}, [10, 6], truncated(0.0, 0.02, -2.0, 2.0)
    yield "trunc_normal_", {"mean": 1.0, "std": 0.5, "a": 0.5, "b": 2.0}, [9, 9], truncated(1.0, 0.5, 0.5, 2.0)
    yield "trunc_normal_", {"mean": 0.0, "std": 1.0, "a": 1.0, "b": 1.5}, [9, 9], truncated(0.0, 1.0, 1.0, 1.5)
    yield "constant_", {"val": 0.5}, [3, 2], constant(0.5)
    yield "ones_", {}, [4], constant(1.0)
    yield "zeros_", {}, [2, 3], constant(0.0)
    for shape in [[3, 3], [2, 5], [5, 2]]:
        yield "eye_", {}, shape, {"law": "eye"}
    for shape in [[8, 8], [4, 9], [9, 4], [5, 2, 2]]:
        yield "orthogonal_", {}, shape, {"law": "orthogonal", "gain": 1.0}
        yield "orthogonal_", {"gain": 1.7}, shape, {"law": "orthogonal", "gain": 1.7}


def refusals():
    for function in ["xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "eye_"]:
        yield function, {}, [5]
    yield "eye_", {}, [2, 2, 2]
    yield "normal_", {"std": -1.0}, [5]
    yield "uniform_", {"a": 1.0, "b": -1.0}, [5]


def expect_law(draws, law):
    """PyTorch's own draws have the law's mean, spread and bounds."""
    values = torch.cat([d.flatten() for d in draws]).double()
    if "zero_rows" in law:
        values = values[values != 0]
    if law["law"] not in ["eye", "orthogonal"]:
        n = len(values)
        assert (values.mean() - law["mean"]).abs() <= 6 * law["std"] / math.sqrt(n) + 1e-7, law
        assert (values.std() - law["std"]).abs() <= 6 * law["std"] / math.sqrt(2 * n) + 1e-7, law
        assert values.min() >= float(law["low"]) - 1e-6 and values.max() <= float(law["high"]) + 1e-6, law


def draws(make, numel):
    return [make() for _ in range(1 + 5000 // numel)]


def init_cases():
    torch.manual_seed(0)
    for model, laws in layers():
        own = dict(build(model).named_parameters())
        assert set(own) == set(laws), (model, set(own) ^ set(laws))
        for name, law in laws.items():
            expect_law(draws(lambda: dict(build(model).named_parameters())[name].detach(), own[name].numel()), law)
        parameters = {name: {"shape": list(own[name].shape), **law} for name, law in laws.items()}
        yield {"kind": "init", **model, "tags": [], "parameters": parameters}
    for function, args, shape, law in functions():
        call = lambda: getattr(nn.init, function)(torch.empty(shape), **args)
        expect_law(draws(call, math.prod(shape)), law)
        yield {"kind": "init", "function": function, "args": args, "shape": shape, "tags": [], "tensor": {"shape": shape, **law}}
    for function, args, shape in refusals():
        try:
            getattr(nn.init, function)(torch.empty(shape), **args)
            raise SystemExit(f"{function} of {shape} is not refused")
        except (RuntimeError, ValueError) as error:
            about = {"error": str(error).split("\n")[0], "error_type": type(error).__name__}
        yield {"kind": "init", "function": function, "args": args, "shape": shape, "tags": [], **about}


def summaries():
    def linear(i, o, **args):
        return layer("Linear", in_features=i, out_features=o, **args)

    def conv(kind, i, o, k, **args):
        return layer(kind, in_channels=i, out_channels=o, kernel_size=k, **args)

    for bias in [True, False]:
        for shape in [(8,), (5, 8), (2, 3, 8), (0, 8)]:
            yield linear(8, 3, bias=bias), [shape]
        for stride, padding, dilation, groups in [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), (3, 0, 1, 4)]:
            more = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, bias=bias)
            yield conv("Conv1d", 4, 8, 3, **more), [(2, 4, 9)]
            yield conv("Conv2d", 4, 8, [3, 2], **more), [(2, 4, 9, 8)]
            yield conv("ConvTranspose1d", 4, 8, 3, **more), [(2, 4, 6)]
            yield conv("ConvTranspose2d", 4, 8, 3, **more), [(2, 4, 5, 6)]
        yield layer("RNN", input_size=8, hidden_size=5, bias=bias), [(4, 3, 8)]
        yield layer("GRU", input_size=8, hidden_size=5, bias=bias, batch_first=True), [(4, 3, 8)]
        yield layer("LSTM", input_size=8, hidden_size=5, bias=bias, num_layers=2, bidirectional=True), [(4, 3, 8)]
        yield layer("MultiheadAttention", embed_dim=8, num_heads=2, bias=bias, batch_first=True), [(2, 5, 8), (2, 3, 8), (2, 3, 8)]
    yield layer("TransformerEncoderLayer", d_model=8, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True), [(2, 5, 8)]
    yield layer("TransformerDecoderLayer", d_model=8, nhead=4, dim_feedforward=12, dropout=0.0, batch_first=True), [(2, 5, 8), (2, 3, 8)]
    for free in [layer("ReLU"), layer("LayerNorm", normalized_shape=8), layer("Softmax", dim=-1), layer("Dropout"), layer("Flatten"), layer("AvgPool1d", kernel_size=2)]:
        yield free, [(2, 3, 8)]
    yield MLP, [(4, 2)]
    yield NORMED, [(4, 2)]
    convolutions = [conv("Conv2d", 1, 4, 3), layer("ReLU"), layer("MaxPool2d", kernel_size=2), conv("Conv2d", 4, 8, 3, groups=2), layer("BatchNorm2d", num_features=8), layer("Flatten"), linear(32, 10)]
    yield {"sequential": convolutions}, [(3, 1, 10, 10)]


NAMES_OF_INPUTS = {"MultiheadAttention": ["query", "key", "value"], "TransformerEncoderLayer": ["src"], "TransformerDecoderLayer": ["tgt", "memory"]}


def summary_cases():
    torch.manual_seed(0)
    for model, shapes in summaries():
        built = build(model)
        for frozen in [[], [name for name, _ in built.named_parameters()][:1]]:
            for name, parameter in built.named_parameters():
                parameter.requires_grad_(name not in frozen)
            inputs = [torch.zeros(shape) for shape in shapes]
            # Its own kernel for an LSTM is counted as nothing.
            with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
                output = built(*inputs)
            output = output[0] if isinstance(output, tuple) else output
            counts = {name: sum(by_operation.values()) for name, by_operation in counter.get_flop_counts().items()}
            parts = [[path, sum(p.numel() for p in part.parameters()), counts.get(f"Sequential.{path}", 0)] for path, part in built.named_children()]
            names = NAMES_OF_INPUTS.get(model.get("layer"), ["input"])
            yield {
                "kind": "summary",
                "tags": [],
                "model": model,
                "dtype": "f32",
                "frozen": frozen,
                "inputs": [{"name": name, **tensor(x)} for name, x in zip(names, inputs)],
                "parameters": sum(p.numel() for p in built.parameters()),
                "trainable": sum(p.numel() for p in built.parameters() if p.requires_grad),
                "flops": counter.get_total_flops(),
                "output": list(output.shape),
                "parts": parts if "sequential" in model else [],
            }
            if not list(built.parameters()):
                break


write_lines("summary", [{"id": i, **case} for i, case in enumerate(summary_cases())])
write_lines("state_dict", [{"id": i, **case} for i, case in enumerate(state_cases())])
write_lines("init", [{"id": i, **case} for i, case in enumerate(init_cases())])
