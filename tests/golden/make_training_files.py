"""Safetensors files, good and malformed, and what PyTorch's reader makes of each.

Run:     python tests/golden/make_training_files.py
Needs:   PyTorch 2.15.0 on the CPU, safetensors 0.8.0
Writes:  training/safetensors.jsonl beside this file, and the files that it names under training/safetensors

A good file is written by safetensors.torch or, where that writes no such file, by hand; PyTorch reads it back before it is
noted. A malformed one is a small good one with one thing changed.
"""

import json
import math
import pathlib
import shutil
import struct

import safetensors
import torch
from safetensors.torch import load_file, save_file

TORCH_VERSION, FILES_VERSION = "2.15.0", "0.8.0"
HERE = pathlib.Path(__file__).resolve().parent / "training"
FOLDER = HERE / "safetensors"
NAMES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
}
lines = []


def number(value):
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def written(t):
    return {"shape": list(t.shape), "dtype": NAMES[t.dtype], "data": [number(v) for v in t.flatten().tolist()]}


def note(name, want, tags, **more):
    path = FOLDER / f"{name}.safetensors"
    try:
        load_file(path)
        python = "load"
    except Exception:
        python = "refuse"
    line = dict(kind="safetensors", id=len(lines), file=f"safetensors/{path.name}", tags=tags, want=want)
    lines.append(json.dumps(dict(line, bytes=path.stat().st_size, **more, python=python), ensure_ascii=False))
    return python


def good(name, tensors, metadata=None, raw=None, **model):
    """A file of some tensors: the package's, or these bytes."""
    path = FOLDER / f"{name}.safetensors"
    if raw is None:
        save_file(tensors, path, metadata)
    else:
        path.write_bytes(raw)
    loaded = load_file(path)
    assert loaded.keys() == tensors.keys()
    for key, t in tensors.items():
        assert loaded[key].dtype == t.dtype and loaded[key].shape == t.shape
        assert torch.equal(loaded[key].flatten().view(torch.uint8), t.contiguous().flatten().view(torch.uint8))
    more = dict(tensors={k: written(t) for k, t in tensors.items()}, metadata=metadata, **model)
    assert note(name, "load", ["model"] if model else [], **more) == "load"


def model(name, description, net, width, metadata={"format": "pt"}):
    net.eval()
    x = torch.randn(4, width).mul(100).round().div(100)
    with torch.no_grad():
        y = net(x)
    state = {k: v.contiguous() for k, v in net.state_dict().items()}
    good(name, state, metadata, model=description, input=written(x), output=written(y))


def packed(header, data=b"", length=None):
    """A file of this header: a text, bytes, or something that is written as JSON."""
    if not isinstance(header, (str, bytes)):
        header = json.dumps(header, separators=(",", ":"))
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


TWO = struct.pack("<2f", 1.5, -2.0)
ONE = {"x": entry()}


def bad(name, raw, why, want="refuse", tags=()):
    (FOLDER / f"bad_{name}.safetensors").write_bytes(raw)
    python = note(f"bad_{name}", want, ["malformed", *tags], why=why)
    # What PyTorch's reader refuses, and nothing else, is plainly malformed.
    assert want == "either" or (python == "load") == ("stricter" in tags), (name, python)


def good_files():
    g = torch.Generator().manual_seed(0)
    r = lambda *shape, dtype=torch.float32: torch.randn(shape, generator=g, dtype=torch.float64).to(dtype)
    good("f32", {"weight": r(3, 2), "bias": r(3)})
    good("f64", {"x": r(2, 3, dtype=torch.float64)})
    special = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-45, 3.4028235e38, 1.0])
    good("f32_special", {"x": special})
    good("f64_special", {"x": torch.tensor([math.nan, math.inf, -0.0, 5e-324, 1.7976931348623157e308], dtype=torch.float64)})
    halves = torch.tensor([1.0, -2.5, 65504.0, 6e-8, 6.1035156e-5, 0.333, -0.0, math.inf, math.nan])
    good("f16", {"x": halves.half()})
    good("bf16", {"x": halves.bfloat16()})
    good("i64", {"x": torch.tensor([[0, -1], [2**62, -(2**63)]])})
    good("bool", {"x": torch.tensor([[True, False, True]])})
    for dtype in [torch.int32, torch.int16, torch.int8, torch.uint8]:
        good(NAMES[dtype], {"x": torch.tensor([0, 1, 100], dtype=dtype)})
    good("shapes", {"scalar": torch.tensor(2.5), "one": torch.ones(1, 1, 1), "none": torch.zeros(0), "rows": torch.zeros(3, 0, 2),
                    "many": torch.arange(8.0).reshape([1, 2] * 3)})
    good("mixed", {"a": r(3), "b": torch.tensor([True]), "c": torch.tensor(7), "d": r(1, dtype=torch.float64), "e": torch.zeros(0).half()})
    good("no_tensors", {})
    good("names", {"": r(1), "layers.0.weight": r(1), "größe": r(1), "模型 🙂": r(1), 'quote"\\\n\t': r(1), "_metadata_": r(1)})
    good("metadata", {"x": r(2)}, {"format": "pt", "epoch": "3", "empty": "", "quote": "\"\\\n\t/", "unicode": "größe 模型 🙂"})
    two = {"x": torch.tensor([1.5, -2.0])}
    good("padded", two, raw=packed(json.dumps(ONE) + " " * 37, TWO))
    good("spaced", two, raw=packed(json.dumps(ONE, indent=2) + "\n\n", TWO))
    good("metadata_null", two, raw=packed('{"__metadata__":null,' + json.dumps(ONE)[1:], TWO))
    swapped = {"b": torch.tensor([1.5, -2.0]), "a": torch.tensor([1.5, -2.0])}
    good("backwards", swapped, raw=packed({"a": entry(offsets=(8, 16)), "b": entry(offsets=(0, 8))}, TWO + TWO))
    escaped = json.dumps(ONE).replace('"x"', '"\\u0078"')
    good("escapes", two, raw=packed(escaped, TWO))


