"""Sums of products by labels: einsum."""

import torch

from .samples import Op, T, V, inf, nan, ok, refused

EQUATIONS = [
    ("ij,jk->ik", [[2, 3], [3, 2]]), ("ij,jk", [[2, 3], [3, 2]]), ("ji,kj->ki", [[2, 3], [2, 2]]), (" i j , j k -> k i ", [[2, 3], [3, 2]]),
    ("i,j->ij", [[2], [3]]), ("i,i", [[3], [3]]), ("i,i->i", [[3], [3]]), ("ij,ij->", [[2, 3], [2, 3]]), ("ij,ij->i", [[2, 3], [2, 3]]),
    ("ij,ji->j", [[2, 3], [3, 2]]), ("bij,bjk->bik", [[2, 2, 3], [2, 3, 2]]), ("bij,bjk->ikb", [[2, 2, 3], [2, 3, 2]]),
    ("bhqd,bhkd->bhqk", [[2, 1, 2, 3], [2, 1, 3, 3]]), ("...ij,...jk->...ik", [[2, 1, 2, 3], [2, 3, 2]]), ("...ij,...jk", [[2, 3], [2, 3, 2]]),
    ("i...,...i->...", [[3, 2], [2, 2, 3]]), ("...,...", [[2, 1], [3]]), ("...i->i...", [[2, 3, 2]]), ("...ij->ij", [[2, 2, 3]]), ("...->", [[2, 3]]),
    ("i->...", [[2]]), ("ij->ji", [[2, 3]]), ("ij->j", [[2, 3]]), ("ij->", [[2, 3]]), ("ba", [[2, 3]]), ("bA", [[2, 3]]), ("ii", [[3, 3]]),
    ("ii->i", [[3, 3]]), ("iii->i", [[2, 2, 2]]), ("iij->ji", [[2, 2, 3]]), ("ijij->ji", [[2, 2, 2, 2]]), ("ii...->...i", [[2, 2, 3]]),
    ("ii,ij->j", [[2, 2], [2, 3]]), ("ij,kj->ik", [[2, 1], [2, 3]]), ("ij,ij->ij", [[2, 1], [1, 3]]), ("ij,ij->j", [[2, 1], [1, 3]]),
    ("bij,bjk->bik", [[1, 2, 2], [2, 2, 1]]), ("ij,kl->il", [[2, 3], [2, 2]]), ("ij,jk,kl->il", [[2, 3], [3, 2], [2, 2]]), ("i,i,i->", [[3], [3], [3]]),
    ("ab,bc,ca->abc", [[2, 1], [1, 2], [2, 2]]), ("abc,cd,de,ea->b", [[2, 3, 2], [2, 2], [2, 3], [3, 2]]), ("ij,i,j->", [[2, 3], [2], [1]]),
    ("ij,", [[2, 3], []]), (",", [[], []]), ("", [[]]), ("->", [[]]), ("i,i->i", [[0], [0]]), ("ij,j->i", [[2, 0], [0]]), ("ij,jk->ik", [[0, 2], [2, 3]]),
    ("ii->i", [[0, 0]]), ("ij,jk->ik", [[2, 3], [1, 2]]),
]  # fmt: skip
WRONG = [
    ("ij,jk->ik", [[2, 3], [4, 2]]), ("ii", [[1, 3]]), ("...i,...i", [[2, 3], [4, 3]]), ("ij,jk", [[2, 3]]), ("ij", [[2, 3], [2, 3]]),
    ("ij->ik", [[2, 3]]), ("ij->ii", [[2, 3]]), ("ijk", [[2, 3]]), ("i", [[2, 3]]), ("i", [[]]), ("...ijk", [[2, 3]]), ("i1", [[2, 3]]),
    ("i..j", [[2, 3]]), ("i.j", [[2, 3]]), ("ij-k", [[2, 3]]), ("ij>i", [[2, 3]]), ("ij->i->j", [[2, 3]]), ("...i...", [[2, 3]]),
    ("i...->...i...", [[2, 3]]),
]  # fmt: skip


def sums():
    for equation, shapes in EQUATIONS:
        yield ok(equation=equation, operands=[T(s) for s in shapes])
    for equation, shapes in [("ij,jk->ik", [[2, 3], [3, 2]]), ("bij,bjk->bik", [[2, 2, 3], [2, 3, 2]]), ("iij->ij", [[2, 2, 3]]), ("ij,ij->i", [[2, 3], [2, 3]])]:
        for layout in ("transposed", "strided", "expanded", "offset"):
            yield ok(equation=equation, operands=[T(s, layout) for s in shapes])
        for dtype in ("f32", "i64"):
            yield ok(equation=equation, operands=[T(s, dtype=dtype) for s in shapes])
    yield ok(equation="ij,jk->ik", operands=[T([2, 3]), T([3, 2], grad=False)])
    yield ok(equation="ij,jk->ik", operands=[T([2, 3], grad=False), T([3, 2])])
    yield ok(equation="i,i->i", operands=[V(nan, inf, 0.0), V(1.0, 2.0, inf)], tags=["special"])
    yield ok(equation="ij->i", operands=[T([2, 2], values=[nan, 1.0, inf, -inf])], tags=["special"])
    for equation, shapes in WRONG:
        yield refused(equation=equation, operands=[T(s) for s in shapes])
    yield refused(equation="ij,jk->ik", operands=[T([2, 3]), T([3, 2], dtype="f32")])
    yield refused(equation="ij,jk->ik", operands=[T([2, 3], dtype="bool"), T([3, 2], dtype="bool")])


OPS = [Op("einsum", lambda equation, operands: torch.einsum(equation, *operands), [sums()])]
