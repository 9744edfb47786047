//! Every message that a user may meet, whole: the programs are here, what is said of them, in the same order, in `messages.txt`.

use foldback::gradcheck::Check;
use foldback::graph::{Grad, Operation, RequiresGrad, detect_anomaly, fuse, value_and_grad};
use foldback::nn::loss::*;
use foldback::nn::{Dropout, GELU, Linear, Sequential};
use foldback::optim::Adam;
use foldback::prelude::*;
use foldback::tensor::{BroadcastWarning, NamedAxes, Pad, broadcast_warning};

/// What is said of each program, without the line that called.
macro_rules! said {
    ($($program:expr;)*) => {
        vec![$($program.map(drop).expect_err(stringify!($program)).with_location(None).to_string()),*]
    };
}

fn of(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape)
}

/// Tensors, and variables where they say the same.
fn tensors() -> Vec<String> {
    let (x, y, list) = (of(&[4, 3]), of(&[3, 4]), of(&[3]));
    let (ids, truth) = (tensor![0, 2; i64], tensor![true, false; bool]);
    let v = x.clone().requires_grad();
    said! {
        x.add(&y);
        x.add(of(&[4]));
        v.clone().add(Var::from(of(&[5])));
        of(&[3]).add_(&x);
        of(&[2, 3]).copy_(of(&[3, 2]));
        x.expand([2, 3]);
        x.sum(2);
        x.sum([0, 0]);
        x.transpose(0, 2);
        x.squeeze(5);
        x.unsqueeze(4);
        of(&[2, 2, 2]).try_t();
        x.reshape([5, 5]);
        x.reshape([5, -1]);
        x.reshape([-1, -1]);
        x.t().view([12]);
        x.select(0, 9);
        x.slice(s![9]);
        x.narrow(1, 2, 5);
        x.matmul(&x);
        x.matmul(of(&[2]));
        x.mm(&list);
        x.bmm(&x);
        x.dot(&list);
        x.linear(of(&[5, 4]), None);
        x.linear(of(&[5, 3]), of(&[4]));
        Tensor::cat([&x, &x, &y], 0);
        Tensor::cat([&x, &list], 0);
        Tensor::stack([&x, &y], 0);
        Tensor::cat([] as [Tensor; 0], 0);
        Var::cat([&v, &Var::from(&y)], 1);
        Tensor::einsum("ij,jk->ik", [&x, &x]);
        Tensor::einsum("ij,jk->il", [&x, &y]);
        Tensor::einsum("ij,jk->ik", [&x]);
        x.split([1, 1], 0);
        x.chunk(0, 0);
        x.pad([1]);
        x.topk(9, 1);
        x.permute([0, 0]);
        x.permute([1]);
        x.flatten(3..);
        x.item();
        ids.try_gelu();
        ids.mean(..);
        ids.clone().exp_();
        ids.var(..);
        ids.softmax(0);
        truth.try_neg();
        truth.sub(&truth);
        ids.matmul(of(&[2]));
        x.matmul(of(&[3, 2]).double());
        x.linear(of(&[5, 3]).double(), None);
        x.gather(1, &x);
        x.gather(1, &ids);
        x.index_select(0, tensor![9; i64]);
        x.index_select(0, tensor![1.0]);
        x.masked_fill(&x, 0.0);
        x.masked_select(of(&[4, 3]));
        x.where_cond(1.0, 2.0);
        x.slice(tensor![0.0, 1.0]);
        ids.clone().add_(0.5);
        ids.pow(-1);
        ids.div_floor(0);
        ids.remainder(0);
        of(&[0]).amax(..);
        of(&[0, 3]).argmax(0);
        x.clamp(&y, 1.0);
        x.cumsum(4);
        ids.one_hot(1);
        tensor![-1; i64].one_hot(3);
        Tensor::embedding(tensor![7; i64], of(&[5, 2]));
        Tensor::embedding(of(&[2]), of(&[5, 2]));
        x.layer_norm(4);
        x.group_norm(2);
        x.batch_norm(of(&[3]), of(&[4]));
        of(&[1, 3, 8, 8]).conv2d(of(&[8, 1, 3, 3]));
        of(&[3, 8, 8]).conv2d(of(&[8, 3, 9, 9]));
        of(&[1, 3, 8, 8]).conv2d_with(of(&[8, 3, 3, 3]), Conv::new().stride(0));
        of(&[1, 3, 8, 8]).max_pool2d(9);
        of(&[2, 5, 4]).scaled_dot_product_attention(of(&[2, 5, 3]), of(&[2, 5, 3]));
        x.dropout(1.5);
        Tensor::from_vec(vec![1.0, 2.0, 3.0], [2, 2]);
        x.to_vec::<f64>();
        x.item_as::<f64>();
        tensor![1.0].expand([1usize << 60]).unwrap().try_contiguous();
        x.roll([1, 2], 0);
        of(&[4]).pad_with([5, 5], Pad::Reflect);
        x.expand([4, 3]).and_then(|mut e| { e = e.narrow(0, 0, 1)?.expand([4, 3])?; e.add_(1.0).map(drop) });
        { let _guard = broadcast_warning(BroadcastWarning::Refuse); of(&[4, 1]).sub(of(&[4])) };
        { let _guard = broadcast_warning(BroadcastWarning::Refuse); of(&[4, 5]).sum(keep(1)).and_then(|k| k.div(of(&[4]))) };
        { let _guard = broadcast_warning(BroadcastWarning::Refuse); of(&[4, 1]).mul(of(&[1, 4])) };
        NamedAxes::new().expect(&x, ["batch"]);
        { let mut axes = NamedAxes::new(); axes.expect(&x, ["batch", "feature"]).and_then(|_| axes.expect(&y, ["batch", "feature"])) };
    }
}

