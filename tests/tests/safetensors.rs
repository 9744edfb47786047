//! Safetensors files in models, against the reader of the crate `safetensors`, and under thousands of mutations.

use std::path::{Path, PathBuf};

use foldback::nn::safetensors::{
    Metadata, load, load_file, load_with_metadata, save, save_file, save_file_with, save_with,
};
use foldback::nn::{FileFacts, write_atomically};
use foldback::prelude::*;
use foldback::tensor::{Generator, StateDict};
use foldback::{Error, Kind};
use safetensors::SafeTensors;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/training")
}

/// A fresh folder, which goes away at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("foldback-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn weights_of_pytorch_go_into_a_model() -> Result<()> {
    let path = golden().join("safetensors/model_mlp.safetensors");
    let mut model = sequential![Linear::new(4, 5), ReLU, Linear::new(5, 3), Tanh, Linear::new(3, 2)];
    let adam = Adam::new(model.parameters(), 0.1);
    model.load(&path)?;
    assert_eq!(model.state_dict(), {
        let state = load_file(&path)?;
        model.state_dict().names().map(|name| (name.to_owned(), state.get(name).unwrap().clone())).collect()
    });
    // The optimiser has handles on the variables that were loaded into.
    assert!(adam.parameters()[0].is_same(&model.parameters()[0]));
    assert_eq!(adam.parameters()[0].value(), *load_file(&path)?.get("0.weight").unwrap());

    let mut other = sequential![Linear::new(4, 5), ReLU, Linear::new(5, 4)];
    let before = other.state_dict();
    let e = other.load(&path).unwrap_err();
    for part in
        ["load: ", "model_mlp.safetensors: load_state_dict: unexpected: ", "4.weight", "2.bias (expected"]
    {
        assert!(e.to_string().contains(part), "{e}");
    }
    assert!(other.load_with(&path, false).is_err());
    assert_eq!(other.state_dict(), before);
    Ok(())
}

/// Numbers for tests from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        // Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// Tokens that headers are made of, and some that they are not.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "0",
    "1",
    "-1",
    "8",
    "4294967296",
    "18446744073709551615",
    "1e9",
    "0.5",
    "null",
    "true",
    "\"F32\"",
    "\"F64\"",
    "\"F16\"",
    "\"I64\"",
    "\"BOOL\"",
    "\"I32\"",
    "\"F4\"",
    "\"dtype\"",
    "\"shape\"",
    "\"data_offsets\"",
    "\"__metadata__\"",
    "\"x\"",
    "\\u0078",
    "\u{e9}",
    "[2]",
    "[0,8]",
    "[0,0]",
    "[[",
    "{}",
    " ",
    "\n",
    "\0",
];

fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(bytes.len());
    let header = 8.min(bytes.len())
        ..bytes.iter().rposition(|&b| b == b'}').map_or(bytes.len(), |end| end + 1).max(8.min(bytes.len()));
    let inside = header.start + dice.below(header.len());
    match dice.below(10) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
        1 if !bytes.is_empty() => bytes[at] = dice.below(256) as u8,
        2 => bytes.truncate(at),
        3 => bytes.extend((0..dice.below(20)).map(|i| i as u8)),
        4 => drop(bytes.drain(at..(at + dice.below(12)).min(bytes.len()))),
        5 => {
            let token = TOKENS[dice.below(TOKENS.len())];
            bytes.splice(inside..inside, token.bytes());
        }
        6 => {
            let token = TOKENS[dice.below(TOKENS.len())];
            let end = (inside + token.len()).min(bytes.len());
            bytes.splice(inside..end, token.bytes());
        }
        7 => {
            let piece = bytes[inside..(inside + dice.below(60)).min(bytes.len())].to_vec();
            bytes.splice(inside..inside, piece);
        }
        8 => {
            let other = &others[dice.below(others.len())];
            bytes.truncate(at);
            bytes.extend_from_slice(&other[at.min(other.len())..]);
        }
        _ if bytes.len() >= 8 => {
            // A length that is right again, so that what else was done is looked at.
            let length = header.len() as u64 + dice.below(3) as u64
                - u64::from(dice.below(2) == 1 && !header.is_empty());
            bytes[..8].copy_from_slice(&length.to_le_bytes());
        }
        _ => {}
    }
}

