"""What PyTorch's optimisers, schedules, clipping, averages and small trainings do, step by step.

Run:     python tests/golden/make_training_optim.py
Needs:   PyTorch 2.15.0 on the CPU
Writes:  training/optimizer.jsonl.gz, schedule, clip, ema and loss_curve beside this file

A case is one line; docs/src/golden-cases.md says what stands in it.
"""

import copy
import fnmatch
import json
import math
import random

import torch

from training_lines import DTYPES, draw_with, number, tensor, write_lines

draw = random.Random(15)


def written(t):
    return None if t is None else tensor(t)


def values(shape, dtype, low=-2.0, high=2.0):
    return draw_with(draw, shape, low, high).to(DTYPES[dtype])


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
            # Rosenbrock's valley is chaotic: a start one rounding away leads elsewhere within tens of steps.
            record = [1, 2] if kind == "rosenbrock" else [1, 2, 20, 200]
            yield lbfgs_case(args, kind, [(4,)] if kind != "quartic" else [(2, 2), ()], record)
    yield {**optimizer_case("LBFGS", {}, "f64", [{"params": [0]}, {"params": [1], "lr": 0.1}], two, rows=1)}
    yield optimizer_case("LBFGS", {"lr": -1.0}, "f64", [{"params": [0, 1]}], two, rows=1)


# ---- schedule ------------------------------------------------------------------------------------------------------