/// Passes, leaves and operations of a user's own.
fn graphs() -> Vec<String> {
    let (x, y) = (of(&[4, 3]), of(&[3, 4]));
    let (v, w) = (of(&[4, 3]).requires_grad(), tensor![1.0, 2.0].requires_grad());
    let (constant, detached) = (Var::from(tensor![1.0]), w.detach());
    let quiet = no_grad(|| w.mul(2.0)).unwrap();
    said! {
        v.backward();
        constant.backward();
        detached.sum(..).unwrap().backward();
        quiet.sum(..).unwrap().backward();
        no_grad(|| w.square().sum(..)).unwrap().backward();
        no_grad(|| w.square().sum(..)?.backward());
        w.argmax(0).unwrap().backward();
        { let mut w = w.deep_copy(); w.requires_grad_(false).unwrap(); w.backward() };
        { let y = w.square().sum(..).unwrap(); y.backward().unwrap(); y.backward() };
        v.backward_with(&tensor![1.0]);
        grad(w.square().sum(..).unwrap(), &[&constant]);
        grad(w.square().sum(..).unwrap(), &[&v]);
        grad(constant.sum(..).unwrap(), &[&w]);
        Var::leaf(tensor![1; i64]);
        Var::from(tensor![1; i64]).requires_grad_(true);
        (&w * 1.0).requires_grad_(false);
        w.clone().add_(1.0);
        w.set_grad(Some(tensor![1.0]));
        (&w * 1.0).set_grad(None);
        w.clone().set_value(tensor![1.0]);
        (&w * 1.0).set_value(tensor![1.0]);
        constant.register_hook(|_| ());
        constant.retain_grad();
        Grad::new([&w.square()], [&w]).seeds(&[] as &[Var]).run();
        value_and_grad(|x| Ok(x[0].clone()), &[&tensor![1.0, 2.0]]);
        value_and_grad(|x| x[0].sum(..), &[&tensor![1; i64]]);
        fuse!(|a, b| a * b).call([&x, &y]);
        Operation::new("mine", |[x]| x.exp(), |_, [_g]| tensor![1.0, 2.0]).call([&of(&[3]).requires_grad()]).and_then(|y| y.sum(..)?.backward());
        detect_anomaly(|| { tensor![0.0, 1.0].requires_grad().sqrt().sum(..).unwrap().backward() });
        detect_anomaly(|| { let x = tensor![-1.0, 1.0].requires_grad(); x.gt(0.0).unwrap().where_cond(x.sqrt(), 0.0).unwrap().sum(..).unwrap().backward() });
    }
}