#[test]
fn mutated_files_are_refused_or_whole() {
    let folder = golden().join("safetensors");
    let mut good: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    good.retain(|path| !path.file_name().unwrap().to_string_lossy().starts_with("bad"));
    good.sort();
    let good: Vec<Vec<u8>> = good.iter().map(|path| std::fs::read(path).unwrap()).collect();
    let mut dice = Dice(1);
    let (mut loaded, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = good[dice.below(good.len())].clone();
        for _ in 0..1 + dice.below(3) {
            mutate(&mut bytes, &good, &mut dice);
        }
        match load_with_metadata(&bytes) {
            Ok((state, metadata)) => {
                // What is taken is a file for the crate's reader, too, and says the same.
                let theirs = SafeTensors::deserialize(&bytes).unwrap();
                assert_eq!(state.len(), theirs.len());
                for (name, tensor) in &theirs.tensors() {
                    assert_eq!(state.get(name).unwrap().dims(), tensor.shape());
                }
                let again = save_with(&state, metadata.as_ref()).unwrap();
                assert_eq!(load_with_metadata(&again).unwrap().1, metadata);
                loaded += 1;
            }
            Err(e) => {
                assert!(e.to_string().starts_with("load: ") && e.kind() == Kind::File, "{e}");
                refused += 1;
            }
        }
    }
    assert!(loaded > 500 && refused > 5000, "{loaded} loaded, {refused} refused");
}

#[test]
fn a_file_of_torch_save_is_called_so() {
    for begins in [&b"PK\x03\x04\0\0\x08\x08"[..], b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."] {
        let e = load(begins).unwrap_err().to_string();
        assert!(e.starts_with("load: this is a file of torch.save, not of safetensors: in Python, "), "{e}");
    }
}

#[test]
fn every_prefix_of_a_file_is_refused() {
    let bytes = std::fs::read(golden().join("safetensors/mixed.safetensors")).unwrap();
    load(&bytes).unwrap();
    for end in 0..bytes.len() {
        assert!(load(&bytes[..end]).is_err(), "{end}");
    }
}

/// A state of all types, with views, empty and scalar tensors.
fn state() -> StateDict {
    let mut g = Generator::new(1);
    StateDict::from_iter([
        ("flags", tensor![true, false, true]),
        ("half of a f32", g.rand([3])),
        ("transposed", g.randn_with([3, 2], DType::F64).t()),
        ("step", Tensor::full((), 7).long()),
        ("none", Tensor::zeros([0, 4])),
        ("expanded", tensor![1.0].expand([5]).unwrap()),
        ("größe", tensor![i64::MIN, -1, i64::MAX; i64]),
        ("special", tensor![f32::NEG_INFINITY, -0.0, f32::MIN_POSITIVE / 2.0]),
    ])
}

#[test]
fn what_is_written_is_what_others_read() -> Result<()> {
    let (state, metadata) = (state(), Metadata::from([("note".to_owned(), "\"\\\n".to_owned())]));
    for bytes in [save(&state)?, save_with(&state, Some(&metadata))?, save_with(&state, None)?] {
        assert_eq!(load(&bytes)?, state);
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let theirs = SafeTensors::deserialize(&bytes).unwrap();
        for (name, tensor) in theirs.tensors() {
            let own = state.get(&name).unwrap();
            assert_eq!(tensor.shape(), own.dims(), "{name}");
            assert_eq!(tensor.data().len(), own.numel() * own.dtype().size());
            // Each lies at a multiple of the size of its elements: PyTorch maps them as they are.
            let place = tensor.data().as_ptr() as usize - bytes.as_ptr() as usize;
            assert_eq!(place % own.dtype().size(), 0, "{name} at {place}, the header has {header}");
        }
        let values = theirs.tensor("transposed").unwrap().data().to_vec();
        let values: Vec<f64> = values.chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
        assert_eq!(values, state.get("transposed").unwrap().to_vec::<f64>()?);
    }
    assert_eq!(load_with_metadata(&save(&state)?)?.1.unwrap()["format"], "pt");
    assert_eq!(load_with_metadata(&save_with(&state, None)?)?.1, None);
    Ok(())
}

#[test]
fn what_no_file_can_hold_is_refused() {
    let one = || tensor![1.0];
    let many: Vec<(String, Tensor)> = (0..70_000).map(|i| (i.to_string(), one())).collect();
    let deep = one().reshape(vec![1; 65]).unwrap();
    let wide = StateDict::from_iter([("wide", one().expand([1usize << 60]).unwrap())]);
    assert!(save(&wide).is_err() && sequential![Linear::new(1, 1)].save("").is_err());
    for (state, text) in [
        (StateDict::from_iter([("__metadata__", one())]), "save: no tensor can have the name __metadata__"),
        (StateDict::from_iter([("deep", deep)]), "save: \"deep\" has more than 64 axes: reshape it"),
        (StateDict::from_iter(many), "save: more than 32768 entries: write several files"),
    ] {
        let e = save(&state).unwrap_err();
        assert!(e.to_string().starts_with(text), "{e}");
        assert!(matches!(e.facts(), Some(FileFacts::Unwritable { .. })));
    }
}