LAMBDAS = {
    "power": lambda o: lambda e: o["base"] ** e,
    "warmup": lambda o: lambda e: min(1, (e + 1) / o["steps"]),
    "inverse_sqrt": lambda o: lambda e: 1 / math.sqrt(e + 1),
    "polynomial": lambda o: lambda e: (1 - min(e, o["total"]) / o["total"]) ** o["power"],
    "staircase": lambda o: lambda e: o["factor"] ** (e // o["every"]),
}


def scheduler(name, args, opt):
    args = copy.deepcopy(args)
    if "schedulers" in args:
        parts = [scheduler(p["name"], p["args"], opt) for p in args.pop("schedulers")]
        if name == "SequentialLR":
            return torch.optim.lr_scheduler.SequentialLR(opt, parts, **args)
        return torch.optim.lr_scheduler.ChainedScheduler(parts, opt)
    if "lr_lambda" in args:
        make = lambda o: LAMBDAS[o["f"]](o)
        of = args["lr_lambda"]
        args["lr_lambda"] = [make(o) for o in of] if isinstance(of, list) else make(of)
    return getattr(torch.optim.lr_scheduler, name)(opt, **args)


def schedule_case(name, args, steps=24, base_lrs=(0.1,), optimizer=None, tags=(), metrics=None, epochs=None, set_lr=None):
    case = {"kind": "schedule", "name": name, "args": args, "base_lrs": list(base_lrs), "steps": steps}
    case |= {"tags": list(tags), "dtype": "f64"}
    case |= {k: v for k, v in [("optimizer", optimizer), ("metrics", metrics), ("epochs", epochs), ("set_lr", set_lr)] if v}
    optimizer = optimizer or {"name": "SGD", "args": {}}
    groups = [{"params": [torch.zeros(1, requires_grad=True)], "lr": lr} for lr in base_lrs]
    opt = optimizer_class(optimizer["name"])(groups, **optimizer["args"])
    cycles = name in ("OneCycleLR", "CyclicLR") and args.get("cycle_momentum", True)
    momentum = lambda: [g["betas"][0] if "betas" in g else g["momentum"] for g in opt.param_groups]
    lrs, momenta, refused = [], [], {}
    try:
        sched = scheduler(name, args, opt)
        note = lambda: (lrs.append([g["lr"] for g in opt.param_groups]), cycles and momenta.append(momentum()))
        note()
        for k in range(1, steps + 1):
            for group, lr in zip(opt.param_groups, (set_lr or {}).get(str(k), [])):
                group["lr"] = lr
            opt.step()
            extra = [metrics[k - 1]] if metrics else [epochs[k - 1]] if epochs else []
            sched.step(*extra)
            note()
    except (ValueError, ZeroDivisionError) as e:
        refused = {"error": str(e), "error_type": type(e).__name__, "error_at": len(lrs)}
        case["tags"].append("error")
    return case | ({"lrs": lrs} if lrs else {}) | ({"momenta": momenta} if momenta else {}) | refused


def schedules():
    part = lambda name, **args: {"name": name, "args": args}
    plain = [
        ("StepLR", [{"step_size": 5}, {"step_size": 3, "gamma": 0.5}, {"step_size": 1, "gamma": 0.9}]),
        ("MultiStepLR", [{"milestones": [3, 8]}, {"milestones": [8, 3, 3], "gamma": 0.5}, {"milestones": [0, 2], "gamma": 0.3}]),
        ("ConstantLR", [{}, {"factor": 0.5, "total_iters": 3}, {"factor": 1.0}, {"total_iters": 0}]),
        ("LinearLR", [{}, {"start_factor": 0.1, "total_iters": 7}, {"start_factor": 1.0, "end_factor": 0.2}, {"total_iters": 0}]),
        ("ExponentialLR", [{"gamma": 0.9}, {"gamma": 1.1}]),
        ("PolynomialLR", [{}, {"total_iters": 10, "power": 2.0}, {"total_iters": 8, "power": 0.5}, {"total_iters": 0}]),
        ("CosineAnnealingLR", [{"T_max": 10}, {"T_max": 7, "eta_min": 0.01}, {"T_max": 1}, {"T_max": 30}]),
        ("CosineAnnealingWarmRestarts", [{"T_0": 5}, {"T_0": 3, "T_mult": 2, "eta_min": 0.01}, {"T_0": 1, "T_mult": 3}]),
        ("LambdaLR", [{"lr_lambda": {"f": "power", "base": 0.95}}, {"lr_lambda": {"f": "warmup", "steps": 6}},
                      {"lr_lambda": {"f": "inverse_sqrt"}}, {"lr_lambda": {"f": "polynomial", "total": 10, "power": 2.0}},
                      {"lr_lambda": {"f": "staircase", "factor": 0.5, "every": 4}}]),
        ("MultiplicativeLR", [{"lr_lambda": {"f": "power", "base": 0.99}}, {"lr_lambda": {"f": "inverse_sqrt"}}]),
        ("CyclicLR", [{"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 4, "cycle_momentum": False},
                      {"base_lr": 0.02, "max_lr": 0.2, "step_size_up": 3, "step_size_down": 5, "mode": "triangular2"},
                      {"base_lr": 0.02, "max_lr": 0.2, "step_size_up": 4, "mode": "exp_range", "gamma": 0.95,
                       "base_momentum": 0.7, "max_momentum": 0.97}]),
        ("OneCycleLR", [{"max_lr": 1.0, "total_steps": 25}, {"max_lr": 1.0, "total_steps": 30, "three_phase": True},
                        {"max_lr": 0.5, "total_steps": 25, "anneal_strategy": "linear", "pct_start": 0.45},
                        {"max_lr": 0.5, "total_steps": 26, "div_factor": 10.0, "final_div_factor": 50.0, "base_momentum": 0.5,
                         "max_momentum": 0.9},
                        {"max_lr": 0.5, "total_steps": 26, "cycle_momentum": False}]),
    ]
    for name, all_args in plain:
        for args in all_args:
            yield schedule_case(name, args, base_lrs=[0.1] if name != "LambdaLR" else [0.1, 0.02])
        yield schedule_case(name, all_args[0], base_lrs=[0.1, 0.03, 0.5])
        if name not in ("OneCycleLR", "CyclicLR"):
            yield schedule_case(name, all_args[0], tags=["external"], set_lr={"3": [0.7], "9": [0.02]})
    adam = {"name": "AdamW", "args": {"betas": [0.8, 0.95]}}
    yield schedule_case("OneCycleLR", {"max_lr": [1.0, 0.1], "total_steps": 25, "max_momentum": [0.95, 0.9]},
                        base_lrs=[0.1, 0.2], optimizer=adam)
    yield schedule_case("CyclicLR", {"base_lr": [0.01, 0.02], "max_lr": [0.1, 0.3], "step_size_up": 5}, base_lrs=[0.1, 0.2], optimizer=adam)
    yield schedule_case("LambdaLR", {"lr_lambda": [{"f": "power", "base": 0.9}, {"f": "warmup", "steps": 5}]}, base_lrs=[0.1, 0.2])
    yield schedule_case("MultiplicativeLR", {"lr_lambda": [{"f": "power", "base": 0.9}, {"f": "inverse_sqrt"}]}, base_lrs=[0.1, 0.2])
    for args in [{"T_0": 4}, {"T_0": 2, "T_mult": 2, "eta_min": 0.01}]:
        epochs = [round(0.37 * k, 2) for k in range(1, 25)]
        yield schedule_case("CosineAnnealingWarmRestarts", args, epochs=epochs, tags=["fractional"])
    metrics = [1.0, 0.9, 0.8, 0.8, 0.79999, 0.8, 0.81, 0.7] + [0.7] * 7 + [0.6] * 5
    for args in [{"patience": 2}, {"patience": 1, "factor": 0.5, "cooldown": 2}, {"patience": 0, "min_lr": 0.02},
                 {"patience": 1, "threshold": 0.05, "threshold_mode": "abs"}, {"patience": 1, "mode": "max"},
                 {"patience": 0, "mode": "max", "threshold_mode": "abs", "eps": 0.005},
                 {"patience": 2, "threshold": 0.1}]:
        yield schedule_case("ReduceLROnPlateau", args, steps=20, metrics=metrics)
    yield schedule_case("ReduceLROnPlateau", {"patience": 1, "min_lr": [0.01, 0.001]}, steps=20, metrics=metrics, base_lrs=[0.1, 0.2])
    sequences = [
        ([part("LinearLR", start_factor=0.1, total_iters=5), part("CosineAnnealingLR", T_max=15)], [5]),
        ([part("ConstantLR", factor=0.2, total_iters=4), part("ExponentialLR", gamma=0.9)], [4]),
        ([part("StepLR", step_size=3), part("PolynomialLR", total_iters=6), part("MultiStepLR", milestones=[2, 4])], [6, 12]),
        ([part("LambdaLR", lr_lambda={"f": "warmup", "steps": 5}), part("CosineAnnealingWarmRestarts", T_0=4)], [5]),
        ([part("ExponentialLR", gamma=0.9), part("LinearLR", start_factor=0.5), part("ConstantLR")], [3, 9]),
        ([part("ConstantLR"), part("MultiplicativeLR", lr_lambda={"f": "power", "base": 0.99})], [4]),
        ([part("LinearLR"), part("OneCycleLR", max_lr=1.0, total_steps=30, cycle_momentum=False)], [5]),
        ([part("StepLR", step_size=2)], []),
    ]
    for schedulers, milestones in sequences:
        yield schedule_case("SequentialLR", {"schedulers": schedulers, "milestones": milestones}, base_lrs=[0.1, 0.4])
    chains = [
        [part("LinearLR", start_factor=0.1, total_iters=5), part("ExponentialLR", gamma=0.9)],
        [part("ConstantLR"), part("StepLR", step_size=4), part("CosineAnnealingLR", T_max=12)],
    ]
    for schedulers in chains:
        yield schedule_case("ChainedScheduler", {"schedulers": schedulers}, base_lrs=[0.1, 0.4])
    inner = {"name": "ChainedScheduler", "args": {"schedulers": [part("ConstantLR", total_iters=3), part("ExponentialLR", gamma=0.9)]}}
    yield schedule_case("SequentialLR", {"schedulers": [inner, part("StepLR", step_size=4)], "milestones": [6]})
    refused = [
        ("OneCycleLR", {"max_lr": 1.0, "total_steps": 5}),
        ("OneCycleLR", {"max_lr": 1.0, "total_steps": 0}),
        ("OneCycleLR", {"max_lr": 1.0, "total_steps": 5, "pct_start": 1.5}),
        ("OneCycleLR", {"max_lr": [1.0, 2.0], "total_steps": 5}),
        ("LinearLR", {"start_factor": 0.0}),
        ("LinearLR", {"end_factor": 1.5}),
        ("ConstantLR", {"factor": 1.5}),
        ("ConstantLR", {"factor": 0.0, "total_iters": 3}),
        ("CosineAnnealingWarmRestarts", {"T_0": 0}),
        ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 0}),
        ("SequentialLR", {"schedulers": [part("StepLR", step_size=2)], "milestones": [3]}),
        ("SequentialLR", {"schedulers": [], "milestones": []}),
        ("ChainedScheduler", {"schedulers": []}),
        ("LambdaLR", {"lr_lambda": [{"f": "inverse_sqrt"}, {"f": "inverse_sqrt"}, {"f": "inverse_sqrt"}]}),
        ("CyclicLR", {"base_lr": [0.1, 0.2], "max_lr": 1.0}),
    ]
    for name, args in refused:
        if name != "LambdaLR":
            yield schedule_case(name, args, steps=7)
    yield schedule_case("ReduceLROnPlateau", {"factor": 1.0}, steps=1, metrics=[1.0])


