"""Runs the work of the survey in PyTorch: reads a piece of work, or how often to run it; writes the fastest and the median run in nanoseconds.

python survey.py THREADS forward|both
"""

import json
import sys
import time

import torch

torch.set_num_threads(int(sys.argv[1]))


BOTH = sys.argv[2] == "both"


def tensor(operand):
    dtype = torch.float64 if operand["double"] else torch.float32
    return torch.rand(operand["dims"], dtype=dtype).permute(operand["order"])


def prepared(work):
    operands = [tensor(operand).requires_grad_(BOTH) for operand in work["operands"]]
    forward = result_of(work, *operands)
    if not BOTH:
        return forward
    seed = torch.rand_like(forward(), memory_format=torch.contiguous_format)
    return lambda: torch.autograd.grad(forward(), operands, seed)


def result_of(work, x, *others):
    op, numbers = work["op"], work["numbers"]
    if op == "conv2d":
        stride, padding, groups = numbers
        return lambda: torch.nn.functional.conv2d(x, *others, stride=stride, padding=padding, groups=groups)
    if op in ("sum", "amax"):
        return lambda: getattr(x, op)(numbers)
    if op in ("softmax", "cumsum"):
        return lambda: getattr(x, op)(numbers[0])
    return lambda: getattr(torch, op)(x, *others)


def measured(run, repeats):
    times = []
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        result = run()
        times.append(time.perf_counter_ns() - begin)
        del result
    times.sort()
    return [times[0], times[len(times) // 2]]


run = None
with torch.set_grad_enabled(BOTH):
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, dict):
            run = prepared(asked)
            asked = 3
        print(json.dumps(measured(run, asked)), flush=True)
