//! `#[derive(Module)]` and `#[derive(Parameters)]`: what a model is besides its forward function.
//!
//! Documented, with examples, where users find it: `foldback_nn::Module` and `foldback::nn::Module`.
//!
//! Note [Paths in generated code]
//! A derive cannot ask which crate it was reached through. So each derive exists twice, for users of `foldback_nn` and
//! for users of the facade, which re-exports the second under the name of the first. A crate that is imported under
//! another name says so: `#[module(crate = "my_nn")]`.
#![forbid(unsafe_code)]

mod expand;
mod fields;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use expand::{Kind, expand};

const NN: &str = "::foldback_nn";
const FACADE: &str = "::foldback::nn";

fn derive(input: DeriveInput, nn: &str, kind: Kind) -> TokenStream {
    expand(&input, nn, kind).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a module of a struct whose `forward` is written in `impl Forward`.
#[proc_macro_derive(Module, attributes(module))]
pub fn module(input: TokenStream) -> TokenStream {
    derive(parse_macro_input!(input as DeriveInput), NN, Kind::Module)
}

/// Finds the parameters of a struct; for models whose forward function takes something else than one variable.
#[proc_macro_derive(Parameters, attributes(module))]
pub fn parameters(input: TokenStream) -> TokenStream {
    derive(parse_macro_input!(input as DeriveInput), NN, Kind::Parameters)
}

/// [`macro@Module`] with the facade's paths.
#[proc_macro_derive(FacadeModule, attributes(module))]
pub fn facade_module(input: TokenStream) -> TokenStream {
    derive(parse_macro_input!(input as DeriveInput), FACADE, Kind::Module)
}

/// [`macro@Parameters`] with the facade's paths.
#[proc_macro_derive(FacadeParameters, attributes(module))]
pub fn facade_parameters(input: TokenStream) -> TokenStream {
    derive(parse_macro_input!(input as DeriveInput), FACADE, Kind::Parameters)
}
