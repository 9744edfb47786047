//! `#[derive(Module)]` for the fields of a model and `#[forward]` for its function.
//!
//! Documented, with examples, where users find them: in `foldback_nn` and `foldback::nn`.
//!
//! Note [Paths in generated code]
//! A macro cannot ask which crate it was reached through. So each exists twice, for users of `foldback_nn` and for users
//! of the facade, which re-exports the second under the name of the first. A crate that is imported under another name
//! says so: `#[module(crate = "my_nn")]`, `#[forward(crate = "my_nn")]`.
#![forbid(unsafe_code)]

mod fields;
mod forward;
mod module;

use proc_macro::TokenStream;
use syn::parse_macro_input;

const NN: &str = "::foldback_nn";
const FACADE: &str = "::foldback::nn";

fn tokens(result: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    result.unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a module of a struct: finds what its fields hold.
#[proc_macro_derive(Module, attributes(module))]
pub fn module(input: TokenStream) -> TokenStream {
    tokens(module::expand(&parse_macro_input!(input), NN))
}

/// Code with the facade's paths.
#[proc_macro_derive(FacadeModule, attributes(module))]
pub fn facade_module(input: TokenStream) -> TokenStream {
    tokens(module::expand(&parse_macro_input!(input), FACADE))
}

/// Makes the function of a module take tensors, too, and its errors name the layer.
#[proc_macro_attribute]
pub fn forward(arguments: TokenStream, item: TokenStream) -> TokenStream {
    tokens(forward::expand(arguments.into(), item.into(), NN))
}

/// Code with the facade's paths.
#[proc_macro_attribute]
pub fn facade_forward(arguments: TokenStream, item: TokenStream) -> TokenStream {
    tokens(forward::expand(arguments.into(), item.into(), FACADE))
}
