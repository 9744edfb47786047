//! The code that `#[forward]` writes.
//!
//! The function `forward` that the user wrote keeps its body under another name. The one that is called turns what it is given into
//! variables, tells a summary that the layer was called, and adds the layer's path to errors. The operations inside belong to the lines of the user's function, unless it is
//! `#[track_caller]`. A function of one variable is a `Layer`, too; its inherent method goes before that of the trait. The other methods
//! of the block only turn what they are given into variables.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, GenericArgument, Ident, ImplItem, ImplItemFn, ItemImpl, Pat, PatType, Path,
    PathArguments, Receiver, ReceiverKind, Result, ReturnType, Stmt, Type, WhereClause, parse_quote,
};

use crate::fields::crate_path;

pub(crate) fn expand(arguments: TokenStream, item: TokenStream, default_crate: &str) -> Result<TokenStream> {
    let mut nn: Path = syn::parse_str(default_crate)?;
    let options = syn::meta::parser(|meta| {
        nn = crate_path(&meta, "expected `crate = \"path\"` or nothing")?;
        Ok(())
    });
    options.parse2(arguments)?;
    let place = "`#[forward]` belongs to `impl Model { fn forward(&self, ..) -> Result<..> { .. } }`";
    let mut item: ItemImpl = syn::parse2(item).map_err(|e| Error::new(e.span(), format!("{place}: {e}")))?;
    if let Some((path, _)) = &item.trait_ {
        return Err(Error::new_spanned(path, format!("{place}, not to one of a trait")));
    }
    let at = item.items.iter().position(|i| matches!(i, ImplItem::Fn(f) if f.sig.ident == "forward"));
    let own = at.map(|at| match item.items.remove(at) {
        ImplItem::Fn(own) => (at, own),
        _ => unreachable!("a function was looked for"),
    });
    let mut changed = 0;
    for other in &mut item.items {
        if let ImplItem::Fn(other) = other {
            changed += take_values(other, &nn);
        }
    }
    let Some((at, own)) = own else {
        // A model that has no `forward`, but an `encode` and a `decode`.
        return match changed {
            0 => {
                let missing =
                    "here is neither `fn forward` nor another method that takes `&self` and a `&Var`";
                Err(Error::new_spanned(&item.self_ty, format!("{place}: {missing}")))
            }
            _ => Ok(quote! { #item }),
        };
    };
    let (called, inputs) = called(&own, &nn)?;
    let layer = is_layer(&own, &inputs).then(|| layer_impl(&item, &own, &nn));
    item.items.insert(at, ImplItem::Fn(renamed(own)));
    item.items.insert(at, ImplItem::Verbatim(called));
    Ok(quote! { #item #layer })
}

/// What a function takes besides `self`.
struct Input {
    name: Ident,
    /// whether it is a `&Var`
    variable: bool,
}

/// The function under the name that users call.
fn called(own: &ImplItemFn, nn: &Path) -> Result<(TokenStream, Vec<Input>)> {
    let mut sig = own.sig.clone();
    if sig.receiver().is_none() {
        return Err(Error::new_spanned(&sig.ident, "`forward` takes `&self` first"));
    }
    let ReturnType::Type(_, output) = &own.sig.output else {
        return Err(Error::new_spanned(&sig.ident, "`forward` returns a `Result`: `-> Result<Var>`"));
    };
    let mut inputs = Vec::new();
    for argument in &mut sig.inputs {
        let FnArg::Typed(PatType { pat, ty, .. }) = argument else { continue };
        let name = match &**pat {
            Pat::Ident(p) => p.ident.clone(),
            _ => format_ident!("input_{}", inputs.len()),
        };
        let variable = is_variable(ty);
        if variable {
            **ty = parse_quote!(impl #nn::Value);
        }
        **pat = parse_quote!(#name);
        inputs.push(Input { name, variable });
    }
    let variables = inputs.iter().filter(|i| i.variable).map(|i| {
        let name = &i.name;
        quote! { let #name = #nn::Value::as_var(&#name); }
    });
    let passed =
        inputs.iter().map(|Input { name, variable }| if *variable { quote!(&#name) } else { quote!(#name) });
    let attrs =
        own.attrs.iter().filter(|a| !a.path().is_ident("track_caller") && !a.path().is_ident("expect"));
    let (vis, inner) = (&own.vis, inner_name(own));
    // The span puts a type that is no `Result` into the error message.
    let placed = quote_spanned! { output.span() => #nn::in_layer(&*self, result) };
    let code = quote! {
        #[track_caller]
        #(#attrs)*
        #vis #sig {
            #(#variables)*
            let __asked = #nn::enter(&*self);
            let result = self.#inner(#(#passed),*);
            if __asked {
                use #nn::NoShapes as _;
                #nn::leave(#nn::Returned(&result).shapes());
            }
            #placed
        }
    };
    Ok((code, inputs))
}

/// Makes a method take tensors, too, where it asks for `&Var`; how often it does.
fn take_values(method: &mut ImplItemFn, nn: &Path) -> usize {
    if method.sig.receiver().is_none() || method.sig.constness.is_some() {
        return 0;
    }
    let mut changed = 0;
    for argument in &mut method.sig.inputs {
        let FnArg::Typed(PatType { pat, ty, .. }) = argument else { continue };
        let (Pat::Ident(own), true) = (&**pat, is_variable(ty)) else { continue };
        let (own, name) = (own.clone(), own.ident.clone());
        **ty = parse_quote!(impl #nn::Value);
        **pat = parse_quote!(#name);
        // A borrow of its own, so that the body has what it asked for. No block around the body, in which lints would see braces.
        let own: [Stmt; 2] = [
            parse_quote!(let #name = #nn::Value::as_var(&#name);),
            parse_quote!(let #own: &#nn::Var = &#name;),
        ];
        method.block.stmts.splice(0..0, own);
        changed += 1;
    }
    changed
}

/// The function that the user wrote.
fn renamed(mut own: ImplItemFn) -> ImplItemFn {
    // What concerns its body; the rest is the other's.
    let keeps = |a: &Attribute| {
        ["allow", "expect", "warn", "deny", "cfg", "track_caller"].iter().any(|name| a.path().is_ident(name))
    };
    own.attrs.retain(keeps);
    own.attrs.push(parse_quote!(#[doc(hidden)]));
    own.sig.ident = inner_name(&own);
    own.vis = syn::Visibility::Inherited;
    own
}

fn inner_name(own: &ImplItemFn) -> Ident {
    Ident::new("__forward", own.sig.ident.span())
}

fn layer_impl(item: &ItemImpl, own: &ImplItemFn, nn: &Path) -> TokenStream {
    let (impl_generics, _, where_clause) = item.generics.split_for_impl();
    let mut bounds: WhereClause = where_clause.cloned().unwrap_or_else(|| parse_quote!(where));
    if item.generics.type_params().next().is_some() {
        // What `Layer` asks for, which depends on the type parameters here.
        bounds.predicates.push(parse_quote!(Self: #nn::Module));
        bounds.predicates.push(parse_quote!(Self: ::core::marker::Send));
        bounds.predicates.push(parse_quote!(Self: ::core::marker::Sync));
    }
    let name = &item.self_ty;
    let cfg = own.attrs.iter().filter(|a| a.path().is_ident("cfg"));
    quote! {
        #(#cfg)*
        #[automatically_derived]
        impl #impl_generics #nn::Layer for #name #bounds {
            #[track_caller]
            fn forward(&self, input: &dyn #nn::Value) -> #nn::Result<#nn::Var> {
                Self::forward(self, input)
            }
        }
    }
}

/// Whether the function is `fn forward(&self, x: &Var) -> Result<Var>`.
fn is_layer(own: &ImplItemFn, inputs: &[Input]) -> bool {
    let sig = &own.sig;
    let by_reference = |r: &Receiver| matches!(r.kind, ReceiverKind::Reference(_, _, None));
    matches!(inputs, [Input { variable: true, .. }])
        && sig.receiver().is_some_and(by_reference)
        && sig.generics.params.is_empty()
        && matches!(&sig.output, ReturnType::Type(_, ty) if is_result_of_variable(ty))
}

/// `&Var`, by any path.
fn is_variable(ty: &Type) -> bool {
    match ty {
        Type::Reference(r) => r.mutability.is_none() && r.lifetime.is_none() && is_var(&r.elem),
        // What a macro's `$t:ty` stands for is in a group.
        Type::Group(g) => is_variable(&g.elem),
        _ => false,
    }
}

fn is_var(ty: &Type) -> bool {
    matches!(ty, Type::Path(p) if p.path.segments.last().is_some_and(|s| s.ident == "Var" && s.arguments.is_none()))
}

fn is_result_of_variable(ty: &Type) -> bool {
    let Type::Path(p) = ty else { return false };
    let Some(last) = p.path.segments.last().filter(|s| s.ident == "Result") else { return false };
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    matches!(arguments.args.first(), Some(GenericArgument::Type(ty)) if is_var(ty))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(item: TokenStream) -> Result<String> {
        expand(TokenStream::new(), item, "::foldback_nn").map(|tokens| tokens.to_string())
    }

    #[test]
    fn a_function_of_one_variable_is_a_layer() {
        let is_layer = |code: &str| code.contains("foldback_nn :: Layer for");
        let code = forward(quote! {
            impl<M: Layer> Net<M> {
                fn other(&self) {}
                /// Doc.
                pub fn forward(&self, x: &nn::Var) -> nn::Result<Var> { Ok(x.clone()) }
            }
        });
        let code = code.unwrap();
        assert!(is_layer(&code) && code.contains("Self : :: foldback_nn :: Module"), "{code}");
        assert!(code.contains("pub fn forward (& self , x : impl :: foldback_nn :: Value)"), "{code}");
        assert!(code.contains("fn __forward (& self , x : & nn :: Var)"), "{code}");
        assert_eq!(code.matches("Doc.").count(), 1);
        for signature in [
            quote!(forward(&self, x: &Var, y: &Var) -> Result<Var>),
            quote!(forward(&self, x: &Var) -> Result<(Var, Var)>),
            quote!(forward(&mut self, x: &Var) -> Result<Var>),
            quote!(forward(&self, x: &Tensor) -> Result<Var>),
            quote!(forward(&self) -> Result<Var>),
        ] {
            let code = forward(quote! { impl Net { fn #signature { body() } } }).unwrap();
            assert!(!is_layer(&code) && code.contains("in_layer"), "{code}");
        }
    }

    #[test]
    fn what_is_no_reference_to_a_variable_stays() {
        let code = forward(quote! {
            impl Net {
                fn forward<'a>(&self, mut x: &Var, mask: Option<&Var>, (a, b): (usize, f64), y: &'a Var) -> Result<Var> {
                    body()
                }
            }
        });
        let code = code.unwrap();
        let called = "x : impl :: foldback_nn :: Value , mask : Option < & Var > , input_2 : (usize , f64) , y : & 'a Var";
        assert!(code.contains(called), "{code}");
        assert!(code.contains("__forward (& x , mask , input_2 , y)"), "{code}");
    }

    #[test]
    fn other_methods_take_values() {
        let code = forward(quote! {
            impl Net {
                fn step(&self, mut x: &Var, n: usize) -> Result<Var> { body(x) }
                fn as_it_is(&self, x: &'_ Var) -> Result<Var> { body(x) }
                const fn fixed(&self, x: &Var) -> usize { 3 }
                fn made(x: &Var) -> Net { Net }
                fn forward(&self, x: &Var) -> Result<Var> { body() }
            }
        });
        let code = code.unwrap();
        let step = "fn step (& self , x : impl :: foldback_nn :: Value , n : usize) -> Result < Var > { \
                    let x = :: foldback_nn :: Value :: as_var (& x) ; let mut x : & :: foldback_nn :: Var = & x ; body (x) }";
        assert!(code.contains(step), "{code}");
        for kept in
            ["as_it_is (& self , x : & '_ Var)", "const fn fixed (& self , x : & Var)", "made (x : & Var)"]
        {
            assert!(code.contains(kept), "{kept}: {code}");
        }
    }

    #[test]
    fn types_that_a_macro_was_given() {
        let ty = proc_macro2::Group::new(proc_macro2::Delimiter::None, quote!(&Var));
        let code =
            forward(quote! { impl Net { fn encode(&self, x: #ty) -> Result<Var> { body(x) } } }).unwrap();
        assert!(code.contains("fn encode (& self , x : impl :: foldback_nn :: Value)"), "{code}");
    }

    #[test]
    fn blocks_without_forward() {
        let code =
            forward(quote! { impl Net { fn encode(&self, x: &Var) -> Result<Var> { body(x) } } }).unwrap();
        assert!(code.contains("fn encode (& self , x : impl :: foldback_nn :: Value)"), "{code}");
        assert!(!code.contains("Layer"), "{code}");
    }

    #[test]
    fn other_crate() {
        let item = quote! { impl Net { fn forward(&self, x: &Var) -> Result<Var> { body() } } };
        let code = expand(quote!(crate = "some::nn"), item.clone(), "::foldback_nn").unwrap().to_string();
        assert!(code.contains("some :: nn :: Layer") && !code.contains("foldback_nn"), "{code}");
        let e = expand(quote!(skip), item, "::foldback_nn").unwrap_err();
        assert_eq!(e.to_string(), "expected `crate = \"path\"` or nothing");
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        let message = |item| forward(item).unwrap_err().to_string();
        let e =
            message(quote! { impl Layer for Net { fn forward(&self, x: &Var) -> Result<Var> { body() } } });
        assert!(e.ends_with("not to one of a trait"), "{e}");
        assert!(
            message(quote! { impl Net { fn new() -> Net { Net } } })
                .ends_with("here is neither `fn forward` nor another method that takes `&self` and a `&Var`")
        );
        assert!(
            message(quote! { fn forward(x: &Var) -> Result<Var> { body() } })
                .starts_with("`#[forward]` belongs to")
        );
        let e = message(quote! { impl Net { fn forward(x: &Var) -> Result<Var> { body() } } });
        assert_eq!(e, "`forward` takes `&self` first");
        let e = message(quote! { impl Net { fn forward(&self, x: &Var) { body() } } });
        assert_eq!(e, "`forward` returns a `Result`: `-> Result<Var>`");
    }
}