def models():
    torch.manual_seed(0)
    linear = lambda i, o, **k: {"layer": "Linear", "args": dict(in_features=i, out_features=o, **k)}
    plain = lambda name: {"layer": name, "args": {}}
    model("model_linear", linear(3, 2), torch.nn.Linear(3, 2), 3)
    model("model_no_bias", linear(3, 2, bias=False), torch.nn.Linear(3, 2, bias=False), 3, None)
    mlp = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    model("model_mlp", {"sequential": [linear(4, 5), plain("ReLU"), linear(5, 3), plain("Tanh"), linear(3, 2)]}, mlp, 4)


def bad_files():
    whole = packed(ONE, TWO)
    end = 8 + len(json.dumps(ONE, separators=(",", ":")))
    for name, at in [("empty", 0), ("length_cut", 5), ("length_only", 8), ("header_cut", 20), ("no_data", end), ("data_cut", end + 5)]:
        bad(name, whole[:at], f"the file ends after {at} bytes")
    bad("trailing_byte", whole + b"\0", "one byte after the data")
    bad("trailing_text", whole + b"trailing text", "text after the data")
    for name, length in [("max", 2**64 - 1), ("sign", 2**63), ("wraps", 2**64 - 8), ("huge", 10**12), ("limit", 10**8 + 1), ("more", end), ("less", 10)]:
        bad(f"length_{name}", packed(ONE, TWO, length), f"the header's length is said to be {length}")
    for name, text in [("empty", ""), ("spaces", "    "), ("list", "[]"), ("null", "null"), ("number", "1"), ("string", '"x"'),
                       ("unclosed", json.dumps(ONE)[:-1]), ("closed_twice", json.dumps(ONE) + "}"), ("comma", json.dumps(ONE)[:-1] + ",}"),
                       ("quotes", json.dumps(ONE).replace('"', "'")), ("nul", json.dumps(ONE) + "\0"), ("deep", "[" * 2000),
                       ("deep_entry", '{"x":' + "[" * 2000), ("binary", bytes(range(1, 60))), ("comment", "{/**/}")]:
        bad(f"header_{name}", packed(text, TWO), "the header is no object of entries")
    bad("header_space_first", packed(" " + json.dumps(ONE), TWO), "the header does not begin with {", tags=["stricter"])
    bad("header_bom", packed(b"\xef\xbb\xbf" + json.dumps(ONE).encode(), TWO), "a byte order mark")
    for name, byte in [("invalid", b"\xff"), ("cut", b"\xe6\xa8"), ("surrogate", b"\xed\xa0\x80"), ("overlong", b"\xc0\x80")]:
        bad(f"utf8_{name}", packed(json.dumps(ONE).encode().replace(b"x", byte), TWO), "invalid UTF-8 in a name")
    bad("escape_surrogate", packed(json.dumps(ONE).replace('"x"', '"\\ud800"'), TWO), "half a surrogate pair")
    bad("escape_unknown", packed(json.dumps(ONE).replace('"x"', '"\\x78"'), TWO), "no escape of JSON")
    big = 2**62
    entries = {
        "offset_beyond_end": entry(offsets=(8, 16)), "offset_end_beyond": entry(shape=[4], offsets=(0, 16)),
        "offset_hole_before": entry(shape=[1], offsets=(4, 8)), "offset_backwards": entry(offsets=(8, 0)),
        "offset_negative": entry(offsets=(-8, 0)), "offset_float": entry(offsets=(0.0, 8.0)), "offset_huge": entry(offsets=(0, 2**64)),
        "offset_max": entry(offsets=(2**64 - 8, 2**64 - 1)), "offset_one": entry(offsets=[0]), "offset_three": entry(offsets=[0, 8, 8]),
        "offset_text": entry(offsets=["0", "8"]), "size_small": entry(shape=[1]), "size_large": entry(shape=[3]), "size_zero": entry(shape=[0]),
        "dtype_other_size": entry(dtype="F64"), "dtype_unknown": entry(dtype="F99"), "dtype_lower": entry(dtype="f32"),
        "dtype_empty": entry(dtype=""), "dtype_number": entry(dtype=32), "dtype_null": entry(dtype=None), "dtype_object": entry(dtype={"F32": 1}),
        "shape_wraps_to_zero": entry(shape=[big, 4], offsets=(0, 0)), "shape_wraps_to_size": entry(shape=[2**63 + 1, 2]),
        "shape_bytes_wrap": entry(shape=[big]), "shape_negative": entry(shape=[-2]), "shape_negative_twice": entry(shape=[-1, -2]),
        "shape_float": entry(shape=[2.0]), "shape_text": entry(shape=["2"]), "shape_number": dict(entry(), shape=2),
        "shape_null": dict(entry(), shape=None), "shape_huge": entry(shape=[2**64 + 2]), "shape_exponent": entry(shape=[2e0]),
        "entry_number": 1, "entry_null": None, "entry_text": "F32", "entry_empty": {},
        "entry_no_dtype": {"shape": [2], "data_offsets": [0, 8]}, "entry_no_shape": {"dtype": "F32", "data_offsets": [0, 8]},
        "entry_no_offsets": {"dtype": "F32", "shape": [2]},
    }
    for name, one in entries.items():
        bad(name, packed({"x": one}, TWO), f"the entry is {json.dumps(one)}")
    bad("overlap_all", packed({"x": entry(), "y": entry()}, TWO), "two tensors share all bytes")
    bad("overlap_part", packed({"x": entry(), "y": entry(offsets=(4, 12))}, TWO + TWO[:4]), "two tensors share 4 bytes")
    bad("hole_between", packed({"x": entry(), "y": entry(offsets=(12, 20))}, TWO * 2 + TWO[:4]), "4 bytes of no tensor")
    bad("offset_empty_beyond", packed(dict(ONE, y=entry(shape=[0], offsets=(16, 16))), TWO), "an empty tensor after the end")
    text = json.dumps(entry())
    bad("duplicate_same", packed(f'{{"x":{text},"x":{text}}}', TWO), "a name twice, the same entry", tags=["stricter"])
    other = json.dumps(entry(dtype="I32"))
    bad("duplicate_other", packed(f'{{"x":{other},"x":{text}}}', TWO), "a name twice, another entry", tags=["stricter"])
    bad("duplicate_escaped", packed(f'{{"x":{text},"\\u0078":{text}}}', TWO), "a name twice, once escaped", tags=["stricter"])
    bad("duplicate_shape", packed('{"x":' + text[:-1] + ',"shape":[2]}}', TWO), "a shape twice")
    for name, value in [("number", 1), ("list", ["a"]), ("text", "a"), ("nested", {"a": {"b": "c"}}), ("of_number", {"a": 1}), ("of_null", {"a": None})]:
        bad(f"metadata_{name}", packed({"__metadata__": value, **ONE}, TWO), "metadata that are no texts by name")
    twice = f'{{"__metadata__":{{"a":"b"}},"__metadata__":{{"a":"b"}},"x":{text}}}'
    bad("metadata_twice", packed(twice, TWO), "two objects of metadata")
    bad("metadata_duplicate", packed(f'{{"__metadata__":{{"a":"b","a":"c"}},"x":{text}}}', TWO), "a text twice", tags=["stricter"])
    bad("metadata_is_tensor", packed({"__metadata__": entry()}, TWO), "metadata that are a tensor")
    bad("bool_two", packed({"x": entry(dtype="BOOL", offsets=(0, 2))}, b"\x01\x02"), "a bool byte of 2", want="either")
    bad("axes_many", packed({"x": entry(shape=[1] * 1000 + [2])}, TWO), "a thousand axes", want="either")
    bad("size_most", packed({"x": entry(shape=[0, 2**64 - 1], offsets=(0, 0))}), "no elements, along an axis of 2^64 - 1", want="either")


def main():
    assert torch.__version__.split("+")[0] == TORCH_VERSION and safetensors.__version__ == FILES_VERSION
    torch.set_num_threads(1)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    good_files()
    models()
    bad_files()
    (HERE / "safetensors.jsonl").write_text("\n".join(lines) + "\n")
    print(len(lines), "files")


main()
