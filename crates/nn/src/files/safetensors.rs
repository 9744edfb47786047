//! Tensors by name to and from safetensors files, which PyTorch and most others read and write, too.
//!
//! The functions have the names of Python's `safetensors.torch`. A file is a header, which says where each tensor lies, and
//! the elements ([the format](https://github.com/huggingface/safetensors#format)). The order of the entries is kept.
//!
//! ```
//! use foldback_nn::safetensors;
//! use foldback_tensor::{StateDict, tensor};
//! let state = StateDict::from_iter([("weight", tensor![[1.0, 2.0]]), ("steps", tensor![3; i64])]);
//! let bytes = safetensors::save(&state)?;
//! assert_eq!(safetensors::load(&bytes)?, state);
//!
//! let e = safetensors::load(&bytes[..bytes.len() - 1]).unwrap_err();
//! assert!(e.to_string().starts_with("load: the data has 15 bytes and the header describes 16: "));
//! # Ok::<(), foldback_nn::Error>(())
//! ```
//!
//! | in the file | here |
//! |---|---|
//! | `F32`, `F64`, `I64`, `BOOL` | `f32`, `f64`, `i64`, `bool` |
//! | `F16`, `BF16` | `f32` with the same values |
//! | any other | refused by name |
//!
//! Whatever is wrong with a file is an error and loads nothing: also what other readers let pass, a name that comes
//! twice, a header that does not begin with `{`, a byte other than 0 and 1 in a `BOOL`. A file has at most 32768 tensors of at
//! most 64 axes, and a header of at most 100 MB.

use std::io::Write;
use std::path::Path;

use ::safetensors::tensor::{Metadata as Described, TensorInfo};
use foldback_tensor::{Error, Here, StateDict, Tensor, refuse};
use serde::Serializer;
use serde::ser::SerializeMap;

pub use super::header::Metadata;
use super::header::{Header, METADATA, MOST_AXES, MOST_ENTRIES, shortened};
use super::{FileFacts, atomic, elements, read_bytes};
use crate::error::Result;

/// The longest header, as in the reader of Python.
const LONGEST_HEADER: usize = 100_000_000;

/// What PyTorch's libraries write, and some of them want to find.
#[doc(hidden)]
pub fn usual() -> Metadata {
    Metadata::from([("format".to_owned(), "pt".to_owned())])
}

/// The bytes of a file of these tensors, with the metadata `{"format": "pt"}`.
///
/// # Errors
/// `Unwritable` for a tensor of the name `__metadata__`, and beyond the limits of a file; `TooLarge` for an expanded view that no
/// memory can hold.
#[track_caller]
pub fn save(state: &StateDict) -> Result<Vec<u8>> {
    save_with(state, Some(&usual())).here()
}

/// [`save`] with metadata of one's own, or none.
///
/// ```
/// use foldback_nn::safetensors::{Metadata, load_with_metadata, save_with};
/// use foldback_tensor::{StateDict, tensor};
/// let metadata = Metadata::from([("epoch".to_owned(), "3".to_owned())]);
/// let state = StateDict::from_iter([("weight", tensor![1.0])]);
/// assert_eq!(load_with_metadata(&save_with(&state, Some(&metadata))?)?, (state, Some(metadata)));
/// # Ok::<(), foldback_nn::Error>(())
/// ```
///
/// # Errors
/// As [`save`].
#[track_caller]
pub fn save_with(state: &StateDict, metadata: Option<&Metadata>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    save_to("save", state, metadata, &mut bytes).here()?;
    Ok(bytes)
}

/// Writes a file of these tensors, with the metadata `{"format": "pt"}`: whole or not at all, see
/// [`write_atomically`](crate::write_atomically).
///
/// # Errors
/// As [`save`]; of kind `Io`, with the path.
///
/// ```
/// use foldback_nn::safetensors::{load_file, save_file};
/// use foldback_tensor::{StateDict, tensor};
/// let path = std::env::temp_dir().join(format!("foldback-{}.safetensors", std::process::id()));
/// let state = StateDict::from_iter([("weight", tensor![[1.0, 2.0]])]);
/// save_file(&state, &path)?;
/// assert_eq!(load_file(&path)?, state);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), foldback_nn::Error>(())
/// ```
#[track_caller]
pub fn save_file(state: &StateDict, path: impl AsRef<Path>) -> Result<()> {
    write_file("save_file", path.as_ref(), state, Some(&usual())).here()
}

