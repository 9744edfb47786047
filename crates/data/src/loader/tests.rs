//! Orders, workers, errors, and positions that are taken up again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use foldback_tensor::{Tensor, get_rng_state, manual_seed, refused, tensor};

use super::*;
use crate::{DataFacts, Error, SubsetRandomSampler, TensorDataset, WeightedRandomSampler};

fn numbers(n: i64) -> TensorDataset<1> {
    TensorDataset::new([Tensor::arange(n)])
}

/// The items of an epoch.
fn items<D: Dataset<Item: Collate<Batch = [Tensor; 1]>>>(loader: &DataLoader<D>) -> Vec<i64> {
    loader.iter().flat_map(|batch| batch.unwrap()[0].to_vec::<i64>().unwrap()).collect()
}

/// Items that draw random numbers, refuse and panic.
struct Trouble;

impl Dataset for Trouble {
    type Item = (i64, f32);

    fn len(&self) -> usize {
        20
    }
    fn get(&self, index: usize) -> Result<(i64, f32)> {
        match index {
            7 => Err(Error::other("no 7")),
            13 => panic!("13 of {}", 20),
            14 => std::panic::panic_any(14),
            _ => Ok((index as i64, Tensor::rand(()).item_as()?)),
        }
    }
}

/// What an epoch of `Trouble` gives, as texts.
fn told(loader: &DataLoader<Trouble>) -> Vec<String> {
    let text = |batch: Result<(Tensor, Tensor)>| match batch {
        Ok((n, x)) => format!("{:?} {:?}", n.to_vec::<i64>().unwrap(), x.to_vec::<f32>().unwrap()),
        Err(e) => e.to_string(),
    };
    loader.iter().map(text).collect()
}

#[test]
fn batches_in_order() {
    let loader = DataLoader::new(numbers(7), 3);
    let sizes: Vec<usize> = loader.iter().map(|b| b.unwrap()[0].numel()).collect();
    assert_eq!((sizes, loader.len(), loader.batch_size()), (vec![3, 3, 1], 3, 3));
    assert_eq!(items(&loader), [0, 1, 2, 3, 4, 5, 6]);
    let loader = loader.drop_last(true);
    assert_eq!((items(&loader), loader.len(), loader.iter().len()), (vec![0, 1, 2, 3, 4, 5], 2, 2));
    assert_eq!(items(&DataLoader::new(numbers(0), 3).shuffle(true).workers(2)), [0; 0]);
    assert_eq!(items(&DataLoader::new(&numbers(2), usize::MAX)), [0, 1]);
    assert_eq!(items(&DataLoader::new(numbers(9), 2).sampler(SubsetRandomSampler::new([4]))), [4]);
    assert!(refused!(DataLoader::try_new(numbers(1), 0), DataFacts::Parameter { name: "batch_size", .. }));
}

#[test]
#[should_panic(expected = "prefetch = 0 is not valid")]
fn nothing_ahead() {
    let _ = DataLoader::new(numbers(1), 1).prefetch(0);
}

#[test]
fn each_epoch_has_an_order_that_follows_from_the_seed() {
    let epochs = |loader: DataLoader<TensorDataset<1>>| [items(&loader), items(&loader), items(&loader)];
    let a = epochs(DataLoader::new(numbers(50), 8).shuffle(true).seed(1));
    assert!(a[0] != a[1] && a[1] != a[2] && a[0] != a[2]);
    for epoch in &a {
        let mut sorted = epoch.clone();
        sorted.sort();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }
    for workers in [1, 2, 5, 100] {
        let loader = DataLoader::new(numbers(50), 8).shuffle(true).seed(1).workers(workers).prefetch(3);
        assert_eq!(epochs(loader), a, "{workers}");
    }
    assert_ne!(epochs(DataLoader::new(numbers(50), 8).shuffle(true).seed(2)), a);
    let drawn = || DataLoader::new(numbers(50), 8).shuffle(true);
    manual_seed(4);
    let first = epochs(drawn());
    assert_ne!(epochs(drawn()), first);
    manual_seed(4);
    assert_eq!(epochs(drawn()), first);
    assert_eq!(items(&drawn().shuffle(false)), (0..50).collect::<Vec<_>>());
}

