//! The dtype of every operation's result, against the table that PyTorch made (`golden/make_promotion.py`).

use std::fs::File;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};
use tests::conformance::result_dtypes;

/// The other name of a comparison whose sides are exchanged.
fn mirrored(op: &str) -> &str {
    match op {
        "lt" => "gt",
        "gt" => "lt",
        "le" => "ge",
        "ge" => "le",
        op => op,
    }
}

/// The parameters that the operands of a row stand for.
fn parameters(op: &str) -> [&'static str; 2] {
    match op {
        "cat" | "stack" => ["tensors[0]", "tensors[1]"],
        "pow" | "pow_" => ["input", "exponent"],
        "mm" | "bmm" => ["input", "mat2"],
        "mv" => ["input", "vec"],
        "dot" => ["input", "tensor"],
        _ => ["input", "other"],
    }
}

/// The shapes of the operands that are neither 0-d nor numbers.
fn shapes(op: &str) -> [&'static [usize]; 2] {
    match op {
        "matmul" | "mm" => [&[2, 2], &[2, 2]],
        "bmm" => [&[1, 2, 2], &[1, 2, 2]],
        "mv" => [&[2, 2], &[2]],
        _ => [&[2], &[2]],
    }
}

fn tensor(name: &str, shape: &[usize], dtype: &str, tracked: bool) -> Value {
    let ones = vec![1; shape.iter().product()];
    json!({"name": name, "shape": shape, "dtype": dtype, "data": ones, "layout": "contiguous", "requires_grad": tracked})
}

/// A row as a case of the replayer: everything is a one.
fn case(row: &Value, tracked: bool) -> String {
    let mut op = row["op"].as_str().expect("a name");
    let mut operands = row["operands"].as_array().expect("a list").clone();
    let number_first = operands[0]["kind"] == "scalar";
    if matches!(op, "eq" | "ne" | "lt" | "le" | "gt" | "ge") && number_first {
        (op, operands) = (mirrored(op), operands.into_iter().rev().collect());
    }
    let mut args = row["args"].as_object().cloned().unwrap_or_else(Map::new);
    let mut inputs = Vec::new();
    for ((operand, name), shape) in operands.iter().zip(parameters(op)).zip(shapes(op)) {
        let dtype = operand["dtype"].as_str().expect("a dtype");
        // A tracked leaf is not written in place.
        let tracked = tracked && dtype.starts_with('f') && !(op.ends_with('_') && name == "input");
        match (operand["kind"].as_str(), dtype) {
            (Some("tensor"), _) => inputs.push(tensor(name, shape, dtype, tracked)),
            (Some("zero_dim"), _) => inputs.push(tensor(name, &[], dtype, tracked)),
            (_, "bool") => drop(args.insert(name.into(), json!(true))),
            (_, "int") => drop(args.insert(name.into(), json!(1))),
            _ => drop(args.insert(name.into(), json!(1.5))),
        }
    }
    if op == "where" {
        inputs.push(tensor("condition", &[2], "bool", false));
    }
    json!({"op": op, "inputs": inputs, "args": args, "error": ""}).to_string()
}

#[test]
fn dtypes_of_results_are_pytorchs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/promotion.json.gz");
    let file = GzDecoder::new(File::open(path).expect("the table is committed"));
    let rows: Vec<Value> = serde_json::from_reader(file).expect("the table is a list");
    let mut wrong = Vec::new();
    for row in &rows {
        for tracked in [false, true] {
            let found = result_dtypes(&case(row, tracked));
            let agrees = match (&row["result"], &found) {
                (Value::String(dtype), Ok(found)) => found[0].name() == dtype,
                (Value::Object(_), Err(text)) => !text.is_empty() && !text.starts_with("unsupported"),
                _ => false,
            };
            if !agrees {
                let found = found.map(|d| d[0].name());
                wrong.push(format!("{row}\n    tracked: {tracked}, found {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), 2 * rows.len(), wrong.join("\n"));
    assert_eq!(rows.len(), 2530);
}
