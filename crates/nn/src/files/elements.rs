//! Elements as the bytes that a safetensors file has: little-endian, in row-major order.

use std::io::{self, Write};

use ::safetensors::Dtype;
use foldback_tensor::{DType, Tensor};

use crate::error::Result;

/// How a file names this type.
pub(super) fn dtype_of(dtype: DType) -> Dtype {
    match dtype {
        DType::Bool => Dtype::BOOL,
        DType::I64 => Dtype::I64,
        DType::F32 => Dtype::F32,
        DType::F64 => Dtype::F64,
    }
}

/// Writes the elements of a tensor.
pub(super) fn write(tensor: &Tensor, out: &mut dyn Write) -> Result<()> {
    let rows = tensor.try_contiguous()?;
    let bytes = |slice: &[bool]| slice.iter().map(|&v| v as u8).collect();
    let written = match tensor.dtype() {
        DType::Bool => in_pieces(rows.as_slice(), out, bytes),
        DType::I64 => in_pieces(rows.as_slice(), out, |s: &[i64]| joined(s, |v| v.to_le_bytes())),
        DType::F32 => in_pieces(rows.as_slice(), out, |s: &[f32]| joined(s, |v| v.to_le_bytes())),
        DType::F64 => in_pieces(rows.as_slice(), out, |s: &[f64]| joined(s, |v| v.to_le_bytes())),
    };
    Ok(written?)
}

/// Converts a stretch of elements at a time, so that a large tensor needs no second one.
fn in_pieces<T>(
    elements: Option<&[T]>,
    out: &mut dyn Write,
    bytes: impl Fn(&[T]) -> Vec<u8>,
) -> io::Result<()> {
    let elements = elements.expect("row-major elements of the tensor's own type");
    elements.chunks(8192).try_for_each(|piece| out.write_all(&bytes(piece)))
}

fn joined<T: Copy, const N: usize>(elements: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    elements.iter().flat_map(|&v| bytes(v)).collect()
}

/// The elements of a tensor of this type and shape; none for a type that tensors do not have. The bytes are as many as the
/// shape needs.
pub(super) fn read(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Option<Result<Tensor, String>> {
    let made = match dtype {
        Dtype::BOOL => {
            if let Some(at) = bytes.iter().position(|&b| b > 1) {
                return Some(Err(format!("element {at} is the byte {}, and a bool is 0 or 1", bytes[at])));
            }
            Tensor::from_vec(bytes.iter().map(|&b| b == 1).collect(), shape)
        }
        Dtype::I64 => Tensor::from_vec(parts(bytes, i64::from_le_bytes), shape),
        Dtype::F32 => Tensor::from_vec(parts(bytes, f32::from_le_bytes), shape),
        Dtype::F64 => Tensor::from_vec(parts(bytes, f64::from_le_bytes), shape),
        Dtype::F16 => Tensor::from_vec(parts(bytes, |b| from_f16(u16::from_le_bytes(b))), shape),
        Dtype::BF16 => Tensor::from_vec(parts(bytes, |b| from_bf16(u16::from_le_bytes(b))), shape),
        _ => return None,
    };
    Some(made.map_err(|e| e.with_location(None).to_string()))
}

fn parts<T, const N: usize>(bytes: &[u8], element: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&b| element(b)).collect()
}

/// The upper half of an `f32`.
fn from_bf16(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// A sign, 5 bits of an exponent and 10 of a fraction (IEEE 754, binary16); every one is an `f32`, too.
fn from_f16(bits: u16) -> f32 {
    let (sign, exponent, fraction) = ((bits as u32 >> 15) << 31, bits as u32 >> 10 & 31, bits as u32 & 1023);
    match exponent {
        0 => {
            let magnitude = fraction as f32 * (-24f32).exp2();
            f32::from_bits(magnitude.to_bits() | sign)
        }
        31 => f32::from_bits(sign | 0x7F80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_have_their_values() {
        // PyTorch: torch.tensor([..], dtype=torch.int16).view(torch.float16).float()
        let pairs = [
            (0x0000u16, 0.0f32),
            (0x3C00, 1.0),
            (0xC000, -2.0),
            (0x7BFF, 65504.0),
            (0x0400, 6.1035156e-5),
            (0x03FF, 6.097555e-5),
            (0x0001, 5.9604645e-8),
            (0x3555, 0.33325195),
            (0x7C00, f32::INFINITY),
            (0xFC00, f32::NEG_INFINITY),
        ];
        for (bits, value) in pairs {
            assert_eq!(from_f16(bits), value, "{bits:04x}");
        }
        assert!(from_f16(0x8000).is_sign_negative() && from_f16(0x8000) == 0.0);
        assert!(from_f16(0x7E00).is_nan() && from_f16(0x7C01).is_nan());
        assert_eq!(from_bf16(0x3F80), 1.0);
        assert_eq!(from_bf16(0xC049), -3.140625);
        assert!(from_bf16(0x7FC0).is_nan());
    }

    #[test]
    fn views_are_written_in_row_major_order() {
        let t = foldback_tensor::tensor![[1, 2], [3, 4]; i64].t();
        let mut bytes = Vec::new();
        write(&t, &mut bytes).unwrap();
        assert_eq!(read(Dtype::I64, &[2, 2], &bytes).unwrap().unwrap(), t);
    }
}
