//! Products of matrices.

use foldback::prelude::*;

use super::lines;

lines! {
    LINES (x: Var, y: Var, a: Var, b: Var);
    "matmul": x.matmul(&y); "the types must agree, as in all products; not `@`"
    "mm": x.mm(&y); ""
    "bmm": x.bmm(&y); ""
    "mv": x.mv(&y); ""
    "dot": x.dot(&y); ""
    "outer": x.outer(&y); ""
    "addmm": x.addmm(&a, &b), x.addmm_with(&a, &b, 1, 0.5); "the numbers are `beta` and `alpha`"
    "baddbmm": x.baddbmm(&a, &b), x.baddbmm_with(&a, &b, 1, 0.5); "the numbers are `beta` and `alpha`"
    "einsum": Var::einsum("ij,jk->ik", [&a, &b]); "one list of operands"
}
