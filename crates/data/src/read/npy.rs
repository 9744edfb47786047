//! NumPy's files: `.npy`, one array; `.npz`, several by name.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use foldback_tensor::{Here, StateDict, Tensor};
use zip::ZipArchive;

use super::stored::Stored;
use super::{Source, bytes_of, exactly, expect_end};
use crate::error::Result;

/// The longest header that is read. NumPy's own are of some hundred bytes.
const LONGEST_HEADER: usize = 1 << 16;

/// A tensor of an `.npy` file, as `numpy.save` writes it
/// ([format](https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html)).
///
/// Truth values are `bool`, integers `i64`, floats `f32` or `f64`, as in the file. Either order of bytes and of axes is read.
///
/// # Errors
/// `File` if the file is none of this format, is cut off or goes on behind its end, or holds a type that tensors do not
/// have (`float16`, `uint64`, complex numbers, texts, objects); whatever the system says about reading it.
///
/// ```no_run
/// let x = foldback_data::read_npy("x.npy")?;
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[track_caller]
pub fn read_npy(path: impl AsRef<Path>) -> Result<Tensor> {
    Source::open("read_npy", path.as_ref()).and_then(|(file, mut reader)| array(&file, &mut reader)).or_here()
}

/// The tensors of an `.npz` file by name, as `numpy.savez` and `numpy.savez_compressed` write it, in the file's order.
///
/// # Errors
/// Those of [`read_npy`] for each, and `File` if it is no archive.
///
/// ```no_run
/// let arrays = foldback_data::read_npz("arrays.npz")?;
/// let x = arrays.get("x").expect("x was saved");
/// # Ok::<(), foldback_data::Error>(())
/// ```
#[track_caller]
pub fn read_npz(path: impl AsRef<Path>) -> Result<StateDict> {
    Source::open("read_npz", path.as_ref()).and_then(|(file, reader)| archive(&file, reader)).or_here()
}

fn archive(file: &Source, reader: BufReader<File>) -> Result<StateDict> {
    let mut archive = match ZipArchive::new(reader) {
        Ok(archive) => archive,
        Err(e) => return file.malformed(format!("it is no archive of arrays, or was cut off: {e}")),
    };
    let mut arrays = StateDict::new();
    for index in 0..archive.len() {
        let mut entry = match archive.by_index(index) {
            Ok(entry) => entry,
            Err(e) => return file.malformed(format!("its entry {index} cannot be read: {e}")),
        };
        let full = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let Some(name) = full.strip_suffix(".npy") else {
            return file.malformed(format!("its entry `{full}` is no array: those end in .npy"));
        };
        let entry_of = Source { op: file.op, file: format!("{}: {full}", file.file) };
        arrays.insert(name, array(&entry_of, &mut entry)?);
    }
    Ok(arrays)
}

fn array(file: &Source, reader: &mut impl Read) -> Result<Tensor> {
    let start = exactly(file, reader, 8, "its first bytes")?;
    if &start[..6] != b"\x93NUMPY" {
        return file.malformed("an .npy file begins with \\x93NUMPY, this one does not");
    }
    let length = match start[6] {
        1 => exactly(file, reader, 2, "its length")?.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b)),
        2 | 3 => {
            exactly(file, reader, 4, "its length")?.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b))
        }
        other => return file.malformed(format!("its version is {other}: known are 1, 2 and 3")),
    };
    if length > LONGEST_HEADER {
        return file.malformed(format!("its header has {length} bytes: at most {LONGEST_HEADER} are read"));
    }
    let text = exactly(file, reader, length, "its header")?;
    let Some(header) = std::str::from_utf8(&text).ok().and_then(Header::parse) else {
        let wanted = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}";
        return file.malformed(format!("its header is not of the form {wanted}: {}", text.escape_ascii()));
    };
    let (stored, big) = header.stored(file)?;
    let bytes = exactly(file, reader, bytes_of(file, &header.shape, stored.width())?, "its numbers")?;
    expect_end(file, reader)?;
    if !header.fortran_order {
        return stored.tensor(&bytes, big, &header.shape, stored.natural());
    }
    let reversed: Vec<usize> = header.shape.iter().rev().copied().collect();
    let axes: Vec<usize> = (0..reversed.len()).rev().collect();
    Ok(stored.tensor(&bytes, big, &reversed, stored.natural())?.permute(axes)?.contiguous())
}