/// [`save_file`] with metadata of one's own, or none.
///
/// # Errors
/// As [`save_file`].
#[track_caller]
pub fn save_file_with(state: &StateDict, path: impl AsRef<Path>, metadata: Option<&Metadata>) -> Result<()> {
    write_file("save_file", path.as_ref(), state, metadata).here()
}

/// [`save_file_with`] in the name of another operation.
pub(super) fn write_file(
    op: &'static str,
    path: &Path,
    state: &StateDict,
    metadata: Option<&Metadata>,
) -> Result<()> {
    atomic::write_named(op, path, &|out| save_to(op, state, metadata, out))
}

/// The tensors of a file, given its bytes, in the order of its header.
///
/// # Errors
/// `Malformed` if they are no such file, `DType` for a tensor of a type that there is not here.
#[track_caller]
pub fn load(bytes: &[u8]) -> Result<StateDict> {
    Ok(load_with_metadata(bytes).here()?.0)
}

/// [`load`] with the metadata, if the file has any.
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn load_with_metadata(bytes: &[u8]) -> Result<(StateDict, Option<Metadata>)> {
    parse("load", bytes).map_err(Error::from).here()
}

/// The tensors of a file, in the order of its header.
///
/// # Errors
/// As [`load`], with the path; of kind `Io` if it cannot be read.
#[track_caller]
pub fn load_file(path: impl AsRef<Path>) -> Result<StateDict> {
    Ok(load_file_with_metadata(path).here()?.0)
}

/// [`load_file`] with the metadata, if the file has any.
///
/// # Errors
/// As [`load_file`].
#[track_caller]
pub fn load_file_with_metadata(path: impl AsRef<Path>) -> Result<(StateDict, Option<Metadata>)> {
    read_file("load_file", path.as_ref()).here()
}

/// [`load_file_with_metadata`] in the name of another operation.
pub(super) fn read_file(op: &'static str, path: &Path) -> Result<(StateDict, Option<Metadata>)> {
    from_file(op, path, &read_bytes(op, path)?)
}

/// The tensors of a file whose bytes have been read.
#[doc(hidden)]
pub fn from_file(op: &'static str, path: &Path, bytes: &[u8]) -> Result<(StateDict, Option<Metadata>)> {
    parse(op, bytes).map_err(|facts| facts.in_file(path).into())
}

/// Writes a file to anything.
#[doc(hidden)]
pub fn save_to(
    op: &'static str,
    state: &StateDict,
    metadata: Option<&Metadata>,
    out: &mut dyn Write,
) -> Result<()> {
    // The largest elements first, so that each lies at a multiple of its size; those who map files into memory want that.
    let mut in_file: Vec<(&str, &Tensor)> = state.iter().collect();
    in_file.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype().size()));
    let header = match header_of(state, &in_file, metadata) {
        Ok(header) => header,
        Err(problem) => return refuse(FileFacts::Unwritable { op, problem }),
    };
    out.write_all(&(header.len() as u64).to_le_bytes())?;
    out.write_all(&header)?;
    for (_, tensor) in in_file {
        elements::write(tensor, out)?;
    }
    Ok(())
}

