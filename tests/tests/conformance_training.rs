//! The golden cases of training, and how many of them pass, file by file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use tests::conformance::{files, replay};

/// Each file of `golden/training`: how many cases pass, and how many of these are about special points.
const PASSED: &[(&str, usize, usize)] = &[
    ("clip.jsonl.gz", 62, 18),
    ("data.jsonl.gz", 843, 0),
    ("ema.jsonl.gz", 46, 0),
    ("init.jsonl.gz", 135, 0),
    ("layers.jsonl.gz", 904, 38),
    ("loss_curve.jsonl.gz", 47, 0),
    ("losses.jsonl.gz", 335, 0),
    ("metrics.jsonl.gz", 411, 109),
    ("optimizer.jsonl.gz", 145, 0),
    ("recurrent.jsonl.gz", 257, 21),
    ("safetensors.jsonl.gz", 118, 5),
    ("schedule.jsonl.gz", 104, 10),
    ("state_dict.jsonl.gz", 142, 0),
    ("summary.jsonl.gz", 113, 0),
];

/// What is skipped, and nothing else is.
const SKIPPED: &[(&str, usize)] = &[("dtype i16", 1), ("dtype i32", 1), ("dtype i8", 1), ("dtype u8", 1)];

/// The replayer counts the nodes of the whole process, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn golden_cases_of_training_pass() {
    let _alone = ALONE.lock();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/training");
    let (mut passed, mut skipped) = (Vec::new(), BTreeMap::new());
    for file in files(&[folder]).expect("the cases are committed") {
        let report = replay(std::slice::from_ref(&file)).expect("the cases can be read");
        let total = report.total();
        assert_eq!(total.failed, 0, "{report}");
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        passed.push((name, total.passed, total.special_passed));
        for (name, count) in report.unsupported {
            *skipped.entry(name).or_insert(0) += count;
        }
    }
    let expected: Vec<_> = PASSED.iter().map(|&(name, n, special)| (name.to_owned(), n, special)).collect();
    assert_eq!(passed, expected);
    let expected: BTreeMap<String, usize> = SKIPPED.iter().map(|&(name, n)| (name.to_owned(), n)).collect();
    assert_eq!(skipped, expected);
}

/// How many cases of a file with this text pass, fail and are skipped.
fn replayed(text: &str) -> (usize, usize, usize) {
    let path = std::env::temp_dir().join(format!("planted-training-{}.jsonl", std::process::id()));
    std::fs::write(&path, text).expect("the folder for temporary files can be written");
    let total = replay(std::slice::from_ref(&path)).expect("the file was just written").total();
    std::fs::remove_file(&path).expect("the file was just read");
    (total.passed, total.failed, total.skipped)
}

/// Plants that turn a case which passes into one that fails or is skipped.
fn plants(line: &str, plants: &[(&str, &str, (usize, usize, usize))]) {
    let _alone = ALONE.lock();
    let line = line.replace('\n', " ");
    assert_eq!(replayed(&line), (1, 0, 0));
    for (from, to, expected) in plants {
        assert!(line.contains(from), "{from}");
        assert_eq!(replayed(&line.replace(from, to)), *expected, "{from} -> {to}");
    }
}

