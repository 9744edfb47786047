"""Attention with every mask, embedding, and gates."""

from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from .samples import Op, T, V, below, inf, nan, ok, refused


def heads(q, k, v, **named):
    return ok(query=T(q), key=T(k), value=T(v), **named)


def no_heads(q, k, v, **named):
    return refused(query=T(q), key=T(k), value=T(v), **named)


def mask(shape, values):
    return T(shape, values=values, dtype="bool")


def attention():
    plain = ([2, 3, 2], [2, 4, 2], [2, 4, 3])
    for q, k, v in [plain, ([3, 2], [4, 2], [4, 3]), ([1, 1], [1, 1], [1, 1]), ([1, 2, 2, 3], [1, 2, 2, 3], [1, 2, 2, 1])]:
        yield heads(q, k, v)
        yield heads(q, k, v, is_causal=True)
        yield heads(q, k, v, scale=0.25)
    for q, k, v in [([2, 2], [2, 3, 2], [2, 3, 2]), ([1, 2, 2], [3, 2, 2], [3, 2, 2]), ([2, 1, 2, 2], [2, 2, 2], [2, 1, 2, 1])]:
        yield heads(q, k, v)
    yield heads(*plain, scale=0.0)
    yield heads(*plain, scale=-1.5)
    # Seen keys; the second query sees none.
    seen = mask([3, 4], [1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0])
    yield heads(*plain, attn_mask=seen)
    yield heads(*plain, attn_mask=mask([2, 1, 4], [1, 0, 1, 1, 0, 1, 1, 0]))
    yield heads(*plain, attn_mask=mask([4], [1, 0, 1, 1]))
    yield heads(*plain, attn_mask=mask([3, 1], [1, 0, 1]))
    yield heads(*plain, attn_mask=mask([], [1]))
    yield heads(*plain, attn_mask=T([3, 4]))
    yield heads(*plain, attn_mask=T([2, 3, 4], "transposed"))
    yield heads(*plain, attn_mask=T([1, 3, 1]))
    hidden = T([3, 4], values=[0.0, -inf, 0.5, 0.0, -inf, -inf, -inf, -inf, 0.0, 0.0, -inf, 1.0], grad=False)
    yield heads(*plain, attn_mask=hidden)
    shared = ([4, 2, 2], [2, 3, 2], [2, 3, 1])
    yield heads(*shared, enable_gqa=True)
    yield heads(*shared, enable_gqa=True, attn_mask=T([4, 2, 3]))
    yield heads(*shared, enable_gqa=True, attn_mask=T([1, 1, 3]))
    yield heads([2, 3, 2, 2], [2, 1, 2, 2], [2, 1, 2, 2], enable_gqa=True, is_causal=True)
    yield no_heads([4, 2, 2], [3, 3, 2], [3, 3, 1], enable_gqa=True)
    yield no_heads(*shared)
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(query=T([2, 3, 2], layout), key=T([2, 4, 2], layout), value=T([2, 4, 3], layout))
        yield ok(query=T([2, 3, 2]), key=T([2, 4, 2], layout), value=T([2, 4, 3]), attn_mask=T([3, 4], layout))
    tracked = {"query": [3, 2], "key": [4, 2], "value": [4, 3]}
    for one in tracked:
        yield ok(**{name: T(shape, grad=name == one) for name, shape in tracked.items()})
    yield ok(query=T([2, 20, 8], dtype="f32"), key=T([2, 20, 8], dtype="f32"), value=T([2, 20, 8], dtype="f32"), is_causal=True)
    for q, k, v in [([2, 3], [0, 3], [0, 2]), ([0, 3], [4, 3], [4, 2]), ([0, 2, 3], [0, 4, 3], [0, 4, 2]), ([2, 0], [3, 0], [3, 2]), ([2, 3], [4, 3], [4, 0])]:
        yield heads(q, k, v)
    yield ok(query=T([2, 2], values=[1.0, 2.0, nan, 1.0]), key=T([3, 2]), value=T([3, 2]), tags=["special"])
    yield ok(query=T([2, 2], values=[800.0, 1.0, -800.0, 1.0]), key=T([3, 2]), value=T([3, 2]), tags=["special"])
    for q, k, v in [([3], [3], [3]), ([2, 3], [2, 4], [2, 4]), ([2, 3], [2, 3], [3, 4]), ([3, 2, 3], [4, 2, 3], [4, 2, 3])]:
        yield no_heads(q, k, v)
    yield no_heads(*plain, attn_mask=mask([3, 4], [1] * 12), is_causal=True)
    yield no_heads(*plain, attn_mask=mask([4, 4], [1] * 16))
    yield no_heads(*plain, attn_mask=T([5, 1, 3, 4]))
    yield no_heads(*plain, attn_mask=T([3, 4], dtype="i64"))
    yield heads(*plain, attn_mask=T([3, 4], dtype="f32", grad=False))
    yield refused(**{name: T([3, 3], dtype="f32") for name in ("query", "key", "value")}, attn_mask=T([3, 3]))
    yield no_heads(*plain, dropout_p=1.5)
    yield refused(query=T([2, 3]), key=T([2, 3], dtype="f32"), value=T([2, 3]))
    yield refused(query=T([2, 3], dtype="i64"), key=T([2, 3], dtype="i64"), value=T([2, 3], dtype="i64"))


