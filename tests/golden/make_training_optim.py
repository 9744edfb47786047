"""What PyTorch's optimisers, schedules, clipping, averages and small trainings do, step by step.

Run:     python tests/golden/make_training_optim.py
Needs:   PyTorch 2.15.0 on the CPU
Writes:  training/optimizer.jsonl.gz, schedule.jsonl.gz, clip.jsonl.gz, ema.jsonl.gz, loss_curve.jsonl.gz beside this file

A case is one line; docs/src/golden-cases.md says what stands in it.
"""

import copy
import fnmatch
import gzip
import json
import math
import pathlib
import random

import torch

TORCH_VERSION = "2.15.0"
HERE = pathlib.Path(__file__).resolve().parent / "training"
DTYPES = {"f64": torch.float64, "f32": torch.float32}
draw = random.Random(15)


def number(v):
    return v if isinstance(v, int) or math.isfinite(v) else ("nan" if v != v else "inf" if v > 0 else "-inf")


def shortest(v, dtype):
    """The shortest text of the same number in its type."""
    if dtype is not torch.float32 or not math.isfinite(v):
        return number(v)
    for digits in range(1, 10):
        short = float(f"{v:.{digits}g}")
        if torch.tensor(short, dtype=torch.float32).item() == v:
            return short
    return v


def written(t):
    if t is None:
        return None
    name = {torch.float64: "f64", torch.float32: "f32", torch.int64: "i64"}[t.dtype]
    data = [shortest(v, t.dtype) for v in t.detach().flatten().tolist()]
    return {"shape": list(t.shape), "dtype": name, "data": data}


def values(shape, dtype, low=-2.0, high=2.0):
    n = math.prod(shape)
    return torch.tensor([round(draw.uniform(low, high), 3) for _ in range(n)], dtype=DTYPES[dtype]).reshape(shape)


