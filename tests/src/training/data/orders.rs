//! Which items come, in which order: samplers and splits. Their random numbers are others than PyTorch's; their laws are not.

use foldback::Result as Answer;
use foldback::data::{
    Length, RandomSampler, Sampler, SequentialSampler, StratifiedSampler, SubsetRandomSampler,
    WeightedRandomSampler, random_split_with,
};
use foldback_tensor::{Generator, Tensor};
use serde_json::Value;

use super::super::TrainingCase;
use super::super::judge::{list, number};
use super::{counts, equal, given, known};
use crate::conformance::run::Stop;

/// So many draws are counted at least.
const DRAWS: usize = 20_000;

pub(super) fn random_split(case: &TrainingCase) -> Result<(), Stop> {
    known(case, &["len", "lengths"])?;
    let args = case.args();
    let len = args.get("len").and_then(Value::as_u64).unwrap_or(0) as usize;
    let lengths = args.get("lengths").ok_or_else(|| "no `lengths`".to_owned())?;
    let all = list(lengths)?;
    let parts = match counts(lengths) {
        Ok(lengths) => split(len, &lengths, case.id)?,
        Err(_) => split(len, &all.iter().map(number).collect::<Result<Vec<f64>, _>>()?, case.id)?,
    };
    let Some(parts) = given(&case.body, parts)? else { return Ok(()) };
    equal("the sizes", parts.iter().map(Vec::len).collect(), counts(case.get("sizes")?)?)?;
    each_once(parts.concat(), (0..len).collect())
}

/// The numbers of the items of each part.
fn split<L: Length>(len: usize, lengths: &[L], seed: i64) -> Result<Answer<Vec<Vec<usize>>>, Stop> {
    fn of<L: Length, const N: usize>(
        len: usize,
        lengths: &[L],
        seed: i64,
    ) -> Result<Answer<Vec<Vec<usize>>>, Stop> {
        let lengths: [L; N] = lengths.try_into().map_err(|_| "another number of lengths".to_owned())?;
        let parts = random_split_with((0..len).collect::<Vec<usize>>(), lengths, seed.unsigned_abs());
        Ok(parts.map(|parts| parts.iter().map(|part| part.indices().to_vec()).collect()))
    }
    match lengths.len() {
        1 => of::<L, 1>(len, lengths, seed),
        2 => of::<L, 2>(len, lengths, seed),
        3 => of::<L, 3>(len, lengths, seed),
        4 => of::<L, 4>(len, lengths, seed),
        other => Err(Stop::Unsupported(format!("{other} parts"))),
    }
}

fn each_once(mut found: Vec<usize>, expected: Vec<usize>) -> Result<(), Stop> {
    found.sort();
    equal("the items, sorted", found, expected)
}

