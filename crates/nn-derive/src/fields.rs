//! What the fields of a struct hold, and what `#[module(...)]` attributes say.

use syn::meta::ParseNestedMeta;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, Fields, GenericArgument, Index, LitStr, Member, Path,
    PathArguments, Result, Type,
};

/// A field of a module.
pub(crate) struct Part<'a> {
    pub(crate) member: Member,
    pub(crate) ty: &'a Type,
    pub(crate) holds: Holds,
}

/// What a field holds.
pub(crate) enum Holds {
    /// parameters, which paths show under this name
    Part(String),
    /// no parameters
    Setting,
    /// whether the module is in training: a setting that switching the mode writes
    Mode,
}

impl Holds {
    /// The name of a field with parameters.
    pub(crate) fn part(&self) -> Option<&str> {
        match self {
            Holds::Part(name) => Some(name),
            Holds::Setting | Holds::Mode => None,
        }
    }
}

/// The fields in their order.
pub(crate) fn fields<'a>(input: &'a DeriveInput) -> Result<Vec<Part<'a>>> {
    let Data::Struct(data) = &input.data else {
        let message = "a model is a struct: its fields are its parameters and layers";
        return Err(Error::new_spanned(&input.ident, message));
    };
    let fields: Vec<&'a Field> = match &data.fields {
        Fields::Named(f) => f.named.iter().collect(),
        Fields::Unnamed(f) => f.unnamed.iter().collect(),
        Fields::Unit => Vec::new(),
    };
    let part = |(i, field): (usize, &'a Field)| {
        let (member, name) = match &field.ident {
            Some(ident) => {
                let text = ident.to_string();
                (Member::Named(ident.clone()), text.strip_prefix("r#").unwrap_or(&text).to_owned())
            }
            None => (Member::Unnamed(Index::from(i)), i.to_string()),
        };
        let holds = match is_skipped(&field.attrs)? {
            true => Holds::Setting,
            false if name == "training" && is_named(&field.ty, &["bool"]) => Holds::Mode,
            false if is_plain(&field.ty) => Holds::Setting,
            false => Holds::Part(name),
        };
        Ok(Part { member, ty: &field.ty, holds })
    };
    fields.into_iter().enumerate().map(part).collect()
}

/// The path of this crate's user: what `#[module(crate = "...")]` on the struct says, or the usual one.
pub(crate) fn crate_of(attrs: &[Attribute], usual: &str) -> Result<Path> {
    let mut path = syn::parse_str(usual)?;
    for attr in attrs.iter().filter(|a| a.path().is_ident("module")) {
        attr.parse_nested_meta(|meta| {
            path = crate_path(&meta, "expected `crate = \"path\"`; `skip` belongs to a field")?;
            Ok(())
        })?;
    }
    Ok(path)
}

/// The path in `crate = "..."`.
pub(crate) fn crate_path(meta: &ParseNestedMeta<'_>, otherwise: &str) -> Result<Path> {
    if !meta.path.is_ident("crate") {
        return Err(meta.error(otherwise));
    }
    meta.value()?.parse::<LitStr>()?.parse()
}

fn is_skipped(attrs: &[Attribute]) -> Result<bool> {
    let mut skip = false;
    for attr in attrs.iter().filter(|a| a.path().is_ident("module")) {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("skip") {
                return Err(meta.error("expected `skip`"));
            }
            skip = true;
            Ok(())
        })?;
    }
    Ok(skip)
}

/// Plain settings, which need no attribute.
const PLAIN: [&str; 20] = [
    "bool",
    "char",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "isize",
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "usize",
    "f32",
    "f64",
    "String",
    "str",
    "PhantomData",
    "DType",
];

/// Whether a type is a plain setting, or a tuple, an array, a `Vec` or an `Option` of such.
fn is_plain(ty: &Type) -> bool {
    match ty {
        Type::Tuple(t) => t.elems.iter().all(is_plain),
        Type::Array(a) => is_plain(&a.elem),
        Type::Path(p) if is_named(ty, &["Vec", "Option"]) => {
            let PathArguments::AngleBracketed(of) = &p.path.segments[p.path.segments.len() - 1].arguments
            else {
                return false;
            };
            of.args.iter().all(|of| matches!(of, GenericArgument::Type(of) if is_plain(of)))
        }
        _ => is_named(ty, &PLAIN),
    }
}

/// Whether a type has one of these names, or is a reference to one that has.
fn is_named(ty: &Type, names: &[&str]) -> bool {
    match ty {
        Type::Reference(r) => is_named(&r.elem, names),
        Type::Path(p) if p.qself.is_none() => {
            p.path.segments.last().is_some_and(|s| names.iter().any(|name| s.ident == name))
        }
        _ => false,
    }
}
