//! Modules import in one direction: none leads back to itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The text of a module at the top of the crate, and of what is in its folder, without tests and comments.
fn text(path: &Path) -> String {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().map(|entry| text(&entry.unwrap().path())).collect();
    }
    if path.ends_with("tests.rs") {
        return String::new();
    }
    let all = fs::read_to_string(path).unwrap();
    let own = all.split("#[cfg(test)]\nmod tests").next().unwrap();
    own.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// Per module, the others that it names.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if !["lib", "imports", "lines"].contains(&name.as_str()) {
            texts.entry(name).or_default().push_str(&text(&path));
        }
    }
    let named = |own: &String, text: &String| {
        let words =
            text.split("crate::").skip(1).map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let words = words.filter_map(|mut words| words.next()).filter(|w| w != own && texts.contains_key(*w));
        words.map(String::from).collect()
    };
    texts.iter().map(|(own, text)| (own.clone(), named(own, text))).collect()
}

#[test]
fn no_module_leads_back_to_itself() {
    let mut left = imports();
    assert!(left["engine"].contains("node") && left["table"].contains("record"), "{left:?}");
    loop {
        let done: Vec<String> = left.iter().filter(|(_, of)| of.is_empty()).map(|(m, _)| m.clone()).collect();
        if done.is_empty() {
            break;
        }
        left.retain(|module, _| !done.contains(module));
        left.values_mut().for_each(|of| of.retain(|module| !done.contains(module)));
    }
    assert!(left.is_empty(), "these import each other in a circle, or what does: {left:#?}");
}