# ---- clip ----------------------------------------------------------------------------------------------------------

def clip_case(f, args, grads, dtype, tags=()):
    case = {"kind": "clip", "f": f, "args": {k: number(v) if isinstance(v, float) else v for k, v in args.items()}, "dtype": dtype, "tags": list(tags)}
    case["grads"] = [written(g) for g in grads]
    params = [torch.zeros((2,) if g is None else g.shape, dtype=DTYPES[dtype], requires_grad=True) for g in grads]
    for p, g in zip(params, grads):
        p.grad = None if g is None else g.clone()
    try:
        returned = getattr(torch.nn.utils, f)(params, **args)
        case["returns"] = None if returned is None else number(returned.item())
    except RuntimeError as e:
        case |= {"error": str(e), "error_type": "RuntimeError", "tags": [*tags, "error"]}
    return case | {"after": [written(p.grad) for p in params]}


def clips():
    shapes = [(3, 2), (4,), ()]
    grads = lambda dtype: [values(s, dtype) for s in shapes]
    for dtype in DTYPES:
        for p in [2.0, 1.0, 3.0, 0.5, math.inf, -math.inf, 0.0]:
            for most in [0.5, 100.0]:
                yield clip_case("clip_grad_norm_", {"max_norm": most, "norm_type": p}, grads(dtype), dtype)
        yield clip_case("clip_grad_norm_", {"max_norm": 1.0}, [None, values((3,), dtype)], dtype)
        yield clip_case("clip_grad_norm_", {"max_norm": 1.0}, [None, None], dtype)
        yield clip_case("clip_grad_norm_", {"max_norm": 1.0}, [torch.zeros((2,), dtype=DTYPES[dtype])], dtype)
        yield clip_case("clip_grad_norm_", {"max_norm": 0.0}, grads(dtype), dtype)
        for bad in [math.nan, math.inf, -math.inf]:
            for strict in [False, True]:
                g = grads(dtype)
                g[1][2] = bad
                args = {"max_norm": 1.0, "error_if_nonfinite": strict}
                yield clip_case("clip_grad_norm_", args, g, dtype, ["nonfinite"])
            yield clip_case("clip_grad_value_", {"clip_value": 1.0}, g, dtype, ["nonfinite"])
        for most in [0.5, 100.0, 0.0]:
            yield clip_case("clip_grad_value_", {"clip_value": most}, grads(dtype), dtype)
        yield clip_case("clip_grad_value_", {"clip_value": 1.0}, [None, values((3,), dtype)], dtype)


