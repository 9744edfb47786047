"""Runs the workloads of the benchmark package in PyTorch or JAX and prints a JSON line for each.

    python peers.py RUNNER THREADS full|quick KEY...

RUNNER is eager, eager-kept (the caller has set an allocator that keeps freed memory), compile or jax. The inputs are
those of `src/inputs.rs`, by the same formula; the checksums are those of `src/checksum.rs`. See `formulas.py`.
"""

import json
import os
import sys
import time
from types import SimpleNamespace

import numpy as np

from formulas import EPSILON, MLPS, batch, checksum, convolutions, formulas, language_model, layers

STEPS_CHECKED = 5
RESET_AFTER = 200
CHAIN_NODES = 20_000
ADDITIONS = 1_000_000


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
    table = formulas(SimpleNamespace(
        softmax_loss=lambda x: F.log_softmax(x, 1).sum(),
        cross_entropy=F.cross_entropy,
        gelu=F.gelu,
        sigmoid=torch.sigmoid,
        exp=torch.exp,
        tanh=torch.tanh,
        sqrt=torch.sqrt,
        convolve=lambda x, w, stride, padding, groups: F.conv2d(x, w, None, stride, padding, groups=groups),
        largest=F.max_pool2d,
        average=lambda x: F.avg_pool2d(x, 2),
        attention=lambda q, k, v, causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        layer_norm=lambda x, w, b: F.layer_norm(x, w.shape, w, b),
        rms_norm=lambda x, w: F.rms_norm(x, w.shape, w, EPSILON),
        batch_norm_relu=lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, training=True)),
        group_norm=lambda x, w, b: F.group_norm(x, 8, w, b),
        cumsum=torch.cumsum,
        cumprod=lambda x: torch.cumprod(x, 1),
        embedding=lambda table, ids: F.embedding(ids, table),
    ))

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

    def normalise(x, axes):
        centred = x - x.mean(axes, keepdims=True)
        return centred / jnp.sqrt((centred * centred).mean(axes, keepdims=True) + EPSILON)

    def attention(q, k, v, causal):
        scores = jnp.einsum("bhqe,bhke->bhqk", q, k) / np.sqrt(np.float32(q.shape[-1]))
        if causal:
            scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
        return jnp.einsum("bhqk,bhke->bhqe", jax.nn.softmax(scores, axis=-1), v)

    def convolve(x, w, stride, padding, groups):
        around = [(padding, padding)] * 2
        return jax.lax.conv_general_dilated(x, w, (stride, stride), around, feature_group_count=groups)

    def pool(x, start, f, size, stride, padding):
        around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        return jax.lax.reduce_window(x, start, f, (1, 1, size, size), (1, 1, stride, stride), around)

    layer_norm = lambda x, w, b: normalise(x, -1) * w + b
    largest = lambda x, size, stride, padding: pool(x, -jnp.inf, jax.lax.max, size, stride, padding)
    per_channel = lambda x, w, b: x * w[:, None, None] + b[:, None, None]
    in_groups = lambda x: normalise(x.reshape(x.shape[0], 8, -1), -1).reshape(x.shape)
    table = formulas(SimpleNamespace(
        softmax_loss=lambda x: jax.nn.log_softmax(x, axis=1).sum(),
        cross_entropy=cross_entropy,
        gelu=lambda x: jax.nn.gelu(x, approximate=False),
        sigmoid=jax.nn.sigmoid,
        exp=jnp.exp,
        tanh=jnp.tanh,
        sqrt=jnp.sqrt,
        convolve=convolve,
        largest=largest,
        average=lambda x: pool(x, 0.0, jax.lax.add, 2, 2, 0) / 4,
        attention=attention,
        layer_norm=layer_norm,
        rms_norm=lambda x, w: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * w,
        batch_norm_relu=lambda x, w, b: jax.nn.relu(per_channel(normalise(x, (0, 2, 3)), w, b)),
        group_norm=lambda x, w, b: per_channel(in_groups(x), w, b),
        cumsum=jnp.cumsum,
        cumprod=lambda x: jnp.cumprod(x, 1),
        embedding=lambda table, ids: table[ids],
    ))

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

    class Step(Job):
        """A step of training, compiled as a whole with its optimiser."""

        def __init__(self, start, loss_of, optimizer):
            self.start = [jnp.asarray(v) for v in start]

            def step(state):
                loss, gradients = jax.value_and_grad(loss_of)(state[1])
                return loss, optimizer(gradients, *state)

            # What a step is given, it may overwrite.
            self.step = jax.jit(step, donate_argnums=0)
            self.begin()

        def begin(self):
            self.steps = 0
            zeros = lambda: [jnp.zeros_like(p) for p in self.start]
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

    def sgd(gradients, t, parameters, m, v):
        return t, [p - 0.05 * g for p, g in zip(parameters, gradients)], m, v

    def adam(gradients, t, parameters, m, v):
        t = t + 1
        m = [0.9 * a + 0.1 * g for a, g in zip(m, gradients)]
        v = [0.999 * a + 0.001 * g * g for a, g in zip(v, gradients)]
        scale, root = 1e-3 / (1 - 0.9**t), jnp.sqrt(1 - 0.999**t)
        moved = [p - scale * a / (jnp.sqrt(b) / root + 1e-8) for p, a, b in zip(parameters, m, v)]
        return t, moved, m, v

    def adamw(gradients, t, parameters, m, v):
        return adam(gradients, t, [p * (1 - 1e-3 * 0.01) for p in parameters], m, v)

    def training(mlp):
        x, y = map(jnp.asarray, batch(mlp))
        activation = jnp.tanh if mlp["activation"] == "tanh" else jax.nn.relu
        regression = mlp["goal"] == "mse-sgd"

        def loss(p):
            h = x
            for i in range(0, len(p), 2):
                h = h @ p[i].T + p[i + 1]
                if i + 2 < len(p):
                    h = activation(h)
            return ((h - y) ** 2).mean() if regression else cross_entropy(h, y)

        return Step([v for pair in layers(mlp["sizes"]) for v in pair], loss, sgd if regression else adam)

    def transformer():
        start, ids, target = language_model()
        ids, target = map(jnp.asarray, (ids, target))
        linear = lambda x, w, b: x @ w.T + b

        def loss(p):
            x = p[0][ids] + p[1]
            heads = lambda v: v.reshape(16, 64, 4, 16).transpose(0, 2, 1, 3)
            for i in (2, 14):
                n1, c1, n2, c2, qkv, cq, out, co, wide, cw, narrow, cn = p[i : i + 12]
                q, k, v = map(heads, jnp.split(linear(layer_norm(x, n1, c1), qkv, cq), 3, -1))
                y = attention(q, k, v, True).transpose(0, 2, 1, 3).reshape(16, 64, 64)
                x = x + linear(y, out, co)
                wider = jax.nn.gelu(linear(layer_norm(x, n2, c2), wide, cw), approximate=False)
                x = x + linear(wider, narrow, cn)
            scores = linear(layer_norm(x, p[26], p[27]), p[28], p[29])
            return cross_entropy(scores.reshape(-1, 65), target)

        return Step(start, loss, adamw)

    def images():
        start, x, target = convolutions()
        x, target = map(jnp.asarray, (x, target))

        def loss(p):
            h = x
            for w, b in (p[0:2], p[2:4]):
                h = largest(jax.nn.relu(convolve(h, w, 1, 1, 1) + b[:, None, None]), 2, 2, 0)
            return cross_entropy(h.reshape(64, -1) @ p[4].T + p[5], target)

        return Step(start, loss, adam)

    jobs = {key: lambda key=key: formula(key) for key in table}
    jobs |= {key: lambda mlp=mlp: training(mlp) for key, mlp in MLPS.items()}
    jobs |= {"W13": transformer, "W14": images}
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
