//! The header of a safetensors file: JSON, read as it comes, so that no header takes more memory than it has bytes for.
//!
//! The crate `safetensors` has the types and checks that the tensors fill the data without holes; its own reader puts the
//! whole header into a tree first, which is many times larger, takes the last of two entries of one name, and knows no limits.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use ::safetensors::Dtype;
use ::safetensors::tensor::TensorInfo;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor};

/// What may stand in a file beside the tensors: free texts by name.
pub type Metadata = BTreeMap<String, String>;

/// The name that is no tensor's.
pub(super) const METADATA: &str = "__metadata__";

/// More tensors than any model has in a file, and few enough to be held in memory before their elements are seen.
pub(super) const MOST_ENTRIES: usize = 1 << 15;

/// More axes than PyTorch's tensors have.
pub(super) const MOST_AXES: usize = 64;

/// Everything that a header says, in its order.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub(super) metadata: Option<Metadata>,
    pub(super) tensors: Vec<(String, TensorInfo)>,
}

impl Header {
    /// Reads the text; the error says what is wrong with it.
    pub(super) fn parse(text: &[u8]) -> Result<Header, String> {
        let text = std::str::from_utf8(text).map_err(|e| format!("the header is no UTF-8 ({e})"))?;
        if !text.starts_with('{') {
            return Err("the header does not begin with `{`".into());
        }
        let header: Header =
            serde_json::from_str(text).map_err(|e| format!("the header is malformed ({e})"))?;
        let mut names = HashSet::new();
        match header.tensors.iter().find(|(name, _)| !names.insert(name)) {
            Some((name, _)) => Err(format!("the header has two entries {}", shortened(name))),
            None => Ok(header),
        }
    }
}

/// A name for a text: its beginning if it is long.
pub(super) fn shortened(name: &str) -> String {
    let end = name.char_indices().nth(100).map_or(name.len(), |(at, _)| at);
    format!("{:?}{}", &name[..end], if end < name.len() { ".." } else { "" })
}

/// Defines a visitor of maps, which is all that is taken: derived ones take lists for structs, too.
macro_rules! from_map {
    ($type:ty, $expected:literal, |$map:ident| $body:block) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                struct FromMap;
                impl<'de> Visitor<'de> for FromMap {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_map<A: MapAccess<'de>>(self, mut $map: A) -> Result<$type, A::Error> $body
                }
                deserializer.deserialize_map(FromMap)
            }
        }
    };
}

from_map!(Header, "an object of tensors", |map| {
    let mut header = Header::default();
    let mut metadata = None;
    while let Some(name) = map.next_key::<String>()? {
        if name == METADATA {
            once(&mut metadata, METADATA, map.next_value::<Option<Texts>>()?)?;
        } else if header.tensors.len() == MOST_ENTRIES {
            return Err(A::Error::custom(format_args!("it names more than {MOST_ENTRIES} tensors")));
        } else {
            header.tensors.push((name, map.next_value::<Entry>()?.0));
        }
    }
    header.metadata = metadata.flatten().map(|texts| texts.0);
    Ok(header)
});

struct Texts(Metadata);

from_map!(Texts, "an object of strings", |map| {
    let mut texts = Metadata::new();
    while let Some((name, text)) = map.next_entry::<String, String>()? {
        if texts.len() == MOST_ENTRIES {
            return Err(A::Error::custom(format_args!("it has more than {MOST_ENTRIES} texts")));
        }
        if let Some(before) = texts.insert(name, text) {
            drop(before);
            return Err(A::Error::custom("two texts of the metadata have one name"));
        }
    }
    Ok(Texts(texts))
});

struct Entry(TensorInfo);

from_map!(Entry, "an object with dtype, shape and data_offsets", |map| {
    let (mut dtype, mut shape, mut data_offsets) = (None, None, None);
    while let Some(field) = map.next_key::<String>()? {
        match field.as_str() {
            "dtype" => once(&mut dtype, "dtype", map.next_value::<String>()?)?,
            "shape" => once(&mut shape, "shape", map.next_value::<HeaderShape>()?.0)?,
            "data_offsets" => once(&mut data_offsets, "data_offsets", map.next_value()?)?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
    }
    let dtype = dtype.ok_or_else(|| A::Error::missing_field("dtype"))?;
    if dtype.len() > 32 {
        return Err(A::Error::custom("no dtype has so long a name"));
    }
    Ok(Entry(TensorInfo {
        dtype: Dtype::deserialize(dtype.as_str().into_deserializer())?,
        shape: shape.ok_or_else(|| A::Error::missing_field("shape"))?,
        data_offsets: data_offsets.ok_or_else(|| A::Error::missing_field("data_offsets"))?,
    }))
});

/// Keeps a field that may come once.
fn once<T, E: Error>(place: &mut Option<T>, name: &'static str, value: T) -> Result<(), E> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

struct HeaderShape(Vec<usize>);

impl<'de> Deserialize<'de> for HeaderShape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HeaderShape, D::Error> {
        struct FromList;
        impl<'de> Visitor<'de> for FromList {
            type Value = HeaderShape;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of sizes")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<HeaderShape, A::Error> {
                let mut sizes = Vec::new();
                while let Some(size) = list.next_element::<usize>()? {
                    if sizes.len() == MOST_AXES {
                        return Err(A::Error::custom(format_args!("a shape has more than {MOST_AXES} axes")));
                    }
                    if isize::try_from(size).is_err() {
                        return Err(A::Error::custom(format_args!("no axis has size {size}")));
                    }
                    sizes.push(size);
                }
                Ok(HeaderShape(sizes))
            }
        }
        deserializer.deserialize_seq(FromList)
    }
}
