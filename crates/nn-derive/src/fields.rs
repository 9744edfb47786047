//! Which fields of a struct hold parameters, and what its `#[module(...)]` attributes say.

use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, Index, LitStr, Member, Path, Result, Type};

/// The fields to visit, in order, with the names that paths show.
pub(crate) fn parts(input: &DeriveInput) -> Result<Vec<(Member, String, &Type)>> {
    let Data::Struct(data) = &input.data else {
        let message = "a model is a struct: its fields are its parameters and layers";
        return Err(Error::new_spanned(&input.ident, message));
    };
    let fields: Vec<&Field> = match &data.fields {
        Fields::Named(f) => f.named.iter().collect(),
        Fields::Unnamed(f) => f.unnamed.iter().collect(),
        Fields::Unit => Vec::new(),
    };
    let mut parts = Vec::new();
    for (i, field) in fields.into_iter().enumerate() {
        if is_skipped(&field.attrs)? || is_plain(&field.ty) {
            continue;
        }
        let (member, name) = match &field.ident {
            Some(ident) => {
                let text = ident.to_string();
                (Member::Named(ident.clone()), text.strip_prefix("r#").unwrap_or(&text).to_owned())
            }
            None => (Member::Unnamed(Index::from(i)), i.to_string()),
        };
        parts.push((member, name, &field.ty));
    }
    Ok(parts)
}

/// What `#[module(crate = "...")]` on the struct says.
pub(crate) fn crate_path(attrs: &[Attribute]) -> Result<Option<Path>> {
    let mut path = None;
    for attr in attrs.iter().filter(|a| a.path().is_ident("module")) {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("expected `crate = \"path\"`; `skip` belongs to a field"));
            }
            path = Some(meta.value()?.parse::<LitStr>()?.parse::<Path>()?);
            Ok(())
        })?;
    }
    Ok(path)
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
const PLAIN: [&str; 19] = [
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
];

/// Whether a type is a plain setting by its name: a number, a truth value, a string, or a reference to one.
fn is_plain(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => is_plain(&r.elem),
        Type::Path(p) if p.qself.is_none() => {
            p.path.segments.last().is_some_and(|s| PLAIN.iter().any(|name| s.ident == name))
        }
        _ => false,
    }
}
