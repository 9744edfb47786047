//! What texts say: the cure, and which argument it is about.

use foldback::Error;
use foldback::graph::RequiresGrad;
use foldback::optim::Adam;
use foldback::prelude::*;
use foldback::tensor::Pad;

use crate::here;

/// What can be done about it stands behind the last colon.
#[test]
fn texts_end_with_the_cure() {
    let (x, cube) = (tensor![[1.0, 2.0], [3.0, 4.0]], Tensor::zeros([2, 2, 2]));
    let seeded = x.clone().requires_grad().sum(..).unwrap();
    let no_parameters: [Var; 0] = [];
    let texts = [
        (here(cube.try_t()), "transpose(-2, -1) exchanges the last two"),
        (here(tensor![1.0].tril_with(0)), "unsqueeze adds one, squeeze, flatten and reshape take some away"),
        (here(cube.mm(&x)), "matmul takes any number of them"),
        (here(x.permute([0])), "name each axis once, in its new place"),
        (here(x.slice((0, 0, 0))), "leave some out, or add them to the tensor by unsqueeze"),
        (here(x.reshape([-1, -1])), "one of them may be -1"),
        (here(x.select(0, 5)), "give one from -2 to 1"),
        (here(x.narrow(0, 1, 5)), "ranges lie inside their axis, and steps are positive"),
        (
            here(Var::leaf(x.clone()).unwrap().set_grad(Some(tensor![1.0]))),
            "reshape it, or convert it with to",
        ),
        (here(seeded.backward_with(&tensor![1.0])), "a seed has the shape of its output"),
        (
            here(Adam::try_new(no_parameters, 0.1)),
            "give those of a model, model.parameters(), or of a pattern that matches some of model.named_parameters()",
        ),
    ];
    for (e, cure) in texts {
        let text = e.to_string();
        let words = text.split(" (at ").next().expect("a text has words");
        assert!(words.ends_with(cure), "{text}");
    }
}

