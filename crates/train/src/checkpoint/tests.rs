use std::fs;

use foldback_data::DataLoader;
use foldback_nn::{Buffer, Dropout, Linear, Module, Sequential, sequential};
use foldback_optim::{Adam, Optimizer, SGD, Schedule, StepLR};
use foldback_tensor::{Generator, tensor};

use super::*;

/// A fresh folder, which goes away at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("foldback-checkpoint-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn through_a_file(c: &Checkpoint) -> Checkpoint {
    let folder = Folder::new(&format!("through-{:?}", std::thread::current().id()));
    let path = folder.0.join("run.ckpt");
    c.save(&path).unwrap();
    Checkpoint::open(&path).unwrap()
}

/// A value comes back with its bits, and nothing else is taken for it.
fn comes_back<K, T: Stateful<K> + PartialEq + fmt::Debug>(value: T, mut other: T) {
    let c = through_a_file(&Checkpoint::new().put("value", &value));
    c.get("value", &mut other).unwrap();
    assert_eq!(other, value);
}

#[test]
fn values_come_back_with_their_bits() {
    comes_back(0.1f64, 0.0);
    comes_back(f64::NEG_INFINITY, 0.0);
    comes_back(f32::MIN_POSITIVE / 4.0, 0.0);
    comes_back(true, false);
    comes_back(i64::MIN, 0);
    comes_back(i32::MIN, 0);
    comes_back(u32::MAX, 0);
    comes_back(u64::MAX, 0);
    comes_back(usize::MAX, 0);
    comes_back(String::from("größe 模型 🙂\0"), String::new());
    comes_back(String::new(), String::from("a"));
    comes_back(vec![0.1, -1e-300, f64::INFINITY], Vec::new());
    comes_back(Vec::new(), vec![0.1]);
    comes_back(tensor![[1.0, 2.0]], tensor![0; i64]);
    comes_back(Generator::new(u64::MAX), Generator::new(0));
    comes_back(StateDict::from_iter([("a.b", tensor![1.0]), ("c", tensor![true])]), StateDict::new());
    let c = through_a_file(&Checkpoint::new().put("nan", &-f64::NAN));
    let mut nan = 0.0f64;
    c.get("nan", &mut nan).unwrap();
    assert_eq!(nan.to_bits(), (-f64::NAN).to_bits());
}

