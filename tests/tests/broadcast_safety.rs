//! Broadcasts that were meant pass under `BroadcastWarning::Refuse`, those that nobody meant do not: programs as people write them.

use foldback::graph::{Domain, checkpoint, rows};
use foldback::prelude::*;
use foldback::tensor::{BroadcastWarning, broadcast_warning};
use foldback::{fuse, nn};
use foldback_tensor::refused;

fn data(shape: &[usize]) -> Var {
    Tensor::full(shape, 0.5).requires_grad()
}

type Program = fn() -> Result<Var>;

/// What each of these programs means is what it does.
const MEANT: &[(&str, Program)] = &[
    ("anchor sizes: each ratio with each scale", || {
        let (ratios, scales) = (data(&[3]), data(&[3]));
        ratios.unsqueeze(1)?.mul(&scales.unsqueeze(0)?)
    }),
    ("which labels are equal", || {
        let labels = data(&[8]).reshape([-1, 1])?;
        labels.eq(labels.t())
    }),
    ("distances between points, in place of a loop", || {
        let x = data(&[5, 3]);
        x.unsqueeze(0)?.sub(&x.unsqueeze(1)?)?.square().sum(2)
    }),
    ("distances from squared norms", || {
        let x = data(&[6, 3]);
        let norms = x.square().sum(keep(1))?;
        norms.add(norms.t())?.sub(&(x.matmul(x.t())? * 2.0))
    }),
    ("squared norms of both sides, one of them kept as a column", || {
        let (x, y) = (data(&[6, 3]), data(&[6, 3]));
        x.square().sum(keep(1))?.add(&y.square().sum(1)?)
    }),
    ("each value against each other, scaled on the way", || {
        let x = data(&[9]);
        ((x.unsqueeze(1)? * 2.0).exp() / 3.0).sub(&x)
    }),
    ("quantiles: targets against estimates", || {
        let (target, current) = (data(&[4, 7]), data(&[4, 7]));
        target.unsqueeze(1)?.sub(&current.unsqueeze(2)?)?.abs().mean(..)
    }),
    ("a row and a column of positions, reshaped", || {
        let steps = Tensor::arange_with(0..6, 1, DType::F32);
        Ok(Var::from(steps.reshape([6, 1])?.mul(steps.view([1, 6])?)?))
    }),
    ("rows and columns picked by two index tensors", || {
        let (rows, columns) = (Tensor::zeros_with([2, 1], DType::I64), Tensor::zeros_with([2], DType::I64));
        data(&[3, 4]).slice(s![&rows, &columns])
    }),
    ("a selection by a triangle", || {
        let steps = Tensor::arange(5);
        let causal = steps.unsqueeze(1)?.ge(steps.unsqueeze(0)?)?;
        Ok(Var::from(causal.where_cond(1.0, 0.0)?))
    }),
    ("heads and batches of a product", || {
        let (q, k) = (data(&[3, 2, 4]), data(&[3, 4, 2]));
        q.unsqueeze(1)?.matmul(&k.unsqueeze(0)?)
    }),
    ("fused: each with each", || {
        let x = data(&[4]);
        fuse!(|a, b| (a - b) * (a - b)).call([&x.unsqueeze(1)?, &x])
    }),
    ("a mean that is kept, taken away", || {
        let x = data(&[4, 4]);
        x.sub(&x.mean(keep(1))?)
    }),
    ("a row of biases, a column of gates, a number", || {
        data(&[4, 3]).add(data(&[3]))?.mul(data(&[4, 1]))?.mul(data(&[1]))
    }),
    ("a row of features for each sample of a column", || data(&[5]).mul(data(&[8, 1]))),
    ("the same elements with a leading axis", || data(&[1, 4]).add(data(&[4]))),
    ("quantiles: the loss of each estimate for each target", || {
        let (target, current) = (data(&[4, 7]), data(&[4, 7]));
        nn::loss::smooth_l1_loss(&target.unsqueeze(1)?, &current.unsqueeze(2)?)
    }),
    ("fused: distances from squared norms", || {
        let x = data(&[6, 3]);
        fuse!(|a, b| a + b).call([&x.square().sum(keep(1))?, &x.square().sum(1)?])
    }),
    ("fused: a matrix times a row, and a column", || {
        fuse!(|x, w, b| (x * w + b).square()).call([&data(&[2, 2]), &data(&[2]), &data(&[2, 1])])
    }),
    ("a choice for each pair, between a column and a row", || {
        data(&[4, 4]).gt(0.0)?.where_cond(data(&[4, 1]), data(&[4]))
    }),
    ("a step of two axes for each sample", || {
        let x = data(&[4, 5]);
        x.sub(&x.amax(keep(1))?)?.exp().div(&x.sub(&x.amax(keep(1))?)?.exp().sum(keep(1))?)
    }),
    ("added in place, over the batch", || {
        let mut scores = data(&[2, 3, 4, 4]).detach();
        Ok(scores.add_(&data(&[4, 4]).unsqueeze(0)?)?.clone())
    }),
];