def ids(shape, count, layout="contiguous"):
    return T(shape, layout, below(count), "i64")


def lookups():
    for shape in ([3], [2, 3], [], [2, 1, 2]):
        yield ok(input=ids(shape, 4), weight=T([4, 2]))
    for shape in ([0], [2, 0]):  # PyTorch has no second derivative of nothing
        yield ok(input=ids(shape, 4), weight=T([4, 2], grad=False))
    yield ok(input=V(2, 2, 2, 0, dtype="i64"), weight=T([4, 3]))
    yield ok(input=ids([2, 3], 4, "transposed"), weight=T([4, 3], "transposed"))
    yield ok(input=ids([2, 3], 4, "strided"), weight=T([4, 3], "expanded"))
    yield ok(input=ids([3], 4), weight=T([4, 3], dtype="f32"))
    yield ok(input=ids([3], 4), weight=T([4, 3], dtype="i64"))
    yield ok(input=ids([3], 4), weight=T([4, 0]))
    yield ok(input=ids([0], 1), weight=T([0, 2], grad=False))
    for padding in (0, 2, -1, -4):
        yield ok(input=V(0, 2, 3, 2, dtype="i64"), weight=T([4, 2]), padding_idx=padding)
    for outside in (4, -1):
        yield refused(input=V(0, outside, dtype="i64"), weight=T([4, 2]))
    yield refused(input=V(0.0, 1.0), weight=T([4, 2]))
    yield refused(input=ids([2], 2), weight=T([4]))
    yield refused(input=ids([2], 2), weight=T([4, 2, 2]))
    for padding in (4, -5):
        yield refused(input=ids([2], 2), weight=T([4, 2]), padding_idx=padding)


def gates():
    for shape, axis in [([4], 0), ([2, 4], -1), ([4, 3], 0), ([2, 4, 3], 1), ([2, 0], 1), ([0, 2], 1)]:
        yield ok(input=T(shape), dim=axis)
    yield ok(input=T([2, 6]))
    for layout in ("transposed", "strided", "expanded", "offset"):
        yield ok(input=T([2, 4], layout))
    yield ok(input=T([40], dtype="f32"))
    yield ok(input=V(1.0, 2.0, inf, 1.0, 800.0, -800.0, 0.0, inf), tags=["special"])
    yield refused(input=T([3]))
    yield refused(input=T([]))
    yield refused(input=T([4]), dim=1)
    yield refused(input=T([4], dtype="i64"))


def composed_attention(**named):
    """PyTorch's other forms have no second derivative."""
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(**named)


OPS = [
    Op("scaled_dot_product_attention", composed_attention, [attention()]),
    Op("embedding", F.embedding, [lookups()]),
    Op("glu", F.glu, [gates()]),
]
