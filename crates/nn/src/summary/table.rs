//! A summary in words: a line for each layer, the layers inside one behind it.

use std::fmt;

use super::{LayerSummary, Summary, is_below};

const HEAD: [&str; 7] = ["layer", "type", "output", "parameters", "frozen", "FLOPs", "keeps"];
/// The columns of words, which begin at the left.
const WORDS: usize = 3;
/// The column that is there where something is frozen.
const FROZEN: usize = 4;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows = vec![HEAD.map(str::to_owned)];
        // The layers that the one at hand is in.
        let mut above: Vec<&str> = Vec::new();
        for layer in &self.layers {
            while above.pop_if(|outer| !is_below(&layer.path, outer)).is_some() {}
            let outer = above.last().map_or(0, |outer| outer.len());
            let name = layer.path[outer..].trim_start_matches('.');
            let name = if name.is_empty() { "(model)" } else { name };
            rows.push(row(layer, format!("{:1$}{name}", "", 2 * above.len())));
            above.push(&layer.path);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
        let frozen = self.parameters.saturating_sub(self.trainable);
        let columns: Vec<usize> = (0..HEAD.len()).filter(|&column| column != FROZEN || frozen > 0).collect();
        for row in &rows {
            for &column in &columns {
                let (text, width) = (&row[column], widths[column]);
                let apart = if column == 0 { "" } else { "  " };
                match column < WORDS {
                    true => write!(f, "{apart}{text:width$}")?,
                    false => write!(f, "{apart}{text:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        let [parameters, trainable, frozen] =
            [self.parameters, self.trainable, frozen].map(|n| grouped(n as u64));
        let (flops, keeps) = (grouped(self.flops), grouped(self.saved_bytes as u64));
        write!(f, "{parameters} parameters, {trainable} of them trainable")?;
        if columns.contains(&FROZEN) {
            write!(f, ", {frozen} frozen")?;
        }
        write!(f, "; {flops} FLOPs; keeps {keeps} B for the backward pass")
    }
}

fn row(layer: &LayerSummary, name: String) -> [String; 7] {
    let outputs: Vec<String> = layer.outputs.iter().map(ToString::to_string).collect();
    let output = match layer.calls {
        0 => "not called".to_owned(),
        1 => outputs.join(", "),
        calls => format!("{} ({calls} calls)", outputs.join(", ")),
    };
    let frozen = layer.parameters.saturating_sub(layer.trainable) as u64;
    let [parameters, frozen, flops, keeps] =
        [layer.parameters as u64, frozen, layer.flops, layer.saved_bytes as u64].map(grouped);
    [name, layer.layer.clone(), output, parameters, frozen, flops, format!("{keeps} B")]
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The name of a type without the paths of its modules.
pub(super) fn short(name: &str) -> String {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let (mut text, mut rest) = (String::new(), name);
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_path(c) != is_path(first)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        text.push_str(if is_path(first) { part.rsplit("::").next().unwrap_or(part) } else { part });
        rest = after;
    }
    // Recurrent layers are names for what they are made of.
    for (kind, name) in [("Elman", "RNN"), ("LongShortTerm", "LSTM"), ("GatedUnit", "GRU")] {
        text = text.replace(&format!("RecurrentCell<{kind}>"), &format!("{name}Cell"));
        text = text.replace(&format!("Recurrent<{kind}>"), name);
    }
    text
}
