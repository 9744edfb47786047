//! The code that the derives write.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Path, Result, WhereClause, parse_quote};

use crate::fields::{crate_path, parts};

/// Which derive it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Module,
    Parameters,
}

pub(crate) fn expand(input: &DeriveInput, default_crate: &str, kind: Kind) -> Result<TokenStream> {
    let nn: Path = match crate_path(&input.attrs)? {
        Some(path) => path,
        None => syn::parse_str(default_crate)?,
    };
    let parameters = parameters_impl(input, &nn)?;
    let module = if kind == Kind::Module { module_impl(input, &nn) } else { TokenStream::new() };
    Ok(quote! { #parameters #module })
}

fn parameters_impl(input: &DeriveInput, nn: &Path) -> Result<TokenStream> {
    let name = &input.ident;
    let parts = parts(input)?;
    let visits = parts.iter().map(|(member, path, ty)| {
        // The span puts a field that holds no parameters into the error message.
        quote_spanned! { ty.span() => visitor.part(#path, &self.#member); }
    });
    let switches = parts.iter().map(|(member, _, ty)| {
        quote_spanned! { ty.span() => #nn::Parameters::set_training(&mut self.#member, training); }
    });
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    let mut bounds = where_or_empty(where_clause);
    if input.generics.type_params().next().is_some() {
        for (_, _, ty) in &parts {
            bounds.predicates.push(parse_quote!(#ty: #nn::Parameters));
        }
    }
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics #nn::Parameters for #name #ty_generics #bounds {
            fn visit(&self, visitor: &mut #nn::Visitor<'_>) {
                visitor.layer(self);
                #(#visits)*
            }

            fn set_training(&mut self, training: bool) {
                let _ = training;
                #(#switches)*
            }
        }
    })
}

/// The trait, whose `forward` adds the layer's path to errors, and the method of the same name: an inherent method goes
/// before those of traits, so `model.forward(&x)` is this one even where `Forward` is in scope.
fn module_impl(input: &DeriveInput, nn: &Path) -> TokenStream {
    let (name, vis) = (&input.ident, &input.vis);
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    let mut bounds = where_or_empty(where_clause);
    bounds.predicates.push(parse_quote!(Self: #nn::Forward));
    if input.generics.type_params().next().is_some() {
        // What `Module` asks for, which depends on the type parameters here.
        bounds.predicates.push(parse_quote!(Self: #nn::Parameters));
        bounds.predicates.push(parse_quote!(Self: ::core::marker::Send));
        bounds.predicates.push(parse_quote!(Self: ::core::marker::Sync));
    }
    quote! {
        #[automatically_derived]
        impl #impl_generics #nn::Module for #name #ty_generics #bounds {
            #[track_caller]
            fn forward(&self, input: &#nn::Var) -> #nn::Result<#nn::Var> {
                #nn::in_layer(self, #nn::Forward::forward(self, input))
            }
        }

        #[automatically_derived]
        impl #impl_generics #name #ty_generics #bounds {
            /// Applies the module; an error names the layer that it happened in.
            ///
            /// # Errors
            /// What the module's `Forward` returns, with the layer's path.
            #[track_caller]
            #[allow(dead_code)]
            #vis fn forward(&self, input: &#nn::Var) -> #nn::Result<#nn::Var> {
                #nn::Module::forward(self, input)
            }
        }
    }
}

fn where_or_empty(clause: Option<&WhereClause>) -> WhereClause {
    clause.cloned().unwrap_or_else(|| parse_quote!(where))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(input: DeriveInput) -> Result<String> {
        expand(&input, "::foldback_nn", Kind::Module).map(|tokens| tokens.to_string())
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
        assert!(code.contains("\"layer\""));
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

    #[test]
    fn parameters_alone_have_no_forward() {
        let input = parse_quote! { struct Model(Linear); };
        let code = expand(&input, "::foldback_nn", Kind::Parameters).unwrap().to_string();
        assert!(!code.contains("forward"));
    }
}
