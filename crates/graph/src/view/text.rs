//! Graphs and plans as text.

use std::fmt::{self, Write};
use std::panic::Location;

use foldback_tensor::counted;

use super::{BackwardPlan, EdgeView, GraphView, NodeView, ValueView};

/// Bytes as people read them: `28 B`, `2.5 KiB`.
pub(super) fn bytes(n: usize) -> String {
    let mut size = n as f64;
    let mut units = ["KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = "B";
    while size >= 1023.95
        && let Some(next) = units.next()
    {
        (size, unit) = (size / 1024.0, next);
    }
    if unit == "B" || size.fract() == 0.0 { format!("{size} {unit}") } else { format!("{size:.1} {unit}") }
}

/// A line of a program, without what belongs to one machine: of an absolute path the last two parts.
pub(super) fn line(location: &Location<'_>) -> String {
    format!("{}:{}", short(location.file()), location.line())
}

fn short(file: &str) -> String {
    let file = file.replace('\\', "/");
    let is_absolute = file.starts_with('/') || file.as_bytes().get(1) == Some(&b':');
    let kept = if file.matches('/').count() > 1 { 1 } else { 0 };
    let start = if is_absolute { file.rmatch_indices('/').nth(kept).map_or(0, |(at, _)| at + 1) } else { 0 };
    file[start..].to_owned()
}

impl fmt::Display for ValueView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dtype, self.shape)
    }
}

impl NodeView {
    /// What a leaf is called; nothing for an operation.
    pub(super) fn label(&self) -> &str {
        self.label.as_deref().unwrap_or_default()
    }

    fn outputs(&self) -> String {
        self.outputs.iter().map(ValueView::to_string).collect::<Vec<_>>().join(", ")
    }

    fn write(&self, f: &mut dyn Write, number: usize, with_lines: bool) -> fmt::Result {
        if self.is_leaf() {
            let space = if self.label().is_empty() { "" } else { " " };
            write!(f, "#{number} leaf{space}{}: {}", self.label(), self.outputs())?;
        } else {
            write!(f, "#{number} {} -> {}", self.name, self.outputs())?;
        }
        match self.saved_bytes() {
            0 => {}
            kept => write!(f, ", keeps {}", bytes(kept))?,
        }
        if self.is_freed {
            f.write_str(", freed")?;
        }
        if with_lines {
            write!(f, " (at {})", line(self.location))?;
        }
        f.write_char('\n')
    }
}

impl EdgeView {
    /// The axes that are summed: `axis 0`, `axes 0 and 2`, `axes 0, 1 and 2`.
    pub(super) fn axes(&self) -> String {
        let axes: Vec<String> = self.folded_axes().iter().map(usize::to_string).collect();
        match &axes[..] {
            [] => "no axis".to_owned(),
            [one] => format!("axis {one}"),
            [first @ .., last] => format!("axes {} and {last}", first.join(", ")),
        }
    }
}

impl GraphView {
    fn heading(&self) -> String {
        let leaves = self.nodes.iter().filter(|n| n.is_leaf()).count();
        let leaves = match leaves {
            1 => "1 leaf".to_owned(),
            n => format!("{n} leaves"),
        };
        format!("{}, {leaves}", counted(self.nodes.len() - self.leaf_count(), "operation"))
    }

    fn leaf_count(&self) -> usize {
        self.nodes.iter().filter(|n| n.is_leaf()).count()
    }

    fn write(&self, f: &mut dyn Write, with_lines: bool) -> fmt::Result {
        for (number, node) in self.nodes.iter().enumerate() {
            node.write(f, number, with_lines)?;
            for (input, edge) in node.edges.iter().enumerate() {
                let Some(edge) = edge else { continue };
                let to = &self.nodes[edge.node];
                write!(f, "    input {input}: to #{}", edge.node)?;
                if to.outputs.len() > 1 {
                    write!(f, ", output {}", edge.output)?;
                }
                if let Some(label) = &to.label {
                    write!(f, " {label}")?;
                }
                if edge.is_fold() {
                    write!(f, ", {} folded to {} over {}", edge.gradient, edge.input, edge.axes())?;
                }
                f.write_char('\n')?;
            }
        }
        Ok(())
    }

    /// The graph as text for snapshots in tests: nodes counted from 0 in the order of the backward pass, and neither addresses
    /// nor lines. `{}` shows lines, too.
    pub fn to_text(&self) -> String {
        self.text(false)
    }

    fn text(&self, with_lines: bool) -> String {
        let mut text = format!("graph: {}; keeps {}\n", self.heading(), bytes(self.saved_bytes()));
        self.write(&mut text, with_lines).expect("a string takes all");
        text
    }
}

impl fmt::Display for GraphView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(true))
    }
}

impl BackwardPlan {
    /// The plan as text for snapshots in tests: nodes counted from 0 in the order in which they run, and neither addresses nor
    /// lines. `{}` shows lines, too.
    pub fn to_text(&self) -> String {
        self.text(false)
    }

    fn text(&self, with_lines: bool) -> String {
        let mut text = format!("backward plan: {}\n", self.heading());
        self.graph.write(&mut text, with_lines).expect("a string takes all");
        text
    }

    /// What the plan amounts to, in a line.
    pub(super) fn heading(&self) -> String {
        let folds = counted(self.graph.folds().count(), "fold");
        let kept = bytes(self.graph.saved_bytes());
        format!("{}; {folds}; keeps {kept}; peak {}", self.graph.heading(), bytes(self.peak_bytes()))
    }
}

impl fmt::Display for BackwardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_easily() {
        let texts = [0, 28, 1023, 1024, 2560, 1 << 20, (1 << 20) - 1, 5 << 30].map(bytes);
        assert_eq!(texts, ["0 B", "28 B", "1023 B", "1 KiB", "2.5 KiB", "1 MiB", "1.0 MiB", "5 GiB"]);
    }

    #[test]
    fn no_path_of_a_machine_is_shown() {
        for (file, shown) in [
            ("src/main.rs", "src/main.rs"),
            ("/home/me/net/src/main.rs", "src/main.rs"),
            ("C:\\net\\src\\main.rs", "src/main.rs"),
            ("crates\\a\\src\\lib.rs", "crates/a/src/lib.rs"),
            ("/main.rs", "main.rs"),
            ("", ""),
        ] {
            assert_eq!(short(file), shown);
        }
    }
}