/// What each of these programs does is a square where a list was meant.
const UNMEANT: &[(&str, Program)] = &[
    ("outputs of a layer against a list of targets", || {
        let layer = nn::Linear::new(3, 1);
        layer.forward(data(&[8, 3]))?.sub(data(&[8]))?.square().mean(..)
    }),
    ("a list of targets against outputs", || data(&[8]).sub(&data(&[8, 3]).matmul(data(&[3, 1]))?)),
    ("a weight per sample that came as a column", || data(&[6, 1]).mul(data(&[6]))),
    ("counting hits", || data(&[7, 1]).eq(data(&[7]))?.sum(..)),
    ("a mask that came as a list", || data(&[6, 1]).masked_select(data(&[6]).gt(0.0)?)),
    ("a ratio of probabilities", || data(&[5, 1]).sub(data(&[5]))?.exp().mean(..)),
    ("a row of one table against a column of another", || data(&[6, 1]).sub(data(&[1, 6]))),
    ("a point that came as a column less a column of a matrix", || {
        let (point, centres) = (data(&[2, 1]), data(&[2, 3]));
        point.sub(&centres.slice(s![.., 0])?)
    }),
    ("a column that was cut out", || data(&[6, 4]).narrow(1, 0, 1)?.sub(data(&[6]))),
    ("a column whose width followed from the number of elements", || {
        data(&[6]).reshape((6, -1))?.sub(data(&[6]))
    }),
    ("a choice by a column of labels", || data(&[4, 1]).gt(0.0)?.where_cond(data(&[4]), 0.0)),
    ("a mixture whose weight has an axis more", || data(&[4]).lerp(data(&[4]), data(&[4, 1]))),
    ("a product of two added", || data(&[4]).addcmul(data(&[4, 1]), 2.0)),
    ("fused", || fuse!(|p, t| (p - t) * (p - t)).mean([&data(&[4, 1]), &data(&[4])], ..)),
    ("an image with an axis too many", || data(&[2, 1, 4, 4]).mul(data(&[2, 1, 1, 4, 4]))),
    ("batches of a product", || data(&[3, 1, 2, 4]).matmul(data(&[3, 4, 2]))),
    ("a mean by weights, kept on one side", || {
        let (x, w) = (data(&[3, 5]), data(&[3, 5]));
        x.mul(&w)?.sum(keep(1))?.div(&w.sum(1)?)
    }),
    ("a ratio of densities that were summed, kept on one side", || {
        data(&[5, 2]).sum(keep(1))?.sub(data(&[5]))?.exp().mean(..)
    }),
    ("a kept score that is weighted", || data(&[5, 2]).amax(keep(1))?.mul(data(&[5]))),
    ("a cut-off", || data(&[4, 1]).clamp(data(&[4]), 9.0)),
];

#[test]
fn what_is_meant_passes() {
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    for (what, program) in MEANT {
        program().unwrap_or_else(|e| panic!("{what}: {e}"));
    }
}

