//! Random functions composed of rows of the derivative table, whose gradients are right: none is ever accused.
//!
//! 300 of them in each run of the tests; `FOLDBACK_FUNCTIONS=10000` makes it so many.

use foldback_gradcheck::testing::{Random, fill};
use foldback_gradcheck::{Check, GradcheckFacts};
use foldback_graph::{Domain, OwnedSample, Result, Var, rows};
use foldback_tensor::{DType, Tensor};

type Run = fn(&[Var]) -> Result<Var>;

/// Samples of the table, and its functions of one variable with their domains.
struct Table {
    samples: Vec<(String, OwnedSample, bool)>,
    functions: Vec<(&'static str, Domain, Run)>,
}

impl Table {
    fn new() -> Table {
        let (mut samples, mut functions) = (Vec::new(), Vec::new());
        for row in rows() {
            for sample in row.samples() {
                if let (true, [(_, domain)]) = (row.is_pointwise(), &sample.inputs[..]) {
                    functions.push((row.name, *domain, sample.run));
                }
                samples.push((format!("{} ({})", row.name, sample.label), sample, row.is_pointwise()));
            }
        }
        Table { samples, functions }
    }
}

fn pick<'a, T>(list: &'a [T], random: &mut Random) -> &'a T {
    &list[random.next_u64() as usize % list.len()]
}

/// A smooth map of any number to a domain; none to one that has gaps.
fn into_domain(x: &Var, domain: Domain) -> Option<Var> {
    match domain {
        Domain::Any => Some(x.tanh()),
        Domain::NonZero | Domain::Positive => Some(x.tanh() * 0.5 + 1.0),
        Domain::AboveOne => Some(x.tanh() * 0.5 + 2.0),
        Domain::Unit => Some(x.tanh() * 0.8),
        Domain::NonInteger | Domain::Distinct | Domain::Truth => None,
    }
}

/// `f(g(sample)) * h(sample)`, with a name, inputs, and which of them are tracked.
struct Function {
    name: String,
    inputs: Vec<Tensor>,
    sample: Run,
    maps: Vec<(Domain, Run)>,
}

impl Function {
    fn new(table: &Table, random: &mut Random) -> Function {
        let (mut name, sample, is_pointwise) = pick(&table.samples, random).clone();
        let input = |(shape, domain): &(Vec<usize>, Domain)| {
            let t = fill(shape.as_slice(), *domain, random);
            if is_pointwise && *domain == Domain::Truth { t.to(DType::Bool) } else { t }
        };
        let inputs = sample.inputs.iter().map(input).collect();
        let mut maps = Vec::new();
        for _ in 0..random.next_u64() % 4 {
            let (map, domain, run) = pick(&table.functions, random);
            name = format!("{map} of {name}");
            maps.push((*domain, *run));
        }
        Function { name, inputs, sample: sample.run, maps }
    }

    fn run(&self, x: &[Var]) -> Result<Var> {
        let first = (self.sample)(x)?;
        let mut y = first.clone();
        for (domain, run) in &self.maps {
            if let Some(inside) = into_domain(&y, *domain) {
                y = run(&[inside])?;
            }
        }
        if self.maps.len() == 3 { y.mul(first.tanh()) } else { Ok(y) }
    }
}

#[test]
fn random_functions_of_the_table_are_never_accused() {
    let wished = std::env::var("FOLDBACK_FUNCTIONS").ok().and_then(|n| n.parse().ok());
    let (count, table) = (wished.unwrap_or(300), Table::new());
    let (mut accused, mut kinks) = (Vec::new(), 0);
    for seed in 0..count {
        let function = Function::new(&table, &mut Random::new(seed));
        let check = Check::new().seeds(1).elements(8);
        let f = |x: &[Var]| function.run(x);
        let found = check
            .gradcheck(f, &function.inputs)
            .and_then(|()| if seed % 4 == 0 { check.gradgradcheck(f, &function.inputs) } else { Ok(()) });
        match found {
            Ok(()) => {}
            Err(e) if matches!(e.facts(), Some(GradcheckFacts::Kink { .. })) => kinks += 1,
            Err(e) => accused.push(format!("{seed}: {}: {e}", function.name)),
        }
    }
    println!("{count} functions, {kinks} at a kink");
    assert!(accused.is_empty(), "{} of {count} were accused:\n{}", accused.len(), accused.join("\n"));
    assert!(kinks * 50 <= count, "{kinks} of {count} functions had a kink, which hides them from the check");
}