pub(super) fn sampler(case: &TrainingCase) -> Result<(), Stop> {
    let args = case.args();
    let get = |key: &str| args.get(key).ok_or_else(|| format!("no `{key}`"));
    let len = get("len")?.as_u64().unwrap_or(0) as usize;
    let (keywords, made): (&[&str], Answer<Box<dyn Sampler>>) = match get("sampler")?.as_str().unwrap_or("") {
        "SequentialSampler" => (&[], Ok(Box::new(SequentialSampler))),
        "RandomSampler" => (&[], Ok(Box::new(RandomSampler))),
        "SubsetRandomSampler" => {
            (&["indices"], Ok(Box::new(SubsetRandomSampler::new(counts(get("indices")?)?))))
        }
        "StratifiedSampler" => {
            (&["labels", "batch_size"], Ok(Box::new(StratifiedSampler::new(labels(get("labels")?)?))))
        }
        "WeightedRandomSampler" => {
            let count = get("num_samples")?.as_u64().unwrap_or(0) as usize;
            let replacement = get("replacement")?.as_bool().unwrap_or(true);
            let made = WeightedRandomSampler::try_new(weights(get("weights")?)?, count, replacement);
            (&["weights", "num_samples", "replacement"], made.map(|made| Box::new(made) as _))
        }
        other => return Err(Stop::Unsupported(format!("sampler {other}"))),
    };
    known(case, &[keywords, &["len", "sampler"]].concat())?;
    let Some(sampler) = given(&case.body, made)? else { return Ok(()) };
    let drawn = |seed: u64| -> Result<Vec<usize>, Stop> {
        let drawn = sampler.indices(len, &mut Generator::new(seed)).map_err(|e| e.to_string())?;
        equal("the count", sampler.count(len), drawn.len())?;
        Ok(drawn)
    };
    let first = drawn(case.id.unsigned_abs())?;
    if let Ok(expected) = case.get("exact") {
        return equal("the items", first, counts(expected)?);
    }
    if let Ok(expected) = case.get("each_once") {
        return each_once(first, counts(expected)?);
    }
    if let Ok(shares) = case.get("shares") {
        each_once(first.clone(), (0..len).collect())?;
        let size = get("batch_size")?.as_u64().unwrap_or(1) as usize;
        return has_its_share(&first, &labels(get("labels")?)?, size, shares);
    }
    let with_replacement = get("replacement")?.as_bool().unwrap_or(true);
    let mut lists: Vec<Vec<usize>> = Vec::new();
    let mut seed = case.id.unsigned_abs() << 32;
    while lists.len() < DRAWS {
        let drawn = drawn(seed)?;
        seed += 1;
        if with_replacement {
            lists.extend(drawn.into_iter().map(|item| vec![item]));
        } else {
            lists.push(drawn);
        }
    }
    follow(&lists, case.get("law")?)
}

fn labels(value: &Value) -> Result<Vec<i64>, Stop> {
    list(value)?.iter().map(|v| v.as_i64().ok_or_else(|| format!("{v} is no label").into())).collect()
}

/// Weights of one axis, or of two, which are refused.
fn weights(value: &Value) -> Result<Tensor, Stop> {
    let all = list(value)?;
    match all.first().and_then(Value::as_array) {
        Some(row) => Ok(Tensor::zeros([all.len(), row.len()])),
        None => Ok(all.iter().map(number).collect::<Result<Vec<f64>, _>>()?.into()),
    }
}

/// Every list has a law, and comes as often as that says, to five deviations.
fn follow(lists: &[Vec<usize>], laws: &Value) -> Result<(), Stop> {
    let (total, mut seen) = (lists.len() as f64, 0);
    for law in list(laws)? {
        let [items, p] = &list(law)?[..] else { return Err(Stop::Failed(format!("{law} is no law"))) };
        let (items, p) = (counts(items)?, number(p)?);
        let count = lists.iter().filter(|drawn| **drawn == items).count();
        seen += count;
        if (count as f64 - total * p).abs() > 5.0 * (total * p * (1.0 - p)).sqrt() + 1e-9 {
            return Err(Stop::Failed(format!("{items:?} comes {count} times of {total}, expected {p}")));
        }
    }
    equal("the lists that have a law", seen, lists.len())
}

/// In every batch a class has its share, to within less than two.
fn has_its_share(order: &[usize], labels: &[i64], size: usize, shares: &Value) -> Result<(), Stop> {
    let mut classes = labels.to_vec();
    classes.sort();
    classes.dedup();
    equal("the number of classes", classes.len(), list(shares)?.len())?;
    for (batch, (class, share)) in order
        .chunks(size)
        .flat_map(|batch| classes.iter().zip(list(shares).into_iter().flatten()).map(move |c| (batch, c)))
    {
        let count = batch.iter().filter(|&&i| labels[i] == *class).count() as f64;
        if (count - number(share)?).abs() >= 2.0 {
            return Err(Stop::Failed(format!("class {class} is {count} of a batch, expected {share}")));
        }
    }
    Ok(())
}
