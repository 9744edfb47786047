//! A summary in words: a line for each layer, the layers inside one behind it.

use std::fmt;

use super::{LayerSummary, Summary, is_below};

const HEAD: [&str; 6] = ["layer", "type", "output", "parameters", "FLOPs", "keeps"];

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
        for row in &rows {
            let [name, kind, output, parameters, flops, keeps] = row;
            let [a, b, c, d, e, g] = widths[..] else { return Err(fmt::Error) };
            writeln!(f, "{name:a$}  {kind:b$}  {output:c$}  {parameters:>d$}  {flops:>e$}  {keeps:>g$}")?;
        }
        let [parameters, trainable] = [self.parameters, self.trainable].map(|n| grouped(n as u64));
        let (flops, keeps) = (grouped(self.flops), grouped(self.saved_bytes as u64));
        write!(
            f,
            "{parameters} parameters, {trainable} of them trainable; {flops} FLOPs; keeps {keeps} B for the backward pass"
        )
    }
}

fn row(layer: &LayerSummary, name: String) -> [String; 6] {
    let outputs: Vec<String> = layer.outputs.iter().map(ToString::to_string).collect();
    let output = match layer.calls {
        0 => "not called".to_owned(),
        1 => outputs.join(", "),
        calls => format!("{} ({calls} calls)", outputs.join(", ")),
    };
    let [parameters, flops, keeps] =
        [layer.parameters as u64, layer.flops, layer.saved_bytes as u64].map(grouped);
    [name, layer.layer.clone(), output, parameters, flops, format!("{keeps} B")]
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
