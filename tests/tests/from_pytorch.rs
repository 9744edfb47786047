//! The page "From PyTorch" says what the replayer's table does, of all of its rows.

use std::fs;
use std::path::Path;

use tests::conformance::page::{faults, found_after_all, renewed};

#[test]
fn the_page_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/from-pytorch.md");
    let page = fs::read_to_string(&path).expect("the page is committed");
    let new = renewed(&page);
    if std::env::var_os("UPDATE_PAGES").is_some() {
        fs::write(&path, &new).expect("the page can be written");
    } else if page != new {
        let differ = page.lines().zip(new.lines()).find(|(old, new)| old != new);
        panic!(
            "docs/src/from-pytorch.md is not what the table says: UPDATE_PAGES=1 cargo test -p tests --test from_pytorch\nwrites it anew; the first difference: {differ:#?}"
        );
    }
    assert_eq!(found_after_all(&new), [] as [&str; 0], "said to be missing");
}

#[test]
fn each_row_has_its_line_and_each_line_its_row() {
    let faults = faults();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