# ---- ema -----------------------------------------------------------------------------------------------------------

def linear(i, o, **more):
    return {"layer": "Linear", "args": {"in_features": i, "out_features": o, **more}}


def layer(name, **args):
    return {"layer": name, "args": args}


def build(model):
    if "layer" in model:
        return getattr(torch.nn, model["layer"])(**model["args"])
    if "inner" in model:
        return Inner(build(model["inner"]), model["inputs"], model.get("step"))
    return torch.nn.Sequential(*[build(part) for part in model["sequential"]])


def state_of(module):
    return {name: written(t) for name, t in module.state_dict().items()}


def randomise(module, dtype):
    """Other weights, statistics and counts."""
    module.to(DTYPES[dtype])
    with torch.no_grad():
        for name, t in module.state_dict().items():
            if t.dtype == torch.int64:
                t.fill_(draw.randint(0, 9))
            else:
                t.copy_(values(tuple(t.shape), dtype, 0.1 if name.endswith("running_var") else -1.0, 1.0))


def ema_case(model, args, dtype, inputs=None):
    module = build(model)
    randomise(module, dtype)
    case = {"kind": "ema", "args": args, "model": model, "dtype": dtype, "tags": [], "start": state_of(module)}
    decay = args.get("decay")
    avg_fn = {} if decay is None else {"multi_avg_fn": torch.optim.swa_utils.get_ema_multi_avg_fn(decay)}
    averaged = torch.optim.swa_utils.AveragedModel(module, use_buffers=args.get("use_buffers", False), **avg_fn)
    case |= {"states": [], "record": [1, 2, 5], "after": {"0": state_of(averaged.module)}}
    for step in range(1, 6):
        randomise(module, dtype)
        case["states"].append(state_of(module))
        averaged.update_parameters(module)
        if step in case["record"]:
            case["after"][str(step)] = state_of(averaged.module)
    if inputs is not None:
        batches = [values(shape, dtype, -2.0, 2.0) for shape in inputs]
        torch.optim.swa_utils.update_bn(batches, averaged)
        case |= {"batches": [written(t) for t in batches], "after_update_bn": state_of(averaged.module)}
    return case


