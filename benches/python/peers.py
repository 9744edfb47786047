"""Runs the workloads of the benchmark package in PyTorch or JAX and prints a JSON line for each.

    python peers.py RUNNER THREADS full|quick KEY...

RUNNER is eager, eager-kept (the caller has set an allocator that keeps freed memory), compile or jax. The inputs are
those of `src/inputs.rs`, by the same formula; the checksums are those of `src/checksum.rs`.
"""

import json
import os
import sys
import time

import numpy as np

STEPS_CHECKED = 5
RESET_AFTER = 200
CHAIN_NODES = 20_000
ADDITIONS = 1_000_000


# ---- inputs and checksums -------------------------------------------------------------------------------------------


def mixed(n, salt):
    with np.errstate(over="ignore"):
        h = np.arange(n, dtype=np.uint32) * np.uint32(2_654_435_761) + np.uint32(salt * 40_503)
        h ^= h >> np.uint32(15)
        h = h * np.uint32(2_246_822_519)
        return h ^ (h >> np.uint32(13))


def values(shape, salt, low, high):
    n = int(np.prod(shape))
    low, high = np.float32(low), np.float32(high)
    unit = (mixed(n, salt) >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24)
    return (low + (high - low) * unit).reshape(shape)


def labels(n, salt, classes):
    return (mixed(n, salt) % np.uint32(classes)).astype(np.int64)


def checksum(array):
    v = np.asarray(array, dtype=np.float64).reshape(-1)
    weights = (np.arange(v.size) * 7919 % 101) / 101.0
    return [float(v.sum()), float((v * weights).sum()), float(np.abs(v).sum())]


X = lambda: values((4096, 1024), 1, -0.5, 1.0)
ROW = lambda: values((1024,), 2, 0.5, 1.5)
COLUMN = lambda: values((4096, 1), 3, 0.5, 1.5)
BIAS = lambda: values((1024,), 4, -0.5, 1.0)
OUTER_COLUMN = lambda: values((2048, 1), 5, -0.5, 1.0)
OUTER_ROW = lambda: values((1, 2048), 6, -0.5, 1.0)
CUBE = lambda: values((64, 128, 256), 7, -0.5, 1.0)
MIDDLE = lambda: values((1, 128, 1), 8, 0.5, 1.5)
SAMPLES = lambda: values((4096, 256), 9, -0.5, 1.0)
GAMMA = lambda: values((256,), 10, 0.5, 1.5)
BETA = lambda: values((256,), 11, -0.5, 1.0)
SAMPLE_WEIGHT = lambda: values((4096, 1), 12, -0.5, 1.0)
BATCH_A = lambda: values((32, 1, 128, 64), 15, -0.5, 1.0)
BATCH_B = lambda: values((1, 8, 64, 128), 16, -0.5, 1.0)
SCORES = lambda: values((4096, 1024), 17, -3.0, 3.0)
SCORE_LABELS = lambda: labels(4096, 18, 1024)
ELEMENTS = lambda: values((4096, 1024), 19, -3.0, 3.0)
IMAGES = lambda: values((32, 64, 56, 56), 90, -0.5, 1.0)
EPSILON = 1e-5

MLPS = {
    "W9": dict(sizes=(2, 16, 16, 1), batch=16, activation="tanh", goal="mse-sgd"),
    "W10": dict(sizes=(64, 128, 64, 10), batch=64, activation="relu", goal="cross-entropy-adam"),
    "W11": dict(sizes=(784, 512, 256, 10), batch=128, activation="relu", goal="cross-entropy-adam"),
}


def layers(sizes):
    for i, (n, m) in enumerate(zip(sizes, sizes[1:])):
        bound = np.float32(1.0) / np.sqrt(np.float32(n))
        yield values((m, n), 20 + 2 * i, -bound, bound), values((m,), 21 + 2 * i, -bound, bound)


def batch(mlp):
    x = values((mlp["batch"], mlp["sizes"][0]), 30, -0.5, 1.0)
    if mlp["goal"] == "mse-sgd":
        return x, values((mlp["batch"], mlp["sizes"][-1]), 31, -0.5, 1.0)
    return x, labels(mlp["batch"], 31, mlp["sizes"][-1])