#[test]
fn what_nobody_meant_is_refused() {
    for (what, program) in UNMEANT {
        program().unwrap_or_else(|e| panic!("{what}: {e}"));
        let _guard = broadcast_warning(BroadcastWarning::Refuse);
        let result = program();
        assert!(
            refused!(result, foldback_tensor::TensorFacts::BroadcastRefused { .. }),
            "{what}: {result:?}"
        );
    }
}

/// Losses compare shapes at every level, and one side cannot excuse it.
#[test]
fn losses_refuse_shapes_that_differ() {
    use nn::loss::*;
    let (column, list) = (data(&[4, 1]), data(&[4]));
    let meant = list.unsqueeze(1).unwrap();
    let losses: [fn(&Var, &Var) -> Result<Var>; 7] = [
        |a, b| mse_loss(a, b),
        |a, b| l1_loss(a, b),
        |a, b| smooth_l1_loss(a, b),
        |a, b| huber_loss(a, b),
        |a, b| binary_cross_entropy(a, b),
        |a, b| binary_cross_entropy_with_logits(a, b),
        |a, b| kl_div(a, b),
    ];
    for loss in losses {
        assert!(loss(&list, &list).is_ok());
        for other in [&column, &meant, &data(&[1])] {
            assert!(loss(other, &list).is_err() && loss(&list, other).is_err());
        }
    }
}

/// All pairs of two lists, both of which say so: the loss of what `expand` makes of them, forward and backward.
#[test]
fn losses_take_pairs_that_say_so() {
    use nn::loss::*;
    let losses: [fn(&Var, &Var) -> Result<Var>; 7] = [
        |a, b| mse_loss(a, b),
        |a, b| l1_loss(a, b),
        |a, b| smooth_l1_loss(a, b),
        |a, b| huber_loss(a, b),
        |a, b| binary_cross_entropy(a, b),
        |a, b| binary_cross_entropy_with_logits(a, b),
        |a, b| kl_div(a, b),
    ];
    let of = |values: Tensor| values.requires_grad();
    for loss in losses {
        let (a, b) = (of(tensor![0.1, 0.5, 0.8]), of(tensor![0.2, 0.9]));
        let pairs = [a.unsqueeze(0).unwrap(), b.unsqueeze(1).unwrap()];
        let found = loss(&pairs[0], &pairs[1]).unwrap();
        let [wide, high] = pairs.each_ref().map(|v| v.expand([2, 3]).unwrap());
        let expected = loss(&wide, &high).unwrap();
        assert_eq!(found.value(), expected.value());
        let slopes = |root: &Var| {
            let grads = Grad::new([root], [&a, &b]).run().unwrap();
            grads.into_iter().map(|g| g.unwrap().value()).collect::<Vec<_>>()
        };
        assert_eq!(slopes(&found), slopes(&expected));
        // One of the two did not say so.
        let [row, column] = [of(tensor![[0.1, 0.5]]), of(tensor![[0.2], [0.9]])];
        assert!(
            loss(&row, &pairs[1]).is_err()
                && loss(&pairs[0], &column).is_err()
                && loss(&row, &column).is_err()
        );
    }
}

