//! The golden cases of this repository, and how many of them pass.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use tests::conformance::{files, replay};

/// What is skipped, and nothing else is: forms of calls that the library does not have, and differences by design.
const SKIPPED: &[(&str, usize)] = &[
    ("by design: a loss of unequal shapes", 12),
    ("by design: second order of prelu at zero", 1),
    ("by design: second order of prod with a zero and inf or NaN", 2),
    ("by design: the gradient of var, std(dim=[])", 3),
];

/// The replayer counts the nodes of the whole process, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn golden_cases_pass() {
    let _alone = ALONE.lock();
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/cases");
    let files = files(&[cases]).expect("the cases are committed");
    let report = replay(&files).expect("the cases can be read");
    let total = report.total();
    assert_eq!(total.failed, 0, "{report}");
    let skipped: BTreeMap<String, usize> = SKIPPED.iter().map(|&(name, n)| (name.to_owned(), n)).collect();
    assert_eq!(report.unsupported, skipped);
    assert_eq!((total.passed, total.special_passed), (12154, 1215));
}

/// A case of `mul` with its gradients, in which a pattern is replaced.
fn planted(from: &str, to: &str) -> String {
    let line = r#"{"op":"mul","id":1,"tags":[],"inputs":[
        {"name":"input","shape":[2],"dtype":"f64","data":[2.0,3.0],"layout":"strided","strides":[2],"offset":1,"requires_grad":true},
        {"name":"other","shape":[1],"dtype":"f64","data":[5.0],"layout":"contiguous","requires_grad":true}],
        "args":{},"outputs":[{"shape":[2],"dtype":"f64","data":[10.0,15.0]}],
        "grad_outputs":[{"shape":[2],"dtype":"f64","data":[1.0,-1.0]}],
        "grads":[{"shape":[2],"dtype":"f64","data":[5.0,-5.0]},{"shape":[1],"dtype":"f64","data":[-1.0]}],
        "grad2":{"v":[{"shape":[2],"dtype":"f64","data":[1.0,0.5]},{"shape":[1],"dtype":"f64","data":[2.0]}],
        "grad_inputs":[{"shape":[2],"dtype":"f64","data":[2.0,-2.0]},{"shape":[1],"dtype":"f64","data":[0.5]}],
        "grad_grad_outputs":[{"shape":[2],"dtype":"f64","data":[9.0,8.5]}]}}"#;
    assert!(line.contains(from), "{from}");
    line.replace(from, to).replace('\n', " ")
}

