//! The code that `#[derive(Module)]` writes.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Path, Result, WhereClause, parse_quote};

use crate::fields::{Holds, crate_of, fields};

pub(crate) fn expand(input: &DeriveInput, default_crate: &str) -> Result<TokenStream> {
    let nn: Path = crate_of(&input.attrs, default_crate)?;
    let (name, fields) = (&input.ident, fields(input)?);
    let parts = || fields.iter().filter_map(|f| Some((&f.member, f.holds.part()?, f.ty)));
    let visits = parts().map(|(member, path, ty)| {
        // The span puts a field that holds no parameters into the error message.
        quote_spanned! { ty.span() => visitor.part(#path, &self.#member); }
    });
    let switches = parts().map(|(member, _, ty)| {
        quote_spanned! { ty.span() => #nn::Module::set_training(&mut self.#member, training); }
    });
    let modes = fields.iter().filter(|f| matches!(f.holds, Holds::Mode)).map(|f| {
        let member = &f.member;
        quote! { self.#member = training; }
    });
    let copies = fields.iter().map(|f| {
        let (member, ty) = (&f.member, f.ty);
        match f.holds {
            Holds::Part(_) => quote_spanned! { ty.span() => #member: copies.part(&self.#member) },
            Holds::Setting | Holds::Mode => {
                quote_spanned! { ty.span() => #member: copies.setting(&self.#member) }
            }
        }
    });
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    let mut bounds: WhereClause = where_clause.cloned().unwrap_or_else(|| parse_quote!(where));
    if input.generics.type_params().next().is_some() {
        for field in &fields {
            let ty = field.ty;
            bounds.predicates.push(match field.holds {
                Holds::Part(_) => parse_quote!(#ty: #nn::Module),
                Holds::Setting | Holds::Mode => parse_quote!(#ty: ::core::clone::Clone),
            });
        }
    }
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #nn::Module for #name #ty_generics #bounds {
            fn visit(&self, visitor: &mut #nn::Visitor<'_>) {
                visitor.layer(self);
                #(#visits)*
            }

            fn set_training(&mut self, training: bool) {
                let _ = training;
                #(#modes)*
                #(#switches)*
            }

            fn copy_parts(&self, copies: &mut #nn::Copies) -> Self {
                let _ = &copies;
                Self { #(#copies),* }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(input: DeriveInput) -> Result<String> {
        expand(&input, "::foldback_nn").map(|tokens| tokens.to_string())
    }

    #[test]
    fn settings_are_left_alone() {
        let code = module(parse_quote! {
            struct Model {
                layer: Linear,
                n: usize,
                name: &'static str,
                text: std::string::String,
                marker: PhantomData<u8>,
                #[module(skip)]
                mode: Mode,
            }
        })
        .unwrap();
        assert_eq!(code.matches("visitor . part").count(), 1);
        assert_eq!(code.matches("copies . part").count(), 1);
        assert_eq!(code.matches("copies . setting").count(), 5);
        assert!(code.contains("\"layer\""));
    }

    #[test]
    fn a_field_of_the_name_training_is_the_mode() {
        let writes = |input| module(input).unwrap().contains("self . training = training");
        assert!(writes(parse_quote! { struct Noise { training: bool } }));
        assert!(!writes(parse_quote! { struct Noise { #[module(skip)] training: bool } }));
        assert!(!writes(parse_quote! { struct Noise { training: f64, trained: bool } }));
    }

    #[test]
    fn other_crate() {
        let code = module(parse_quote! {
            #[module(crate = "some::nn")]
            struct Model(Linear);
        })
        .unwrap();
        assert!(code.contains("some :: nn :: Module") && !code.contains("foldback_nn"), "{code}");
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        let message = |input| module(input).unwrap_err().to_string();
        let e = message(parse_quote! { enum Model { A(Linear) } });
        assert!(e.contains("a model is a struct"), "{e}");
        let e = message(parse_quote! { struct Model { #[module(skipped)] n: Mode } });
        assert_eq!(e, "expected `skip`");
        let e = message(parse_quote! { #[module(skip)] struct Model; });
        assert!(e.contains("`skip` belongs to a field"), "{e}");
        assert!(module(parse_quote! { #[module(crate = "not a path")] struct Model; }).is_err());
    }
}
