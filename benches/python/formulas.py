"""The numbers that all runners start from, the sums they are compared by, and the work that PyTorch and JAX write alike."""

import numpy as np


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
TEN = lambda: values((10,), 92, -0.5, 1.0)
TEN_WEIGHTS = lambda: values((10,), 93, 0.5, 1.5)
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
ODD_IMAGES = lambda: values((7, 24, 37, 41), 90, -0.5, 1.0)
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


# The formulas that PyTorch and JAX write alike, with their own operations `o`: by the key, the makers of the inputs, the
# function, and of how many inputs, from the first, gradients are wanted.
def formulas(o):
    def norm(x, gamma, beta, weight):
        centred = x - x.mean(0, keepdims=True)
        variance = (centred * centred).mean(0, keepdims=True)
        return ((centred / o.sqrt(variance + EPSILON) * gamma + beta) * weight).sum()

    table = {
        "W1": ([X, ROW], lambda x, w: x + w, 0),
        "W2": ([OUTER_COLUMN, OUTER_ROW], lambda a, b: a * b, 0),
        "W3": ([X, ROW], lambda x, w: (x * w).sum(), 2),
        "W4": ([X, COLUMN], lambda x, w: (x * w).sum(), 2),
        "W23": ([TEN, TEN_WEIGHTS], lambda x, w: (x * w).sum(), 2),
        "W5": ([CUBE, MIDDLE], lambda x, w: (x * w).sum(), 2),
        "W5b": ([X, ROW, BIAS], lambda x, w, b: ((x * w + b) ** 2).sum(), 3),
        "W6": ([SAMPLES, GAMMA, BETA, SAMPLE_WEIGHT], norm, 3),
        "W7-columns": ([X], lambda x: x.sum(0), 0),
        "W7-rows": ([X], lambda x: x.sum(1, keepdims=True), 0),
        "W7-all": ([X], lambda x: x.sum(), 0),
        "W7-middle": ([CUBE], lambda x: x.sum((0, 2), keepdims=True), 0),
        "W12b": ([BATCH_A, BATCH_B], lambda a, b: (a @ b).sum(), 2),
        "W12b-dense": ([BATCH_A, BATCH_B], lambda a, b: ((a @ b) ** 2).sum(), 2),
        "W17-log_softmax": ([SCORES], o.softmax_loss, 1),
        "W17-cross_entropy": ([SCORES, SCORE_LABELS], o.cross_entropy, 1),
    }
    for n in (64, 256, 1024, 2048):
        factor = lambda salt, n=n: values((n, n), salt, -0.5, 1.0)
        table[f"W12-{n}"] = ([lambda f=factor: f(13), lambda f=factor: f(14)], lambda a, b: a @ b, 0)
    for name, f in dict(exp=o.exp, tanh=o.tanh, gelu=o.gelu, sigmoid=o.sigmoid).items():
        table[f"W16-{name}"] = ([ELEMENTS], f, 0)
        table[f"W16-{name}-back"] = ([ELEMENTS], lambda x, f=f: f(x).sum(), 1)
    return table | dict(both(o))


def both(o):
    """W18 to W22: the function alone, and the sum of its squares with the gradients of the first inputs."""
    for key, (makers, function, leaves) in layer_formulas(o).items():
        yield key, (makers, function, 0)
        yield f"{key}-back", (makers, lambda *inputs, f=function: (f(*inputs) ** 2).sum(), leaves)


def layer_formulas(o):
    table = {}

    def convolution(key, images, kernel, stride, padding, groups):
        makers = [images, lambda: values(kernel, 91, -0.1, 0.1)]
        table[key] = (makers, lambda x, w: o.convolve(x, w, stride, padding, groups), 2)

    convolution("W18-3x3", IMAGES, (64, 64, 3, 3), 1, 1, 1)
    convolution("W18-1x1", IMAGES, (64, 64, 1, 1), 1, 0, 1)
    convolution("W18-depthwise", IMAGES, (64, 1, 3, 3), 1, 1, 64)
    convolution("W18-first", lambda: values((8, 3, 224, 224), 90, -0.5, 1.0), (64, 3, 7, 7), 2, 3, 1)
    convolution("W18-odd", ODD_IMAGES, (36, 12, 3, 5), 2, 1, 2)
    table["W18-pool"] = ([IMAGES], lambda x: o.largest(x, 2, 2, 0), 1)
    table["W18-overlap"] = ([ODD_IMAGES], lambda x: o.largest(x, 3, 2, 1), 1)
    table["W18-average"] = ([IMAGES], o.average, 1)

    def attention(key, examples, heads, queries, keys, width, causal):
        shape = lambda rows, salt: lambda: values((examples, heads, rows, width), salt, -2.0, 2.0)
        makers = [shape(queries, 100), shape(keys, 101), shape(keys, 102)]
        table[key] = (makers, lambda q, k, v: o.attention(q, k, v, causal), 3)

    attention("W19-attention", 8, 8, 256, 256, 64, False)
    attention("W19-causal", 8, 8, 256, 256, 64, True)
    attention("W19-odd", 3, 5, 197, 131, 40, False)

    def norm(key, shape, salt, function, n, leaves=3):
        affine = [lambda: values((n,), 111, 0.5, 1.5), lambda: values((n,), 112, -0.5, 1.0)]
        table[key] = ([lambda: values(shape, salt, -0.5, 1.0), *affine][:leaves], function, leaves)

    norm("W20-layer_norm", (4096, 768), 110, o.layer_norm, 768)
    norm("W20-odd", (10_007, 77), 110, o.layer_norm, 77)
    norm("W20-rms_norm", (4096, 768), 110, o.rms_norm, 768, leaves=2)
    norm("W20-batch_norm", (32, 64, 56, 56), 90, o.batch_norm_relu, 64)
    norm("W20-group_norm", (32, 64, 56, 56), 90, o.group_norm, 64)
    table["W21-rows"] = ([X], lambda x: o.cumsum(x, 1), 1)
    table["W21-columns"] = ([X], lambda x: o.cumsum(x, 0), 1)
    table["W21-vector"] = ([lambda: X().reshape(-1)], lambda x: o.cumsum(x, 0), 1)
    table["W21-odd"] = ([lambda: values((129, 1023, 33), 120, -0.5, 1.0)], lambda x: o.cumsum(x, 1), 1)
    table["W21-cumprod"] = ([lambda: values((4096, 1024), 121, 0.99, 1.01)], o.cumprod, 1)

    def embedding(key, weight, ids):
        makers = [lambda: values(weight, 130, -0.5, 1.0), lambda: labels(ids[0] * ids[1], 131, weight[0]).reshape(ids)]
        table[key] = (makers, o.embedding, 1)

    embedding("W22-embedding", (32_000, 256), (32, 128))
    embedding("W22-characters", (65, 64), (16, 256))
    embedding("W22-odd", (1003, 37), (7, 719))
    return table