#[test]
fn errors_and_panics_stand_for_their_batch_and_random_numbers_belong_to_it() {
    manual_seed(1);
    let before = get_rng_state();
    let own = told(&DataLoader::new(Trouble, 3).seed(5));
    assert_eq!(get_rng_state(), before, "the generator of the thread is as it was");
    assert_eq!(own.len(), 7);
    assert!(own[0].starts_with("[0, 1, 2] ") && own[6].starts_with("[18, 19] "));
    assert_eq!(own[2], "no 7");
    assert_eq!(own[4], "data loader: the dataset panicked in batch 4: 13 of 20");
    for workers in [1, 4] {
        manual_seed(workers as u64);
        let loader = DataLoader::new(Trouble, 3).seed(5).workers(workers);
        assert_eq!(told(&loader), own, "{workers}");
        assert_ne!(told(&loader), own, "another epoch has other numbers");
    }
    let single = DataLoader::new(Trouble, 1).workers(2).iter().nth(14).unwrap();
    assert!(refused!(single, DataFacts::Panicked { batch: 14, .. }));
}

#[test]
fn an_order_that_is_refused_is_an_error_of_the_epoch() {
    let loader = DataLoader::new(numbers(3), 1).sampler(WeightedRandomSampler::new([1.0, 1.0], 1)).workers(1);
    let mut epoch = loader.iter();
    assert_eq!(epoch.len(), 1);
    assert!(refused!(epoch.next().unwrap(), DataFacts::Parameter { .. }));
    assert!(epoch.next().is_none());
}

/// Counts how many items were asked for.
struct Counting(Arc<AtomicUsize>);

impl Dataset for Counting {
    type Item = i64;

    fn len(&self) -> usize {
        1000
    }
    fn get(&self, index: usize) -> Result<i64> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(index as i64)
    }
}

#[test]
fn no_more_is_made_ahead_than_allowed_and_threads_end_with_the_epoch() {
    let asked = Arc::new(AtomicUsize::new(0));
    let loader = DataLoader::new(Counting(asked.clone()), 1).workers(3).prefetch(4);
    let mut epoch = loader.iter();
    for taken in 1..=20 {
        epoch.next().unwrap().unwrap();
        assert!(asked.load(Ordering::SeqCst) <= taken + 4);
    }
    drop(epoch);
    assert_eq!(Arc::strong_count(&loader.set), 1, "no thread holds the dataset");
    let before = asked.load(Ordering::SeqCst);
    drop(loader.iter());
    assert!(asked.load(Ordering::SeqCst) <= before + 4);
    assert_eq!(loader.iter().count(), 1000);
    assert_eq!(Arc::strong_count(&loader.set), 1);
}

#[test]
fn an_epoch_that_is_dropped_while_its_threads_wait_does_not_hang() {
    let (done, wait) = channel();
    std::thread::spawn(move || {
        for taken in 0..50 {
            let loader = DataLoader::new(numbers(100), 2).workers(4).prefetch(1 + taken % 3);
            let mut epoch = loader.iter();
            (0..taken).for_each(|_| drop(epoch.next()));
        }
        done.send(()).unwrap();
    });
    wait.recv_timeout(Duration::from_secs(60)).expect("dropped epochs end");
}

/// The first items of all batches from here on, over the end of an epoch.
fn next_batches(loader: &DataLoader<TensorDataset<1>>, epochs: usize) -> Vec<Vec<i64>> {
    (0..epochs)
        .flat_map(|_| loader.iter().map(|b| b.unwrap()[0].to_vec().unwrap()).collect::<Vec<_>>())
        .collect()
}