/// The header: the entries in their own order, with the places that they have in the file.
fn header_of(
    state: &StateDict,
    in_file: &[(&str, &Tensor)],
    metadata: Option<&Metadata>,
) -> Result<Vec<u8>, String> {
    if state.len() > MOST_ENTRIES || metadata.is_some_and(|texts| texts.len() > MOST_ENTRIES) {
        return Err(format!("more than {MOST_ENTRIES} entries: write several files"));
    }
    let mut places = std::collections::HashMap::new();
    let mut end = 0usize;
    for (name, tensor) in in_file {
        if *name == METADATA {
            return Err(format!("no tensor can have the name {METADATA}: choose another"));
        }
        if tensor.rank() > MOST_AXES {
            return Err(format!("{} has more than {MOST_AXES} axes: reshape it", shortened(name)));
        }
        let start = end;
        let bytes = tensor.numel().checked_mul(tensor.dtype().size());
        end = bytes.and_then(|bytes| end.checked_add(bytes)).ok_or("no file is so large: write several")?;
        places.insert(*name, (start, end));
    }
    let mut header = Vec::new();
    let mut json = serde_json::Serializer::new(&mut header);
    let mut entries = || -> serde_json::Result<()> {
        let mut map = json.serialize_map(None)?;
        if let Some(metadata) = metadata {
            map.serialize_entry(METADATA, metadata)?;
        }
        for (name, tensor) in state.iter() {
            let (dtype, shape) = (elements::dtype_of(tensor.dtype()), tensor.dims().to_vec());
            map.serialize_entry(name, &TensorInfo { dtype, shape, data_offsets: places[name] })?;
        }
        map.end()
    };
    entries().map_err(|e| e.to_string())?;
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() > LONGEST_HEADER {
        return Err(format!("a header of {} bytes is too long: shorten the metadata", header.len()));
    }
    Ok(header)
}

/// A file, taken apart and checked.
fn parse(op: &'static str, bytes: &[u8]) -> Result<(StateDict, Option<Metadata>), FileFacts> {
    let malformed = |cure, problem| FileFacts::Malformed { op, path: String::new(), problem, cure };
    const CUT: &str = "the file is cut off, or no safetensors file; save or copy it again";
    const WRONG: &str = "it is damaged, or was not written as the format wants it; save it again";
    const TORCH: &str = "in Python, write it by safetensors.torch.save_file(model.state_dict(), path)";
    // A zip archive, or the pickle of PyTorch before 1.6.
    let is_torch = [&b"PK\x03\x04"[..], b"\x80\x02"].iter().any(|magic| bytes.starts_with(magic));
    let (header, data) = split(bytes).map_err(|problem| match is_torch {
        true => malformed(TORCH, "this is a file of torch.save, not of safetensors".into()),
        false => malformed(CUT, problem),
    })?;
    let Header { metadata, tensors } = Header::parse(header).map_err(|problem| malformed(WRONG, problem))?;
    let names: Vec<String> = tensors.iter().map(|(name, _)| name.clone()).collect();
    let mut in_file = tensors;
    in_file.sort_by_key(|(_, info)| info.data_offsets);
    let described = Described::new(None, in_file)
        .map_err(|e| malformed(WRONG, format!("the header contradicts itself ({e})")))?;
    if described.data_len() != data.len() {
        let (has, wants) = (data.len(), described.data_len());
        let problem = format!("the data has {has} bytes and the header describes {wants}");
        return Err(malformed(CUT, problem));
    }
    let tensor = |name: String| {
        let info = described.info(&name).expect("a name of the header");
        let part = &data[info.data_offsets.0..info.data_offsets.1];
        match elements::read(info.dtype, &info.shape, part) {
            Some(Ok(tensor)) => Ok((name, tensor)),
            Some(Err(problem)) => Err(malformed(WRONG, format!("tensor {}: {problem}", shortened(&name)))),
            None => {
                let (name, dtype) = (name.chars().take(100).collect(), info.dtype.to_string());
                Err(FileFacts::DType { op, path: String::new(), name, dtype })
            }
        }
    };
    let tensors: StateDict = names.into_iter().map(tensor).collect::<Result<_, _>>()?;
    Ok((tensors, metadata))
}

/// The header's text and the data.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(format!("{} bytes are too few for the length of a header", bytes.len()));
    };
    let length = u64::from_le_bytes(*length);
    if length > LONGEST_HEADER as u64 {
        return Err(format!("it begins with {length} as the length of its header, which is too long"));
    }
    rest.split_at_checked(length as usize).ok_or_else(|| {
        format!("it ends inside its header, which should have {length} bytes and has {}", rest.len())
    })
}