#[test]
fn planted_faults_of_layers_are_found() {
    let line = r#"{"kind":"layer","id":1,"layer":"BatchNorm1d","args":{"num_features":1,"eps":3.0,"momentum":0.5},"dtype":"f64",
        "mode":"train","tags":[],"state":{"weight":{"shape":[1],"dtype":"f64","data":[4.0]},"bias":{"shape":[1],"dtype":"f64","data":[1.0]},
        "running_mean":{"shape":[1],"dtype":"f64","data":[0.0]},"running_var":{"shape":[1],"dtype":"f64","data":[1.0]},
        "num_batches_tracked":{"shape":[],"dtype":"i64","data":[0]}},
        "inputs":[{"name":"input","shape":[2,1],"dtype":"f64","data":[1.0,3.0],"requires_grad":true}],
        "warmup":[{"shape":[2,1],"dtype":"f64","data":[0.0,2.0]}],
        "outputs":[{"shape":[2,1],"dtype":"f64","data":[-1.0,3.0]}],"grad_outputs":[{"shape":[2,1],"dtype":"f64","data":[1.0,0.5]}],
        "grads":{"inputs":[{"shape":[2,1],"dtype":"f64","data":[0.375,-0.375]}],"parameters":{"weight":{"shape":[1],"dtype":"f64","data":[-0.25]},
        "bias":{"shape":[1],"dtype":"f64","data":[1.5]}}},
        "state_after":{"running_mean":{"shape":[1],"dtype":"f64","data":[1.25]},"running_var":{"shape":[1],"dtype":"f64","data":[1.75]},
        "num_batches_tracked":{"shape":[],"dtype":"i64","data":[2]}}}"#;
    plants(
        line,
        &[
            ("[-1.0,3.0]", "[-1.0,3.00000001]", (0, 1, 0)),
            (r#""outputs":[{"shape":[2,1]"#, r#""outputs":[{"shape":[1,2]"#, (0, 1, 0)),
            ("[0.375,-0.375]", "[0.375,-0.37499999]", (0, 1, 0)),
            ("[-0.25]", "[0.25]", (0, 1, 0)),
            ("[1.25]", "[1.0]", (0, 1, 0)),
            (
                r#"{"shape":[],"dtype":"i64","data":[2]}"#,
                r#"{"shape":[],"dtype":"i64","data":[1]}"#,
                (0, 1, 0),
            ),
            (r#""mode":"train""#, r#""mode":"eval""#, (0, 1, 0)),
            (r#""momentum":0.5"#, r#""momentum":null"#, (0, 1, 0)),
            (r#""bias":{"shape":[1],"dtype":"f64","data":[1.0]},"#, "", (0, 1, 0)),
            (r#""num_features":1"#, r#""num_features":2"#, (0, 1, 0)),
            (r#""outputs""#, r#""error":"refused","outputs""#, (0, 1, 0)),
            ("BatchNorm1d", "BatchNorm9d", (0, 0, 1)),
            (r#""eps":3.0"#, r#""mystery":3.0"#, (0, 0, 1)),
            (r#""mode""#, r#""forward":{"mystery":1},"mode""#, (0, 0, 1)),
            (r#"0.5},"dtype":"f64""#, r#"0.5},"dtype":"f16""#, (0, 0, 1)),
        ],
    );
}

/// PyTorch takes a list of one number for lines alone, and corners only where something is blended.
#[test]
fn forms_of_layers_that_pytorch_refuses_are_refused() {
    let _alone = ALONE.lock();
    let case = |layer: &str, args: &str, shape: &str, data: &str| {
        format!(
            r#"{{"kind":"layer","id":1,"layer":"{layer}","args":{{{args}}},"dtype":"f64","mode":"train","tags":[],"state":{{}},"inputs":[{{"name":"input","shape":{shape},"dtype":"f64","data":{data},"requires_grad":false}}],"error":"refused"}}"#
        )
    };
    let (image, line) = (("[1,1,2,2]", "[1,2,3,4]"), ("[1,1,2]", "[1,2]"));
    for (layer, args, (shape, data), refused) in [
        ("Upsample", r#""size":[3]"#, image, true),
        ("Upsample", r#""size":[3]"#, line, false),
        ("Upsample", r#""scale_factor":[2.0]"#, image, true),
        ("Upsample", r#""size":3,"align_corners":false"#, image, true),
        ("Upsample", r#""size":3,"align_corners":null"#, image, false),
        ("AdaptiveMaxPool2d", r#""output_size":[2]"#, image, true),
        ("Unfold", r#""kernel_size":[2]"#, image, true),
        ("Unfold", r#""kernel_size":2,"stride":[1]"#, image, true),
        ("Unfold", r#""kernel_size":2"#, image, false),
        ("Fold", r#""output_size":[2],"kernel_size":1"#, ("[1,1,4]", "[1,2,3,4]"), true),
        ("Fold", r#""output_size":2,"kernel_size":1"#, ("[1,1,4]", "[1,2,3,4]"), false),
    ] {
        let expected = if refused { (1, 0, 0) } else { (0, 1, 0) };
        assert_eq!(replayed(&case(layer, args, shape, data)), expected, "{layer}({args})");
    }
}

#[test]
fn planted_faults_of_losses_are_found() {
    let line = r#"{"kind":"loss","id":1,"loss":"HuberLoss","args":{"delta":1.0,"reduction":"sum"},"dtype":"f64","tags":[],
        "inputs":[{"name":"input","shape":[2],"dtype":"f64","data":[0.5,3.0],"requires_grad":true},
        {"name":"target","shape":[2],"dtype":"f64","data":[0.0,0.0],"requires_grad":false}],
        "outputs":[{"shape":[],"dtype":"f64","data":[2.625]}],"grad_outputs":[{"shape":[],"dtype":"f64","data":[2.0]}],
        "grads":{"inputs":[{"shape":[2],"dtype":"f64","data":[1.0,2.0]},null],"parameters":{}}}"#;
    plants(
        line,
        &[
            ("2.625", "2.626", (0, 1, 0)),
            ("[1.0,2.0]", "[1.0,1.0]", (0, 1, 0)),
            (r#""delta":1.0"#, r#""delta":2.0"#, (0, 1, 0)),
            (r#""reduction":"sum""#, r#""reduction":"mean""#, (0, 1, 0)),
            (r#""reduction":"sum""#, r#""reduction":"most""#, (0, 1, 0)),
            (r#""delta":1.0"#, r#""mystery":1.0"#, (0, 0, 1)),
            ("HuberLoss", "MysteryLoss", (0, 0, 1)),
            (r#""name":"target""#, r#""name":"aim""#, (0, 0, 1)),
        ],
    );
}

#[test]
fn planted_faults_of_schedules_are_found() {
    let cycle = r#"{"kind":"schedule","id":1,"name":"CyclicLR","args":{"base_lr":0.25,"max_lr":1.25,"step_size_up":2,
        "step_size_down":null,"cycle_momentum":false},"base_lrs":[0.5],"steps":4,"tags":[],"dtype":"f64",
        "lrs":[[0.25],[0.75],[1.25],[0.75],[0.25]]}"#;
    plants(
        cycle,
        &[(r#""step_size_down":null"#, r#""step_size_down":3"#, (0, 1, 0)), ("1.25]", "1.0]", (0, 1, 0))],
    );
    // A metric that is no number is no better than any.
    let plateau = r#"{"kind":"schedule","id":1,"name":"ReduceLROnPlateau","args":{"patience":0,"factor":0.5},
        "base_lrs":[1.0],"steps":3,"tags":[],"dtype":"f64","metrics":[1.0,"nan",0.5],"lrs":[[1.0],[1.0],[0.5],[0.5]]}"#;
    plants(plateau, &[(r#""nan""#, "0.75", (0, 1, 0)), (r#""nan""#, "null", (0, 1, 0))]);
    // A function for each group: one for two groups is a list that PyTorch refuses, and no call of ours.
    let by_group = r#"{"kind":"schedule","id":1,"name":"LambdaLR","args":{"lr_lambda":[{"f":"power","base":0.5}]},
        "base_lrs":[1.0],"steps":2,"tags":[],"dtype":"f64","lrs":[[1.0],[0.5],[0.25]]}"#;
    plants(
        by_group,
        &[
            (r#""base":0.5"#, r#""base":0.25"#, (0, 1, 0)),
            ("[1.0],\"steps\"", "[1.0,2.0],\"steps\"", (0, 0, 1)),
        ],
    );
}

#[test]
fn planted_faults_of_metrics_are_found() {
    let line = r#"{"kind":"metric","id":1,"name":"confusion_matrix","args":{"classes":2},"tags":[],"batches":[
        {"prediction":{"shape":[3],"dtype":"i64","data":[0,1,1]},"target":{"shape":[3],"dtype":"i64","data":[0,0,1]}},
        {"prediction":{"shape":[1],"dtype":"i64","data":[2]},"target":{"shape":[1],"dtype":"i64","data":[1]},"error":"no class"},
        {"prediction":{"shape":[1],"dtype":"i64","data":[1]},"target":{"shape":[1],"dtype":"i64","data":[1]}}],
        "counts":{"shape":[2,2],"dtype":"i64","data":[1,1,0,2]},"value":0.75,
        "precision":{"macro":0.8333333333333333,"micro":0.75,"weighted":0.8333333333333333},"precision_per_class":[1.0,0.6666666666666666],
        "recall":{"macro":0.75,"micro":0.75,"weighted":0.75},"recall_per_class":[0.5,1.0],
        "f1":{"macro":0.7333333333333333,"micro":0.75,"weighted":0.7333333333333333},"f1_per_class":[0.6666666666666666,0.8]}"#;
    plants(
        line,
        &[
            ("[1,1,0,2]", "[1,0,1,2]", (0, 1, 0)),
            (r#""value":0.75"#, r#""value":0.7500001"#, (0, 1, 0)),
            (r#""precision":{"macro":0.83"#, r#""precision":{"macro":0.84"#, (0, 1, 0)),
            ("[0.5,1.0]", "[1.0,0.5]", (0, 1, 0)),
            (r#""data":[2]"#, r#""data":[0]"#, (0, 1, 0)),
            (r#","error":"no class""#, "", (0, 1, 0)),
            (r#""classes":2"#, r#""classes":3"#, (0, 1, 0)),
            (r#""classes":2"#, r#""classes":2,"mystery":1"#, (0, 0, 1)),
            ("confusion_matrix", "mystery", (0, 0, 1)),
        ],
    );
    let line = r#"{"kind":"metric","id":1,"name":"roc_auc","args":{},"tags":[],"batches":[
        {"prediction":{"shape":[2],"dtype":"f64","data":[0.5,0.5]},"target":{"shape":[2],"dtype":"i64","data":[0,1]}}],"value":0.5}"#;
    plants(
        line,
        &[
            ("[0.5,0.5]", "[0.5,0.75]", (0, 1, 0)),
            ("[0.5,0.5]", r#"["nan",0.5]"#, (0, 1, 0)),
            (r#""value""#, r#""error":"refused","value""#, (0, 1, 0)),
        ],
    );
}

#[test]
fn planted_faults_of_summaries_are_found() {
    let line = r#"{"kind":"summary","id":1,"tags":[],"model":{"sequential":[{"layer":"Linear","args":{"in_features":3,"out_features":2}},
        {"layer":"ReLU","args":{}}]},"dtype":"f32","frozen":["0.bias"],"inputs":[{"name":"input","shape":[5,3],"dtype":"f32",
        "data":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}],"parameters":8,"trainable":6,"flops":60,"output":[5,2],"parts":[["0",8,60],["1",0,0]]}"#;
    plants(
        line,
        &[
            (r#""parameters":8"#, r#""parameters":6"#, (0, 1, 0)),
            (r#""trainable":6"#, r#""trainable":8"#, (0, 1, 0)),
            (r#""flops":60"#, r#""flops":30"#, (0, 1, 0)),
            ("[5,2]", "[2,5]", (0, 1, 0)),
            (r#"["1",0,0]"#, r#"["1",0,1]"#, (0, 1, 0)),
            (r#"["0",8,60]"#, r#"["2",8,60]"#, (0, 1, 0)),
        ],
    );
}

#[test]
fn planted_faults_of_data_are_found() {
    let line = r#"{"kind":"data","id":1,"name":"csv","tags":[],"args":{"delimiter":",","header":true},
        "files":{"a.csv":"782c790a312c620a322c610a"},"names":["x","y"],"rows":2,"asked":[
        {"columns":["x"],"as":"f64","tensor":{"shape":[2,1],"dtype":"f64","data":[1.0,2.0]}},
        {"columns":["y"],"as":"i64","error":"no numbers"},{"columns":["y"],"as":"texts","texts":["b","a"]},
        {"columns":["y"],"as":"labels","tensor":{"shape":[2],"dtype":"i64","data":[1,0]},"classes":["a","b"]}]}"#;
    plants(
        line,
        &[
            ("[1.0,2.0]", "[1.0,2.0000000000000004]", (0, 1, 0)),
            (r#""as":"f64""#, r#""as":"f32""#, (0, 1, 0)),
            (r#""as":"i64""#, r#""as":"texts""#, (0, 1, 0)),
            (r#"["b","a"]"#, r#"["a","b"]"#, (0, 1, 0)),
            ("[1,0]", "[0,1]", (0, 1, 0)),
            (r#""rows":2"#, r#""rows":3"#, (0, 1, 0)),
            (r#"["x","y"]"#, r#"["x","z"]"#, (0, 1, 0)),
            ("782c790a31", "782c790a51", (0, 1, 0)),
            (r#""asked""#, r#""error":"refused","asked""#, (0, 1, 0)),
            (r#""header":true"#, r#""header":true,"mystery":1"#, (0, 0, 1)),
            (r#""name":"csv""#, r#""name":"mystery""#, (0, 0, 1)),
        ],
    );
    let sampler = |args: &str, what: &str| {
        format!(r#"{{"kind":"data","id":1,"name":"sampler","tags":[],"args":{{{args}}},{what}}}"#)
    };
    let weighted =
        r#""sampler":"WeightedRandomSampler","len":2,"weights":[1.0,3.0],"num_samples":1,"replacement":true"#;
    plants(
        &sampler(weighted, r#""law":[[[0],0.25],[[1],0.75]]"#),
        &[
            ("[[0],0.25],[[1],0.75]", "[[0],0.3],[[1],0.7]", (0, 1, 0)),
            ("[[0],0.25],", "", (0, 1, 0)),
            ("[1.0,3.0]", "[3.0,1.0]", (0, 1, 0)),
            ("[1.0,3.0]", "[1.0,-3.0]", (0, 1, 0)),
        ],
    );
    let stratified = r#""sampler":"StratifiedSampler","len":8,"labels":[0,0,0,0,1,1,1,1],"batch_size":4"#;
    plants(
        &sampler(stratified, r#""shares":[2.0,2.0]"#),
        &[("[2.0,2.0]", "[4.0,0.0]", (0, 1, 0)), ("[2.0,2.0]", "[2.0]", (0, 1, 0))],
    );
    let loader = r#"{"kind":"data","id":1,"name":"DataLoader","tags":[],"args":{"batch_size":2,"drop_last":false},
        "tensors":[{"shape":[3],"dtype":"i64","data":[5,6,7]}],"len":2,
        "batches":[[{"shape":[2],"dtype":"i64","data":[5,6]}],[{"shape":[1],"dtype":"i64","data":[7]}]]}"#;
    plants(
        loader,
        &[
            ("[5,6]}]", "[6,5]}]", (0, 1, 0)),
            (r#""drop_last":false"#, r#""drop_last":true"#, (0, 1, 0)),
            (r#""batch_size":2"#, r#""batch_size":3"#, (0, 1, 0)),
            (r#""batch_size":2"#, r#""batch_size":2,"shuffle":true"#, (0, 1, 0)),
        ],
    );
}
