"""What PyTorch's recurrent, attention and transformer layers answer: values, gradients, states, masks and refusals.

Run:     python tests/golden/make_training_recurrent.py
Needs:   PyTorch 2.15.0 on the CPU
Writes:  training/recurrent.jsonl.gz beside this file: cases of kind `layer`, see docs/src/golden-cases.md

Weights, inputs and the gradients of outputs stand in the file, so that no random number has a say. Layers with dropout are run
in use. Sequences of unequal lengths (`forward: {"lengths": [..]}`) are PyTorch's packed sequences, padded again.
"""

import gzip
import json
import pathlib
import warnings

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

TORCH_VERSION = "2.15.0"
TARGET = pathlib.Path(__file__).resolve().parent / "training" / "recurrent.jsonl.gz"
NAMES = {torch.float64: "f64", torch.float32: "f32", torch.bool: "bool", torch.int64: "i64"}
CASES = []
generator = torch.Generator().manual_seed(26)


def draw(*shape, dtype=torch.float64):
    """Numbers of three decimals."""
    x = torch.randn(shape, generator=generator, dtype=torch.float64).clamp(-2.5, 2.5)
    return ((x * 1000).round() / 1000).to(dtype)


def number(v):
    return str(v) if v != v or abs(v) == float("inf") else v


def shortest(v, dtype):
    """The shortest text of a number of its own type."""
    if dtype == torch.float32 and v == v and abs(v) != float("inf"):
        for digits in range(1, 10):
            text = float(f"{v:.{digits}g}")
            if torch.tensor(text, dtype=torch.float32).item() == v:
                return text
    return number(v)


def written(t):
    if t is None:
        return None
    t = t.detach()
    data = t.flatten().tolist()
    if t.dtype == torch.bool:
        data = [int(v) for v in data]
    elif t.is_floating_point():
        data = [shortest(v, t.dtype) for v in data]
    return {"shape": list(t.shape), "dtype": NAMES[t.dtype], "data": data}


def layer_of(model, dtype):
    """A layer of its name and keywords; keywords may be layers."""
    args = {k: layer_of(v, dtype) if isinstance(v, dict) else v for k, v in model["args"].items()}
    takes_dtype = model["layer"] not in ("TransformerEncoder", "TransformerDecoder", "SiLU")
    return getattr(nn, model["layer"])(**args, **({"dtype": dtype} if takes_dtype else {}))


def flattened(result):
    if isinstance(result, (tuple, list)):
        return [one for part in result for one in flattened(part)]
    return [result]


def call(layer, inputs, forward):
    inputs, forward = dict(inputs), dict(forward)
    if isinstance(layer, (nn.RNNBase, nn.RNNCellBase)):
        x, h, c = inputs["input"], inputs.get("h_0"), inputs.get("c_0")
        state = (h, c) if c is not None else h
        lengths = forward.get("lengths")
        if lengths is None:
            return layer(x, state)
        first = layer.batch_first
        packed = pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
        y, state = layer(packed, state)
        y, _ = pad_packed_sequence(y, batch_first=first, total_length=x.size(1 if first else 0))
        return y, state
    return layer(**inputs, **forward)