/// Layers, losses and optimisers.
fn models() -> Vec<String> {
    let (w, ids) = (tensor![1.0, 2.0].requires_grad(), tensor![0, 2; i64]);
    said! {
        Linear::new(3, 2).forward(of(&[2, 4]));
        Linear::new(3, 2).forward(of(&[2, 3]).double());
        Linear::new(3, 2).dtype(DType::F64).forward(of(&[2, 3]));
        Linear::new(3, 2).forward(Tensor::zeros_with([2, 3], DType::I64));
        Sequential::new().then(Linear::new(2, 8)).then(Linear::new(4, 1)).forward(of(&[1, 2]));
        Sequential::new().then(Linear::new(2, 8)).then(Linear::new(8, 1)).forward(of(&[1, 2]).double());
        GELU.forward(Tensor::zeros_with([2, 3], DType::I64));
        Dropout::try_new(1.5);
        mse_loss(of(&[4, 1]), of(&[4]));
        mse_loss(of(&[4]), of(&[4, 1]));
        mse_loss(of(&[4, 3]), of(&[3]));
        mse_loss(of(&[4]), of(&[5]));
        mse_loss(&ids, &ids);
        binary_cross_entropy(of(&[2]), tensor![0, 1; i64]);
        binary_cross_entropy(tensor![1.5], tensor![1.0]);
        binary_cross_entropy(of(&[2]), of(&[2]).double());
        binary_cross_entropy_with_logits(of(&[2]), tensor![0, 1; i64]);
        cross_entropy(of(&[2, 3]), tensor![0.0, 1.0]);
        cross_entropy(of(&[2, 3]), tensor![0.0, 1.0; f64]);
        cross_entropy(of(&[2, 3]), tensor![0, 1, 2; i64]);
        cross_entropy(of(&[2, 3]), tensor![[0], [1]; i64]);
        cross_entropy(of(&[2, 3]), tensor![0, 3; i64]);
        cross_entropy(of(&[2, 3]), tensor![0, -1; i64]);
        cross_entropy(of(&[2, 3]), tensor![true, false; bool]);
        cross_entropy(&ids, of(&[2, 3]));
        cross_entropy(of(&[]), tensor![0; i64]);
        nll_loss(of(&[2, 3]), tensor![0.0, 1.0]);
        nll_loss(of(&[2, 3]), of(&[2, 3]));
        CrossEntropyLoss::new().label_smoothing(2.0).forward(of(&[2, 3]), &ids);
        NLLLoss::new().weight(of(&[2])).forward(of(&[2, 3]), &ids);
        MSELoss::new().weight(of(&[2])).forward(of(&[3]), of(&[3]));
        kl_div(of(&[2]), of(&[3]));
        HuberLoss::new().delta(0.0).forward(of(&[2]), of(&[2]));
        SGD::try_new([w.clone()], -1.0);
        SGD::try_new([] as [Var; 0], 0.1);
        Adam::try_new([w.clone(), w.clone()], 0.1);
        Adam::try_new([&w * 1.0], 0.1);
        Adam::try_new([w.clone()], f64::NAN);
    }
}

/// Checks of gradients.
fn checks() -> Vec<String> {
    said! {
        gradcheck(|x| Ok(x[0].exp()), &[tensor![1.0]]);
        gradcheck(|x| Ok(x[0].exp()), &[] as &[Tensor]);
        gradcheck(|x| Ok(x[0].to(DType::F32)), &[tensor![1.0; f64]]);
        gradcheck(|x| Ok(x[0].relu()), &[tensor![0.0; f64]]);
        gradcheck(|x| Ok(x[0].clone()), &[tensor![1; i64]]);
        gradcheck(|x| Ok(x[0].detach()), &[tensor![1.0; f64]]);
        gradcheck(|x| x[0].masked_select(x[0].gt(0.0)?), &[tensor![0.0, 1.0; f64]]);
        Check::new().step(-1.0).gradcheck(|x| Ok(x[0].exp()), &[tensor![1.0; f64]]);
        Check::new().seeds(0).gradcheck(|x| Ok(x[0].exp()), &[tensor![1.0; f64]]);
        Check::new().tracked(&[false]).gradcheck(|x| Ok(x[0].exp()), &[tensor![1.0; f64]]);
        Check::new().tracked(&[true, true]).gradcheck(|x| Ok(x[0].exp()), &[tensor![1.0; f64]]);
        Check::new().seed(tensor![1.0; f64]).gradcheck(|x| Ok(x[0].exp()), &[tensor![1.0, 2.0; f64]]);
    }
}

/// The line of a program in this file is left out: it is not what is said.
fn without_lines(text: &str) -> String {
    let mut parts = text.split(file!());
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        whole += "this file";
        whole += part.trim_start_matches(|c: char| c == ':' || c.is_ascii_digit());
    }
    whole
}

#[test]
fn each_message_is_as_it_was_read() {
    let said: Vec<String> = [tensors(), graphs(), models(), checks()].concat();
    let said: Vec<String> = said.iter().map(|text| without_lines(text)).collect();
    let expected: Vec<&str> = include_str!("messages.txt").trim_end().split("\n\n").collect();
    for (said, expected) in said.iter().zip(&expected) {
        assert_eq!(said, expected);
    }
    assert_eq!(said.len(), expected.len());
}

/// A program that ends with an error shows the same: `main` prints `Debug`, and so does `unwrap`.
#[test]
fn debug_is_the_text() {
    let e = of(&[4, 3]).add(of(&[3, 4])).unwrap_err();
    assert_eq!(format!("{e:?}"), e.to_string());
    assert!(format!("{e:#?}").contains("facts: Broadcast {"));
}
