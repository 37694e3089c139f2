//! The progress bar. It appears on standard error, and only if that is a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nandkit_lab::Progress;

const STEPS: u64 = 1000;

/// A progress bar for an experiment, or for writing files.
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// Makes a bar; it is invisible if standard error is not a terminal.
    pub fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr_with_hz(10));
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {msg}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// Shows the progress of an experiment.
    pub fn show(&self, progress: &Progress) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position((progress.fraction * STEPS as f64) as u64);
        let left = progress.left_ns.map_or_else(String::new, |left| format!(", {} left", words(left)));
        self.bar.set_message(format!("{} of {} runs{left}", progress.finished, progress.total));
    }

    /// Shows `done` of `total`, with a message.
    pub fn show_share(&self, done: u64, total: u64, message: impl FnOnce() -> String) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(((done as f64 / total.max(1) as f64).min(1.0) * STEPS as f64) as u64);
        self.bar.set_message(message());
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn words(ns: u64) -> String {
    let seconds = Duration::from_nanos(ns).as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_time_left_is_in_words() {
        for (seconds, text) in [(5, "5 s"), (65, "1 min 05 s"), (3720, "1 h 02 min")] {
            assert_eq!(super::words(seconds * 1_000_000_000), text);
        }
    }
}
