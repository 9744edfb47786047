//! Forward mode and batches of each row, against passes one by one.

use super::*;

impl Case {
    /// The operation as a function of the inputs that can be differentiated, and these.
    fn differentiable(&self) -> (impl Fn(&[Var]) -> Result<Var>, Vec<Tensor>) {
        self.differentiable_in(self.trackable())
    }

    /// The same of some inputs, where the others are constants.
    fn differentiable_in(&self, tracked: Vec<bool>) -> (impl Fn(&[Var]) -> Result<Var>, Vec<Tensor>) {
        let (run, all) = (self.run, self.inputs.clone());
        let given = all.iter().zip(&tracked).filter(|t| *t.1).map(|t| t.0.clone()).collect();
        let f = move |x: &[Var]| {
            let mut x = x.iter();
            let input = |(t, &tracked): (&Tensor, &bool)| match tracked {
                true => x.next().expect("an argument for each input").clone(),
                false => t.into(),
            };
            run(&all.iter().zip(&tracked).map(input).collect::<Vec<Var>>())
        };
        (f, given)
    }
}

fn directions(like: &[Tensor]) -> Vec<Tensor> {
    let mut random = Random::new(23);
    like.iter().map(|t| fill(t.shape(), Domain::Any, &mut random)).collect()
}

/// The Jacobian by one backward pass for each element of the output, and its product with a direction.
fn pass_by_pass(case: &Case, v: &[Tensor]) -> Result<(Vec<Tensor>, Tensor)> {
    let (f, given) = case.differentiable();
    let leaves = given.iter().map(|t| Var::leaf(t.clone())).collect::<Result<Vec<_>>>()?;
    let y = f(&leaves)?;
    let count = y.numel() as i64;
    let (mut rows, mut product) = (vec![Vec::new(); leaves.len()], Vec::new());
    let inputs: Vec<&Var> = leaves.iter().collect();
    for i in 0..count {
        let seed = Var::from(Tensor::arange(0..count).eq(i)?.to(y.dtype()).reshape(y.shape())?);
        let (roots, seeds, mut sum) = ([&y], [&seed], 0.0);
        let pass = Grad::new(roots, &inputs).seeds(&seeds).retain_graph(true).materialize_grads(true);
        for ((rows, g), v) in rows.iter_mut().zip(pass.run()?.into_iter().flatten()).zip(v) {
            sum += (g.value() * v).sum(..)?.item_as::<f64>()?;
            rows.push(g.value());
        }
        product.push(sum);
    }
    let shape = |x: &Tensor| [y.shape().dims(), x.shape().dims()].concat();
    let whole = |(rows, x): (Vec<Tensor>, &Tensor)| match rows.is_empty() {
        true => Ok(Tensor::zeros_with(shape(x), x.dtype())),
        false => Tensor::stack(&rows, 0)?.reshape(shape(x)),
    };
    let jacobian = rows.into_iter().zip(&given).map(whole).collect::<Result<_>>()?;
    Ok((jacobian, Tensor::from_vec(product, y.shape())?))
}

#[test]
fn every_row_forward_and_batched_as_backward() {
    let mut report = Report::default();
    for case in cases() {
        let compare = || -> Result<(), String> {
            let (f, given) = case.differentiable();
            let v = directions(&given);
            let text = |e: foldback_tensor::Error| e.to_string();
            let (expected, product) = pass_by_pass(&case, &v).map_err(text)?;
            let (y, dy) = jvp(&f, given.clone(), v).map_err(text)?;
            agree("the value", &y.value(), &plain_value(&case).map_err(text)?)?;
            agree("jvp", &dy.value(), &product)?;
            let backward = jacobian(&f, given.clone()).map_err(text)?;
            let forward = jacfwd(&f, given).map_err(text)?;
            for ((b, f), e) in backward.iter().zip(&forward).zip(&expected) {
                agree("jacobian", &b.value(), e)?;
                agree("jacfwd", &f.value(), e)?;
            }
            Ok(())
        };
        report.check(&case.name, compare());
    }
    report.finish(200);
}

/// What an input adds to a tangent, beside others that are constants or have none, and what all add together.
#[test]
fn every_row_forward_for_every_choice_of_inputs() {
    let mut report = Report::default();
    let text = |e: foldback_tensor::Error| e.to_string();
    for case in cases().iter().filter(|c| c.trackable().iter().filter(|t| **t).count() > 1) {
        let (f, given) = case.differentiable();
        let v = directions(&given);
        for chosen in subsets(&vec![true; given.len()]) {
            let compare = || -> Result<(), String> {
                let part = |(v, &chosen): (&Tensor, &bool)| if chosen { v.clone() } else { v.zeros_like() };
                let parts: Vec<Tensor> = v.iter().zip(&chosen).map(part).collect();
                let (_, expected) = jvp(&f, given.clone(), parts).map_err(text)?;
                let mut flags = chosen.iter();
                let tracked = case
                    .trackable()
                    .iter()
                    .map(|&t| t && *flags.next().expect("a choice for each"))
                    .collect();
                let (of_some, some) = case.differentiable_in(tracked);
                let own = v.iter().zip(&chosen).filter(|c| *c.1).map(|c| c.0.clone()).collect::<Vec<_>>();
                let (_, found) = jvp(&of_some, some, own).map_err(text)?;
                agree("jvp", &found.value(), &expected.value())
            };
            report.check(format!("{}, {chosen:?}", case.name), compare());
        }
    }
    report.finish(200);
}

#[test]
fn every_row_forward_over_reverse_as_reverse_over_reverse() {
    let mut report = Report::default();
    for case in cases() {
        let compare = || -> Result<(), String> {
            let (f, given) = case.differentiable();
            let v = directions(&given);
            let text = |e: foldback_tensor::Error| e.to_string();
            let weights = fill(plain_value(&case).map_err(text)?.shape(), Domain::Any, &mut Random::new(29));
            let number = |x: &[Var]| f(x)?.tanh().mul(&weights)?.sum(..);
            let (_, forward) = hvp(number, given.clone(), v.clone()).map_err(text)?;
            let (_, backward) = vhp(number, given.clone(), v.clone()).map_err(text)?;
            let whole = hessian(number, given).map_err(text)?;
            for ((f, b), row) in forward.iter().zip(&backward).zip(&whole) {
                agree_to("hvp", &f.value(), &b.value(), 1e-12)?;
                let mut product = Tensor::zeros_with(f.shape(), DType::F64);
                for (part, v) in row.iter().zip(&v) {
                    let part = part.value().reshape((f.numel(), v.numel())).map_err(text)?;
                    let one = part.matmul(v.flatten(..).map_err(text)?).map_err(text)?;
                    product += one.reshape(f.shape()).map_err(text)?;
                }
                agree_to("hessian", &product, &b.value(), 1e-12)?;
            }
            Ok(())
        };
        report.check(&case.name, compare());
    }
    report.finish(200);
}
