"""The cases of the sweep in PyTorch: nanoseconds per element, one line of JSON for each case.

python sweep.py THREADS MILLISECONDS SIZE...
"""

import json
import math
import sys
import time

import torch

threads, milliseconds, *sizes = map(int, sys.argv[1:])
torch.set_num_threads(threads)
F32, F64, I64 = torch.float32, torch.float64, torch.int64


# The values repeat after 2^24 of them.
PATTERN = (0.5 + ((torch.arange(1 << 24) * 2_654_435_761 >> 8) & 0xFFFF) / 65_536.0).to(F32)


def v(*shape, dtype=F32):
    n = math.prod(shape)
    whole = PATTERN if n <= len(PATTERN) else PATTERN.repeat(-(-n // len(PATTERN)))
    return whole[:n].to(dtype, copy=True).reshape(shape)


def side(n):
    return max(int(n**0.5), 1)


def rows(n, width):
    return max(n // width, 1), width


def images(n):
    return v(-(-n // (32 * 49)), 32, 7, 7)


def small_images(n):
    return v(-(-n // (16 * 25)), 16, 5, 5)


def heads(n):
    return v(-(-n // (8 * 16 * 32)), 8, 16, 32)


def add(a, b):
    return (a + b).numel(), lambda: a + b


def multiply(a, b):
    return (a * b).numel(), lambda: a * b


def of(a, f):
    return a.numel(), lambda: f(a)


def depthwise(*shape):
    w = v(shape[1], 1, 3, 3)
    return of(v(*shape), lambda x: torch.nn.functional.conv2d(x, w, padding=1, groups=shape[1]))


def back(x, w, of=lambda x, w: x * w):
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()

    def run():
        x.grad = w.grad = None
        of(x, w).sum().backward()

    return x.numel(), run


def turned(n):
    return v(10, 7, -(-n // 70)).permute(2, 1, 0)


def lines_of_planes(n):
    rows = -(-n // (17 * 77))
    return v(17, rows, 77, dtype=F64), v(17, 1, 77, dtype=F64), v(17, rows, 1, dtype=F64)


def planes_of_rows_of_7(n):
    rows = -(-n // 2100)
    return v(300, rows, 7), v(300, 1, 7), v(rows, 1)


def beside_turned(n):
    return v(-(-n // (6 * 256)), 6, 256), v(256, 6).t(), v(256)


def back_of_three(leaves, of):
    x, y, z = leaves
    z = z.detach().requires_grad_()

    def of_two(x, y):
        z.grad = None
        return of(x, y, z)

    return back(x, y, of_two)


def square_back(x, w):
    return back(x, w, lambda x, w: (x * w + w).square())


def product(a, b):
    return max(a.numel(), b.numel()), lambda: a @ b


def picked(n, width, at):
    count, width = rows(n, width)
    a, places = v(count, width), at(torch.arange(count), count)
    return a.numel(), lambda: a.index_select(0, places)


def picked_back(n, width, at):
    count, width = rows(n, width)
    places = at(torch.arange(count), count)
    return back(v(count, width), v(count, width), lambda x, w: x.index_select(0, places) * w)


def square_of(dtype=F32):
    return lambda n: v(side(n), side(n), dtype=dtype)


def two(n, f, *more):
    a, b = v(n), v(n)
    return n, lambda: f(a, b, *more)


def where(n):
    a, b = v(n), v(n)
    c = a < 1.0
    return n, lambda: torch.where(c, a, b)


def masked(n):
    a = v(n)
    c = a < 1.0
    return n, lambda: a.masked_fill(c, 0.0)


def chosen(n, f):
    a, b = v(n), v(n)
    c = a < 1.0
    return n, lambda: f(c, a, b)


def chosen_back(n, f):
    x = v(n)
    c = x < 1.0
    return back(x, v(n), lambda x, w: f(c, x, w))


def where_columns(n):
    a = v(*rows(n, 64))
    c = a[:, :1] < 1.0
    return a.numel(), lambda: torch.where(c, a, 0.0)


def fused(a, b):
    return a.numel(), lambda: (a - b) * (a - b) * 0.5


square = square_of()
CASES = {
    "add": {
        "two rows": lambda n: add(v(n), v(n)),
        "a number": lambda n: of(v(n), lambda a: a + 1.5),
        "bias of 1024": lambda n: add(v(*rows(n, 1024)), v(1024)),
        "bias of 33": lambda n: add(v(*rows(n, 33)), v(33)),
        "bias of 7": lambda n: add(v(*rows(n, 7)), v(7)),
        "bias of 3": lambda n: add(v(*rows(n, 3)), v(3)),
        "bias of 200 for each 25 rows": lambda n: add(v(-(-n // 5000), 25, 200), v(-(-n // 5000), 1, 200)),
        "column of rows of 1024": lambda n: add(v(*rows(n, 1024)), v(rows(n, 1024)[0], 1)),
        "column of rows of 7": lambda n: add(v(*rows(n, 7)), v(rows(n, 7)[0], 1)),
        "column of rows of 3": lambda n: add(v(*rows(n, 3)), v(rows(n, 3)[0], 1)),
        "column of rows of 77": lambda n: add(v(*rows(n, 77)), v(rows(n, 77)[0], 1)),
        "row of 16 for each of 16 planes": lambda n: add(v(-(-n // 8448), 16, 33, 16), v(16, 1, 16)),
        "channels of images": lambda n: add(images(n), v(32, 1, 1)),
        "square beside its transpose": lambda n: add(square(n), square(n).t()),
        "beside axes turned around": lambda n: add(v(-(-n // 2000), 40, 50), v(50, 40, -(-n // 2000)).permute(2, 1, 0)),
        "two transposed squares": lambda n: add(square(n).t(), square(n).t()),
        "heads before steps": lambda n: add(heads(n).transpose(1, 2), heads(n).reshape(-1, 16, 8, 32)),
        "turned around, beside what repeats": lambda n: add(turned(n), v(-(-n // 70), 1, 10)),
        "long rows turned in two ways": lambda n: add(
            v(10, 1000, -(-n // 10000)).permute(0, 2, 1), v(1000, -(-n // 10000), 10).permute(2, 1, 0)
        ),
        "axes turned, beside numbers": lambda n: add(
            v(4, 100, -(-n // 400)).permute(2, 0, 1), v(-(-n // 400), 4, 1)
        ),
        "every second": lambda n: add(v(2 * n)[::2], v(n)),
        "a band of columns": lambda n: add(v(rows(n, 48)[0], 64)[:, 5:53], v(*rows(n, 48))),
        "a band of 3 columns": lambda n: add(v(rows(n, 3)[0], 8)[:, 2:5], v(*rows(n, 3))),
        "outer": lambda n: add(v(side(n), 1), v(1, side(n))),
        "outer of 3": lambda n: add(v(max(n // 3, 1), 1), v(1, 3)),
        "outer of three axes": lambda n: add(v(8, 1, side(n // 8)), v(side(n // 8), 1)),
    },
    "add f64": {
        "two rows": lambda n: add(v(n, dtype=F64), v(n, dtype=F64)),
        "bias of 7": lambda n: add(v(*rows(n, 7), dtype=F64), v(7, dtype=F64)),
        "bias of 3": lambda n: add(v(*rows(n, 3), dtype=F64), v(3, dtype=F64)),
        "column of rows of 7": lambda n: add(v(*rows(n, 7), dtype=F64), v(rows(n, 7)[0], 1, dtype=F64)),
        "column of rows of 50": lambda n: add(v(*rows(n, 50), dtype=F64), v(rows(n, 50)[0], 1, dtype=F64)),
        "outer": lambda n: add(v(side(n), 1, dtype=F64), v(1, side(n), dtype=F64)),
        "square beside its transpose": lambda n: add(square_of(F64)(n), square_of(F64)(n).t()),
        "every second": lambda n: add(v(2 * n, dtype=F64)[::2], v(n, dtype=F64)),
        "f32 beside f64": lambda n: add(v(n), v(n, dtype=F64)),
    },
    "add i64": {
        "two rows": lambda n: add(v(n, dtype=I64), v(n, dtype=I64)),
        "bias of 7": lambda n: add(v(*rows(n, 7), dtype=I64), v(7, dtype=I64)),
        "f64 beside i64": lambda n: add(v(n, dtype=I64), v(n, dtype=F64)),
    },
    "outer product": {
        "two rows": lambda n: multiply(v(n), v(n)),
        "of two vectors": lambda n: multiply(v(side(n), 1), v(1, side(n))),
        "of a column and a row of 1024": lambda n: multiply(v(rows(n, 1024)[0], 1), v(1, 1024)),
        "of a column and a row of 7": lambda n: multiply(v(rows(n, 7)[0], 1), v(1, 7)),
        "of a column and a row of 3": lambda n: multiply(v(rows(n, 3)[0], 1), v(1, 3)),
        "f64": lambda n: multiply(v(side(n), 1, dtype=F64), v(1, side(n), dtype=F64)),
    },
    "exp": {
        "a row": lambda n: of(v(n), torch.exp),
        "rows of 3": lambda n: of(v(*rows(n, 3)), torch.exp),
        "transposed": lambda n: of(square(n).t(), torch.exp),
        "a band of 3 columns": lambda n: of(v(rows(n, 3)[0], 8)[:, 2:5], torch.exp),
        "every second": lambda n: of(v(2 * n)[::2], torch.exp),
    },
    "copy": {
        "a row times one": lambda n: of(v(n), lambda a: a * 1.0),
        "transposed": lambda n: of(square(n).t(), torch.Tensor.contiguous),
        "transposed of 3 columns": lambda n: of(v(*rows(n, 3)).t(), torch.Tensor.contiguous),
        "heads before steps": lambda n: of(heads(n).transpose(1, 2), torch.Tensor.contiguous),
        "channels last": lambda n: of(images(n).permute(0, 2, 3, 1), torch.Tensor.contiguous),
        "every second": lambda n: of(v(2 * n)[::2], torch.Tensor.contiguous),
        "joined": lambda n: (n, (lambda a, b: lambda: torch.cat([a, b]))(v(max(n // 2, 1)), v(max(n // 2, 1)))),
        "joined by columns of 3": lambda n: (
            n,
            (lambda a, b: lambda: torch.cat([a, b], 1))(v(max(n // 6, 1), 3), v(max(n // 6, 1), 3)),
        ),
        "padded": lambda n: of(v(*rows(n, 64)), lambda a: torch.nn.functional.pad(a, (1, 1))),
        "to f64": lambda n: of(v(n), torch.Tensor.double),
        "rolled": lambda n: of(v(*rows(n, 64)), lambda a: a.roll(1, 1)),
        "lower triangle": lambda n: of(square(n), torch.tril),
    },
    "rows picked": {
        "in order, of 64": lambda n: picked(n, 64, lambda i, m: i),
        "by chance, of 64": lambda n: picked(n, 64, lambda i, m: i * 2_654_435_761 % m),
        "in order, of 7": lambda n: picked(n, 7, lambda i, m: i),
        "in order, of 1": lambda n: picked(n, 1, lambda i, m: i),
    },
    "rows picked and back": {
        "in order, of 64": lambda n: picked_back(n, 64, lambda i, m: i),
        "by chance, of 64": lambda n: picked_back(n, 64, lambda i, m: i * 2_654_435_761 % m),
        "in order, of 7": lambda n: picked_back(n, 7, lambda i, m: i),
        "by chance, of 7": lambda n: picked_back(n, 7, lambda i, m: i * 2_654_435_761 % m),
        "one row again and again, of 64": lambda n: picked_back(n, 64, lambda i, m: i * 0),
    },
    "sum": {
        "all": lambda n: of(v(n), lambda a: a.sum(0)),
        "all of 3 rows": lambda n: of(v(3, max(n // 3, 1)), lambda a: a.sum((0, 1))),
        "rows of 1024": lambda n: of(v(*rows(n, 1024)), lambda a: a.sum(1)),
        "columns of 1024": lambda n: of(v(*rows(n, 1024)), lambda a: a.sum(0)),
        "rows of 33": lambda n: of(v(*rows(n, 33)), lambda a: a.sum(1)),
        "rows of 7": lambda n: of(v(*rows(n, 7)), lambda a: a.sum(1)),
        "rows of 3": lambda n: of(v(*rows(n, 3)), lambda a: a.sum(1)),
        "columns of 33": lambda n: of(v(*rows(n, 33)), lambda a: a.sum(0)),
        "columns of 7": lambda n: of(v(*rows(n, 7)), lambda a: a.sum(0)),
        "columns of 3": lambda n: of(v(*rows(n, 3)), lambda a: a.sum(0)),
        "the middle axis": lambda n: of(v(-(-n // 4096), 64, 64), lambda a: a.sum(1)),
        "the middle of rows of 3": lambda n: of(v(-(-n // 192), 64, 3), lambda a: a.sum(1)),
        "to the middle axis of 9 by 9": lambda n: of(v(-(-n // 81), 9, 9), lambda a: a.sum((0, 2))),
        "channels of images": lambda n: of(images(n), lambda a: a.sum((0, 2, 3))),
        "channels of small images": lambda n: of(small_images(n), lambda a: a.sum((0, 2, 3))),
        "rows of a transposed square": lambda n: of(square(n).t(), lambda a: a.sum(1)),
        "all of a transposed square": lambda n: of(square(n).t(), lambda a: a.sum((0, 1))),
        "a band of columns": lambda n: of(v(rows(n, 48)[0], 64)[:, 5:53], lambda a: a.sum(0)),
        "the middle axis, axes turned": lambda n: of(v(8, 64, -(-n // 512)).permute(2, 1, 0), lambda a: a.sum(1)),
    },
    "sum f64": {
        "all": lambda n: of(v(n, dtype=F64), lambda a: a.sum(0)),
        "rows of 1024": lambda n: of(v(*rows(n, 1024), dtype=F64), lambda a: a.sum(1)),
        "rows of 7": lambda n: of(v(*rows(n, 7), dtype=F64), lambda a: a.sum(1)),
        "rows of 3": lambda n: of(v(*rows(n, 3), dtype=F64), lambda a: a.sum(1)),
        "columns of 7": lambda n: of(v(*rows(n, 7), dtype=F64), lambda a: a.sum(0)),
        "columns of 5 rows": lambda n: of(v(5, -(-n // 5), dtype=F64), lambda a: a.sum(0)),
        "columns of 300": lambda n: of(v(*rows(n, 300), dtype=F64), lambda a: a.sum(0)),
        "the middle axis": lambda n: of(v(-(-n // 4096), 64, 64, dtype=F64), lambda a: a.sum(1)),
        "rows of a transposed square": lambda n: of(square_of(F64)(n).t(), lambda a: a.sum(1)),
    },
    "max": {
        "all": lambda n: of(v(n), torch.amax),
        "rows of 1024": lambda n: of(v(*rows(n, 1024)), lambda a: a.amax(1)),
        "columns of 1024": lambda n: of(v(*rows(n, 1024)), lambda a: a.amax(0)),
        "rows of 7": lambda n: of(v(*rows(n, 7)), lambda a: a.amax(1)),
        "columns of 7": lambda n: of(v(*rows(n, 7)), lambda a: a.amax(0)),
    },
    "choice": {
        "a number or another": lambda n: of(v(n), lambda a: a * 2.0),
        "clamp": lambda n: of(v(n), lambda a: a.clamp(0.7, 1.2)),
        "compare": lambda n: two(n, torch.lt),
        "where": where,
        "where by columns": where_columns,
        "masked fill": masked,
        "relu": lambda n: of(v(n), torch.relu),
        "maximum": lambda n: two(n, torch.maximum),
    },
    "chain": {
        "of products": lambda n: two(n, lambda a, b: (a * 2.0) * b + 1.0),
        "clamp in it": lambda n: of(v(n), lambda a: (a * 2.0).clamp(1.4, 2.4) + 1.0),
        "where in it": lambda n: chosen(n, lambda c, a, b: torch.where(c, a * 2.0, b) + 1.0),
    },
    "chain and back": {
        "of products": lambda n: back(v(n), v(n), lambda x, w: (x * 2.0) * w + 1.0),
        "clamp in it": lambda n: back(v(n), v(n), lambda x, w: (x * w).clamp(0.7, 1.2) + 1.0),
        "where in it": lambda n: chosen_back(n, lambda c, x, w: torch.where(c, x * 2.0, w) + 1.0),
        "where and clamp in it": lambda n: chosen_back(n, lambda c, x, w: torch.where(c, x.clamp(0.7, 1.2), w)),
    },
    "fused": {
        "operators": lambda n: fused(v(n), v(n)),
        "two rows": lambda n: fused(v(n), v(n)),
        "bias of 7": lambda n: fused(v(*rows(n, 7)), v(7)),
        "column of rows of 3": lambda n: fused(v(*rows(n, 3)), v(rows(n, 3)[0], 1)),
        "square beside its transpose": lambda n: fused(square(n), square(n).t()),
        "every second": lambda n: fused(v(2 * n)[::2], v(n)),
    },
    "fused and back": {
        "operators": lambda n: square_back(v(*rows(n, 1024)), v(1024)),
        "row of 1024": lambda n: square_back(v(*rows(n, 1024)), v(1024)),
        "column of rows of 1024": lambda n: square_back(v(*rows(n, 1024)), v(rows(n, 1024)[0], 1)),
        "row of 33": lambda n: square_back(v(*rows(n, 33)), v(33)),
        "row of 7": lambda n: square_back(v(*rows(n, 7)), v(7)),
        "a number": lambda n: square_back(v(n), v(1)),
        "channels of images": lambda n: square_back(images(n), v(32, 1, 1)),
    },
    "beside its transpose": dict.fromkeys(("operators", "fused"), lambda n: fused(square(n), square(n).t())),
    "beside its transpose, f64": dict.fromkeys(("operators", "fused"), lambda n: fused(square_of(F64)(n), square_of(F64)(n).t())),
    "beside its transpose and back": dict.fromkeys(("operators", "fused"), lambda n: square_back(square(n), square(n).t())),
    "behind a transpose and back": dict.fromkeys(("operators", "fused"), lambda n: square_back(square(n).t(), square(n))),
    "behind turned axes and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(
            v(100, -(-n // 1500), 5, 3).permute(1, 0, 3, 2), v(-(-n // 1500), 100, 1, 1), lambda x, w: x.relu() * w
        ),
    ),
    "every second": dict.fromkeys(("operators", "fused"), lambda n: fused(v(2 * n)[::2], v(n))),
    "every second and back": dict.fromkeys(("operators", "fused"), lambda n: square_back(v(2 * n)[::2], v(n))),
    "rows of 7 and back": dict.fromkeys(("operators", "fused"), lambda n: square_back(v(*rows(n, 7)), v(7))),
    "two rows and back": dict.fromkeys(("operators", "fused"), lambda n: square_back(v(n), v(n))),
    "factor along the middle axis and back": dict.fromkeys(
        ("operators", "fused"), lambda n: back(v(-(-n // (32 * 1024)), 32, 1024), v(32, 1), lambda x, w: x * w)
    ),
    "sine and back": {
        "operators": lambda n: back(v(n), v(n), lambda x, w: x.sin()),
        "fused": lambda n: back(v(n), v(n), lambda x, w: x.sin()),
    },
    "tanh of a factor and back": {
        "operators": lambda n: back(v(n), v(n), lambda x, w: x.tanh() * w),
        "fused": lambda n: back(v(n), v(n), lambda x, w: x.tanh() * w),
    },
    "a function of another and back": {
        "operators": lambda n: back(v(n), v(n), lambda x, w: (x.tanh() * w).exp()),
        "fused": lambda n: back(v(n), v(n), lambda x, w: (x.tanh() * w).exp()),
    },
    "a function of a column and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(v(*rows(n, 1024)), v(rows(n, 1024)[0], 1), lambda x, w: x * w.exp()),
    ),
    "columns of rows of 100 and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(v(*rows(n, 100)), v(rows(n, 100)[0], 1), lambda x, w: (x - w) * w),
    ),
    "a quotient by a row and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(v(*rows(n, 1024)), v(1024), lambda x, w: x / (w.abs() + 1.0)),
    ),
    "three operations that are not summed and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(v(n), v(n), lambda x, w: (x * w + x).tanh()),
    ),
    "turned around beside a middle axis and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(turned(n), v(7, 1), lambda x, w: (x * w + x).sum(0)),
    ),
    "turned beside a middle axis and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(
            v(2, -(-n // 160), 16, 5).permute(3, 1, 2, 0), v(5, -(-n // 160), 1, 2), lambda x, w: x.relu() * w
        ),
    ),
    "rows and columns of planes in f64 and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back_of_three(lines_of_planes(n), lambda x, w, c: (x * w + c).tanh()),
    ),
    "short rows of planes onto each other and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(v(9, -(-n // 900), 100), v(9, 1, 100), lambda x, w: (x * x + w).sum(0)),
    ),
    "rows of 2 of planes onto each other and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(v(128, -(-n // 1792), 7, 2), v(128, 1, 7, 2), lambda x, w: (x.relu() * w).sum((0, 1, 2))),
    ),
    "to the middle axis of 9 by 9 and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(v(-(-n // 81), 9, 9), v(9, 1), lambda x, w: (x * w).square().sum((0, 2))),
    ),
    "planes of rows of 7 to their middle axis and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back_of_three(planes_of_rows_of_7(n), lambda x, w, c: (x * w + c).sum((0, 2))),
    ),
    "beside a transposed plane and a row, and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back_of_three(beside_turned(n), lambda x, w, b: x * w + b),
    ),
    "a value in f64 and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(v(n, dtype=F64), v(n, dtype=F64), lambda x, w: (x * w).tanh()),
    ),
    "small planes and back": dict.fromkeys(
        ("operators", "fused"),
        lambda n: back(v(max(n // 100, 1), 10, 10), v(max(n // 100, 1), 1, 10), lambda x, w: (x * w).square()),
    ),
    "two functions and back f64": {
        "operators": lambda n: back(v(n, dtype=F64), v(n, dtype=F64), lambda x, w: x.sigmoid() * w.sin()),
        "fused": lambda n: back(v(n, dtype=F64), v(n, dtype=F64), lambda x, w: x.sigmoid() * w.sin()),
    },
    "gelu and back": {
        "operators": lambda n: back(v(n), v(n), lambda x, w: torch.nn.functional.gelu(x)),
        "fused": lambda n: back(v(n), v(n), lambda x, w: torch.nn.functional.gelu(x)),
    },
    "product of a matrix": {
        "with a vector": lambda n: product(square(n), v(side(n))),
        "a vector with it": lambda n: product(v(side(n)), square(n)),
        "transposed, with a vector": lambda n: product(square(n).t(), v(side(n))),
        "wide, with a vector": lambda n: product(v(16, max(n // 16, 1)), v(max(n // 16, 1))),
        "tall, with a vector": lambda n: product(v(max(n // 16, 1), 16), v(16)),
        "a row with it": lambda n: product(v(1, side(n)), square(n)),
        "with a column": lambda n: product(square(n), v(side(n), 1)),
        "two rows with it": lambda n: product(v(2, side(n)), square(n)),
        "with three columns": lambda n: product(square(n), v(side(n), 3)),
        "deep: 4 rows with 4 columns": lambda n: product(v(4, max(n // 4, 1)), v(max(n // 4, 1), 4)),
        "a batch of small ones with vectors": lambda n: product(v(max(n // 64, 1), 8, 8), v(max(n // 64, 1), 8, 1)),
    },
    "product of a matrix f64": {
        "with a vector": lambda n: product(square_of(F64)(n), v(side(n), dtype=F64)),
        "a vector with it": lambda n: product(v(side(n), dtype=F64), square_of(F64)(n)),
        "transposed, with a vector": lambda n: product(square_of(F64)(n).t(), v(side(n), dtype=F64)),
        "deep: 4 rows with 4 columns": lambda n: product(
            v(4, max(n // 4, 1), dtype=F64), v(max(n // 4, 1), 4, dtype=F64)
        ),
    },
    "deep thin product": {
        "16 rows with 16 columns": lambda n: product(v(16, max(n // 16, 1)), v(max(n // 16, 1), 16)),
        "8 rows with 8 columns": lambda n: product(v(8, max(n // 8, 1)), v(max(n // 8, 1), 8)),
        "4 rows with 4 columns": lambda n: product(v(4, max(n // 4, 1)), v(max(n // 4, 1), 4)),
        "4 rows with 4 rows transposed": lambda n: product(v(4, max(n // 4, 1)), v(4, max(n // 4, 1)).t()),
        "3 rows with 5 columns": lambda n: product(v(3, max(n // 3, 1)), v(max(n // 3, 1), 5)),
    },
    "odd product": {
        "rows of 256 with 16 columns": lambda n: product(v(*rows(n, 256)), v(256, 16)),
        "rows of 256 with 10 columns": lambda n: product(v(*rows(n, 256)), v(256, 10)),
        "rows of 256 with 10 rows transposed": lambda n: product(v(*rows(n, 256)), v(10, 256).t()),
        "12 rows of 256 with columns": lambda n: product(v(12, 256), v(256, max(n // 256, 1))),
        "10 rows of 256 transposed, with columns": lambda n: product(v(256, 10).t(), v(256, max(n // 256, 1))),
        "8 rows of 256 with rows transposed": lambda n: product(v(8, 256), v(*rows(n, 256)).t()),
        "8 deep rows with 12 columns": lambda n: product(v(8, max(n // 12, 1)), v(max(n // 12, 1), 12)),
        "rows of 5 with 7 columns": lambda n: product(v(*rows(n, 5)), v(5, 7)),
        "32 rows of 4 with columns": lambda n: product(v(32, 4), v(4, max(n // 32, 1))),
        "a column of 64 with a row": lambda n: product(v(64, 1), v(1, max(n // 64, 1))),
        "6 rows of 15 with rows transposed": lambda n: product(v(6, 15), v(*rows(n, 15)).t()),
    },
    "product and back": {
        "two rows": lambda n: back(v(n), v(n)),
        "row of 1024": lambda n: back(v(*rows(n, 1024)), v(1024)),
        "column of rows of 1024": lambda n: back(v(*rows(n, 1024)), v(rows(n, 1024)[0], 1)),
        "row of 7": lambda n: back(v(*rows(n, 7)), v(7)),
        "column of rows of 7": lambda n: back(v(*rows(n, 7)), v(rows(n, 7)[0], 1)),
        "row of 3": lambda n: back(v(*rows(n, 3)), v(3)),
        "column of rows of 3": lambda n: back(v(*rows(n, 3)), v(rows(n, 3)[0], 1)),
        "a number": lambda n: back(v(n), v(1)),
        "channels of images": lambda n: back(images(n), v(32, 1, 1)),
        "channels of small images": lambda n: back(small_images(n), v(16, 1, 1)),
        "square beside its transpose": lambda n: back(square(n), square(n).t()),
    },
    "product and back f64": {
        "two rows": lambda n: back(v(n, dtype=F64), v(n, dtype=F64)),
        "column of rows of 1024": lambda n: back(v(*rows(n, 1024), dtype=F64), v(rows(n, 1024)[0], 1, dtype=F64)),
        "row of 7": lambda n: back(v(*rows(n, 7), dtype=F64), v(7, dtype=F64)),
        "row of 3": lambda n: back(v(*rows(n, 3), dtype=F64), v(3, dtype=F64)),
        "square beside its transpose": lambda n: back(square_of(F64)(n), square_of(F64)(n).t()),
    },
    "softmax": {
        "rows of 1024": lambda n: of(v(*rows(n, 1024)), lambda a: a.softmax(1)),
        "rows of 33": lambda n: of(v(*rows(n, 33)), lambda a: a.softmax(1)),
        "rows of 7": lambda n: of(v(*rows(n, 7)), lambda a: a.softmax(1)),
        "columns of 64": lambda n: of(v(*rows(n, 64)), lambda a: a.softmax(0)),
        "the middle axis": lambda n: of(v(-(-n // 1024), 64, 16), lambda a: a.softmax(1)),
        "7 channels of images": lambda n: of(v(-(-n // 2800), 7, 400), lambda a: a.softmax(1)),
        "the middle of rows of 8": lambda n: of(v(-(-n // 264), 33, 8), lambda a: a.softmax(1)),
        "columns of 32, axes turned": lambda n: of(v(-(-n // 2048), 32, 64).permute(2, 0, 1), lambda a: a.softmax(1)),
        "the middle axis of 2, others turned": lambda n: of(v(-(-n // 80), 2, 10, 4).permute(0, 1, 3, 2), lambda a: a.softmax(1)),
        "the first axis turned behind": lambda n: of(v(32, -(-n // 2048), 64).permute(2, 1, 0), lambda a: a.softmax(2)),
    },
    "running sum": {
        "rows of 1024": lambda n: of(v(*rows(n, 1024)), lambda a: a.cumsum(1)),
        "rows of 33": lambda n: of(v(*rows(n, 33)), lambda a: a.cumsum(1)),
        "rows of 3": lambda n: of(v(*rows(n, 3)), lambda a: a.cumsum(1)),
        "along 3 rows": lambda n: of(v(3, -(-n // 3)), lambda a: a.cumsum(0)),
        "columns of 64": lambda n: of(v(*rows(n, 64)), lambda a: a.cumsum(0)),
        "columns of 3": lambda n: of(v(*rows(n, 3)), lambda a: a.cumsum(0)),
        "the middle axis": lambda n: of(v(-(-n // 1024), 64, 16), lambda a: a.cumsum(1)),
        "rows of a transposed square": lambda n: of(square(n).t(), lambda a: a.cumsum(1)),
    },
    "depthwise convolution": {
        "28 by 28": lambda n: depthwise(-(-n // (16 * 784)), 16, 28, 28),
        "14 by 14": lambda n: depthwise(-(-n // (16 * 196)), 16, 14, 14),
        "5 by 5": lambda n: depthwise(-(-n // (16 * 25)), 16, 5, 5),
    },
}


def per_element(make, n):
    elements, run = make(n)
    run()
    begin = time.perf_counter_ns()
    run()
    repeats = min(max(50_000 // max(time.perf_counter_ns() - begin, 1), 1), 1000)
    start, fastest = time.perf_counter_ns(), float("inf")
    # Once at least, however busy the machine is.
    while fastest == float("inf") or time.perf_counter_ns() - start < milliseconds * 1_000_000:
        begin = time.perf_counter_ns()
        for _ in range(repeats):
            run()
        fastest = min(fastest, (time.perf_counter_ns() - begin) / repeats)
    return fastest / elements


for family, cases in CASES.items():
    for name, make in cases.items():
        # Every case that goes back makes its own graph; nothing else should.
        with torch.set_grad_enabled("and back" in family):
            times = [per_element(make, n) for n in sizes]
        print(json.dumps({"family": family, "name": name, "ns": times}), flush=True)