#[test]
fn entries_are_found_by_name_and_kind() {
    let layer = Linear::new(2, 1);
    let run = Checkpoint::new().put("z", &1.5f64).put("model", &layer).put("a", &3usize);
    for c in [run.clone(), through_a_file(&run)] {
        assert_eq!(c.names().collect::<Vec<_>>(), ["z", "model", "a"]);
        assert!(c.has("model") && !c.has("mode"));
        assert_eq!(format!("{c:?}"), r#"{"z": "f64", "model": "module", "a": "usize"}"#);
        let mut number = 7i64;
        for (name, text) in [
            ("b", "entry `b`: there is no such entry: there are z, model, a"),
            (
                "a",
                "entry `a`: what is there is the state of usize (i64 is asked for): read it into one of that kind",
            ),
            ("model", "entry `model`: what is there is the state of module (i64 is asked for)"),
        ] {
            let e = c.get(name, &mut number).unwrap_err();
            assert!(e.to_string().contains(text), "{e}");
            assert!(e.to_string().starts_with("get: ") && e.location().unwrap().file() == file!());
        }
        assert_eq!(number, 7);
        let mut wide = Linear::new(3, 1);
        let before = wide.state_dict();
        let e = c.get("model", &mut wide).unwrap_err().to_string();
        assert!(
            e.contains("entry `model`: load_state_dict: not fitting: weight (expected [1, 3], found [1, 2])"),
            "{e}"
        );
        assert_eq!(wide.state_dict(), before);
    }
}

#[test]
fn names_of_entries() {
    for (name, text) in
        [("", "put: `` is no name"), ("a.b", "put: `a.b` is no name"), ("x", "put: there is an entry `x`")]
    {
        let e = Checkpoint::new().put("x", &1.0f64).try_put(name, &2.0f64).unwrap_err();
        assert!(e.to_string().starts_with(text), "{e}");
        assert_eq!(e.location().unwrap().file(), file!());
    }
    // What only looks like the names that a file has of its own.
    let run = Checkpoint::new()
        .put("crc32", &1.0f64)
        .put("entry", &2.0f64)
        .put("format", &3.0f64)
        .put("ä b", &4.0f64);
    let c = through_a_file(&run);
    let mut value = 0.0;
    for (name, expected) in [("crc32", 1.0), ("entry", 2.0), ("format", 3.0), ("ä b", 4.0)] {
        c.get(name, &mut value).unwrap();
        assert_eq!(value, expected);
    }
    assert_eq!(through_a_file(&Checkpoint::new()).names().count(), 0);
}

#[test]
#[should_panic(expected = "put: there is an entry `x` already: give each a name of its own")]
fn a_name_put_twice() {
    drop(Checkpoint::new().put("x", &1.0f64).put("x", &1.0f64));
}

fn model(seed: u64) -> Sequential {
    sequential![Linear::new(3, 4), Dropout::new(0.5).seed(seed), Linear::new(4, 1)]
}

#[test]
fn modules_keep_their_generators_and_buffers() {
    let (own, mut other) =
        ((model(1), Buffer::new(tensor![1; i64])), (model(2), Buffer::new(tensor![0; i64])));
    let x = Tensor::ones([2, 3]);
    own.0.forward(&x).unwrap();
    let c = through_a_file(&Checkpoint::new().put("model", &own.0).put("calls", &own.1));
    c.get("model", &mut other.0).unwrap();
    c.get("calls", &mut other.1).unwrap();
    assert_eq!(other.1.value(), tensor![1; i64]);
    assert_eq!(own.0.forward(&x).unwrap().value(), other.0.forward(&x).unwrap().value());

    // A model whose generators fit and whose weights do not keeps both, and the other way round.
    let mut wide = sequential![Linear::new(3, 5), Dropout::new(0.5).seed(3), Linear::new(5, 1)];
    let mut plain = sequential![Linear::new(3, 4), Dropout::new(0.5), Linear::new(4, 1)];
    for unfit in [&mut wide, &mut plain] {
        let before = (unfit.state_dict(), unfit.generator_states());
        assert!(c.get("model", unfit).is_err());
        assert_eq!((unfit.state_dict(), unfit.generator_states()), before);
    }
}

#[test]
fn optimisers_schedules_and_loaders_go_on() {
    let loader = || DataLoader::new((0..10).collect::<Vec<i64>>(), 3).shuffle(true).seed(4);
    let layer = Linear::new(2, 1);
    let adam = Adam::new(layer.parameters(), 0.1);
    layer.forward(&tensor![[1.0, 2.0]]).unwrap().sum(..).unwrap().backward().unwrap();
    adam.step().unwrap();
    let batches = loader();
    let mut epoch = batches.iter();
    epoch.next().unwrap().unwrap();

    let mut schedule = StepLR::new(&adam, 2).gamma(0.5);
    schedule.step(&adam).unwrap();

    let run = Checkpoint::new().put("adam", &adam).put("schedule", &schedule).put("loader", &batches);
    let c = through_a_file(&run);
    let (mut adam_again, mut loader_again) = (Adam::new(layer.parameters(), 1.0), loader());
    let mut schedule_again = StepLR::new(&adam_again, 2).gamma(0.5);
    c.get("adam", &mut adam_again).unwrap();
    c.get("schedule", &mut schedule_again).unwrap();
    schedule_again.step(&adam_again).unwrap();
    assert_eq!(adam_again.lr(), 0.05);
    assert_eq!(adam.lr(), 0.1);
    c.get("loader", &mut loader_again).unwrap();
    schedule.step(&adam).unwrap();
    assert_eq!(adam_again.state_dict(), adam.state_dict());
    assert_eq!(loader_again.iter().next().unwrap().unwrap(), epoch.next().unwrap().unwrap());

    let mut sgd = SGD::new(layer.parameters(), 0.1);
    let before = sgd.state_dict();
    assert!(c.get("adam", &mut sgd).unwrap_err().to_string().contains("entry `adam`: "));
    assert_eq!(sgd.state_dict(), before);
}

#[test]
fn damaged_files_are_refused() {
    let folder = Folder::new("damaged");
    let path = folder.0.join("run.ckpt");
    Checkpoint::new().put("w", &tensor![1.0, 2.0]).put("step", &3usize).put("on", &true).save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        let e = Checkpoint::parse(&path, bytes).unwrap_err();
        assert!(e.to_string().starts_with("open: ") && e.to_string().contains("run.ckpt: "), "{e}");
        assert_eq!(e.kind(), Kind::File);
        e.to_string()
    };
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        refused(&flipped);
    }
    for end in 0..bytes.len() {
        refused(&bytes[..end]);
    }
    let mut flipped = bytes.clone();
    let place = bytes.len() - 40;
    flipped[place] ^= 0x10;
    assert!(refused(&flipped).contains("the checksum is not that of the bytes: the file is damaged"));
    let weights = safetensors::save(&Linear::new(2, 1).state_dict()).unwrap();
    assert!(refused(&weights).contains("this is no checkpoint of a run: weights alone are read by load"));
    fs::write(&path, flipped).unwrap();
    assert_eq!(Checkpoint::open(&path).unwrap_err().location().unwrap().file(), file!());
    assert_eq!(Checkpoint::open(folder.0.join("none")).unwrap_err().kind(), Kind::Io);
}