/// What an operation of several operands refuses names the one that does not fit, its sizes and the cure.
#[test]
fn texts_name_the_argument() {
    let of = |shape: &[usize]| Tensor::zeros(shape);
    let (x, ids, image) = (of(&[4, 3]), tensor![0, 2; i64], of(&[1, 3, 8, 8]));
    let q = of(&[2, 8, 5, 4]);
    let says = |e: Error, parts: &[&str]| {
        let text = e.to_string();
        for part in parts {
            assert!(text.contains(part), "{part} is missing from {text}");
        }
    };
    let w = of(&[8, 3, 3, 3]);
    let bias = here(image.conv2d_with(&w, Conv::new().bias(of(&[3]))));
    says(bias, &["conv2d: the bias must have shape [8], found [3]: ", "a number for each channel"]);
    says(here(image.conv2d_with(&w, Conv::new().bias(of(&[8]).double()))), &["input is f32, the bias f64"]);
    let gray = here(of(&[4, 8, 8]).conv2d(of(&[2, 1, 3, 3])));
    says(gray, &["has 4 channels, the size of its axis 0", "takes 1: ", "unsqueeze(1)"]);
    let last = here(of(&[1, 8, 8, 3]).conv2d(&w));
    says(last, &["has 8 channels, the size of its axis 1", "takes 3: ", "movedim(-1, -3)"]);
    says(here(x.layer_norm_with(3, Norm::new().weight(of(&[4])))), &["the weight must have shape [3]"]);
    says(here(x.layer_norm(4)), &["the input's end must have shape [4], found [3]: name the sizes"]);
    says(here(x.batch_norm(of(&[3]), of(&[4]))), &["the var must have shape [3], found [4]"]);
    says(here(x.batch_norm(of(&[3]), of(&[3]).double())), &["the mean is f32, the var f64"]);
    says(here(x.group_norm(2)), &["groups = 2 for 3 channels"]);
    says(
        here(x.linear(of(&[5, 3]), of(&[1, 5]))),
        &["the bias must have shape [5], found [1, 5]: reshape it"],
    );
    says(here(x.linear(of(&[1, 5, 3]), None)), &["1 or 2 axes of the weight, got 3"]);
    says(here(x.prelu(of(&[4]))), &["the weight must have shape [3]"]);
    let sdpa = |k: &[usize], v: &[usize]| here(q.scaled_dot_product_attention(of(k), of(v)));
    says(sdpa(&[2, 8, 5, 3], &[2, 8, 5, 4]), &["the key must have shape [2, 8, 5, 4], found [2, 8, 5, 3]"]);
    says(sdpa(&[2, 8, 6, 4], &[2, 8, 5, 4]), &["the value must have shape [2, 8, 6, 4]"]);
    says(sdpa(&[4], &[4]), &["at least 2 axes of the key, got 1"]);
    says(sdpa(&[2, 2, 5, 4], &[2, 2, 5, 4]), &["cannot broadcast [2, 8] with [2, 2]", "enable_gqa(true)"]);
    let masked = Attention::new().mask(of(&[2, 5]));
    says(here(q.scaled_dot_product_attention_with(&q, &q, masked)), &["the mask [2, 5] does not expand to"]);
    let grouped = Attention::new().enable_gqa(true);
    let heads = here(q.scaled_dot_product_attention_with(of(&[2, 3, 5, 4]), of(&[2, 2, 5, 4]), grouped));
    says(heads, &["8 heads of queries, 3 of keys and 2 of values", "which divide those of queries"]);
    says(here(x.gather(1, &ids)), &["the index must have shape [2, 1], found [2]: unsqueeze adds the axis"]);
    let source = here(x.scatter(1, tensor![[0, 1, 2]; i64], tensor![[1.0]]));
    says(source, &["the source must have shape [1, 3], found [1, 1]: there is a part of it for each index"]);
    says(here(x.index_add(0, &ids, of(&[3, 3]))), &["the source must have shape [2, 3]"]);
    says(here(x.take_along_dim(&ids, 1)), &["the index must have shape"]);
    says(here(x.index_select(0, tensor![[0]; i64])), &["axis of the index, got 2: reshape(-1)"]);
    says(here(Tensor::embedding(of(&[9, 2]), &ids)), &["[9, 2] of f32 and [2] of i64", "exchange them"]);
    says(here(Var::embedding(of(&[9, 2]), &ids)), &["exchange them"]);
    says(here(Tensor::embedding(&ids, of(&[4]))), &["2 axes of the table, got 1", "the second the table"]);
    says(here(loss::cross_entropy(&ids, of(&[2, 3]))), &["which stands before the target"]);
    says(
        here(loss::nll_loss(of(&[2, 3]), ids.unsqueeze(1).unwrap())),
        &["class numbers of shape [2]", "squeeze"],
    );
    says(here(x.matmul(of(&[4]))), &["transpose(-2, -1) of the first would fit"]);
    says(here(x.median([0, 1])), &["expected one or all axes, got 2: flatten makes one of several"]);
    says(here(x.repeat(2)), &["got 1: tile takes fewer"]);
    says(here(Tensor::from_strided(vec![1.0], 2, &[1], 0)), &["strides and offset lead beyond the values"]);
    says(here(x.mm(&image)), &["2 axes of the second, got 4"]);
    says(here(of(&[2, 4, 3]).bmm(of(&[3, 3, 5]))), &["first axes must be equal; matmul broadcasts"]);
    says(here(x.matmul(&x)), &["transpose(-2, -1) of the second would fit"]);
    says(here(of(&[7]).addmm(&x, x.t())), &["the input [7] does not expand to [4, 4]"]);
    says(
        here(x.add(of(&[4]))),
        &["cannot broadcast [4, 3] with [4]", "[4, 1] would fit, which unsqueeze(-1)"],
    );
    says(here(x.add_out(&x, 1.0, &mut of(&[3]))), &["the output must have shape [4, 3]"]);
    says(here(x.repeat_interleave(&ids, 0)), &["the repeats must have shape [4], found [2]"]);
    says(here(ids.bincount_with(1, of(&[3]))), &["the weights must have shape [2], found [3]"]);
    says(here(x.clone().copy_(of(&[5]))), &["[5] does not expand to [4, 3]; only axes of size 1 grow"]);
    says(here(x.topk(9, 1)), &["k = 9 for axis 1 of size 3"]);
    says(here(x.unfold(1, 9, 1)), &["size = 9 for an axis of size 3"]);
    says(here(x.chunk(0, 0)), &["n = 0 for an axis of size 4"]);
    says(here(x.chunks::<2>(1)), &["pieces = 2 for an axis of size 3"]);
    says(
        here(of(&[4]).pad_with([1, 1], Pad::Reflect)),
        &["[1, 1] for the shape [4]", "unsqueeze(0) adds one"],
    );
    says(here(x.roll([1, 2], 0)), &["[1, 2] along [0]", "one for each axis"]);
    says(here(Tensor::cat([&x, &image], 0)), &["all must have as many axes"]);
}