/// What a header says.
#[derive(Debug, PartialEq)]
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    /// A dictionary as Python writes it, with these three keys in any order.
    fn parse(text: &str) -> Option<Header> {
        let mut rest = text.trim().strip_prefix('{')?.trim_start();
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        while !rest.starts_with('}') {
            let (key, after) = quoted(rest)?;
            rest = after.trim_start().strip_prefix(':')?.trim_start();
            rest = match key {
                "descr" => {
                    let (value, after) = quoted(rest)?;
                    descr = Some(value.to_owned());
                    after
                }
                "fortran_order" => {
                    let end = rest.find([',', '}'])?;
                    fortran_order = match rest[..end].trim() {
                        "True" => Some(true),
                        "False" => Some(false),
                        _ => return None,
                    };
                    &rest[end..]
                }
                "shape" => {
                    let (inside, after) = rest.strip_prefix('(')?.split_once(')')?;
                    let inside = inside.trim();
                    let sizes = inside.strip_suffix(',').unwrap_or(inside);
                    let each = sizes.split(',').map(|n| n.trim().parse().ok());
                    shape =
                        Some(if inside.is_empty() { Vec::new() } else { each.collect::<Option<Vec<_>>>()? });
                    after
                }
                _ => return None,
            };
            rest = rest.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        let end = rest == "}";
        end.then_some(Header { descr: descr?, fortran_order: fortran_order?, shape: shape? })
    }

    /// The type of the numbers, and whether the most significant byte comes first.
    fn stored(&self, file: &Source) -> Result<(Stored, bool)> {
        let (order, code) = self.descr.split_at_checked(1).unwrap_or(("", &self.descr));
        let stored = match code {
            "b1" => Stored::Bool,
            "u1" => Stored::U8,
            "i1" => Stored::I8,
            "u2" => Stored::U16,
            "i2" => Stored::I16,
            "u4" => Stored::U32,
            "i4" => Stored::I32,
            "i8" => Stored::I64,
            "f4" => Stored::F32,
            "f8" => Stored::F64,
            _ => {
                let cure = "save it as bool, int64, float32 or float64: x.astype('float32')";
                return file
                    .malformed(format!("its type `{}` is none that tensors have: {cure}", self.descr));
            }
        };
        match order {
            "<" | "|" => Ok((stored, false)),
            "=" => Ok((stored, cfg!(target_endian = "big"))),
            ">" => Ok((stored, true)),
            _ => file.malformed(format!("its type `{}` has no order of bytes: < or >", self.descr)),
        }
    }
}

/// A text in quotes, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('\'')?.split_once('\'')
}

#[cfg(test)]
mod tests {
    use foldback_tensor::{DType, tensor};

    use super::super::testing::{Temporary, stands_damage};
    use super::*;

    fn file(header: &str, numbers: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(numbers);
        bytes
    }

    fn of(mut bytes: &[u8]) -> Result<Tensor> {
        array(&Source { op: "read_npy", file: String::new() }, &mut bytes)
    }