/// A backward pass, and one through it, broadcast as their formulas do.
#[test]
fn gradients_of_what_is_meant_are_never_refused() {
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    for (what, program) in MEANT {
        let result = program().unwrap();
        if !result.requires_grad() {
            continue;
        }
        let backward = Backward::new().create_graph(true);
        result.sum(..).unwrap().backward_with(backward).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
}

/// What a checkpoint runs again has been looked at.
#[test]
fn a_checkpoint_is_run_again_as_it_was() -> Result<()> {
    let (column, list) = (data(&[4, 1]), data(&[4]));
    let y = checkpoint(|[a, b]: &[Var; 2]| a.mul(b)?.sin().sum(..), [&column, &list])?;
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    y.backward()?;
    assert_eq!(list.grad().unwrap().dims(), [4]);
    Ok(())
}

/// The layers and losses that there are, at sizes that coincide, trained for a step.
#[test]
fn no_layer_and_no_loss_broadcasts_what_nobody_meant() -> Result<()> {
    use nn::loss;
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    for n in [1, 2, 4] {
        let model = nn::Sequential::new()
            .then(nn::Linear::new(n, n))
            .then(nn::ReLU)
            .then(nn::Linear::new(n, n))
            .then(nn::GELU)
            .then(nn::GELUTanh)
            .then(nn::SiLU)
            .then(nn::Softplus::new())
            .then(nn::Sigmoid)
            .then(nn::Tanh)
            .then(nn::Dropout::new(0.5))
            .then(nn::Linear::new(n, 1));
        let adam = Adam::new(model.parameters(), 0.1);
        let (x, target) = (data(&[n, n]), Tensor::full([n, 1], 0.5));
        let out = model.forward(&x)?;
        for loss in [
            loss::mse_loss(&out, &target)?,
            loss::l1_loss(&out, &target)?,
            loss::huber_loss(&out, &target)?,
            loss::smooth_l1_loss(&out, &target)?,
            loss::binary_cross_entropy_with_logits(&out, &target)?,
            loss::binary_cross_entropy(out.sigmoid(), &target)?,
            loss::kl_div(out.sigmoid().ln(), &target)?,
            loss::cross_entropy(&model.forward(data(&[n, n]))?, Tensor::zeros_with([n], DType::I64))?,
            loss::BCEWithLogitsLoss::new().pos_weight(Tensor::ones([1])).forward(&out, &target)?,
        ] {
            loss.backward_with(Backward::new().retain_graph(true))?;
            adam.step()?;
        }
    }
    Ok(())
}

/// Functions that broadcast inside: statistics over axes, weights, masks, rows of images.
#[test]
fn no_function_of_rows_or_images_broadcasts_what_nobody_meant() -> Result<()> {
    let _guard = broadcast_warning(BroadcastWarning::Refuse);
    for n in [2, 4] {
        let (x, w, b) = (data(&[n, n, n, n]), data(&[n, n, 1, 1]), data(&[n]));
        let rows = data(&[n, n]);
        for y in [
            x.conv2d_with(&w, Conv::new().bias(&b))?,
            x.layer_norm_with(n, Norm::new().weight(&b).bias(&b))?,
            x.group_norm_with(1, Norm::new().weight(&b).bias(&b))?,
            x.instance_norm(),
            x.batch_norm_train(Norm::new().weight(&b))?.0,
            x.scaled_dot_product_attention_with(&x, &x, Attention::new().is_causal(true))?,
            rows.softmax(1)?,
            rows.log_softmax(0)?,
            rows.normalize(1)?,
            rows.cosine_similarity(&rows, 1)?,
            rows.var(keep(1))?,
            rows.std(0)?,
            rows.prelu(data(&[1]))?,
            rows.addmm(&rows, &rows)?,
            b.outer(&b)?,
            Var::einsum("i,j->ij", [&b, &b])?,
            rows.masked_fill(rows.gt(0.0)?, 0.0)?,
            rows.tril(),
            rows.cumsum(0)?,
        ] {
            y.sum(..)?.backward()?;
        }
    }
    Ok(())
}

/// Each row of the derivative table, at first and second order: what a program may compute, its gradients may.
#[test]
fn no_gradient_of_the_table_is_refused() {
    let (mut ran, mut failures) = (0, Vec::new());
    for row in rows() {
        for sample in row.samples() {
            let input = |(shape, domain): &(Vec<usize>, Domain)| match domain {
                Domain::Truth if row.is_pointwise() => Var::from(Tensor::zeros_with(&shape[..], DType::Bool)),
                _ => Tensor::full_with(&shape[..], 0.5, DType::F64).requires_grad(),
            };
            let inputs: Vec<Var> = sample.inputs.iter().map(input).collect();
            let leaves: Vec<&Var> = inputs.iter().filter(|v| v.requires_grad()).collect();
            let _guard = broadcast_warning(BroadcastWarning::Refuse);
            let Ok(result) = (sample.run)(&inputs) else { continue };
            if !result.requires_grad() {
                continue;
            }
            let root = result.sum(..).unwrap();
            let first = Grad::new([&root], &leaves).allow_unused(true).create_graph(true).run();
            let label = || format!("{} ({})", row.name, sample.label);
            // Several seeds at once: an axis more, which nobody has written.
            let seeds = Tensor::ones_with([&[2], result.dims()].concat(), result.dtype());
            let batched =
                Grad::new([&result], &leaves).seeds([&seeds]).is_grads_batched(true).allow_unused(true);
            failures
                .extend(batched.retain_graph(true).run().err().map(|e| format!("{}, batched: {e}", label())));
            failures.extend(first.as_ref().err().map(|e| format!("{}: {e}", label())));
            let grads = first.unwrap_or_default().into_iter().flatten();
            for slope in grads.filter(|g| g.requires_grad()) {
                let passed =
                    slope.square().sum(..).and_then(|v| v.backward_with(Backward::new().retain_graph(true)));
                failures.extend(passed.err().map(|e| format!("{}, again: {e}", label())));
            }
            ran += 1;
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(ran > 300, "{ran}");
}

/// What comes out of a computation has no axis that was made on purpose, unless it has it from an operand.
#[test]
fn columns_that_are_computed_are_not_meant() -> Result<()> {
    let (list, column, table) = (data(&[4]), data(&[4, 1]), data(&[4, 3]));
    let ids = Tensor::zeros_with([4], DType::I64);
    for (what, column) in [
        ("matmul", table.matmul(data(&[3, 1]))?),
        ("linear", table.linear(data(&[1, 3]), data(&[1]))?),
        ("addmm", data(&[1]).addmm(&table, data(&[3, 1]))?),
        ("einsum", Var::einsum("ij,jk->ik", [&table, &data(&[3, 1])])?),
        ("embedding", Var::embedding(&ids, data(&[5, 1]))?),
        ("softmax", column.softmax(0)?),
        ("layer_norm", column.layer_norm_with([4, 1], Norm::new())?),
        ("group_norm", data(&[4, 2, 3]).group_norm(1)?.narrow(1, 0, 1)?.select(2, 0)?),
        ("cat", Var::cat(&[&column.narrow(0, 0, 2)?, &column.narrow(0, 2, 2)?], 0)?),
        ("chunk", data(&[4, 2]).chunk(2, 1)?.remove(0)),
        ("index_select", data(&[6, 1]).index_select(0, &ids)?),
        ("gather", table.gather(1, Tensor::zeros_with([4, 1], DType::I64))?),
        ("repeat", data(&[2, 1]).repeat([2, 1])?),
        ("roll", column.roll(1, 0)?),
        ("centred", column.sub(&column.mean(keep(..))?)?),
        ("scaled", column.div(&column.std(keep(0))?)?),
        ("sigmoid", column.sigmoid()),
        ("prelu", column.prelu(data(&[1]))?),
        ("fused", fuse!(|x| x * 2.0).call([&column])?),
        ("fused sum", fuse!(|x| x * 2.0).sum([&data(&[4, 1, 3])], 2)?),
    ] {
        assert_eq!(column.dims(), [4, 1], "{what}");
        let _guard = broadcast_warning(BroadcastWarning::Refuse);
        assert!(column.sub(&list).is_err(), "{what}");
    }
    for (what, kept) in [
        ("fused sum", fuse!(|x| x * 2.0).sum([&table], keep(1))?),
        ("fused mean", fuse!(|x| x * 2.0).mean([&table], keep(1))?),
        ("norm", table.norm(keep(1))?),
        ("logsumexp", table.logsumexp(keep(1))?),
        ("max", table.max_with_indices(keep(1))?.0),
    ] {
        let _guard = broadcast_warning(BroadcastWarning::Refuse);
        assert!(kept.sub(kept.t()).is_ok() && kept.add(&list).is_ok(), "{what}");
        assert!(kept.sub(&list).is_err(), "{what}");
    }
    Ok(())
}
