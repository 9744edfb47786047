//! Planted faults in cases of names, loading and laws of fresh weights are found.

use std::sync::Mutex;

use tests::conformance::replay;

/// The replayer counts the nodes of the whole process, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// How many cases of a file with this text pass, fail and are skipped.
fn judged(text: &str) -> (usize, usize, usize) {
    let path = std::env::temp_dir().join(format!("planted-state-{}.jsonl", std::process::id()));
    std::fs::write(&path, text.replace('\n', " ")).expect("the folder for temporary files can be written");
    let total = replay(std::slice::from_ref(&path)).expect("the file was just written").total();
    std::fs::remove_file(&path).expect("the file was just read");
    (total.passed, total.failed, total.skipped)
}

fn planted(case: &str, plants: &[(&str, &str, (usize, usize, usize))]) {
    let _alone = ALONE.lock();
    for (from, to, expected) in plants {
        assert!(case.contains(from), "{from}");
        assert_eq!(judged(&case.replace(from, to)), *expected, "{from} -> {to}");
    }
}

#[test]
fn planted_faults_of_names_are_found() {
    let case = r#"{"kind":"state_dict","id":0,"model":{"layer":"Linear","args":{"in_features":3,"out_features":2}},"tags":[],
        "named_parameters":[["weight",[2,3]],["bias",[2]]],"named_buffers":[],
        "state_dict":[["weight",[2,3],"f32"],["bias",[2],"f32"]],"count":8,
        "load":{"entries":[["weight",[2,3]],["more",[1]]],"strict":false},
        "load_result":{"missing":["bias"],"unexpected":["more"],"mismatched":[],"verdict":"load"}}"#;
    planted(
        case,
        &[
            (r#""id":0"#, r#""id":1"#, (1, 0, 0)),
            (r#"[["weight",[2,3]],["bias",[2]]]"#, r#"[["bias",[2]],["weight",[2,3]]]"#, (1, 0, 0)),
            (r#"[["weight",[2,3]],["bias",[2]]]"#, r#"[["bias",[2]],["weight",[3,2]]]"#, (0, 1, 0)),
            (r#"[["weight",[2,3]],["bias",[2]]]"#, r#"[["weight",[2,3]]]"#, (0, 1, 0)),
            (r#""named_buffers":[]"#, r#""named_buffers":[["mean",[1]]]"#, (0, 1, 0)),
            (r#"[2],"f32"]"#, r#"[2],"f64"]"#, (0, 1, 0)),
            (r#""count":8"#, r#""count":9"#, (0, 1, 0)),
            (r#""missing":["bias"]"#, r#""missing":[]"#, (0, 1, 0)),
            (r#""unexpected":["more"]"#, r#""unexpected":["other"]"#, (0, 1, 0)),
            (r#""verdict":"load""#, r#""verdict":"refuse""#, (0, 1, 0)),
            (r#""strict":false"#, r#""strict":true"#, (0, 1, 0)),
            (r#"[["weight",[2,3]],["more",[1]]]"#, r#"[["weight",[3,2]],["more",[1]]]"#, (0, 1, 0)),
            (r#""layer":"Linear""#, r#""layer":"Mystery""#, (0, 0, 1)),
            (r#""out_features":2"#, r#""out_features":2,"mystery":1"#, (0, 0, 1)),
        ],
    );
}

#[test]
fn planted_faults_of_laws_are_found() {
    let law = r#""law":"uniform","low":-0.5,"high":0.5,"mean":0.0,"std":0.28867513459481287"#;
    let case = r#"{"kind":"init","id":0,"layer":"Linear","args":{"in_features":4,"out_features":30,"bias":false},"tags":[],
        "parameters":{"weight":{"shape":[30,4],LAW}}}"#
        .replace("LAW", law);
    planted(
        &case,
        &[
            (r#""id":0"#, r#""id":1"#, (1, 0, 0)),
            ("[30,4]", "[4,30]", (0, 1, 0)),
            (r#""weight""#, r#""weights""#, (0, 1, 0)),
            (r#""low":-0.5"#, r#""low":-0.49"#, (0, 1, 0)),
            (r#""low":-0.5"#, r#""low":-0.55"#, (0, 1, 0)),
            (r#""mean":0.0"#, r#""mean":0.02"#, (0, 1, 0)),
            (r#""std":0.288"#, r#""std":0.298"#, (0, 1, 0)),
            (r#""uniform""#, r#""normal""#, (0, 1, 0)),
            (r#""uniform""#, r#""orthogonal""#, (0, 1, 0)),
            (r#""uniform""#, r#""eye""#, (0, 1, 0)),
            (r#""uniform""#, r#""constant","value":0.1"#, (0, 1, 0)),
            (r#""law""#, r#""zero_rows":[3],"law""#, (0, 1, 0)),
        ],
    );
    let function = r#"{"kind":"init","id":0,"function":"trunc_normal_","args":{"std":1.0},"shape":[50],"tags":[],
        "tensor":{"shape":[50],"law":"truncated_normal","low":-2.0,"high":2.0,"of_mean":0.0,"of_std":1.0,"mean":0.0,"std":0.8796256610342398}}"#;
    planted(
        function,
        &[
            (r#""id":0"#, r#""id":1"#, (1, 0, 0)),
            (r#""of_std":1.0"#, r#""of_std":1.2"#, (0, 1, 0)),
            (r#""std":1.0}"#, r#""std":1.2}"#, (0, 1, 0)),
            (r#""std":1.0}"#, r#""std":1.0,"mystery":1}"#, (0, 0, 1)),
            (r#""function":"trunc_normal_""#, r#""function":"mystery_""#, (0, 0, 1)),
            (r#""tags":[]"#, r#""tags":[],"error":"refused""#, (0, 1, 0)),
        ],
    );
}