class Lion(torch.optim.Optimizer):
    """The paper's algorithm, word by word."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False):
        if lr < 0 or not 0 <= betas[0] < 1 or not 0 <= betas[1] < 1 or weight_decay < 0:
            raise ValueError("outside the domain")
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = -p.grad if group["maximize"] else p.grad
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                c = b1 * m + (1 - b1) * g
                p.sub_(group["lr"] * (c.sign() + group["weight_decay"] * p))
                m.copy_(b2 * m + (1 - b2) * g)


def optimizer_class(name):
    return Lion if name == "Lion" else getattr(torch.optim, name)


# ---- optimizer -----------------------------------------------------------------------------------------------------

ADAM = [
    {},
    {"betas": [0.8, 0.95], "eps": 1e-3},
    {"weight_decay": 0.1},
    {"amsgrad": True},
    {"amsgrad": True, "weight_decay": 0.05, "maximize": True},
    {"betas": [0.0, 0.0]},
]
RUNS = {
    "SGD": [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.25, "weight_decay": 0.1},
        {"momentum": 0.8, "nesterov": True, "weight_decay": 0.05},
        {"weight_decay": 0.2, "maximize": True},
    ],
    "Adam": ADAM + [{"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "AdamW": ADAM,
    "NAdam": [
        {},
        {"momentum_decay": 0.05, "betas": [0.8, 0.9]},
        {"weight_decay": 0.1},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "RAdam": [
        {},
        {"betas": [0.8, 0.9], "eps": 1e-4},
        {"weight_decay": 0.1},
        {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
    ],
    "Adagrad": [
        {},
        {"lr_decay": 0.1, "weight_decay": 0.05},
        {"initial_accumulator_value": 0.5, "eps": 1e-3, "maximize": True},
    ],
    "RMSprop": [
        {},
        {"alpha": 0.9, "eps": 1e-4, "weight_decay": 0.1},
        {"momentum": 0.5},
        {"centered": True},
        {"centered": True, "momentum": 0.5, "maximize": True},
    ],
    "Lion": [{}, {"betas": [0.8, 0.95], "weight_decay": 0.1}, {"maximize": True}],
    "Adadelta": [{}, {"rho": 0.5, "eps": 1e-3}, {"weight_decay": 0.1, "maximize": True}],
    "Adamax": [{}, {"betas": [0.8, 0.9], "eps": 1e-3}, {"weight_decay": 0.1, "maximize": True}],
    "Rprop": [{}, {"etas": [0.4, 1.5], "step_sizes": [1e-3, 0.5]}, {"maximize": True}],
    "ASGD": [{}, {"lambd": 0.05, "alpha": 0.5, "t0": 20.0, "weight_decay": 0.05}, {"maximize": True}],
}
REFUSED = {
    "SGD": [{"momentum": -0.5}, {"weight_decay": -0.1}, {"nesterov": True}],
    "Adam": [{"betas": [1.0, 0.9]}, {"betas": [0.9, -0.1]}, {"eps": -1.0}],
    "AdamW": [{"weight_decay": -0.1}],
    "NAdam": [{"momentum_decay": -0.1}],
    "RAdam": [{"betas": [0.5, 1.5]}],
    "Adagrad": [{"lr_decay": -1.0}, {"initial_accumulator_value": -1.0}],
    "RMSprop": [{"alpha": -0.1}, {"momentum": -0.1}],
    "Lion": [{"betas": [1.0, 0.5]}],
    "Adadelta": [{"rho": 1.5}],
    "Adamax": [{"eps": -1.0}],
    "Rprop": [{"etas": [1.5, 1.2]}],
    "ASGD": [{"lambd": -1.0}],
}
RATES = {"SGD": 0.05, "Lion": 0.01, "Adadelta": 0.5, "Adagrad": 0.1, "Adam": 0.03}


def optimizer_case(name, args, dtype, groups, shapes, tags=(), nulls=False, set_lr=None, rows=7):
    case = {"kind": "optimizer", "name": name, "args": args, "dtype": dtype, "tags": list(tags), "groups": groups}
    params = [values(s, dtype) for s in shapes]
    cycle = [[values(s, dtype, -1.5, 1.5) for s in shapes] for _ in range(rows)]
    if nulls:
        cycle[0][1] = cycle[3][1] = cycle[4][0] = None
    case["params"] = [written(p) for p in params]
    case["grads"] = {"cycle": [[written(g) for g in row] for row in cycle]}
    case["record"] = [1, 2, 10, 200]
    if set_lr:
        case["set_lr"] = set_lr
    params = [p.clone().requires_grad_() for p in params]
    listed = [{**{k: v for k, v in g.items() if k != "params"}, "params": [params[i] for i in g["params"]]} for g in groups]
    try:
        opt = optimizer_class(name)(listed, **args)
    except ValueError as e:
        return {**case, "tags": [*tags, "error"], "error": str(e), "error_type": "ValueError"}
    case["after"] = {}
    for step in range(1, 201):
        if set_lr and str(step) in set_lr:
            for group, lr in zip(opt.param_groups, set_lr[str(step)]):
                group["lr"] = lr
        for p, g in zip(params, cycle[(step - 1) % rows]):
            p.grad = None if g is None else g.clone()
        opt.step()
        if step in case["record"]:
            case["after"][str(step)] = [written(p) for p in params]
    return case


def objective(spec, x):
    kind, t = spec["id"], spec["_tensors"]
    if kind == "quadratic":
        return 0.5 * x @ t["A"] @ x - t["b"] @ x
    if kind == "rosenbrock":
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
    if kind == "logistic":
        return torch.nn.functional.softplus(-t["y"] * (t["X"] @ x)).mean() + 0.5 * spec["l2"] * x @ x
    return (0.25 * (x - t["c"]) ** 4 + 0.5 * (x - t["c"]) ** 2).sum()


def objective_spec(kind, n):
    if kind == "quadratic":
        m = values((n, n), "f64", -1, 1)
        tensors = {"A": m @ m.T + torch.eye(n, dtype=torch.float64), "b": values((n,), "f64")}
        spec = {}
    elif kind == "logistic":
        tensors = {"X": values((8, n), "f64"), "y": torch.tensor([1.0, -1.0] * 4, dtype=torch.float64)}
        spec = {"l2": 0.1}
    elif kind == "quartic":
        tensors, spec = {"c": values((n,), "f64")}, {}
    else:
        tensors, spec = {}, {}
    return {"id": kind, **spec, "_tensors": tensors}


def lbfgs_case(args, kind, shapes, record):
    spec = objective_spec(kind, sum(math.prod(s) for s in shapes))
    params = [values(s, "f64") for s in shapes]
    case = {"kind": "optimizer", "name": "LBFGS", "args": args, "dtype": "f64", "tags": []}
    case["groups"] = [{"params": list(range(len(shapes)))}]
    case["params"] = [written(p) for p in params]
    shown = {k: v for k, v in spec.items() if k != "_tensors"}
    case["grads"] = {"objective": {**shown, **{k: written(v) for k, v in spec["_tensors"].items()}}}
    case["record"] = record
    params = [p.clone().requires_grad_() for p in params]
    opt = torch.optim.LBFGS(params, **args)
    case["after"], case["losses"], case["evals"] = {}, [], []
    for step in range(1, record[-1] + 1):
        calls = 0

        def closure():
            nonlocal calls
            calls += 1
            opt.zero_grad()
            loss = objective(spec, torch.cat([p.flatten() for p in params]))
            loss.backward()
            return loss

        case["losses"].append(opt.step(closure).item())
        case["evals"].append(calls)
        if step in record:
            case["after"][str(step)] = [written(p) for p in params]
    return case


def optimizers():
    two, three = [(3, 2), (4,)], [(2, 3), (4,), ()]
    for name, runs in RUNS.items():
        lr = {"lr": RATES.get(name, 0.02)}
        for args in runs:
            yield optimizer_case(name, {**lr, **args}, "f64", [{"params": [0, 1]}], two, nulls=args != {})
        yield optimizer_case(name, {**lr, **runs[1]}, "f32", [{"params": [0, 1]}], two)
        yield optimizer_case(name, {}, "f64", [{"params": [0, 1]}], two)
        # Groups in another order than the parameters, with settings of their own, and rates that change.
        own = dict(lr=0.1, maximize=True)
        yield optimizer_case(name, lr, "f64", [{"params": [2, 0]}, {"params": [1], **own}], three,
                             set_lr={"3": [0.05, 0.01], "11": [0.0, 0.02]})
        own = {k: v for k, v in runs[2].items() if k != "initial_accumulator_value"}
        yield optimizer_case(name, lr, "f64", [{"params": [0], **own}, {"params": [1, 2], "lr": 0.01}], three)
        for args in [{"lr": -0.1}] + REFUSED[name]:
            yield optimizer_case(name, {**lr, **args}, "f64", [{"params": [0, 1]}], two, rows=1)
    for kind in ["quadratic", "rosenbrock", "logistic", "quartic"]:
        for args in [
            {"lr": 0.1},
            {"line_search_fn": "strong_wolfe"},
            {"lr": 0.3, "max_iter": 5, "history_size": 3, "tolerance_grad": 1e-5},
            {"lr": 0.5, "max_iter": 7, "max_eval": 9, "line_search_fn": "strong_wolfe", "tolerance_change": 1e-7},
        ]:
            if kind == "rosenbrock" and "line_search_fn" not in args:
                args = {**args, "lr": 1e-3}
            yield lbfgs_case(args, kind, [(4,)] if kind != "quartic" else [(2, 2), ()], [1, 2])
    yield {**optimizer_case("LBFGS", {}, "f64", [{"params": [0]}, {"params": [1], "lr": 0.1}], two, rows=1)}
    yield optimizer_case("LBFGS", {"lr": -1.0}, "f64", [{"params": [0, 1]}], two, rows=1)


# ---- files ---------------------------------------------------------------------------------------------------------

def write(name, cases):
    HERE.mkdir(exist_ok=True)
    lines = []
    for i, case in enumerate(cases):
        case = {"kind": case.pop("kind"), "id": i, **case}
        lines.append(json.dumps(case, allow_nan=False))
    data = gzip.compress(("\n".join(lines) + "\n").encode(), 9, mtime=0)
    (HERE / name).write_bytes(data)
    print(f"{name}: {len(lines)} cases, {len(data)} bytes")


def main():
    version = torch.__version__.split("+")[0]
    if version != TORCH_VERSION:
        raise SystemExit(f"these cases are PyTorch {TORCH_VERSION}'s; here is {version}")
    torch.set_num_threads(1)
    write("optimizer.jsonl.gz", optimizers())


if __name__ == "__main__":
    main()
