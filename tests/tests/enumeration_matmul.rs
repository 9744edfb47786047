//! Matrix products of all pairs of shapes of rank up to 4 with sizes 0 to 3, values and both gradients, against plain
//! index loops. In debug builds every 23rd pair.

use foldback_gradcheck::testing::Layout;
use foldback_graph::{RequiresGrad, Var};
use foldback_tensor::Tensor;

fn shapes() -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    let mut last = all.clone();
    for _ in 0..4 {
        last = last.iter().flat_map(|s| (0..4).map(|n| [&[n][..], s].concat())).collect();
        all.extend(last.clone());
    }
    all
}

/// Small whole numbers, so that sums of products are exact.
fn values(n: usize, salt: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7 + salt * 3) % 5) as f64 - 2.0).collect()
}

/// The common shape of two batches; none if they do not broadcast.
fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y || y == 1 => Some(x),
            (1, y) => Some(y),
            _ => None,
        })
        .collect()
}

/// Where a matrix of a smaller batch lies, for the matrix `index` of the common one.
fn matrix_of(index: usize, common: &[usize], own: &[usize]) -> usize {
    let (mut rest, mut place, mut step) = (index, 0, 1);
    for (i, &size) in common.iter().enumerate().rev() {
        let at = rest % size;
        rest /= size;
        if let Some(k) = (i + own.len()).checked_sub(common.len()) {
            if own[k] != 1 {
                place += at * step;
            }
            step *= own[k];
        }
    }
    place
}

/// Shape and values of the product and of both gradients for a seed, by index loops; none if it is refused.
#[allow(clippy::type_complexity, reason = "four results of one loop")]
fn oracle(
    sa: &[usize],
    sb: &[usize],
    a: &[f64],
    b: &[f64],
) -> Option<(Vec<usize>, Vec<f64>, Vec<f64>, Vec<f64>)> {
    if sa.is_empty() || sb.is_empty() {
        return None;
    }
    let left = if sa.len() == 1 { vec![1, sa[0]] } else { sa.to_vec() };
    let right = if sb.len() == 1 { vec![sb[0], 1] } else { sb.to_vec() };
    let (batch_a, mk) = left.split_at(left.len() - 2);
    let (batch_b, kn) = right.split_at(right.len() - 2);
    let (m, k, n) = (mk[0], mk[1], kn[1]);
    if k != kn[0] {
        return None;
    }
    let batch = broadcast(batch_a, batch_b)?;
    let count: usize = batch.iter().product();
    let mut shape = batch.clone();
    if sa.len() > 1 {
        shape.push(m);
    }
    if sb.len() > 1 {
        shape.push(n);
    }
    let seed = values(count * m * n, 2);
    let (mut out, mut ga, mut gb) = (vec![0.0; count * m * n], vec![0.0; a.len()], vec![0.0; b.len()]);
    for p in 0..count {
        let (pa, pb) = (matrix_of(p, &batch, batch_a), matrix_of(p, &batch, batch_b));
        for i in 0..m {
            for j in 0..n {
                let at = (p * m + i) * n + j;
                for l in 0..k {
                    let (ia, ib) = ((pa * m + i) * k + l, (pb * k + l) * n + j);
                    out[at] += a[ia] * b[ib];
                    ga[ia] += seed[at] * b[ib];
                    gb[ib] += seed[at] * a[ia];
                }
            }
        }
    }
    Some((shape, out, ga, gb))
}

#[test]
fn products_of_all_pairs_of_shapes() {
    let stride = if cfg!(debug_assertions) { 23 } else { 1 };
    let shapes = shapes();
    let (mut done, mut refused) = (0, 0);
    let pairs = shapes.iter().flat_map(|a| shapes.iter().map(move |b| (a, b)));
    for (turn, (sa, sb)) in pairs.enumerate().filter(|p| p.0 % stride == 0) {
        let (a, b) = (values(sa.iter().product(), 0), values(sb.iter().product(), 1));
        let tensor = |v: &[f64], s: &[usize]| Tensor::from_slice(v, s).unwrap();
        let layouts = [Layout::ALL[turn % Layout::ALL.len()], Layout::ALL[turn / 7 % Layout::ALL.len()]];
        // Where a layout changes the values (an expanded one repeats them), the oracle works on those.
        let place =
            |v: &[f64], s: &[usize], layout: Layout| layout.apply(&tensor(v, s)).unwrap_or(tensor(v, s));
        let (ta, tb) = (place(&a, sa, layouts[0]), place(&b, sb, layouts[1]));
        let (a, b) = (ta.to_vec::<f64>().unwrap(), tb.to_vec::<f64>().unwrap());
        let (va, vb) = (ta.requires_grad(), tb.requires_grad());
        let what = || format!("{sa:?} {:?} @ {sb:?} {:?}", layouts[0], layouts[1]);
        match (va.matmul(&vb), oracle(sa, sb, &a, &b)) {
            (Err(_), None) => refused += 1,
            (Ok(y), Some((shape, out, ga, gb))) => {
                assert_eq!(y.value(), tensor(&out, &shape), "{}", what());
                let seed = values(out.len(), 2);
                y.backward_with(tensor(&seed, &shape)).unwrap();
                let grad = |v: &Var| v.grad().unwrap();
                assert_eq!(grad(&va), tensor(&ga, sa), "{}", what());
                assert_eq!(grad(&vb), tensor(&gb, sb), "{}", what());
                done += 1;
            }
            (found, wanted) => panic!("{}: {found:?} instead of {wanted:?}", what()),
        }
    }
    println!("{done} products and {refused} refusals");
    assert!(done > 100 && refused > 1000);
}