def case(model, args, inputs, forward=None, mode="train", dtype=torch.float64, tags=(), refused=None):
    """One line; `inputs` are (name, tensor) or (name, other name). `refused` is "new" or "forward"."""
    forward = forward or {}
    line = {"kind": "layer", "id": len(CASES), "layer": model, "args": args, "dtype": NAMES[dtype], "mode": mode}
    line["tags"] = list(tags) + (["error"] if refused else [])
    named, shown = {}, []
    for name, t in inputs:
        if isinstance(t, str):
            named[name] = named[t]
            shown.append({"name": name, "same": t})
            continue
        needs = t.is_floating_point() and "mask" not in name
        named[name] = t.clone().requires_grad_(needs)
        shown.append({"name": name, **written(t), "requires_grad": needs})
    made = lambda: layer_of({"layer": model, "args": args}, dtype)
    line |= {"state": {}, "inputs": shown, "forward": forward}
    CASES.append(line)
    try:
        layer = made()
    except Exception as e:
        assert refused == "new", (model, args, e)
        line |= {"error": str(e).split("\n")[0], "error_type": type(e).__name__, "when": "new"}
        return
    assert refused != "new", (model, args)
    layer.train(mode == "train")
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(draw(*p.shape, dtype=dtype) * 0.6)
    line["state"] = {k: written(v) for k, v in layer.state_dict().items()}
    try:
        outputs = flattened(call(layer, named, forward))
    except Exception as e:
        assert refused == "forward", (model, args, e)
        line |= {"error": str(e).split("\n")[0], "error_type": type(e).__name__, "when": "forward"}
        return
    assert refused is None, (model, args)
    line["outputs"] = [written(y) for y in outputs]
    seeds = [None if y is None else draw(*y.shape, dtype=dtype) for y in outputs]
    line["grad_outputs"] = [written(g) for g in seeds]
    pairs = [(y, g) for y, g in zip(outputs, seeds) if y is not None]
    torch.autograd.backward([y for y, _ in pairs], [g for _, g in pairs])
    grad = lambda name, t: None if isinstance(t, str) else written(named[name].grad)
    line["grads"] = {
        "inputs": [grad(name, t) for name, t in inputs],
        "parameters": {k: written(p.grad) for k, p in layer.named_parameters()},
    }


I, H = 2, 3


def recurrent(kind):
    """The networks and cells of one kind."""
    lstm = kind == "LSTM"
    sizes = {"input_size": I, "hidden_size": H}

    def states(count, rows, h=H, dtype=torch.float64):
        shape = (count, h) if rows is None else (count, rows, h)
        last = (count, H) if rows is None else (count, rows, H)
        parts = [("h_0", draw(*shape, dtype=dtype))] + ([("c_0", draw(*last, dtype=dtype))] if lstm else [])
        return parts

    def net(x, more=(), args=None, **keywords):
        case(kind, {**sizes, **(args or {})}, [("input", x), *more], **keywords)

    net(draw(4, 2, I))
    net(draw(4, 2, I), states(1, 2))
    net(draw(1, 2, I), states(1, 2))
    net(draw(4, I), args={"num_layers": 2})
    net(draw(4, I), states(2, None), {"bidirectional": True})
    net(draw(2, 4, I), states(1, 2), {"batch_first": True})
    net(draw(4, I), states(1, None), {"batch_first": True})
    net(draw(3, 2, I), states(4, 2), {"num_layers": 2, "bidirectional": True})
    net(draw(2, 3, I), states(6, 2), {"num_layers": 3, "bidirectional": True, "batch_first": True, "bias": False})
    net(draw(3, 2, I), states(3, 2), {"num_layers": 3, "dropout": 0.5}, mode="eval")
    net(draw(3, 2, I), args={"bias": False})
    net(draw(3, 2, I, dtype=torch.float32), states(4, 2, dtype=torch.float32),
        {"num_layers": 2, "bidirectional": True}, dtype=torch.float32)
    for lengths in ([5, 2, 3], [5, 5, 5], [1, 5, 1]):
        net(draw(5, 3, I), forward={"lengths": lengths})
    both = {"num_layers": 2, "bidirectional": True}
    net(draw(5, 3, I), states(4, 3), both, forward={"lengths": [2, 5, 4]})
    net(draw(3, 5, I), states(4, 3), {**both, "batch_first": True}, forward={"lengths": [4, 5, 1]})
    net(draw(5, 3, I), forward={"lengths": [5, 0, 2]}, refused="forward")
    for bad in ({"dropout": 1.5}, {"num_layers": 0}, {"hidden_size": 0}, {"input_size": 0}, {"dropout": -0.1}):
        net(draw(4, 2, I), args=bad, refused="new")
    for x in (draw(4, 2, 5), draw(I), draw(2, 4, 2, I), draw(4, 2, I, dtype=torch.float32), draw(0, 2, I)):
        net(x, refused="forward")
    for state in (states(2, 2), states(1, 3), states(1, None), states(1, 2, h=5)):
        net(draw(4, 2, I), state, refused="forward")
    net(draw(4, I), states(1, 2), refused="forward")

    cell = lambda x, more=(), args=None, **keywords: case(
        f"{kind}Cell", {**sizes, **(args or {})}, [("input", x), *more], **keywords
    )
    cell(draw(2, I))
    hidden = lambda *shape: [("h_0", draw(*shape))] + ([("c_0", draw(*shape))] if lstm else [])
    cell(draw(2, I), hidden(2, H))
    cell(draw(I), hidden(H))
    cell(draw(2, I), hidden(2, H), {"bias": False})
    cell(draw(2, I, dtype=torch.float32), dtype=torch.float32)
    cell(draw(2, 5), refused="forward")
    cell(draw(1, 2, I), refused="forward")
    cell(draw(2, I), hidden(3, H), refused="forward")
    if kind == "RNN":
        net(draw(4, 2, I), states(2, 2), {"nonlinearity": "relu", "num_layers": 2})
        cell(draw(2, I), hidden(2, H), {"nonlinearity": "relu"})
        net(draw(4, 2, I), args={"nonlinearity": "gelu"}, refused="new")
    if lstm:
        net(draw(4, 2, I), states(4, 2, h=2), {**both, "proj_size": 2})
        net(draw(4, I), args={"proj_size": 1, "bias": False})
        net(draw(5, 3, I), args={"proj_size": 2, "bidirectional": True}, forward={"lengths": [2, 5, 4]})
        net(draw(4, 2, I), args={"proj_size": H}, refused="new")


