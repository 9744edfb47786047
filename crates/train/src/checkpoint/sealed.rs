//! The checksum of a checkpoint: 32 truth values at the end of the file, the bits of the CRC-32 of all bytes before.
//!
//! They are an ordinary tensor of the file, the last one: of one byte each, so that nothing that is aligned comes after it.

use std::io::{self, Write};

use crc32fast::Hasher;
use foldback_tensor::{DType, Tensor};

/// The name of the tensor; entries have dots.
pub(super) const NAME: &str = "crc32";

const BITS: usize = 32;

/// The tensor before its values are known.
pub(super) fn room() -> Tensor {
    Tensor::zeros_with(BITS, DType::Bool)
}

fn bits(sum: u32) -> [u8; BITS] {
    std::array::from_fn(|i| (sum >> i & 1) as u8)
}

/// Whether a file ends with the checksum of what comes before.
pub(super) fn is_whole(file: &[u8]) -> bool {
    let Some((bytes, sum)) = file.split_last_chunk::<BITS>() else { return false };
    *sum == bits(crc32fast::hash(bytes))
}

/// Hands all bytes on but the last ones, in whose place it writes the checksum.
pub(super) struct Sealing<'a> {
    out: &'a mut dyn Write,
    sum: Hasher,
    held: Vec<u8>,
}

impl Sealing<'_> {
    pub(super) fn new(out: &mut dyn Write) -> Sealing<'_> {
        Sealing { out, sum: Hasher::new(), held: Vec::new() }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.out.write_all(&bits(self.sum.finalize()))
    }
}

impl Write for Sealing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        let ready = self.held.len().saturating_sub(BITS);
        self.sum.update(&self.held[..ready]);
        self.out.write_all(&self.held[..ready])?;
        self.held.drain(..ready);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen() {
        let mut file = Vec::new();
        let mut sealing = Sealing::new(&mut file);
        for part in [&[1u8, 2, 3][..], &[], &[7; 50], &[0; 32]] {
            sealing.write_all(part).unwrap();
        }
        sealing.finish().unwrap();
        assert_eq!(file.len(), 3 + 50 + 32);
        assert_eq!(file[..53], [&[1u8, 2, 3][..], &[7; 50]].concat());
        assert!(is_whole(&file));
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&file), "bit {bit}");
            file[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(!is_whole(&file[1..]) && !is_whole(&[0; 31]));
    }
}