def affine(shape, salt):
    bound = np.float32(1.0) / np.sqrt(np.float32(np.prod(shape[1:])))
    return [values(shape, salt, -bound, bound), values(shape[:1], salt + 1, -bound, bound)]


def language_model():
    """The parameters in the order of `src/workloads/networks.rs`, the input and the target."""
    parameters = [values((65, 64), 40, -1.0, 1.0), values((64, 64), 41, -1.0, 1.0)]
    for salt in (42, 54):
        for i, shape in enumerate([(64,), (64,), (192, 64), (64, 64), (256, 64), (64, 256)]):
            parameters += affine(shape, salt + 2 * i)
    parameters += affine((64,), 66) + affine((65, 64), 68)
    return parameters, labels(1024, 70, 65).reshape(16, 64), labels(1024, 71, 65)


def convolutions():
    parameters = affine((8, 1, 3, 3), 80) + affine((16, 8, 3, 3), 82) + affine((10, 784), 84)
    return parameters, values((64, 1, 28, 28), 86, -0.5, 1.0), labels(64, 87, 10)


# The formulas that PyTorch and JAX write alike: the key, the inputs, the function, and whether gradients are wanted.
def formulas(softmax_loss, cross_entropy, gelu, sigmoid, exp, tanh, sqrt, convolve, largest):
    def norm(x, gamma, beta, weight):
        centred = x - x.mean(0, keepdims=True)
        variance = (centred * centred).mean(0, keepdims=True)
        return ((centred / sqrt(variance + EPSILON) * gamma + beta) * weight).sum()

    table = {
        "W1": ([X, ROW], lambda x, w: x + w, 0),
        "W2": ([OUTER_COLUMN, OUTER_ROW], lambda a, b: a * b, 0),
        "W3": ([X, ROW], lambda x, w: (x * w).sum(), 2),
        "W4": ([X, COLUMN], lambda x, w: (x * w).sum(), 2),
        "W5": ([CUBE, MIDDLE], lambda x, w: (x * w).sum(), 2),
        "W5b": ([X, ROW, BIAS], lambda x, w, b: ((x * w + b) ** 2).sum(), 3),
        "W6": ([SAMPLES, GAMMA, BETA, SAMPLE_WEIGHT], norm, 3),
        "W7-columns": ([X], lambda x: x.sum(0), 0),
        "W7-rows": ([X], lambda x: x.sum(1, keepdims=True), 0),
        "W7-all": ([X], lambda x: x.sum(), 0),
        "W7-middle": ([CUBE], lambda x: x.sum((0, 2), keepdims=True), 0),
        "W12b": ([BATCH_A, BATCH_B], lambda a, b: (a @ b).sum(), 2),
        "W12b-dense": ([BATCH_A, BATCH_B], lambda a, b: ((a @ b) ** 2).sum(), 2),
        "W17-log_softmax": ([SCORES], softmax_loss, 1),
        "W17-cross_entropy": ([SCORES, SCORE_LABELS], cross_entropy, 1),
    }
    for n in (64, 256, 1024, 2048):
        factor = lambda salt, n=n: values((n, n), salt, -0.5, 1.0)
        table[f"W12-{n}"] = ([lambda f=factor: f(13), lambda f=factor: f(14)], lambda a, b: a @ b, 0)
    for name, shape in {"3x3": (64, 64, 3, 3), "1x1": (64, 64, 1, 1), "depthwise": (64, 1, 3, 3)}.items():
        kernel = lambda shape=shape: values(shape, 91, -0.1, 0.1)
        y = lambda x, w, s=shape: convolve(x, w, s[2] // 2, 64 // s[1])
        table[f"W18-{name}"] = ([IMAGES, kernel], y, 0)
        table[f"W18-{name}-back"] = ([IMAGES, kernel], lambda x, w, y=y: (y(x, w) ** 2).sum(), 2)
    table["W18-pool"] = ([IMAGES], largest, 0)
    for name, f in dict(exp=exp, tanh=tanh, gelu=gelu, sigmoid=sigmoid).items():
        table[f"W16-{name}"] = ([ELEMENTS], f, 0)
        table[f"W16-{name}-back"] = ([ELEMENTS], lambda x, f=f: f(x).sum(), 1)
    return table


# ---- measuring ------------------------------------------------------------------------------------------------------


class Job:
    """What is timed: `run`, and the checksums. `prepare` and `reset` are not timed."""

    prepare = None

    def reset(self):
        pass


class Plain(Job):
    def __init__(self, run, checksums):
        self.run, self.checksums = run, checksums


def measure(job, quick):
    budget, shortest, least, most = (0.06, 1e-4, 3, 50) if quick else (0.6, 2e-4, 7, 400)

    def sample(repeats):
        job.reset()
        if job.prepare is None:
            start = time.perf_counter()
            for _ in range(repeats):
                job.run()
            return time.perf_counter() - start
        used = 0.0
        for _ in range(repeats):
            job.prepare()
            start = time.perf_counter()
            job.run()
            used += time.perf_counter() - start
        return used

    repeats = 1
    sample(repeats)
    while (used := sample(repeats)) < shortest:
        repeats = int(np.ceil(repeats * min(max(shortest / max(used, 1e-9), 1.2), 10.0)))
    samples, total = [], 0.0
    while len(samples) < least or (total < budget and len(samples) < most):
        used = sample(repeats)
        total += used
        samples.append(used * 1e6 / repeats)
    low, median, high = np.percentile(samples, [25, 50, 75])
    return [min(samples), low, median, high]


def report(**line):
    print(json.dumps(line), flush=True)


def give_up(runner, threads, why):
    report(workload="", runner=runner, threads=threads, error=why)
    sys.exit(0)


# ---- PyTorch --------------------------------------------------------------------------------------------------------


def torch_jobs(compiled, threads):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    wrap = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
    table = formulas(
        softmax_loss=lambda x: F.log_softmax(x, 1).sum(),
        cross_entropy=F.cross_entropy,
        gelu=F.gelu,
        sigmoid=torch.sigmoid,
        exp=torch.exp,
        tanh=torch.tanh,
        sqrt=torch.sqrt,
        convolve=lambda x, w, padding, groups: F.conv2d(x, w, padding=padding, groups=groups),
        largest=lambda x: F.max_pool2d(x, 2),
    )

    def formula(key):
        makers, function, leaves = table[key]
        torch._dynamo.reset()
        inputs = [torch.from_numpy(make()) for make in makers]
        if not leaves:
            f = wrap(function)
            return Plain(lambda: f(*inputs), lambda: [checksum(f(*inputs))])
        for x in inputs[:leaves]:
            x.requires_grad_()
        f = wrap(function)

        def run():
            for x in inputs[:leaves]:
                x.grad = None
            loss = f(*inputs)
            loss.backward()
            return loss

        def checksums():
            loss = run()
            return [checksum(t.detach().numpy()) for t in [loss] + [x.grad for x in inputs[:leaves]]]

        return Plain(run, checksums)

    class Step(Job):
        """A step of training. `fused` and a compiled step are PyTorch's ways of making the optimiser fast."""

        def __init__(self, start, optimizer, loss, parameters=None):
            torch._dynamo.reset()
            self.start = [torch.from_numpy(v) for v in start]
            self.parameters = parameters or [v.clone().requires_grad_() for v in self.start]
            self.optimizer = optimizer(self.parameters)
            self.forward = wrap(lambda: loss(self.parameters))
            self.step = wrap(self.optimizer.step)
            self.begin()

        def begin(self):
            self.steps = 0
            with torch.no_grad():
                for p, v in zip(self.parameters, self.start):
                    p.copy_(v)
            for state in self.optimizer.state.values():
                for v in state.values():
                    if torch.is_tensor(v):
                        v.zero_()

        def reset(self):
            if self.steps >= RESET_AFTER:
                self.begin()

        def run(self):
            self.steps += 1
            self.optimizer.zero_grad()
            loss = self.forward()
            loss.backward()
            self.step()
            return loss

        def checksums(self):
            self.begin()
            sums = [checksum(self.run().detach().numpy()) for _ in range(STEPS_CHECKED)]
            return sums + [checksum(p.detach().numpy()) for p in self.parameters]

    adam = lambda p: torch.optim.Adam(p, lr=1e-3, fused=not compiled)
    adamw = lambda p: torch.optim.AdamW(p, lr=1e-3, fused=not compiled)

    def training(mlp):
        modules, start = [], list(layers(mlp["sizes"]))
        for i, (w, b) in enumerate(start):
            if i:
                modules.append(torch.nn.Tanh() if mlp["activation"] == "tanh" else torch.nn.ReLU())
            modules.append(torch.nn.Linear(w.shape[1], w.shape[0]))
        model = torch.nn.Sequential(*modules)
        x, y = map(torch.from_numpy, batch(mlp))
        regression = mlp["goal"] == "mse-sgd"
        measure_of, optimizer = (F.mse_loss, lambda p: torch.optim.SGD(p, lr=0.05)) if regression else (F.cross_entropy, adam)
        loss = lambda _: measure_of(model(x), y)
        return Step([v for pair in start for v in pair], optimizer, loss, list(model.parameters()))

    def transformer():
        start, ids, target = language_model()
        ids, target = map(torch.from_numpy, (ids, target))

        def loss(p):
            x = F.embedding(ids, p[0]) + p[1]
            heads = lambda v: v.reshape(16, 64, 4, 16).transpose(1, 2)
            for i in (2, 14):
                n1, c1, n2, c2, qkv, cq, out, co, wide, cw, narrow, cn = p[i : i + 12]
                q, k, v = map(heads, F.linear(F.layer_norm(x, (64,), n1, c1), qkv, cq).chunk(3, -1))
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + F.linear(y.transpose(1, 2).reshape(16, 64, 64), out, co)
                x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (64,), n2, c2), wide, cw)), narrow, cn)
            scores = F.linear(F.layer_norm(x, (64,), p[26], p[27]), p[28], p[29])
            return F.cross_entropy(scores.reshape(-1, 65), target)

        return Step(start, adamw, loss)

    def images():
        start, x, target = convolutions()
        x, target = map(torch.from_numpy, (x, target))

        def loss(p):
            h = F.max_pool2d(F.relu(F.conv2d(x, p[0], p[1], padding=1)), 2)
            h = F.max_pool2d(F.relu(F.conv2d(h, p[2], p[3], padding=1)), 2)
            return F.cross_entropy(F.linear(h.flatten(1), p[4], p[5]), target)

        return Step(start, adam, loss)

    def chain(x):
        y = x * x
        for _ in range(CHAIN_NODES // 2):
            y = y * x + x
        return y

    class ChainBack(Job):
        def __init__(self):
            self.x = torch.tensor([0.5], requires_grad=True)
            self.ready = []

        def prepare(self):
            self.x.grad = None
            self.ready.append(chain(self.x))

        def run(self):
            self.ready.pop().backward()

        def checksums(self):
            self.prepare()
            self.run()
            return [checksum(self.x.grad.numpy())]

    def forward_chain():
        x = torch.tensor([0.5], requires_grad=True)
        return Plain(lambda: chain(x), lambda: [checksum(chain(x).detach().numpy())])

    def additions():
        x = torch.tensor([1.0], requires_grad=True)
        one = torch.tensor([1.0])

        def run():
            x.grad = None
            y = x + one
            for _ in range(ADDITIONS - 1):
                y = y + one
            y.backward()
            return y

        return Plain(run, lambda: [checksum(run().detach().numpy()), checksum(x.grad.numpy())])

    jobs = {key: lambda key=key: formula(key) for key in table}
    jobs |= {key: lambda mlp=mlp: training(mlp) for key, mlp in MLPS.items()}
    jobs |= {"W13": transformer, "W14": images}
    if not compiled:  # a trace of so many operations does not compile in any useful time
        jobs |= {"W8-forward": forward_chain, "W8-backward": ChainBack, "W15": additions}
    return jobs, f"torch {torch.__version__}"


# ---- JAX ------------------------------------------------------------------------------------------------------------


def jax_jobs(threads):
    # XLA has no other way of saying how many threads it may use.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp

    def cross_entropy(x, y):
        # A mask, which XLA fuses; the gradient of take_along_axis would be a slow scatter.
        mask = jnp.arange(x.shape[1])[None, :] == y[:, None]
        return -jnp.where(mask, jax.nn.log_softmax(x, axis=1), 0.0).sum() / x.shape[0]

    table = formulas(
        softmax_loss=lambda x: jax.nn.log_softmax(x, axis=1).sum(),
        cross_entropy=cross_entropy,
        gelu=lambda x: jax.nn.gelu(x, approximate=False),
        sigmoid=jax.nn.sigmoid,
        exp=jnp.exp,
        tanh=jnp.tanh,
        sqrt=jnp.sqrt,
        convolve=lambda x, w, padding, groups: jax.lax.conv_general_dilated(x, w, (1, 1), [(padding, padding)] * 2, feature_group_count=groups),
        largest=lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
    )

    def formula(key):
        makers, function, leaves = table[key]
        inputs = [jnp.asarray(make()) for make in makers]
        if not leaves:
            f = jax.jit(function)
            return Plain(lambda: f(*inputs).block_until_ready(), lambda: [checksum(f(*inputs))])
        f = jax.jit(jax.value_and_grad(function, argnums=tuple(range(leaves))))

        def checksums():
            loss, gradients = f(*inputs)
            return [checksum(loss)] + [checksum(g) for g in gradients]

        return Plain(lambda: jax.block_until_ready(f(*inputs)), checksums)

    class Training(Job):
        def __init__(self, mlp):
            self.start = [jnp.asarray(v) for pair in layers(mlp["sizes"]) for v in pair]
            x, y = map(jnp.asarray, batch(mlp))
            activation = jnp.tanh if mlp["activation"] == "tanh" else jax.nn.relu

            def loss_of(parameters):
                h = x
                for i in range(0, len(parameters), 2):
                    h = h @ parameters[i].T + parameters[i + 1]
                    if i + 2 < len(parameters):
                        h = activation(h)
                return ((h - y) ** 2).mean() if mlp["goal"] == "mse-sgd" else cross_entropy(h, y)

            def sgd(state):
                t, parameters, m, v = state
                loss, gradients = jax.value_and_grad(loss_of)(parameters)
                return loss, (t, [p - 0.05 * g for p, g in zip(parameters, gradients)], m, v)

            def adam(state):
                t, parameters, m, v = state
                loss, gradients = jax.value_and_grad(loss_of)(parameters)
                t = t + 1
                m = [0.9 * a + 0.1 * g for a, g in zip(m, gradients)]
                v = [0.999 * a + 0.001 * g * g for a, g in zip(v, gradients)]
                scale, root = 1e-3 / (1 - 0.9**t), jnp.sqrt(1 - 0.999**t)
                moved = [p - scale * a / (jnp.sqrt(b) / root + 1e-8) for p, a, b in zip(parameters, m, v)]
                return loss, (t, moved, m, v)

            self.step = jax.jit(sgd if mlp["goal"] == "mse-sgd" else adam, donate_argnums=0)
            self.begin()

        def begin(self):
            self.steps = 0
            zeros = lambda: [jnp.zeros_like(p) for p in self.start]
            # Copies, because a step is given its arguments for good.
            self.state = (jnp.float32(0), [p.copy() for p in self.start], zeros(), zeros())

        def reset(self):
            if self.steps >= RESET_AFTER:
                self.begin()

        def run(self):
            self.steps += 1
            loss, self.state = self.step(self.state)
            jax.block_until_ready(loss)
            return loss

        def checksums(self):
            self.begin()
            sums = [checksum(self.run()) for _ in range(STEPS_CHECKED)]
            return sums + [checksum(p) for p in self.state[1]]

    jobs = {key: lambda key=key: formula(key) for key in table}
    jobs |= {key: lambda mlp=mlp: Training(mlp) for key, mlp in MLPS.items()}
    return jobs, f"jax {jax.__version__}"


# ---- the command line -----------------------------------------------------------------------------------------------


def main():
    runner, threads, effort, keys = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    try:
        if runner == "jax":
            jobs, version = jax_jobs(threads)
        else:
            jobs, version = torch_jobs(runner == "compile", threads)
    except ImportError as e:
        give_up(runner, threads, f"not installed: {e}")
    report(version=version)
    for key in keys:
        if key not in jobs:
            continue
        line = dict(workload=key, runner=runner, threads=threads)
        try:
            job = jobs[key]()
            sums = job.checksums()
            line |= dict(times=measure(job, effort == "quick"), checksums=sums)
        except Exception as e:  # somebody else's library: say so and go on
            line |= dict(error=f"{type(e).__name__}: {e}")
        report(**line)


if __name__ == "__main__":
    main()