#[test]
fn other_programs_read_the_weights() {
    let folder = Folder::new("others");
    let path = folder.0.join("run.ckpt");
    let layer = Linear::new(2, 1);
    Checkpoint::new().put("model", &layer).put("epoch", &3usize).save(&path).unwrap();
    let state = safetensors::load_file(&path).unwrap();
    assert_eq!(state.part("model"), layer.state_dict());
    assert_eq!(state.get("epoch.value"), Some(&Tensor::full((), 3).long()));
}

fn steps(kept: &Checkpoints) -> Vec<usize> {
    kept.list().unwrap().iter().map(|saved| saved.step).collect()
}

#[test]
fn the_last_and_the_best_are_kept() {
    let run = Checkpoint::new().put("x", &1.0f64);
    let losses = [0.5, f64::NAN, 0.1, 0.3, 0.1, f64::INFINITY, 0.2, 0.4];
    for (last, best, maximize, expected) in [
        (1, 0, false, vec![7]),
        (0, 0, false, vec![7]),
        (3, 0, false, vec![5, 6, 7]),
        (1, 2, false, vec![2, 4, 7]),
        (2, 1, false, vec![2, 6, 7]),
        (1, 1, true, vec![5, 7]),
        (20, 0, false, vec![0, 1, 2, 3, 4, 5, 6, 7]),
    ] {
        let folder = Folder::new("kept");
        let kept =
            Checkpoints::in_folder(folder.0.join("a/b")).keep_last(last).keep_best(best).maximize(maximize);
        assert_eq!((kept.last().unwrap(), kept.best().unwrap()), (None, None));
        for (step, loss) in losses.iter().enumerate() {
            let path = kept.save_with(step, *loss, &run).unwrap();
            assert_eq!(kept.last().unwrap().unwrap().path, path);
        }
        assert_eq!(steps(&kept), expected, "{last} {best} {maximize}");
        let found = kept.best().unwrap().unwrap();
        assert_eq!(Some(losses[found.step]), found.metric);
        Checkpoint::open(found.path).unwrap();
    }
}

#[test]
fn a_step_that_comes_again_and_files_of_others() {
    let folder = Folder::new("again");
    let run = Checkpoint::new();
    let kept = Checkpoints::in_folder(&folder.0).keep_last(2);
    for name in ["notes.txt", "step-x.ckpt", "step-00000001.txt", ".step-00000009.ckpt.77-0.tmp"] {
        fs::write(folder.0.join(name), "").unwrap();
    }
    fs::create_dir(folder.0.join("step-00000099.ckpt")).unwrap();
    kept.save(5, &run).unwrap();
    kept.save_with(6, -1e-7, &run).unwrap();
    kept.save_with(6, 0.25, &run).unwrap();
    assert_eq!(steps(&kept), [5, 6]);
    assert_eq!(kept.last().unwrap().unwrap().metric, Some(0.25));
    // One from before stays beside those that count as the last, and goes when the next one has been written.
    let early = kept.save(1, &run).unwrap();
    assert_eq!(steps(&kept), [1, 5, 6]);
    kept.save(7, &run).unwrap();
    assert_eq!(steps(&kept), [6, 7]);
    assert!(!early.exists());
    assert_eq!(
        folder.names(),
        [
            "notes.txt",
            "step-00000001.txt",
            "step-00000006-metric-0.25.ckpt",
            "step-00000007.ckpt",
            "step-00000099.ckpt",
            "step-x.ckpt"
        ]
    );
}