#[test]
fn what_fails_leaves_the_old_file() -> Result<()> {
    let folder = Folder::new("old");
    let path = folder.0.join("weights.safetensors");
    save_file(&state(), &path)?;
    let bad = StateDict::from_iter([("__metadata__", tensor![1.0])]);
    let e = save_file(&bad, &path).unwrap_err();
    assert!(e.to_string().starts_with("save_file: ") && e.location().unwrap().file() == file!(), "{e}");
    let stopped = write_atomically(&path, |out| {
        out.write_all(b"half")?;
        Err(Error::other("stopped"))
    });
    assert_eq!(stopped.unwrap_err().kind(), Kind::User);
    let full = write_atomically(&path, |_| Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into()));
    let e = full.unwrap_err().to_string();
    assert!(e.contains("weights.safetensors: no storage space: make room, or choose another disk"), "{e}");
    assert_eq!(load_file(&path)?, state());
    assert_eq!(folder.names(), ["weights.safetensors"]);
    Ok(())
}

#[test]
fn paths_that_cannot_be_read_or_written_are_named() {
    let folder = Folder::new("paths");
    let missing = folder.0.join("no/such/file.safetensors");
    for (e, kind) in [
        (load_file(&missing).unwrap_err(), Kind::Io),
        (save_file(&state(), &missing).unwrap_err(), Kind::Io),
        (load_file(&folder.0).unwrap_err(), Kind::Io),
        (save_file(&state(), &folder.0).unwrap_err(), Kind::Io),
        (save_file(&state(), "").unwrap_err(), Kind::Io),
        (save_file(&state(), "/").unwrap_err(), Kind::Io),
        (Linear::new(1, 1).load(&missing).unwrap_err(), Kind::Io),
    ] {
        assert_eq!(e.kind(), kind, "{e}");
        assert_eq!(e.location().unwrap().file(), file!());
    }
    let e = load_file(&missing).unwrap_err().to_string();
    assert!(e.starts_with("load_file: ") && e.contains("no/such/file.safetensors: "), "{e}");
    #[cfg(unix)]
    assert_eq!(load_file("/dev/zero").unwrap_err().kind(), Kind::Io);
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn leftovers_of_killed_writers_go_and_live_ones_stay() -> Result<()> {
    let folder = Folder::new("leftovers");
    let path = folder.0.join("w.safetensors");
    for name in [".w.safetensors.1-0.tmp", ".other.safetensors.1-0.tmp", "w.safetensors.tmp"] {
        std::fs::write(folder.0.join(name), "half")?;
    }
    // One inside another of the same file: the outer one is alive.
    write_atomically(&path, |out| {
        save_file(&state(), &path)?;
        Ok(out.write_all(&save(&state())?)?)
    })?;
    assert_eq!(folder.names(), [".other.safetensors.1-0.tmp", "w.safetensors", "w.safetensors.tmp"]);
    assert_eq!(load_file(&path)?, state());
    Ok(())
}

#[test]
fn many_writers_of_one_file() {
    let folder = Folder::new("writers");
    let path = folder.0.join("w.safetensors");
    save_file(&state(), &path).unwrap();
    std::thread::scope(|s| {
        for i in 0..4 {
            let path = &path;
            s.spawn(move || {
                for _ in 0..20 {
                    save_file_with(&state(), path, Some(&Metadata::from([("by".into(), i.to_string())])))
                        .unwrap();
                    assert_eq!(load_file(path).unwrap(), state());
                }
            });
        }
    });
    assert_eq!(folder.names(), ["w.safetensors"]);
}

#[test]
#[cfg(unix)]
fn links_stay_links() -> Result<()> {
    let folder = Folder::new("links");
    let (path, link) = (folder.0.join("w.safetensors"), folder.0.join("last"));
    save_file(&StateDict::new(), &path)?;
    std::os::unix::fs::symlink(&path, &link)?;
    save_file(&state(), &link)?;
    assert_eq!(load_file(&path)?, state());
    assert!(std::fs::symlink_metadata(&link)?.is_symlink());
    // Also one to a link to where nothing is yet, from folder to folder.
    let (first, second) = (folder.0.join("first"), folder.0.join("second"));
    std::fs::create_dir(folder.0.join("disk"))?;
    std::os::unix::fs::symlink("second", &first)?;
    std::os::unix::fs::symlink("disk/new.safetensors", &second)?;
    save_file(&state(), &first)?;
    assert_eq!(load_file(folder.0.join("disk/new.safetensors"))?, state());
    assert!(
        std::fs::symlink_metadata(&first)?.is_symlink() && std::fs::symlink_metadata(&second)?.is_symlink()
    );
    Ok(())
}