    fn typed(descr: &str, numbers: &[u8]) -> Result<Tensor> {
        let count = numbers.len() / descr[2..].parse::<usize>().unwrap();
        of(&file(
            &format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}   \n"),
            numbers,
        ))
    }

    /// Written by `tests/golden/make_data.py`.
    const NUMPYS: &[u8] = include_bytes!("../../../../tests/golden/arrays.npz");

    #[test]
    fn what_numpy_wrote() {
        let on_disk = Temporary::new("arrays.npz", NUMPYS);
        let arrays = read_npz(&on_disk.0).unwrap();
        let matrix = tensor![[1.5, -2.0, 0.25], [3.0, 1e10, -0.0]];
        assert_eq!(arrays.get("matrix"), Some(&matrix));
        assert_eq!(arrays.get("fortran"), Some(&matrix.to(DType::F64)));
        assert_eq!(arrays.get("big_endian"), Some(&tensor![1, -2, 300; i64]));
        assert_eq!(arrays.get("truth"), Some(&tensor![[true], [false]]));
        assert_eq!(arrays.get("scalar"), Some(&Tensor::from(7i64)));
        assert_eq!(arrays.get("empty").unwrap().dims(), [0, 4]);
        assert_eq!(arrays.len(), 6);
    }

    #[test]
    fn every_type() {
        assert_eq!(typed("|b1", &[0, 1]).unwrap(), tensor![false, true]);
        assert_eq!(typed("|u1", &[0, 255]).unwrap(), tensor![0, 255; i64]);
        assert_eq!(typed("|i1", &[255]).unwrap(), tensor![-1; i64]);
        assert_eq!(typed("<u2", &[255, 255]).unwrap(), tensor![65535; i64]);
        assert_eq!(typed(">i2", &[255, 254]).unwrap(), tensor![-2; i64]);
        assert_eq!(typed("<u4", &[0, 0, 0, 128]).unwrap(), tensor![1i64 << 31; i64]);
        assert_eq!(typed("<i4", &(-5i32).to_le_bytes()).unwrap(), tensor![-5; i64]);
        assert_eq!(typed("<i8", &i64::MIN.to_le_bytes()).unwrap(), tensor![i64::MIN; i64]);
        assert_eq!(typed("<f4", &0.1f32.to_le_bytes()).unwrap(), tensor![0.1]);
        assert_eq!(typed(">f8", &0.1f64.to_be_bytes()).unwrap(), tensor![0.1; f64]);
        for refused in ["<f2", "<u8", "<c8", "|S3", "<U4", "|O8", "<b1x"] {
            let own =
                of(&file(&format!("{{'descr': '{refused}', 'fortran_order': False, 'shape': (0,)}}"), &[]));
            assert!(own.unwrap_err().to_string().contains(&format!("its type `{refused}`")));
        }
    }

    #[test]
    fn what_is_damaged_is_refused_without_much_memory() {
        let header = "{'shape': (2, 3), 'descr': '<i4', 'fortran_order': False}";
        assert!(stands_damage(&file(header, &[7; 24]), of) > 50);
        let words = |header: &str| of(&file(header, &[0; 8])).unwrap_err().with_location(None).to_string();
        for bad in [
            "",
            "{",
            "{}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} more",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        ] {
            assert!(words(bad).contains("its header is not of the form"), "{bad}: {}", words(bad));
        }
        let huge =
            |shape: &str| words(&format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"));
        assert!(huge("(1000000000000,)").contains("after 8 of 4000000000000 bytes: it was cut off"));
        assert!(huge("(4294967296, 4294967296)").contains("which no memory holds"));
        assert!(huge("(1,)").contains("goes on behind"));
        let mut long = b"\x93NUMPY\x02\x00".to_vec();
        long.extend([255; 4]);
        assert!(of(&long).unwrap_err().to_string().contains("its header has 4294967295 bytes"));
    }

    #[test]
    fn damaged_archives_are_refused_or_read() {
        let read = |bytes: &[u8], name: &str| read_npz(&Temporary::new(name, bytes).0);
        for end in (0..NUMPYS.len()).step_by(7) {
            assert!(read(&NUMPYS[..end], "cut.npz").is_err(), "{end}");
        }
        for at in (0..NUMPYS.len()).step_by(5) {
            let mut changed = NUMPYS.to_vec();
            changed[at] ^= 0xff;
            drop(read(&changed, "changed.npz"));
        }
        assert!(read(b"no archive", "no.npz").unwrap_err().to_string().contains("no archive"));
    }
}
