//! NaN, infinities and numbers beyond `i64`, as numbers for tensors of integers: refused as PyTorch refuses them, where they became
//! 0 or the largest integer in silence.

use foldback::{DType, Result, Tensor, Var, s, tensor};

#[test]
fn what_no_integer_is_is_refused_wherever_a_number_is_written() -> Result<()> {
    const END: f64 = 9223372036854775808.0;
    let (whole, mask, places) = (tensor![1, 2, 3; i64], tensor![false, false, false], tensor![1; i64]);
    let unchanged = |t: &Tensor| assert_eq!(*t, whole);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30, END, -1e19] {
        let (mut t, mut v) = (whole.clone(), Var::from(&whole));
        let refused = [
            Tensor::try_full_with([2], bad, DType::I64).err(),
            whole.masked_fill(&mask, bad).err(),
            whole.masked_fill(&mask, Tensor::from(bad)).err(),
            whole.scatter(0, &places, bad).err(),
            whole.pad_with([1, 0], bad).err(),
            t.fill_(bad).err(),
            t.copy_(bad).err(),
            t.masked_fill_(&mask, bad).err(),
            t.slice_assign(s![0], bad).err(),
            t.slice_add(s![0], bad).err(),
            v.masked_fill(&mask, bad).err(),
            v.masked_fill(&mask, Tensor::from(bad)).err(),
            v.scatter(0, &places, bad).err(),
            v.pad_with([1, 0], bad).err(),
            v.fill_(bad).err(),
            v.copy_(bad).err(),
            v.masked_fill_(&mask, bad).err(),
            v.slice_assign(s![0], bad).err(),
            v.slice_add(s![0], bad).err(),
        ];
        for (i, e) in refused.into_iter().enumerate() {
            let text = e.unwrap_or_else(|| panic!("{bad} was taken by call {i}")).to_string();
            assert!(text.contains("is not valid: expected a number that an i64 can be"), "{i}: {text}");
        }
        unchanged(&t);
        unchanged(&v.value());
    }
    for (number, becomes) in [(0.5, 0), (-2.9, -2), (-END, i64::MIN)] {
        assert_eq!(whole.masked_fill(!&mask, number)?, Tensor::full_with([3], becomes, DType::I64));
        assert_eq!(whole.clone().fill_(number)?, &Tensor::full_with([3], becomes, DType::I64));
    }
    // Other types take them, and so do results that are wider than the integers.
    assert_eq!(tensor![true].masked_fill(tensor![true], f64::NAN)?, tensor![true]);
    assert!(Tensor::where_cond(&tensor![true], f64::INFINITY, tensor![1; i64])?.item()?.is_infinite());
    Ok(())
}