def norm_of(**keywords):
    return {"sequential": [linear(2, 3), layer("BatchNorm1d", num_features=3, **keywords), linear(3, 1)]}


def emas():
    deep = {"sequential": [linear(2, 3), layer("Tanh"), linear(3, 2)]}
    norm = {"sequential": [linear(2, 3), layer("BatchNorm1d", num_features=3, track_running_stats=True), linear(3, 1)]}
    for dtype in DTYPES:
        for model in [linear(3, 2), deep, norm]:
            for args in [{}, {"decay": 0.999}, {"decay": 0.9}, {"decay": 0.3}, {"decay": 0.0}, {"decay": 1.0}]:
                yield ema_case(model, args, dtype)
    # The count of batches would be an integer, whose averages are rounded: these have none.
    norm = {"sequential": [linear(2, 3), layer("InstanceNorm1d", num_features=3, track_running_stats=True)]}
    for decay in [0.9, 0.3]:
        case = ema_case(norm, {"decay": decay, "use_buffers": True}, "f64")
        yield case
    # The files behind this one do not depend on what is drawn here.
    drawn = draw.getstate()
    # What a batch norm's momentum is plays no part when its statistics are taken anew.
    image = layer("BatchNorm2d", num_features=2, momentum=0.7)
    still = layer("BatchNorm2d", num_features=2, track_running_stats=False)
    own = layer("InstanceNorm2d", num_features=2, track_running_stats=True)
    for dtype in DTYPES:
        yield ema_case(norm_of(momentum=0.1), {}, dtype, [(5, 2), (3, 2), (4, 2)])
        yield ema_case(norm_of(momentum=None), {"decay": 0.9}, dtype, [(5, 2), (3, 2)])
        yield ema_case(linear(3, 2), {}, dtype, [(2, 3)])
        yield ema_case({"sequential": [image, own, still]}, {"decay": 0.5, "use_buffers": False}, dtype, [(2, 2, 3, 2)] * 4)
    draw.setstate(drawn)


# ---- loss_curve ----------------------------------------------------------------------------------------------------

class Inner(torch.nn.Module):
    """A module of its own among others: `inner` gets the input under each of some names; of the results the first counts, and of that one step."""

    def __init__(self, inner, inputs, step):
        super().__init__()
        self.inner, self.inputs, self.step = inner, inputs, step

    def forward(self, x):
        results = self.inner(**{name: x for name in self.inputs})
        first = results[0] if isinstance(results, tuple) else results
        return first if self.step is None else first.select(1, self.step)


def within(model, *inputs, step=None):
    return {"inner": model, "inputs": list(inputs)} | ({} if step is None else {"step": step})


def optimizer_of(module, optimizer):
    """The parameters of no pattern come first, as one group, then those of each."""
    groups, taken = [], set()
    for own in optimizer.get("groups", []):
        found = [n for n, _ in module.named_parameters()
                 if n not in taken and any(fnmatch.fnmatchcase(n, pattern) for pattern in own["names"])]
        taken |= set(found)
        options = {k: v for k, v in own.items() if k != "names"}
        groups.append({"params": [p for n, p in module.named_parameters() if n in found], **options})
    rest = [p for n, p in module.named_parameters() if n not in taken]
    groups = ([{"params": rest}] if rest else []) + groups
    return optimizer_class(optimizer["name"])(groups, **optimizer["args"])


