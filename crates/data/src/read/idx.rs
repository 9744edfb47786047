//! IDX, the format of MNIST and its relatives.

use std::io::BufRead;
use std::path::Path;

use foldback_tensor::{DType, Here, Tensor};

use super::stored::Stored;
use super::{Source, bytes_of, exactly, expect_end, unpacked};
use crate::error::Result;

/// A tensor of an IDX file, in which MNIST and its relatives are published: a header with the type and the shape, and the
/// numbers. (The format is described at the end of the [page of MNIST](https://yann.lecun.org/exdb/mnist/).)
///
/// Integers are `i64`, floats `f32` or `f64`, as in the file; see [`read_idx_with`]. A file compressed by gzip is read with the feature `gzip`.
///
/// # Errors
/// `File` if the file is none of this format, is cut off, or goes on behind its end; whatever the system says about
/// reading it.
///
/// ```no_run
/// let labels = foldback_data::read_idx("train-labels-idx1-ubyte")?;   // [60000], i64
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[track_caller]
pub fn read_idx(path: impl AsRef<Path>) -> Result<Tensor> {
    Source::open("read_idx", path.as_ref()).and_then(|(file, reader)| read(&file, reader, None)).or_here()
}

/// [`read_idx`] as a tensor of another type: pixels as `f32` need half the memory that they need as `i64`.
///
/// # Errors
/// Those of [`read_idx`].
///
/// ```no_run
/// use foldback_tensor::DType;
/// let images = foldback_data::read_idx_with("train-images-idx3-ubyte", DType::F32)? / 255.0;   // [60000, 28, 28]
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[track_caller]
pub fn read_idx_with(path: impl AsRef<Path>, dtype: DType) -> Result<Tensor> {
    Source::open("read_idx_with", path.as_ref())
        .and_then(|(file, reader)| read(&file, reader, Some(dtype)))
        .or_here()
}

fn read(file: &Source, reader: impl BufRead, dtype: Option<DType>) -> Result<Tensor> {
    let mut reader = unpacked(file, reader)?;
    let magic = exactly(file, &mut reader, 4, "its first number")?;
    let [0, 0, code, rank] = magic[..] else {
        return file
            .malformed(format!("an IDX file begins with two bytes of 0, this one with {:?}", &magic[..2]));
    };
    let stored = match code {
        0x08 => Stored::U8,
        0x09 => Stored::I8,
        0x0b => Stored::I16,
        0x0c => Stored::I32,
        0x0d => Stored::F32,
        0x0e => Stored::F64,
        _ => {
            let known = "known are 8, 9, 11, 12, 13 and 14";
            return file.malformed(format!("its type is {code}, which IDX does not have: {known}"));
        }
    };
    let sizes = exactly(file, &mut reader, 4 * usize::from(rank), "its shape")?;
    let shape: Vec<usize> =
        sizes.as_chunks::<4>().0.iter().map(|&b| u32::from_be_bytes(b) as usize).collect();
    let bytes = exactly(file, &mut reader, bytes_of(file, &shape, stored.width())?, "its numbers")?;
    expect_end(file, &mut reader)?;
    stored.tensor(&bytes, true, &shape, dtype.unwrap_or(stored.natural()))
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{Kind, tensor};

    use super::super::testing::{Temporary, stands_damage};
    use super::*;

    fn file(code: u8, shape: &[u32], numbers: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, code, shape.len() as u8];
        shape.iter().for_each(|n| bytes.extend(n.to_be_bytes()));
        bytes.extend(numbers);
        bytes
    }

    fn of(bytes: &[u8]) -> Result<Tensor> {
        read(&Source { op: "read_idx", file: String::new() }, bytes, None)
    }

    #[test]
    fn every_type() {
        assert_eq!(of(&file(8, &[2, 2], &[0, 1, 128, 255])).unwrap(), tensor![[0, 1], [128, 255]; i64]);
        assert_eq!(of(&file(9, &[2], &[127, 255])).unwrap(), tensor![127, -1; i64]);
        assert_eq!(of(&file(11, &[1], &[1, 2])).unwrap(), tensor![258; i64]);
        assert_eq!(of(&file(12, &[1], &[255, 255, 255, 254])).unwrap(), tensor![-2; i64]);
        assert_eq!(of(&file(13, &[1], &1.5f32.to_be_bytes())).unwrap(), tensor![1.5]);
        assert_eq!(of(&file(14, &[1], &0.1f64.to_be_bytes())).unwrap(), tensor![0.1; f64]);
        assert_eq!(of(&file(8, &[], &[7])).unwrap(), Tensor::from(7i64));
        assert_eq!(of(&file(8, &[3, 0], &[])).unwrap().dims(), [3, 0]);
    }

    #[test]
    fn by_path_and_type() {
        let on_disk = Temporary::new("digits.idx", file(8, &[2], &[0, 255]));
        assert_eq!(read_idx(&on_disk.0).unwrap(), tensor![0, 255; i64]);
        assert_eq!(read_idx_with(&on_disk.0, DType::F32).unwrap(), tensor![0.0, 255.0]);
        assert_eq!(read_idx_with(&on_disk.0, DType::Bool).unwrap(), tensor![false, true]);
        let e = read_idx("no/such/file").unwrap_err();
        assert_eq!(e.kind(), Kind::Io);
        assert!(e.to_string().starts_with("read_idx: no/such/file: "), "{e}");
        // The line is the caller's, wherever the system refuses.
        for e in [e, read_idx(std::env::temp_dir()).unwrap_err()] {
            assert!(e.location().is_some_and(|at| at.file() == file!()), "{e}");
        }
    }

    #[test]
    fn what_is_damaged_is_refused_without_much_memory() {
        stands_damage(&file(12, &[2, 3], &[7; 24]), of);
        let words = |bytes: &[u8]| of(bytes).unwrap_err().with_location(None).to_string();
        assert_eq!(
            words(&file(8, &[0xffff_ffff, 2], &[1, 2, 3])),
            "read_idx: it ends in its numbers, after 3 of 8589934590 bytes: it was cut off"
        );
        assert!(words(&file(14, &[0xffff_ffff; 5], &[])).contains("which no memory holds"));
        assert!(words(&file(8, &[1], &[1, 2])).contains("goes on behind the last element"));
        assert!(words(&file(10, &[1], &[1])).contains("its type is 10"));
        assert!(words(b"P5\n1 1 255\n").contains("two bytes of 0"));
    }

    #[cfg(feature = "gzip")]
    #[test]
    fn compressed() {
        use std::io::Write;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&file(8, &[2], &[3, 4])).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(of(&packed).unwrap(), tensor![3, 4; i64]);
        stands_damage(&packed, of);
    }

    #[cfg(not(feature = "gzip"))]
    #[test]
    fn compressed() {
        assert!(of(&[0x1f, 0x8b, 8, 0]).unwrap_err().to_string().contains("feature `gzip`"));
    }
}