#[test]
fn planted_faults_are_found() {
    let _alone = ALONE.lock();
    let error = r#""error":"refused","outputs""#;
    // What is changed, and how many cases pass, fail and are skipped then.
    let plants = [
        ("\"id\":1", "\"id\":2", (1, 0, 0)),
        ("10.0,15.0", "10.0,15.000001", (0, 1, 0)),
        ("10.0,15.0", "10.0,\"nan\"", (0, 1, 0)),
        (r#""outputs":[{"shape":[2]"#, r#""outputs":[{"shape":[2,1]"#, (0, 1, 0)),
        (r#""outputs":[{"shape":[2],"dtype":"f64""#, r#""outputs":[{"shape":[2],"dtype":"f32""#, (0, 1, 0)),
        ("[5.0,-5.0]", "[5.0,5.0]", (0, 1, 0)),
        ("[-1.0]", "[1.0]", (0, 1, 0)),
        ("[2.0,-2.0]", "[2.0,2.0]", (0, 1, 0)),
        ("[9.0,8.5]", "[9.0,8.0]", (0, 1, 0)),
        (r#""outputs""#, error, (0, 1, 0)),
        (r#""op":"mul""#, r#""op":"mystery""#, (0, 0, 1)),
        (r#""args":{}"#, r#""args":{"mystery":1}"#, (0, 0, 1)),
        (r#""requires_grad":true},"#, r#""requires_grad":false},"#, (0, 1, 0)),
        ("{\"op\"", "\"op\"", (0, 1, 0)),
    ];
    for (from, to, expected) in plants {
        assert_eq!(replayed(&planted(from, to)), expected, "{from} -> {to}");
    }
}

/// How many cases of a file with this text pass, fail and are skipped.
fn replayed(text: &str) -> (usize, usize, usize) {
    let path = std::env::temp_dir().join(format!("planted-{}.jsonl", std::process::id()));
    std::fs::write(&path, text).expect("the folder for temporary files can be written");
    let total = replay(std::slice::from_ref(&path)).expect("the file was just written").total();
    std::fs::remove_file(&path).expect("the file was just read");
    (total.passed, total.failed, total.skipped)
}

#[test]
fn arguments_that_are_written_over_left_out_or_null() {
    let _alone = ALONE.lock();
    let written = |mean: &str, var: &str| {
        let input = |name: &str, shape: &str, data: &str| {
            format!(
                r#"{{"name":"{name}","shape":{shape},"dtype":"f64","data":{data},"layout":"contiguous","requires_grad":false}}"#
            )
        };
        format!(
            r#"{{"op":"batch_norm","id":1,"tags":[],"inputs":[{},{},{}],"args":{{"training":true,"momentum":0.5,"eps":3.0}},"outputs":[{{"shape":[2,1],"dtype":"f64","data":[-0.5,0.5]}}],"grad_outputs":[null],"grads":null,"inputs_after":{{"running_mean":{mean},"running_var":{var}}}}}"#,
            input("input", "[2,1]", "[1.0,3.0]"),
            input("running_mean", "[1]", "[0.0]"),
            input("running_var", "[1]", "[1.0]")
        )
    };
    assert_eq!(replayed(&written("[1.0]", "[1.5]")), (1, 0, 0));
    assert_eq!(replayed(&written("[0.0]", "[1.5]")), (0, 1, 0));
    assert_eq!(replayed(&written("[1.0]", "[1.0]")), (0, 1, 0));
    let relu = |args: &str| {
        format!(
            r#"{{"op":"relu","id":1,"tags":[],"inputs":[{{"name":"input","shape":[1],"dtype":"f64","data":[-1.0],"layout":"contiguous","requires_grad":false}}],"args":{{{args}}},"outputs":[{{"shape":[1],"dtype":"f64","data":[0.0]}}],"grad_outputs":[null],"grads":null}}"#
        )
    };
    assert_eq!(replayed(&relu(r#""inplace":false,"mystery":null"#)), (1, 0, 0));
    assert_eq!(replayed(&relu(r#""inplace":true"#)), (0, 0, 1));
    assert_eq!(replayed(&relu(r#""mystery":false"#)), (0, 0, 1));
}

/// An input of a case, contiguous: its name, shape, dtype and data.
type Written<'a> = (&'a str, &'a str, &'a str, &'a str);

/// A case without gradients, unless the rest says otherwise of a tracked input, which has a star behind its name.
fn written_case(op: &str, inputs: &[Written<'_>], args: &str, rest: &str) -> String {
    let each = inputs.iter().map(|(name, shape, dtype, data)| {
        let (name, tracked) = name.strip_suffix('*').map_or((*name, false), |name| (name, true));
        format!(
            r#"{{"name":"{name}","shape":{shape},"dtype":"{dtype}","data":{data},"layout":"contiguous","requires_grad":{tracked}}}"#
        )
    });
    let inputs = each.collect::<Vec<_>>().join(",");
    format!(r#"{{"op":"{op}","id":1,"tags":[],"inputs":[{inputs}],"args":{{{args}}},{rest}}}"#)
}

/// Forms that the library's types take for others, which PyTorch refuses.
#[test]
fn forms_that_pytorch_refuses_are_refused() {
    let _alone = ALONE.lock();
    let image = ("input", "[1,1,2,2]", "f64", "[1,2,3,4]");
    let line = ("input", "[1,1,2]", "f64", "[1,2]");
    let vector = ("input", "[2]", "f32", "[1,2]");
    let cases: &[(&str, &[Written<'_>], &str, &str)] = &[
        ("interpolate", &[image], r#""size":[3]"#, r#""size":3"#),
        ("interpolate", &[image], r#""scale_factor":[2.0]"#, r#""scale_factor":2.0"#),
        ("interpolate", &[image], r#""size":3,"align_corners":false"#, r#""size":3,"align_corners":null"#),
        ("interpolate", &[line], r#""size":[3,3]"#, r#""size":[3]"#),
        ("adaptive_avg_pool2d", &[image], r#""output_size":[2]"#, r#""output_size":[2,2]"#),
        ("norm", &[line], r#""p":"fro","dim":[0,1,2]"#, r#""p":2,"dim":[0,1,2]"#),
        (
            "__setitem__",
            &[vector, ("tensors[0]", "[1]", "i64", "[0]"), ("value", "[]", "f64", "[3]")],
            r#""key":["tensors[0]"]"#,
            r#""key":[0]"#,
        ),
    ];
    for (op, inputs, refused, taken) in cases {
        let error = r#""error":"refused""#;
        assert_eq!(replayed(&written_case(op, inputs, refused, error)), (1, 0, 0), "{op} {refused}");
        // What it gives is looked at elsewhere.
        let inputs = if *taken == r#""key":[0]"# { &[inputs[0], inputs[2]] } else { *inputs };
        assert_eq!(replayed(&written_case(op, inputs, taken, error)), (0, 1, 0), "{op} {taken}");
    }
}

/// One value is cast beside a mask, and none beside an index tensor; a 0-d index among others is one with an axis.
#[test]
fn index_tensors_and_masks_are_read_as_pytorch_does() {
    let _alone = ALONE.lock();
    let cast = written_case(
        "__setitem__",
        &[
            ("input", "[2]", "f32", "[1,2]"),
            ("tensors[0]", "[2]", "bool", "[true,false]"),
            ("value", "[]", "f64", "[3]"),
        ],
        r#""key":["tensors[0]"]"#,
        r#""outputs":[{"shape":[2],"dtype":"f32","data":[3,2]}],"grad_outputs":[null],"grads":null"#,
    );
    assert_eq!(replayed(&cast), (1, 0, 0));
    let apart = written_case(
        "index",
        &[
            ("input", "[1,3,2]", "i64", "[0,1,2,3,4,5]"),
            ("indices[0]", "[]", "i64", "[0]"),
            ("indices[1]", "[2]", "i64", "[1,0]"),
        ],
        r#""indices_at":[0,2]"#,
        r#""outputs":[{"shape":[2,3],"dtype":"i64","data":[1,3,5,0,2,4]}],"grad_outputs":[null],"grads":null"#,
    );
    assert_eq!(replayed(&apart), (1, 0, 0));
}

/// A comparison over numbers is a constant here, which only gradients of zeros agree with.
#[test]
fn a_comparison_in_place_may_have_zeros_for_gradients() {
    let _alone = ALONE.lock();
    let case = |op: &str, gradient: &str| {
        written_case(
            op,
            &[("input", "[1]", "f64", "[0.5]"), ("other*", "[1]", "f64", "[0.5]")],
            "",
            &format!(
                r#""outputs":[{{"shape":[1],"dtype":"f64","data":[1.0]}}],"grad_outputs":[{{"shape":[1],"dtype":"f64","data":[2.0]}}],"grads":[null,{{"shape":[1],"dtype":"f64","data":[{gradient}]}}]"#
            ),
        )
    };
    assert_eq!(replayed(&case("eq_", "0.0")), (1, 0, 0));
    assert_eq!(replayed(&case("eq_", "2.0")), (0, 1, 0));
    assert_eq!(replayed(&case("logical_and_", "0.0")), (0, 1, 0));
}