#[test]
fn a_position_is_taken_up_with_the_very_next_batch() {
    let make = |workers| DataLoader::new(numbers(23), 4).shuffle(true).workers(workers);
    let expected = next_batches(&make(0).seed(9), 3);
    for at in 0..=6 {
        let loader = make(2).seed(9);
        items(&loader);
        let mut epoch = loader.iter();
        (0..at).for_each(|_| drop(epoch.next()));
        let state = loader.state_dict();
        drop(epoch);
        assert_eq!(loader.state_dict(), state, "an epoch that was left early keeps its place");
        let resumed = make(1).seed(1);
        resumed.load_state_dict(&state).unwrap();
        assert_eq!(resumed.state_dict(), state);
        assert_eq!(next_batches(&resumed, 2), expected[6 + at..], "{at}");
        assert_eq!(next_batches(&loader, 1), expected[12..], "the loader itself begins a new epoch");
    }
    // At the end of an epoch.
    let loader = make(0).seed(9);
    items(&loader);
    let resumed = make(0);
    resumed.load_state_dict(&loader.state_dict()).unwrap();
    assert_eq!(next_batches(&resumed, 2), expected[6..]);
}

#[test]
fn the_seed_of_a_loader_without_one_is_part_of_its_state() {
    let make = || DataLoader::new(numbers(30), 4).shuffle(true);
    let (a, b) = (make(), make());
    b.load_state_dict(&a.state_dict()).unwrap();
    assert_eq!(items(&a), items(&b));
}

#[test]
fn epochs_at_the_same_time_have_orders_of_their_own() {
    let loader = DataLoader::new(numbers(30), 30).shuffle(true).seed(0);
    let (mut first, mut second) = (loader.iter(), loader.iter());
    assert_ne!(first.next().unwrap().unwrap(), second.next().unwrap().unwrap());
    let state = loader.state_dict();
    drop(first);
    assert_eq!(loader.state_dict(), state, "the position is that of the newest");
    assert_eq!(state.get("epoch").unwrap().item().unwrap(), 1.0);
}

#[test]
fn positions_of_others_are_refused() {
    let loader = DataLoader::new(numbers(10), 3).seed(3);
    loader.iter().next();
    let state = loader.state_dict();
    let others = [DataLoader::new(numbers(10), 4), DataLoader::new(numbers(11), 3)];
    for (other, entry) in others.iter().zip(["batch_size", "items"]) {
        let before = other.state_dict();
        let e = other.load_state_dict(&state).unwrap_err();
        assert!(e.to_string().starts_with(&format!("data loader: the entry `{entry}` is ")), "{e}");
        assert!(e.location().is_some_and(|at| at.file() == file!()));
        assert_eq!(other.state_dict(), before);
    }
    for (entry, bad) in [
        ("batch", tensor![-1; i64].select(0, 0).unwrap()),
        ("seed", tensor![1; i64]),
        ("epoch", Tensor::scalar(1.0)),
    ] {
        let mut state = state.clone();
        state.insert(entry, bad);
        assert!(refused!(loader.load_state_dict(&state), DataFacts::State { .. }), "{entry}");
        state.remove(entry);
        assert!(refused!(loader.load_state_dict(&state), DataFacts::State { .. }), "{entry}");
    }
    // Nothing was handed out yet: any size will do.
    let fresh = DataLoader::new(numbers(10), 3).seed(3).state_dict();
    others[0].load_state_dict(&fresh).unwrap();
    // A position behind the end is the end.
    let mut state = state;
    state.insert("batch", Tensor::from(99i64));
    loader.load_state_dict(&state).unwrap();
    assert_eq!(loader.iter().count(), 0);
    assert_eq!(loader.iter().count(), 4);
}

/// Nobody's line is where batches are made.
#[test]
fn errors_of_a_batch_name_no_line_of_the_library() {
    let ragged = || DataLoader::new(vec![tensor![1.0], tensor![1.0, 2.0]], 2);
    let other = DataLoader::new(vec![1.0f32], 1).sampler(SubsetRandomSampler::new([5]));
    let refused = DataLoader::new(vec![1.0f32], 1).sampler(crate::StratifiedSampler::new([0, 0]));
    for e in [
        ragged().iter().next().unwrap().unwrap_err(),
        ragged().workers(2).iter().next().unwrap().unwrap_err(),
        other.iter().next().unwrap().unwrap_err(),
        refused.iter().next().unwrap().unwrap_err(),
    ] {
        assert!(e.location().is_none(), "{e}");
    }
}
