//! An empty list of axes reduced nothing, where PyTorch reduces everything (but for `any` and `all`).

use foldback_graph::{RequiresGrad, Result, Var, fuse};
use foldback_tensor::{Axes, Tensor, tensor};

const NONE: [isize; 0] = [];

fn sample() -> Tensor {
    tensor![[1.0, 2.0], [3.0, 5.0]; f64]
}

#[test]
fn tensors_are_reduced_over_all_axes() {
    type Reduction = fn(&Tensor, Axes, bool) -> foldback_tensor::Result<Tensor>;
    let reductions: [(&str, Reduction); 8] = [
        ("sum", |x, axes, keep| x.sum(axes, keep)),
        ("mean", |x, axes, keep| x.mean(axes, keep)),
        ("prod", |x, axes, keep| x.prod(axes, keep)),
        ("var", |x, axes, keep| x.var(axes, keep)),
        ("std", |x, axes, keep| x.std(axes, keep)),
        ("amax", |x, axes, keep| x.amax(axes, keep)),
        ("amin", |x, axes, keep| x.amin(axes, keep)),
        ("logsumexp", |x, axes, keep| x.logsumexp(axes, keep)),
    ];
    for (name, f) in reductions {
        for keep in [false, true] {
            let (none, all) = (f(&sample(), NONE.into(), keep), f(&sample(), Axes::All, keep));
            assert_eq!(none, all, "{name}, keepdim {keep}");
        }
        // As text, since the variance of one number is NaN.
        let of_one = |axes| f(&Tensor::scalar(3.0), axes, false).unwrap().to_string();
        assert_eq!(of_one(NONE.into()), of_one(Axes::All), "{name} of a number");
    }
    assert!(tensor![].amax(NONE).is_err());
}

#[test]
fn what_is_no_sum_keeps_its_meaning() {
    let x = tensor![[0.0, 2.0], [3.0, 0.0]];
    assert_eq!(x.any(NONE).unwrap(), tensor![[false, true], [true, false]; bool]);
    assert_eq!(x.all(keep(NONE)).unwrap(), tensor![[false, true], [true, false]; bool]);
    assert!(x.argmax(NONE).is_err() && x.permute(NONE).is_err());
    assert_eq!(x.flip(NONE).unwrap(), x);
    assert_eq!(x.movedim(NONE, NONE).unwrap(), x);
    assert_eq!(x.unsqueeze(0).unwrap().squeeze(NONE).unwrap().dims(), [1, 2, 2]);
}

#[test]
fn gradients_are_those_of_all_axes() {
    type Reduction = fn(&Var, Axes, bool) -> Result<Var>;
    let reductions: [(&str, Reduction); 10] = [
        ("sum", |x, axes, keep| x.sum(axes, keep)),
        ("mean", |x, axes, keep| x.mean(axes, keep)),
        ("prod", |x, axes, keep| x.prod(axes, keep)),
        ("var", |x, axes, keep| x.var(axes, keep)),
        ("std", |x, axes, keep| x.std(axes, keep)),
        ("amax", |x, axes, keep| x.amax(axes, keep)),
        ("amin", |x, axes, keep| x.amin(axes, keep)),
        ("logsumexp", |x, axes, keep| x.logsumexp(axes, keep)),
        ("fused sum", |x, axes, keep| fuse!(|x| x * x).sum([x], axes, keep)),
        ("fused mean", |x, axes, keep| fuse!(|x| x * x).mean([x], axes, keep)),
    ];
    for (name, f) in reductions {
        for keep in [false, true] {
            let gradient = |axes: Axes| {
                let x = sample().requires_grad();
                f(&x, axes, keep).unwrap().backward().unwrap();
                x.grad().unwrap()
            };
            assert_eq!(gradient(NONE.into()), gradient(Axes::All), "{name}, keepdim {keep}");
        }
    }
}
