//! `Progress`: how far a loop is, on a terminal as a bar, in a log as a line now and then.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a bar is drawn anew.
const REDRAW: Duration = Duration::from_millis(100);
/// How often a log gets a line.
const LINE: Duration = Duration::from_secs(10);

/// Shows on standard error how far a loop is: a bar on a terminal; elsewhere a line every ten seconds and one at the end.
///
/// ```
/// use foldback_data::DataLoader;
/// use foldback_train::Progress;
/// let loader = DataLoader::new((0..100).collect::<Vec<i64>>(), 10);
/// let mut progress = Progress::new(loader.len()).title("epoch 1");
/// for batch in &loader {
///     let total = batch?.sum(..)?;
///     progress.tick(format_args!("sum {}", total.item()?));
/// }
/// progress.finish();
/// # Ok::<(), foldback_train::Error>(())
/// ```
pub struct Progress {
    title: String,
    total: usize,
    done: usize,
    message: String,
    /// when something was shown last
    shown: Instant,
    screen: Screen,
}

enum Screen {
    Bar(ProgressBar),
    Lines(Box<dyn Write + Send>, Duration),
}

impl Progress {
    /// Of so many steps.
    pub fn new(total: usize) -> Progress {
        let err = std::io::stderr();
        if !err.is_terminal() {
            return Progress::with(total, Screen::Lines(Box::new(err), LINE));
        }
        let bar = ProgressBar::new(total as u64);
        let style = ProgressStyle::with_template("{prefix} [{bar:30}] {pos}/{len} {eta} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        Progress::with(total, Screen::Bar(bar))
    }

    fn with(total: usize, screen: Screen) -> Progress {
        Progress {
            title: String::new(),
            total,
            done: 0,
            message: String::new(),
            shown: Instant::now(),
            screen,
        }
    }

    /// What stands in front.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Progress {
        self.title = title.into();
        if let Screen::Bar(bar) = &self.screen {
            bar.set_prefix(self.title.clone());
        }
        self
    }

    /// Another step is done. The words are put together only where they are shown: `format_args!` costs nothing else.
    pub fn tick(&mut self, message: impl Display) {
        self.done += 1;
        let is_last = self.done == self.total;
        let every = match &self.screen {
            Screen::Bar(_) => REDRAW,
            Screen::Lines(_, every) => *every,
        };
        let is_time = self.shown.elapsed() >= every;
        if !is_time && !is_last {
            return;
        }
        self.message = message.to_string();
        if is_time {
            self.show();
        }
    }

    /// For the next loop of a run: a bar stays as it is, and has another below it; a log gets its next line when it is time.
    pub(crate) fn followed_by(mut self, total: usize, title: String) -> Progress {
        if let Screen::Bar(_) = &self.screen {
            self.finish();
            return Progress::new(total).title(title);
        }
        (self.total, self.done, self.title) = (total, 0, title);
        self
    }

    /// Shows the last state, and ends the line. A bar that is dropped without it is taken from the screen.
    pub fn finish(mut self) {
        self.show();
        if let Screen::Bar(bar) = &self.screen {
            bar.abandon();
        }
    }

    fn show(&mut self) {
        self.shown = Instant::now();
        match &mut self.screen {
            Screen::Bar(bar) => {
                bar.set_position(self.done as u64);
                bar.set_message(self.message.clone());
            }
            Screen::Lines(out, _) => {
                let parts =
                    [self.title.clone(), format!("{}/{}", self.done, self.total), self.message.clone()];
                let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                // Nobody is told that nobody listens.
                let _ = writeln!(out, "{}", parts.join(" "));
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Screen::Bar(bar) = &self.screen
            && !bar.is_finished()
        {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use indicatif::ProgressDrawTarget;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn lines(every: Duration) -> String {
        let written = Written::default();
        let screen = Screen::Lines(Box::new(written.clone()), every);
        let mut progress = Progress::with(3, screen).title("epoch 1");
        (1..=3).for_each(|i| progress.tick(format_args!("loss {}", 1.0 / f64::from(i * 2))));
        progress.finish();
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_log_gets_lines_now_and_then_and_the_end() {
        assert_eq!(lines(LINE), "epoch 1 3/3 loss 0.16666666666666666\n");
        let written = Written::default();
        let mut run = Progress::with(1, Screen::Lines(Box::new(written.clone()), LINE)).title("epoch 1");
        for epoch in 2..=1000 {
            run.tick(1.0);
            run = run.followed_by(1, format!("epoch {epoch}"));
        }
        run.tick(0.5);
        run.finish();
        assert_eq!(String::from_utf8(written.0.lock().unwrap().clone()).unwrap(), "epoch 1000 1/1 0.5\n");
        let all = lines(Duration::ZERO);
        assert_eq!(all.lines().count(), 4, "{all}");
        assert!(all.starts_with("epoch 1 1/3 loss 0.5\nepoch 1 2/3 loss 0.25\n"), "{all}");
        assert!(!all.contains('\x1b') && !all.contains('\r'));
    }

    #[test]
    fn words_are_not_put_together_for_nobody() {
        struct Costly;
        impl Display for Costly {
            fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                panic!("it was shown")
            }
        }
        let mut progress = Progress::with(9, Screen::Lines(Box::new(std::io::sink()), LINE));
        progress.tick(Costly);
    }

    #[test]
    fn a_bar_follows() {
        let bar = ProgressBar::with_draw_target(Some(2), ProgressDrawTarget::hidden());
        let mut progress = Progress::with(2, Screen::Bar(bar.clone())).title("a");
        progress.tick("one");
        progress.tick("two");
        assert_eq!(bar.prefix(), "a");
        progress.finish();
        assert_eq!((bar.position(), bar.message(), bar.is_finished()), (2, "two".into(), true));
        let bar = ProgressBar::with_draw_target(Some(2), ProgressDrawTarget::hidden());
        drop(Progress::with(2, Screen::Bar(bar.clone())));
        assert!(bar.is_finished());
    }
}
