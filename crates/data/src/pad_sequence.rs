//! Sequences of unequal lengths as one tensor.

use foldback_tensor::{Here, Scalar, Tensor};

use crate::error::{Result, check};

/// Sequences, `[length, ..]` each, along a new second axis, `[longest, n, ..]`: behind the end of a shorter one stand zeros. By the name of
/// PyTorch's [`pad_sequence`](https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html).
///
/// What a recurrent network or an attention has to know beside it are the lengths.
///
/// # Errors
/// As [`pad_sequence_with`].
///
/// ```
/// use foldback_data::{pad_sequence, pad_sequence_with};
/// use foldback_tensor::tensor;
/// let (a, b) = (tensor![1, 2, 3; i64], tensor![4; i64]);
/// assert_eq!(pad_sequence([&a, &b])?, tensor![[1, 4], [2, 0], [3, 0]; i64]);
/// assert_eq!(pad_sequence_with([&a, &b], true, -1)?, tensor![[1, 2, 3], [4, -1, -1]; i64]);
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[track_caller]
pub fn pad_sequence<'a>(sequences: impl IntoIterator<Item = &'a Tensor>) -> Result<Tensor> {
    pad_sequence_with(sequences, false, 0)
}

/// [`pad_sequence`] as `[n, longest, ..]` if `batch_first`, with another number behind the ends.
///
/// # Errors
/// `Parameter` if there are none, one has no axes, or two differ in their type or in more than their lengths; `TooLarge`.
#[track_caller]
pub fn pad_sequence_with<'a>(
    sequences: impl IntoIterator<Item = &'a Tensor>,
    batch_first: bool,
    padding_value: impl Into<Scalar>,
) -> Result<Tensor> {
    padded(&sequences.into_iter().collect::<Vec<_>>(), usize::from(!batch_first), padding_value.into()).here()
}

fn padded(sequences: &[&Tensor], axis: usize, value: Scalar) -> Result<Tensor> {
    const OP: &str = "pad_sequence";
    check(!sequences.is_empty(), OP, "the number of sequences", 0, "at least one")?;
    for x in sequences {
        check(x.rank() > 0, OP, "the shape of a sequence", x.shape(), "[length, ..]")?;
        let (first, own) = (&sequences[0].dims()[1..], &x.dims()[1..]);
        check(
            own == first,
            OP,
            "the shape behind the lengths",
            format!("{own:?}"),
            format!("{first:?}, as in the first one"),
        )?;
        let dtype = sequences[0].dtype();
        check(x.dtype() == dtype, OP, "the type", x.dtype(), format!("{dtype}, as in the first one"))?;
    }
    let longest = sequences.iter().map(|x| x.dims()[0]).max().unwrap_or(0);
    let full = |x: &Tensor| {
        let mut shape = x.dims().to_vec();
        shape[0] = longest - shape[0];
        Tensor::cat([x, &Tensor::try_full_with(shape, value, x.dtype())?], 0)
    };
    Tensor::stack(sequences.iter().map(|x| full(x)).collect::<Result<Vec<_>>>()?, axis)
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{DType, tensor};

    use super::*;

    #[test]
    fn what_lies_behind_the_lengths_stays() {
        let (a, b) = (tensor![[1.0, 2.0]; f64], tensor![[3.0, 4.0], [5.0, 6.0]; f64]);
        let both = tensor![[[1.0, 2.0], [3.0, 4.0]], [[0.5, 0.5], [5.0, 6.0]]; f64];
        assert_eq!(pad_sequence_with([&a, &b], false, 0.5).unwrap(), both);
        assert_eq!(pad_sequence_with(&[a, b], true, 0.5).unwrap(), both.transpose(0, 1).unwrap());
        let empty = Tensor::zeros_with([0, 3], DType::I64);
        assert_eq!(pad_sequence([&empty]).unwrap().dims(), [0, 1, 3]);
        let flags = [tensor![true], tensor![true, true]];
        assert_eq!(pad_sequence_with(&flags, true, 0).unwrap(), tensor![[true, false], [true, true]]);
    }

    #[test]
    fn refusals() {
        let says = |sequences: &[Tensor], text: &str| {
            let e = pad_sequence(sequences).unwrap_err().to_string();
            assert!(e.starts_with("pad_sequence: ") && e.contains(text), "{e}");
        };
        says(&[], "expected at least one");
        says(&[Tensor::scalar(1.0)], "expected [length, ..]");
        says(
            &[Tensor::zeros([2, 3]), Tensor::zeros([2, 4])],
            "[4] is not valid: expected [3], as in the first one",
        );
        says(&[tensor![1.0], tensor![1; i64]], "expected f32, as in the first one");
        assert!(pad_sequence(&[tensor![1; i64]; 1]).is_ok());
    }
}
