"""What the scripts of training cases share: tensors as they are written, numbers drawn, files."""

import gzip
import json
import math
import pathlib

import torch

assert torch.__version__.startswith("2.15.0")
torch.set_num_threads(1)
DTYPES = {"f64": torch.float64, "f32": torch.float32}
NAMES = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64", torch.bool: "bool"}


def number(v):
    if isinstance(v, float) and not math.isfinite(v):
        return "nan" if math.isnan(v) else ("inf" if v > 0 else "-inf")
    return v


def tensor(t):
    data = t.detach().reshape(-1).tolist()
    if t.dtype == torch.float32:
        # The shortest text that gives the same number.
        data = [float(str(torch.tensor(v).numpy())) if math.isfinite(v) else v for v in data]
    data = [int(v) if t.dtype == torch.bool else number(v) for v in data]
    return {"shape": list(t.shape), "dtype": NAMES[t.dtype], "data": data}


def draw_with(rng, shape, low, high):
    values = [round(rng.uniform(low, high), 3) for _ in range(math.prod(shape))]
    return torch.tensor(values, dtype=torch.float64).reshape(tuple(shape))


def seed_with(rng, y):
    values = [rng.randint(-16, 16) / 8 for _ in range(y.numel())]
    return torch.tensor(values, dtype=torch.float64).reshape(y.shape).to(y.dtype)


def write_lines(name, lines):
    out = pathlib.Path(__file__).parent / "training" / f"{name}.jsonl.gz"
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    out.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(len(lines), "cases,", out.stat().st_size, "bytes")