def mask(*shape, keep=None):
    """True in about a third of the places, nowhere along `keep`."""
    m = torch.rand(shape, generator=generator) < 0.35
    if keep is not None:
        m.select(-1, keep).fill_(False)
    return m


def causal(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


INF = float("-inf")


def attention():
    """Attention of several heads."""
    base = {"embed_dim": 4, "num_heads": 2}
    first = {**base, "batch_first": True}
    quiet = {"need_weights": False}

    def mha(inputs, more=(), args=base, **keywords):
        case("MultiheadAttention", args, [*zip(("query", "key", "value"), inputs), *more], **keywords)

    three = lambda k=4, v=4, **o: (draw(3, 2, 4, **o), draw(4, 2, k, **o), draw(4, 2, v, **o))
    itself = lambda *shape: (draw(*shape), "query", "query")
    for forward in ({}, quiet, {"average_attn_weights": False}):
        mha(three(), forward=forward)
        mha(itself(3, 2, 4), forward=forward)
        mha((draw(3, 4), draw(5, 4), draw(5, 4)), forward=forward)
        mha((draw(2, 3, 4), draw(2, 5, 4), "key"), args=first, forward=forward)
        mha(three(3, 5), args={**base, "kdim": 3, "vdim": 5}, forward=forward)
        mha(three(), args={**base, "bias": False}, forward=forward)
        mha(three(dtype=torch.float32), dtype=torch.float32, forward=forward)
        mha(three(), args={**base, "add_bias_kv": True}, forward=forward, tags=["rare"])
        mha(three(), args={**base, "add_zero_attn": True}, forward=forward, tags=["rare"])
        mha(three(), args={**base, "dropout": 0.5}, mode="eval", forward=forward)
        if "average_attn_weights" in forward:
            continue
        key, some, all_ = mask(2, 4, keep=1), mask(3, 4, keep=0), mask(4, 3, 4, keep=2)
        added = draw(3, 4)
        masks = [
            [("key_padding_mask", key)],
            [("attn_mask", some)],
            [("attn_mask", all_)],
            [("attn_mask", added)],
            [("attn_mask", draw(4, 3, 4))],
            [("key_padding_mask", key), ("attn_mask", some)],
            [("key_padding_mask", torch.zeros(2, 4, dtype=torch.float64).masked_fill(key, INF)), ("attn_mask", added)],
            [("key_padding_mask", key), ("attn_mask", added)],
            [("key_padding_mask", key), ("attn_mask", draw(4, 3, 4))],
        ]
        for more in masks:
            mha(three(), more, forward=forward)
        mha((draw(3, 4), draw(4, 4), draw(4, 4)), [("key_padding_mask", mask(4, keep=1))], forward=forward)
        mha((draw(3, 4), draw(4, 4), draw(4, 4)), [("attn_mask", mask(2, 3, 4, keep=1))], forward=forward)
        mha(itself(2, 3, 4), [("attn_mask", causal(3))], first, forward={**forward, "is_causal": True})
        mha(itself(2, 3, 4), [("attn_mask", causal(3)), ("key_padding_mask", mask(2, 3, keep=0))], first,
            forward={**forward, "is_causal": True})
        for rare in ({"add_bias_kv": True}, {"add_zero_attn": True}, {"add_bias_kv": True, "add_zero_attn": True}):
            mha(three(), masks[0], {**base, **rare}, forward=forward, tags=["rare"])
            mha(three(), masks[1], {**base, **rare}, forward=forward, tags=["rare"])
        unseen = torch.tensor([[False, False, True, False], [True] * 4, [False] * 4])
        mha(three(), [("attn_mask", unseen)], forward=forward, tags=["nan"])
    mha(three(3, 4), args={**base, "kdim": 3, "add_bias_kv": True}, tags=["rare"])
    for bad in ({"num_heads": 3}, {"num_heads": 0}, {"embed_dim": 0}):
        mha(three(), args={**base, **bad}, refused="new")
    for q, k, v in (
        (draw(3, 2, 5), draw(4, 2, 4), draw(4, 2, 4)),
        (draw(3, 2, 4), draw(4, 2, 5), draw(4, 2, 5)),
        (draw(3, 2, 4), draw(4, 2, 4), draw(5, 2, 4)),
        (draw(3, 2, 4), draw(4, 3, 4), draw(4, 3, 4)),
        (draw(3, 4), draw(4, 2, 4), draw(4, 2, 4)),
        (draw(4), draw(4), draw(4)),
        (draw(3, 2, 4), draw(4, 2, 4, dtype=torch.float32), draw(4, 2, 4)),
    ):
        mha((q, k, v), refused="forward")
    for more in (
        [("attn_mask", mask(4, 3))],
        [("attn_mask", mask(2, 3, 4))],
        [("attn_mask", mask(4))],
        [("key_padding_mask", mask(4, 2))],
        [("key_padding_mask", mask(4))],
        [("attn_mask", torch.zeros(3, 4, dtype=torch.int64))],
    ):
        mha(three(), more, refused="forward")
    mha(itself(3, 2, 4), forward={**quiet, "is_causal": True}, refused="forward")


def transformers():
    """Layers of encoders and of decoders, and stacks of them."""
    base = {"d_model": 4, "nhead": 2, "dim_feedforward": 3, "dropout": 0.0}
    variants = (
        {},
        {"norm_first": True},
        {"activation": "gelu", "batch_first": True},
        {"bias": False, "norm_first": True, "layer_norm_eps": 1e-2},
        {"activation": "gelu", "bias": False},
        {"activation": {"layer": "SiLU", "args": {}}},
    )
    deep = {"layer": "LayerNorm", "args": {"normalized_shape": 4}}

    def stack(kind, n, args, norm=None):
        layer = {"layer": f"Transformer{kind}Layer", "args": args}
        return {f"{kind.lower()}_layer": layer, "num_layers": n, **({"norm": norm} if norm else {})}

    encode = lambda args, x, more=(), **o: case("TransformerEncoderLayer", args, [("src", x), *more], **o)
    decode = lambda args, x, m, more=(), **o: case(
        "TransformerDecoderLayer", args, [("tgt", x), ("memory", m), *more], **o
    )
    for variant in variants:
        args = {**base, **variant}
        encode(args, draw(3, 2, 4))
        decode(args, *((draw(2, 3, 4), draw(2, 5, 4)) if "batch_first" in args else (draw(3, 2, 4), draw(5, 2, 4))))
    first = {**base, "batch_first": True}
    encode(base, draw(3, 4))
    encode({**base, "dropout": 0.3}, draw(3, 2, 4), mode="eval")
    encode(base, draw(3, 2, 4, dtype=torch.float32), dtype=torch.float32)
    encode(first, draw(2, 3, 4), [("src_mask", causal(3))], forward={"is_causal": True})
    encode(first, draw(2, 3, 4), [("src_mask", causal(3)), ("src_key_padding_mask", mask(2, 3, keep=0))])
    encode(first, draw(2, 3, 4), [("src_key_padding_mask", mask(2, 3, keep=1))])
    encode(base, draw(3, 2, 4), [("src_mask", draw(3, 3))])
    encode(base, draw(3, 2, 5), refused="forward")
    encode(base, draw(4), refused="forward")
    encode(base, draw(3, 2, 4), [("src_mask", mask(2, 3))], refused="forward")
    for bad in ({"nhead": 3}, {"activation": "tanh"}):
        encode({**base, **bad}, draw(3, 2, 4), refused="new")
        decode({**base, **bad}, draw(3, 2, 4), draw(5, 2, 4), refused="new")
    decode(base, draw(3, 4), draw(5, 4))
    decode({**base, "dropout": 0.3}, draw(3, 2, 4), draw(5, 2, 4), mode="eval")
    decode(base, draw(3, 2, 4, dtype=torch.float32), draw(5, 2, 4, dtype=torch.float32), dtype=torch.float32)
    decode(first, draw(2, 3, 4), draw(2, 5, 4), [("tgt_mask", causal(3))], forward={"tgt_is_causal": True})
    paddings = [("tgt_key_padding_mask", mask(2, 3, keep=0)), ("memory_key_padding_mask", mask(2, 5, keep=1))]
    decode(first, draw(2, 3, 4), draw(2, 5, 4), [("tgt_mask", causal(3)), *paddings])
    decode(base, draw(3, 2, 4), draw(5, 2, 4), [("memory_mask", mask(3, 5, keep=2))])
    decode(base, draw(3, 2, 4), draw(5, 3, 4), refused="forward")
    decode(base, draw(3, 2, 4), draw(5, 2, 3), refused="forward")
    case("TransformerEncoder", stack("Encoder", 2, base), [("src", draw(3, 2, 4))])
    case("TransformerEncoder", stack("Encoder", 2, {**first, "norm_first": True}, deep),
         [("src", draw(2, 3, 4)), ("mask", causal(3)), ("src_key_padding_mask", mask(2, 3, keep=0))])
    case("TransformerEncoder", stack("Encoder", 1, first, deep), [("src", draw(2, 3, 4)), ("mask", causal(3))],
         forward={"is_causal": True})
    case("TransformerDecoder", stack("Decoder", 2, base), [("tgt", draw(3, 2, 4)), ("memory", draw(5, 2, 4))])
    case("TransformerDecoder", stack("Decoder", 2, {**first, "norm_first": True}, deep),
         [("tgt", draw(2, 3, 4)), ("memory", draw(2, 5, 4)), ("tgt_mask", causal(3)), *paddings])


def main():
    version = torch.__version__.split("+")[0]
    if version != TORCH_VERSION:
        raise SystemExit(f"these cases are PyTorch {TORCH_VERSION}'s; here is {version}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for kind in ("RNN", "LSTM", "GRU"):
        recurrent(kind)
    attention()
    transformers()
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in CASES)
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(f"{TARGET.name}: {len(CASES)} cases, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
