//! A name is that of one type of its crate, so that whoever looks for it finds it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The sources in a folder, without files and folders of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let own = all.filter(|path| !path.file_stem().unwrap().to_string_lossy().ends_with("tests"));
    let files = own.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|e| e == "rs")).collect()
}

/// The name of the type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "unsafe");
    words.next().filter(|word| ["struct", "enum", "trait", "union"].contains(word))?;
    let name = words.next()?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    // A macro takes the name from its caller.
    Some(name).filter(|name| !name.is_empty())
}

/// The types that a text defines, without what is there for tests.
fn types(text: &str) -> Vec<&str> {
    let (mut found, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(") && line.contains("(test") {
            let item = lines.next().unwrap();
            if item.starts_with("mod ") && item.ends_with('{') {
                lines.find(|line| *line == "}");
            }
        }
        found.extend(defined(line));
    }
    found
}

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates");
    let mut places: BTreeMap<(String, String), Vec<PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(crates).unwrap() {
        let own = entry.unwrap();
        for file in sources(&own.path().join("src")) {
            for name in types(&fs::read_to_string(&file).unwrap()) {
                let key = (own.file_name().to_string_lossy().into_owned(), name.to_owned());
                places.entry(key).or_default().push(file.clone());
            }
        }
    }
    assert!(places.contains_key(&("tensor".into(), "Tensor".into())), "{places:#?}");
    places.retain(|_, files| files.len() > 1);
    assert!(places.is_empty(), "these names are each that of several types: {places:#?}");
}