def trained(module, x, target, loss, optimizer, schedule, clip, steps):
    """The losses, rates and norms of each step, and the state afterwards."""
    opt = optimizer_of(module, optimizer)
    sched = scheduler(schedule["name"], schedule["args"], opt) if schedule else None
    criterion = getattr(torch.nn, loss["loss"])(**loss["args"])
    losses, lrs, norms = [], [], []
    for _ in range(steps):
        opt.zero_grad()
        value = criterion(module(x), target)
        value.backward()
        if clip:
            norms.append(torch.nn.utils.clip_grad_norm_(module.parameters(), **clip).item())
        losses.append(value.item())
        lrs.append([g["lr"] for g in opt.param_groups])
        opt.step()
        if sched:
            sched.step()
    return {"losses": losses, "lrs": lrs, "norms": norms, "state_after": state_of(module)}


def expect_steady(found, moved, dtype):
    """A run whose inputs were moved by one rounding stays within 0.3 of what the replayer allows."""
    relative, absolute = (1e-10, 1e-12) if dtype == "f64" else (2e-5, 1e-6)
    lists = lambda run: [run["losses"], run["norms"]] + [t["data"] for t in run["state_after"].values()]
    for a, b in zip(lists(found), lists(moved)):
        scale = max(1.0, sum(map(abs, a)))
        assert all(abs(v - w) <= 0.3 * (relative * max(abs(v), abs(w)) + absolute * scale) for v, w in zip(a, b)), "chaotic"


def loss_curve_case(model, loss, optimizer, schedule=None, clip=None, dtype="f64", steps=50, shape=(10, 2), result=(10, 3)):
    module = build(model)
    randomise(module, dtype)
    x = values(shape, dtype)
    classes = loss["loss"] in ("CrossEntropyLoss", "NLLLoss")
    target = torch.tensor([draw.randint(0, result[1] - 1) for _ in range(result[0])]) if classes else values(result, dtype)
    case = {"kind": "loss_curve", "model": model, "loss": loss, "optimizer": optimizer, "schedule": schedule, "clip": clip}
    case |= {"dtype": dtype, "tags": [], "steps": steps, "state": state_of(module), "input": written(x), "target": written(target)}
    moved = copy.deepcopy(module)
    found = trained(module, x, target, loss, optimizer, schedule, clip, steps)
    nudged = torch.nextafter(x, torch.full_like(x, math.inf))
    expect_steady(found, trained(moved, nudged, target, loss, optimizer, schedule, clip, steps), dtype)
    return case | found


def loss_curves():
    mlp = {"sequential": [linear(2, 6), layer("Tanh"), linear(6, 5), layer("ReLU"), linear(5, 3)]}
    smooth = {"sequential": [linear(2, 6), layer("Tanh"), linear(6, 3)]}
    entropy, squares = {"loss": "CrossEntropyLoss", "args": {}}, {"loss": "MSELoss", "args": {}}
    own = [{"names": ["*.bias"], "weight_decay": 0.0, "lr": 0.05}]
    optimizer = lambda name, groups=None, **args: {"name": name, "args": args} | ({"groups": groups} if groups else {})
    schedule = lambda name, **args: {"name": name, "args": args}
    warm = {"schedulers": [schedule("LinearLR", start_factor=0.1, total_iters=5), schedule("CosineAnnealingLR", T_max=45)]}
    runs = [
        (optimizer("SGD", lr=0.1), None, None),
        (optimizer("SGD", own, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01), schedule("StepLR", step_size=10), {"max_norm": 0.5}),
        (optimizer("Adam", lr=0.02), schedule("ExponentialLR", gamma=0.95), None),
        (optimizer("AdamW", own, lr=0.02, weight_decay=0.1), schedule("SequentialLR", milestones=[5], **warm), {"max_norm": 0.2}),
        (optimizer("AdamW", [{"names": ["0.*", "*.bias"], "lr": 0.01}], lr=0.02), schedule("OneCycleLR", max_lr=0.05, total_steps=50), None),
        (optimizer("NAdam", lr=0.02), None, {"max_norm": 1.0, "norm_type": 1.0}),
        (optimizer("RAdam", lr=0.02), None, None),
        (optimizer("RMSprop", lr=0.01, momentum=0.5), schedule("CyclicLR", base_lr=0.001, max_lr=0.02, step_size_up=7), None),
        (optimizer("Adagrad", lr=0.1), None, None),
    ]
    for optim, sched, clip in runs:
        yield loss_curve_case(smooth, entropy, optim, sched, clip)
        yield loss_curve_case(mlp, squares, optim, sched, clip)
    yield loss_curve_case(smooth, squares, *runs[3], dtype="f32", steps=20)
    yield loss_curve_case(smooth, entropy, *runs[1], dtype="f32", steps=20)
    yield from curves_of_layers(optimizer, schedule, entropy, squares)


