//! Operations that are composed of rows, and rows of numbers and of nothing.

use super::*;

type Composed = (&'static str, &'static [&'static [usize]], Domain, fn(&[Var]) -> Result<Var>);

/// What is composed of rows, and the arguments that make a row's operation another one, or its pieces meet again. A node is made for a
/// row, which has samples, for `fuse!`, for a user's own operation, for `checkpoint`, for an argument of `vjp` and its
/// relatives, and for a large folded gradient; these have tests of their own.
const COMPOSED: &[Composed] = &[
    ("pow zero", &[&[2, 3]], Domain::Any, |x| x[0].pow(0.0)),
    ("pow one half", &[&[2, 3]], Domain::Positive, |x| x[0].pow(0.5)),
    ("var", &[&[4, 3]], Domain::Any, |x| x[0].var(0)),
    ("std", &[&[4, 3]], Domain::Distinct, |x| x[0].std(keep([0, 1]))),
    ("to", &[&[2, 3]], Domain::Any, |x| Ok(x[0].to(DType::F64))),
    ("contiguous", &[&[2, 3]], Domain::Any, |x| Ok(x[0].t().contiguous())),
    ("broadcast_to", &[&[3]], Domain::Any, |x| x[0].broadcast_to([2, 3])),
    ("narrow", &[&[3, 4]], Domain::Any, |x| x[0].narrow(1, -3, 2)),
    ("select", &[&[3, 4]], Domain::Any, |x| x[0].select(1, -2)),
    ("t", &[&[2, 3]], Domain::Any, |x| Ok(x[0].t())),
    ("t of a vector", &[&[3]], Domain::Any, |x| Ok(x[0].t())),
    ("split", &[&[3, 4]], Domain::Any, |x| x[0].split(3, 1).map(|parts| parts[0].clone() * 2.0)),
    ("chunk", &[&[5, 2]], Domain::Any, |x| x[0].chunk(2, 0).map(|parts| parts[1].clone() * 2.0)),
    ("chunks", &[&[2, 6]], Domain::Any, |x| {
        let [a, b, c] = x[0].chunks(-1)?;
        a.mul(&b)?.add(c)
    }),
    ("split, one piece twice", &[&[2, 5]], Domain::Any, |x| {
        let pieces = x[0].split(2, -1)?;
        pieces[0].mul(&pieces[1])?.add(&pieces[2])?.mul(&pieces[0])
    }),
    ("split, a piece without elements, one unused", &[&[6, 2]], Domain::Any, |x| {
        let pieces = x[0].split([1, 0, 3, 2], 0)?;
        Var::cat([&pieces[2], &pieces[1], &pieces[0]], 0)?.square().mul(&pieces[0])
    }),
    ("split, beside the whole", &[&[4, 3]], Domain::Any, |x| {
        let pieces = x[0].split(1, 0)?;
        x[0].mul(&pieces[3])?.add(x[0].select(0, 1)?)
    }),
    ("unbind, a row twice", &[&[3, 2]], Domain::Any, |x| {
        let rows = x[0].unbind(0)?;
        rows[0].mul(&rows[1])?.add(&rows[2])?.mul(&rows[0])
    }),
    ("unbind, numbers that broadcast", &[&[3], &[2, 1]], Domain::Any, |x| {
        let numbers = x[0].unbind(-1)?;
        numbers[0].mul(&x[1])?.add(numbers[2].mul(&x[0])?)
    }),
    ("select, in a loop", &[&[4, 3]], Domain::Any, |x| {
        let mut product = x[0].select(0, 0)?;
        for row in [1, -1, 1] {
            product = product.mul(x[0].select(0, row)?)?;
        }
        Ok(product)
    }),
    ("slices of one whole", &[&[4, 3]], Domain::Any, |x| {
        let places = x[0].slice(tensor![3, 1, 1; i64])?;
        places
            .mul(x[0].narrow(0, 1, 3)?)?
            .add(x[0].slice((1.., 2..))?)?
            .mul(x[0].narrow(1, 0, 1)?.slice(1..)?)
    }),
    ("unbind", &[&[3, 2]], Domain::Any, |x| x[0].unbind(1).map(|parts| &parts[0] * &parts[1])),
    ("expand_as", &[&[3], &[2, 3]], Domain::Any, |x| x[0].expand_as(&x[1])?.mul(&x[1])),
    ("mm", &[&[2, 3], &[3, 2]], Domain::Any, |x| x[0].mm(&x[1])),
    ("bmm", &[&[2, 2, 3], &[2, 3, 1]], Domain::Any, |x| x[0].bmm(&x[1])),
    ("mv", &[&[2, 3], &[3]], Domain::Any, |x| x[0].mv(&x[1])),
    ("dot", &[&[3], &[3]], Domain::Any, |x| x[0].dot(&x[1])),
    ("var_mean", &[&[4, 3]], Domain::Any, |x| x[0].var_mean(0).and_then(|(var, mean)| var.mul(mean))),
    ("norm", &[&[4, 3]], Domain::NonZero, |x| x[0].norm(1)),
    ("sort", &[&[4, 3]], Domain::Distinct, |x| Ok(x[0].sort(0)?.0)),
    ("topk", &[&[4, 3]], Domain::Distinct, |x| Ok(x[0].topk(2, 0)?.0)),
    ("outer", &[&[3], &[2]], Domain::Any, |x| x[0].outer(&x[1])),
    ("addmm", &[&[2], &[3, 2], &[2, 2]], Domain::Any, |x| x[0].addmm(&x[1], &x[2])),
    ("baddbmm", &[&[], &[2, 1, 2], &[2, 2, 2]], Domain::Any, |x| x[0].baddbmm(&x[1], &x[2])),
    ("einsum, products", &[&[2, 3], &[3, 2]], Domain::Any, |x| Var::einsum("ij,jk->ki", x)),
    ("einsum, batches", &[&[2, 1, 2, 3], &[2, 3, 2]], Domain::Any, |x| Var::einsum("...ij,bjk->b...k", x)),
    ("einsum, diagonals", &[&[2, 2, 3], &[2, 3]], Domain::Any, |x| Var::einsum("iij,ij->j", x)),
    ("einsum, broadcast", &[&[2, 1], &[1, 3], &[2]], Domain::Any, |x| Var::einsum("ij,ij,i->j", x)),
    ("powi", &[&[2, 3]], Domain::Any, |x| Ok(x[0].powi(3))),
    ("log", &[&[2, 3]], Domain::Positive, |x| Ok(x[0].log())),
    ("slice_assign", &[&[3, 4], &[4]], Domain::Any, |x| {
        let mut whole = x[0].mul(2.0)?;
        whole.slice_assign(1, &x[1])?;
        Ok(whole)
    }),
];

#[test]
fn composed_operations_at_both_orders() {
    let mut report = Report::default();
    for (name, shapes, domain, run) in COMPOSED {
        let mut random = Random::new(13);
        let inputs = shapes.iter().map(|s| fill(*s, *domain, &mut random)).collect();
        let domains = vec![*domain; shapes.len()];
        let case = Case { name: name.to_string(), inputs, domains, run: *run };
        let all: Vec<usize> = (0..shapes.len()).collect();
        for layout in Layout::ALL {
            let Some(case) = case.laid_out(layout, &all) else { continue };
            for tracked in subsets(&case.trackable()) {
                report.both(&check().seeds(1), &case, &tracked);
            }
        }
    }
    report.finish(100);
}

/// 0-d and empty inputs of operations whose samples are listed, and sizes at which their gradients take another path.
const CORNERS: &[Composed] = &[
    ("sum of nothing", &[&[2, 0]], Domain::Any, |x| x[0].sum(..)),
    ("sum over no axes", &[&[2, 3]], Domain::Any, |x| x[0].sum(Vec::<isize>::new())),
    ("sum of a number over axis 0", &[&[]], Domain::Any, |x| x[0].sum(keep(0))),
    ("mean of a number", &[&[]], Domain::Any, |x| x[0].mean(0)),
    ("mean to nothing", &[&[0, 3]], Domain::Any, |x| x[0].mean(1)),
    ("prod of a number", &[&[]], Domain::Any, |x| x[0].prod(..)),
    ("prod of one", &[&[2, 1]], Domain::Any, |x| x[0].prod(keep(1))),
    ("cumprod of one", &[&[2, 1]], Domain::Truth, |x| x[0].cumprod(1)),
    ("cumprod of nine with zeros", &[&[9, 2]], Domain::Truth, |x| x[0].cumprod(0)),
    ("cumsum to nothing", &[&[0, 3]], Domain::Any, |x| x[0].cumsum(1)),
    ("median to nothing", &[&[0, 3]], Domain::Any, |x| x[0].median(1)),
    ("sort of nothing", &[&[0]], Domain::Any, |x| Ok(x[0].sort(0)?.0)),
    ("topk of none", &[&[2, 3]], Domain::Any, |x| Ok(x[0].topk(0, 1)?.0)),
    ("topk of a number", &[&[]], Domain::Any, |x| Ok(x[0].topk(1, 0)?.0)),
    ("norm of nothing", &[&[2, 0]], Domain::Any, |x| x[0].norm_with(1, 1)),
    ("einsum of nothing", &[&[2, 0], &[0]], Domain::Any, |x| Var::einsum("ij,j->i", x)),
    ("prod of nothing", &[&[2, 0]], Domain::Any, |x| x[0].prod(1)),
    ("prod to nothing", &[&[0, 3]], Domain::Any, |x| x[0].prod(-1)),
    ("prod of seven", &[&[7]], Domain::Any, |x| x[0].prod(keep(..))),
    ("var of a number", &[&[]], Domain::Any, |x| x[0].var_with(.., 0.0)),
    ("var to nothing", &[&[0, 3]], Domain::Any, |x| x[0].var(1)),
    ("std to nothing", &[&[3, 0]], Domain::Any, |x| x[0].std(keep(0))),
    ("amax of a number", &[&[]], Domain::Any, |x| x[0].amax(..)),
    ("amin to nothing", &[&[2, 0]], Domain::Any, |x| x[0].amin(0)),
    ("logsumexp of a number", &[&[]], Domain::Any, |x| x[0].logsumexp(..)),
    ("logsumexp to nothing", &[&[2, 0]], Domain::Any, |x| x[0].logsumexp(0)),
    ("sum_to_size itself", &[&[2, 3]], Domain::Any, |x| x[0].sum_to_size([2, 3])),
    ("softmax of a number", &[&[]], Domain::Any, |x| x[0].softmax(0)),
    ("softmax of nothing", &[&[2, 0]], Domain::Any, |x| x[0].softmax(1)),
    ("log_softmax of a number", &[&[]], Domain::Any, |x| x[0].log_softmax(-1)),
    ("log_softmax of nothing", &[&[0, 2]], Domain::Any, |x| x[0].log_softmax(0)),
    ("matmul without rows", &[&[0, 3], &[3, 2]], Domain::Any, |x| x[0].matmul(&x[1])),
    ("matmul without batches", &[&[0, 2, 3], &[3, 2]], Domain::Any, |x| x[0].matmul(&x[1])),
    ("matmul of empty vectors", &[&[0], &[0]], Domain::Any, |x| x[0].matmul(&x[1])),
    ("matmul, vector and two batches", &[&[3], &[2, 2, 3, 2]], Domain::Any, |x| x[0].matmul(&x[1])),
    ("matmul, both batches broadcast", &[&[2, 1, 2, 3], &[1, 3, 3, 2]], Domain::Any, |x| x[0].matmul(&x[1])),
    ("matmul of a square with itself", &[&[3, 3]], Domain::Any, |x| x[0].matmul(&x[0])),
    ("gather of nothing", &[&[3, 2]], Domain::Any, |x| {
        x[0].gather(0, Tensor::zeros_with([0, 2], DType::I64))
    }),
    ("gather of a number", &[&[]], Domain::Any, |x| x[0].gather(0, &tensor![0, 0; i64])),
    ("index_select of nothing", &[&[3, 2]], Domain::Any, |x| {
        x[0].index_select(1, Tensor::zeros_with([0], DType::I64))
    }),
    ("index_add of nothing", &[&[3, 2], &[0, 2]], Domain::Any, |x| {
        x[0].index_add(0, Tensor::zeros_with([0], DType::I64), &x[1])
    }),
    ("permute of a number", &[&[]], Domain::Any, |x| x[0].permute(Vec::<isize>::new())),
    ("reshape of nothing", &[&[0, 3]], Domain::Any, |x| x[0].reshape([3, 0])),
    ("flip of everything", &[&[2, 3]], Domain::Any, |x| x[0].flip(..)),
    ("flip of a number", &[&[]], Domain::Any, |x| x[0].flip(..)),
    ("slice to nothing", &[&[4, 2]], Domain::Any, |x| x[0].slice(2..2)),
    ("slice of a slice", &[&[4, 5]], Domain::Any, |x| x[0].slice((1.., 1..4))?.slice((-1, 1..))),
    ("expand of an inner axis", &[&[2, 1, 3]], Domain::Any, |x| x[0].expand([4, 2, 5, 3])),
    ("expand to itself", &[&[2, 3]], Domain::Any, |x| x[0].expand([2, 3])),
    ("stack of numbers", &[&[], &[]], Domain::Any, |x| Var::stack(&[&x[0], &x[1]], 0)),
    ("where with a broadcast condition", &[&[3], &[2, 1]], Domain::Any, |x| {
        x[0].gt(&x[1])?.where_cond(&x[0], x[1].exp())
    }),
    ("where with a number", &[&[2, 3]], Domain::Any, |x| x[0].gt(0.3)?.where_cond(2.0, x[0].square())),
];

#[test]
fn numbers_and_empty_tensors_at_both_orders() {
    let mut report = Report::default();
    for (name, shapes, domain, run) in CORNERS {
        let mut random = Random::new(17);
        let inputs = shapes.iter().map(|s| fill(*s, *domain, &mut random)).collect();
        let case = Case { name: name.to_string(), inputs, domains: vec![*domain; shapes.len()], run: *run };
        for tracked in subsets(&case.trackable()) {
            report.both(&check(), &case, &tracked);
        }
    }
    report.finish(100);
}
