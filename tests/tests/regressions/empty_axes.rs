//! An empty list of axes reduced nothing, where PyTorch reduces everything (but for `any` and `all`).

use foldback_graph::{RequiresGrad, Result, Var, fuse};
use foldback_tensor::{Over, Tensor, keep, tensor};

const NONE: [isize; 0] = [];

fn sample() -> Tensor {
    tensor![[1.0, 2.0], [3.0, 5.0]; f64]
}

#[test]
fn tensors_are_reduced_over_all_axes() {
    type Reduction = fn(&Tensor, Over) -> foldback_tensor::Result<Tensor>;
    let reductions: [(&str, Reduction); 8] = [
        ("sum", |x, over| x.sum(over)),
        ("mean", |x, over| x.mean(over)),
        ("prod", |x, over| x.prod(over)),
        ("var", |x, over| x.var(over)),
        ("std", |x, over| x.std(over)),
        ("amax", |x, over| x.amax(over)),
        ("amin", |x, over| x.amin(over)),
        ("logsumexp", |x, over| x.logsumexp(over)),
    ];
    for (name, f) in reductions {
        for keep in [false, true] {
            let over = |axes: Over| f(&sample(), axes.with_keepdim(keep));
            let (none, all) = (over(NONE.into()), over((..).into()));
            assert_eq!(none.unwrap(), all.unwrap(), "{name}, keepdim {keep}");
        }
        // As text, since the variance of one number is NaN.
        let of_one = |over| f(&Tensor::from(3.0), over).unwrap().to_string();
        assert_eq!(of_one(NONE.into()), of_one((..).into()), "{name} of a number");
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
    type Reduction = fn(&Var, Over) -> Result<Var>;
    let reductions: [(&str, Reduction); 10] = [
        ("sum", |x, over| x.sum(over)),
        ("mean", |x, over| x.mean(over)),
        ("prod", |x, over| x.prod(over)),
        ("var", |x, over| x.var(over)),
        ("std", |x, over| x.std(over)),
        ("amax", |x, over| x.amax(over)),
        ("amin", |x, over| x.amin(over)),
        ("logsumexp", |x, over| x.logsumexp(over)),
        ("fused sum", |x, over| fuse!(|x| x * x).sum([x], over)),
        ("fused mean", |x, over| fuse!(|x| x * x).mean([x], over)),
    ];
    for (name, f) in reductions {
        for keep in [false, true] {
            let gradient = |over: Over| {
                let x = sample().requires_grad();
                f(&x, over.with_keepdim(keep)).unwrap().backward().unwrap();
                x.grad().unwrap()
            };
            assert_eq!(gradient(NONE.into()), gradient((..).into()), "{name}, keepdim {keep}");
        }
    }
}