def curves_of_layers(optimizer, schedule, entropy, squares):
    """Of layers with buffers, windows, steps and heads, which begin with any statistics.

    A bias before a batch norm, and that of the keys, have gradients of nothing but roundings: with its own eps Adam would make steps of them.
    """
    conv = layer("Conv2d", in_channels=2, out_channels=3, kernel_size=3, padding=1)
    pool, flat = layer("MaxPool2d", kernel_size=2), layer("Flatten")
    images = {"sequential": [conv, layer("BatchNorm2d", num_features=3), layer("ReLU"), pool, flat, linear(12, 3)]}
    strided = layer("Conv2d", in_channels=2, out_channels=4, kernel_size=3, stride=2, groups=2, bias=False)
    mean_of_all = layer("BatchNorm2d", num_features=4, momentum=None)
    plain = {"sequential": [strided, mean_of_all, layer("GELU"), layer("AvgPool2d", kernel_size=2), flat, linear(4, 2)]}
    rows = {"sequential": [linear(3, 5), layer("BatchNorm1d", num_features=5), layer("Tanh"), linear(5, 2)]}
    bare = {"sequential": [linear(3, 5), layer("BatchNorm1d", num_features=5, affine=False, momentum=0.5), layer("SiLU"), linear(5, 2)]}
    normed = {"sequential": [linear(3, 6), layer("LayerNorm", normalized_shape=6), layer("GELU"), linear(6, 2)]}
    lstm = lambda **more: layer("LSTM", input_size=3, hidden_size=4, batch_first=True, **more)
    last = {"sequential": [within(lstm(), "input", step=-1), linear(4, 2)]}
    both = {"sequential": [within(lstm(num_layers=2, bidirectional=True), "input"), layer("LayerNorm", normalized_shape=8), linear(8, 1)]}
    heads = within(layer("MultiheadAttention", embed_dim=4, num_heads=2, batch_first=True), "query", "key", "value")
    attending = {"sequential": [linear(3, 4), heads, layer("LayerNorm", normalized_shape=4), linear(4, 2)]}
    encoder = layer("TransformerEncoderLayer", d_model=4, nhead=2, dim_feedforward=6, dropout=0.0, batch_first=True)
    encoded = {"sequential": [linear(3, 4), within(encoder, "src", step=-1), linear(4, 2)]}
    sgd = optimizer("SGD", lr=0.05, momentum=0.9)
    decayed = optimizer("AdamW", [{"names": ["*.bias", "1.*"], "weight_decay": 0.0}], lr=0.01, weight_decay=0.1, eps=1e-4)
    steps = schedule("StepLR", step_size=8, gamma=0.5)
    cosine = schedule("CosineAnnealingLR", T_max=40)
    for model, shape, result, loss in [
        (images, (4, 2, 4, 4), (4, 3), entropy),
        (plain, (5, 2, 6, 6), (5, 2), squares),
        (rows, (8, 3), (8, 2), squares),
        (bare, (8, 3), (8, 2), entropy),
        (normed, (6, 3), (6, 2), squares),
        (last, (4, 5, 3), (4, 2), entropy),
        (both, (3, 4, 3), (3, 4, 1), squares),
        (attending, (3, 4, 3), (3, 4, 2), squares),
        (encoded, (4, 5, 3), (4, 2), entropy),
    ]:
        sizes = {"shape": shape, "result": result}
        yield loss_curve_case(model, loss, sgd, steps, {"max_norm": 1.0}, steps=30, **sizes)
        yield loss_curve_case(model, loss, decayed, cosine, None, steps=40, **sizes)
        yield loss_curve_case(model, loss, sgd, None, None, dtype="f32", steps=10, **sizes)


# ---- files ---------------------------------------------------------------------------------------------------------

def write(name, cases):
    lines = [{"kind": case.pop("kind"), "id": i, **case} for i, case in enumerate(cases)]
    json.dumps(lines, allow_nan=False)
    write_lines(name, lines)


if __name__ == "__main__":
    write("optimizer", optimizers())
    write("schedule", schedules())
    write("clip", clips())
    write("ema", emas())
    write("loss_curve", loss_curves())
