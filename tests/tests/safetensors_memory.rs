//! Hostile safetensors files take little memory and little time, whatever their headers promise.

use std::time::{Duration, Instant};

use foldback::nn::safetensors::load;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn entries(count: usize, entry: impl Fn(usize) -> String) -> String {
    let all: Vec<String> = (0..count).map(entry).collect();
    format!("{{{}}}", all.join(","))
}

#[test]
fn memory_and_time_are_bounded() {
    let empty = r#"{"dtype":"F32","shape":[0],"data_offsets":[0,0]}"#;
    let texts = entries(300_000, |i| format!(r#""{i}":"""#));
    let ones = vec!["1"; 4_000_000].join(",");
    let whole = r#"{"x":{"dtype":"BF16","shape":[10000000],"data_offsets":[0,20000000]}}"#;
    let cases = [
        ("most tensors", file(&entries(32_768, |i| format!(r#""{i}":{empty}"#)), 0), true),
        ("one more", file(&entries(32_769, |i| format!(r#""{i}":{empty}"#)), 0), false),
        ("many tensors", file(&entries(400_000, |i| format!(r#""{i}":{empty}"#)), 0), false),
        ("one name", file(&entries(200_000, |_| format!(r#""x":{empty}"#)), 0), false),
        ("many texts", file(&format!(r#"{{"__metadata__":{texts}}}"#), 0), false),
        (
            "a long text",
            file(&format!(r#"{{"__metadata__":{{"a":"{}"}}}}"#, "\\n".repeat(5_000_000)), 0),
            true,
        ),
        ("a long name", file(&format!(r#"{{"{}":{empty}}}"#, "n".repeat(10_000_000)), 0), true),
        (
            "a long shape",
            file(&format!(r#"{{"x":{{"dtype":"F32","shape":[{ones}],"data_offsets":[0,4]}}}}"#), 4),
            false,
        ),
        (
            "long offsets",
            file(&format!(r#"{{"x":{{"dtype":"F32","shape":[1],"data_offsets":[{ones}]}}}}"#), 4),
            false,
        ),
        (
            "an unknown field",
            file(&format!(r#"{{"x":{{"dtype":"F32","shape":[1],"data_offsets":[0,4],"y":[{ones}]}}}}"#), 4),
            true,
        ),
        (
            "a long dtype",
            file(
                &format!(
                    r#"{{"x":{{"dtype":"{}","shape":[1],"data_offsets":[0,4]}}}}"#,
                    "F".repeat(5_000_000)
                ),
                4,
            ),
            false,
        ),
        ("brackets", file(&format!(r#"{{"x":{}"#, "[".repeat(5_000_000)), 0), false),
        (
            "large tensors",
            file(r#"{"x":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}}"#, 4),
            false,
        ),
        (
            "a terabyte",
            file(r#"{"x":{"dtype":"F32","shape":[250000000000],"data_offsets":[0,1000000000000]}}"#, 4),
            false,
        ),
        ("halves", file(whole, 20_000_000), true),
        ("a long header", [99_999_999u64.to_le_bytes().as_slice(), &[b' '; 1000]].concat(), false),
    ];
    for (name, bytes, loads) in cases {
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let start = Instant::now();
        let loaded = load(&bytes);
        let (took, peak) = (start.elapsed(), MEMORY.peak_usage().saturating_sub(before));
        assert_eq!(loaded.is_ok(), loads, "{name}: {:?}", loaded.map(|s| s.len()));
        // The bytes themselves are the caller's here; a reader of files has them, too.
        let peak = peak + bytes.len();
        assert!(peak <= 4 * bytes.len() + (16 << 20), "{name}: {peak} bytes for a file of {}", bytes.len());
        assert!(took < Duration::from_secs(if loads { 20 } else { 10 }), "{name}: {took:?}");
        println!("{name}: {:.2} x file + {} KiB, {took:?}", peak as f64 / bytes.len() as f64, peak >> 10);
    }
}
