//! Readers of files. None trusts what a file says of itself: memory grows with what is there, not with what is claimed.

#[cfg(feature = "csv")]
mod csv;
mod idx;
#[cfg(feature = "images")]
mod images;
#[cfg(feature = "npy")]
mod npy;
mod stored;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use foldback_tensor::{Error, IoFacts, refuse};

#[cfg(feature = "csv")]
pub use self::csv::{Csv, Table};
pub use self::idx::{read_idx, read_idx_with};
#[cfg(feature = "images")]
pub use self::images::{ImageFolder, image_grid, read_image, write_image};
#[cfg(feature = "npy")]
pub use self::npy::{read_npy, read_npz};
use crate::error::{DataFacts, Result};

/// What is read, and by which operation: what errors name.
#[derive(Clone, Debug)]
struct Source {
    op: &'static str,
    file: String,
}

impl Source {
    fn new(op: &'static str, path: &Path) -> Source {
        Source { op, file: path.display().to_string() }
    }

    /// It does not hold what it should.
    fn malformed<T>(&self, what: impl Into<String>) -> Result<T> {
        refuse(DataFacts::File { op: self.op, file: self.file.clone(), what: what.into() })
    }

    /// The operating system does not let it be read.
    fn failed(&self, error: io::Error) -> Error {
        IoFacts::reading(self.op, &self.file, &error)
    }

    fn open(op: &'static str, path: &Path) -> Result<(Source, BufReader<File>)> {
        let source = Source::new(op, path);
        match File::open(path) {
            Ok(file) => Ok((source, BufReader::new(file))),
            Err(e) => Err(source.failed(e)),
        }
    }
}

/// What a file holds that may be compressed by gzip.
fn unpacked<'a>(file: &Source, mut reader: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>> {
    let start = reader.fill_buf().map_err(|e| file.failed(e))?;
    if !start.starts_with(&[0x1f, 0x8b]) {
        return Ok(Box::new(reader));
    }
    #[cfg(feature = "gzip")]
    return Ok(Box::new(flate2::bufread::GzDecoder::new(reader)));
    #[cfg(not(feature = "gzip"))]
    file.malformed("it is compressed by gzip: enable the feature `gzip`, or unpack it")
}

/// The next `count` bytes; fewer are refused as the end of a file that was cut off.
fn exactly(file: &Source, reader: &mut impl Read, count: usize, what: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(count as u64).read_to_end(&mut bytes).map_err(|e| file.failed(e))?;
    if bytes.len() < count {
        let found = bytes.len();
        return file.malformed(format!("it ends in {what}, after {found} of {count} bytes: it was cut off"));
    }
    Ok(bytes)
}

/// Refuses bytes behind the end.
fn expect_end(file: &Source, reader: &mut impl Read) -> Result<()> {
    let mut more = [0];
    match reader.read(&mut more).map_err(|e| file.failed(e))? {
        0 => Ok(()),
        _ => file
            .malformed("it goes on behind the last element that its header announces: the header is wrong"),
    }
}

/// How many bytes a shape of elements of this width has; one that no memory holds is refused.
fn bytes_of(file: &Source, shape: &[usize], width: usize) -> Result<usize> {
    let bytes = shape.iter().try_fold(width, |bytes, &n| bytes.checked_mul(n));
    match bytes.filter(|&b| isize::try_from(b).is_ok()) {
        Some(bytes) => Ok(bytes),
        None => file.malformed(format!("its header announces the shape {shape:?}, which no memory holds")),
    }
}

/// Class numbers for names: a name's place among all of them in alphabetical order.
///
/// Returns the numbers, `[n]` of `i64`, and the names of the classes.
///
/// ```
/// use foldback_data::encode_labels;
/// use foldback_tensor::tensor;
/// let (labels, classes) = encode_labels(&["dog", "cat", "dog"]);
/// assert_eq!(labels, tensor![1, 0, 1; i64]);
/// assert_eq!(classes, ["cat", "dog"]);
/// ```
pub fn encode_labels(names: &[impl AsRef<str>]) -> (foldback_tensor::Tensor, Vec<String>) {
    let mut classes: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    classes.sort_unstable();
    classes.dedup();
    let number = |name: &str| classes.partition_point(|&class| class < name) as i64;
    let numbers: Vec<i64> = names.iter().map(|name| number(name.as_ref())).collect();
    (numbers.into(), classes.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod testing {
    //! Files of tests, and what every reader must stand.

    use std::path::PathBuf;

    use super::*;

    /// A file of this name, for this process; removed when dropped.
    pub(super) struct Temporary(pub PathBuf);

    impl Temporary {
        pub(super) fn new(name: &str, bytes: impl AsRef<[u8]>) -> Temporary {
            let path = std::env::temp_dir().join(format!("foldback-{}-{name}", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            Temporary(path)
        }
    }

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Cut off anywhere, a file is refused; with a byte changed it is refused or read, and nothing panics. Returns how many
    /// of the changed ones were refused.
    pub(super) fn stands_damage<T>(bytes: &[u8], read: impl Fn(&[u8]) -> Result<T>) -> usize {
        for end in 0..bytes.len() {
            let e =
                read(&bytes[..end]).err().unwrap_or_else(|| panic!("cut off after {end} bytes, it was read"));
            assert!(
                matches!(e.kind(), foldback_tensor::Kind::File | foldback_tensor::Kind::Io),
                "{end}: {e:?}"
            );
        }
        let mut refused = 0;
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut changed = bytes.to_vec();
                changed[at] ^= flip;
                refused += usize::from(read(&changed).is_err());
            }
        }
        refused
    }
}