/// Thirty thousand entries and tensors are read in the time of reading: a table is asked for each, not a list.
#[test]
fn a_file_of_many_entries_is_read_at_once() {
    let many = (0..30_000).fold(Checkpoint::new(), |mut c, i| {
        let (name, kind) = (format!("entry{i}"), "f64".to_owned());
        c.entries.push(Entry {
            name,
            kind,
            state: StateDict::from_iter([("value", Tensor::from(i as f64))]),
        });
        c
    });
    let c = through_a_file(&many);
    assert_eq!(c.names().count(), 30_000);
    let mut value = 0.0;
    c.get("entry29999", &mut value).unwrap();
    assert_eq!(value, 29999.0);
}

/// Whatever stands in a file whose checksum is right, an entry that does not fit is refused and changes nothing.
#[test]
fn states_of_any_content_are_refused_or_taken_whole() {
    let parts = || {
        let model = sequential![Linear::new(2, 2), Dropout::new(0.5).seed(1)];
        let sgd = SGD::new(model.parameters(), 0.1).momentum(0.9);
        model.parameters().iter().for_each(|p| p.set_grad(Some(p.value())).unwrap());
        sgd.step().unwrap();
        let schedule = StepLR::new(&sgd, 3);
        (model, sgd, schedule)
    };
    let (model, sgd, schedule) = parts();
    let run =
        Checkpoint::new().put("model", &model).put("sgd", &sgd).put("schedule", &schedule).put("at", &7usize);
    let odd = [
        tensor![f64::NAN; f64],
        Tensor::zeros([0]),
        tensor![i64::MIN; i64].reshape(()).unwrap(),
        tensor![true],
        Tensor::zeros([2, 2]),
        Tensor::from(-1),
    ];
    let mut refused = 0;
    for at in 0..run.entries.len() {
        let names: Vec<String> = run.entries[at].state.iter().map(|(name, _)| name.to_owned()).collect();
        for name in &names {
            for new in odd.iter().map(Some).chain([None]) {
                let mut changed = run.clone();
                let kept = run.entries[at].state.iter().filter(|(own, _)| own != name);
                let kept = kept.map(|(own, t)| (own.to_owned(), t.clone()));
                changed.entries[at].state = kept.chain(new.map(|t| (name.clone(), t.clone()))).collect();
                let c = through_a_file(&changed);
                let (mut model, mut sgd, mut schedule) = parts();
                let before = (model.state_dict(), sgd.state_dict(), schedule.state_dict());
                let mut number = 0usize;
                let results = [
                    c.get("model", &mut model),
                    c.get("sgd", &mut sgd),
                    c.get("schedule", &mut schedule),
                    c.get("at", &mut number),
                ];
                let after = (model.state_dict(), sgd.state_dict(), schedule.state_dict());
                refused += results.iter().filter(|r| r.is_err()).count();
                assert!(results[0].is_ok() || after.0 == before.0, "{name}");
                assert!(results[1].is_ok() || results[2].is_ok() || after.1 == before.1, "{name}");
                assert!(results[2].is_ok() || after.2 == before.2 || results[1].is_ok(), "{name}");
                assert!(results[3].is_ok() || number == 0, "{name}");
            }
        }
    }
    assert!(refused > 30, "{refused}");
}

#[test]
fn a_plateau_comes_back() {
    use foldback_optim::ReduceLROnPlateau;
    let model = Linear::new(2, 1);
    let sgd = SGD::new(model.parameters(), 1.0);
    let mut plateau = ReduceLROnPlateau::new(&sgd).patience(1);
    [3.0, 3.0].iter().for_each(|&metric| plateau.step(&sgd, metric).unwrap());
    let c = through_a_file(&Checkpoint::new().put("plateau", &plateau));
    let other = SGD::new(model.parameters(), 1.0);
    let mut again = ReduceLROnPlateau::new(&other).patience(1);
    c.get("plateau", &mut again).unwrap();
    again.step(&other, 3.0).unwrap();
    assert_eq!(other.lr(), 0.1);
}
