//! `varmail`: filebench's personality of a mail server (workloads/varmail.f).
//!
//! Each thread repeats the same steps: it deletes a file; creates one, appends to it and makes it
//! durable; opens one, reads it, appends to it and makes it durable; opens one and reads it. Each
//! of these ten steps is a turn. As in filebench files are drawn from the set at random, and one
//! that a thread has open is not deleted.

use nandkit_units::random::Random;

use crate::embedded::fits;
use crate::error::{Result, SpecError};
use crate::operation::FileSlot;
use crate::parameters::parameters;
use crate::script::Script;
use crate::streams::{StreamFiles, Streams};

parameters! {
    /// Parameters of `varmail`; the defaults are those of filebench's varmail.f, which runs for 60
    /// seconds instead of loops.
    pub struct Varmail as "varmail" {
        /// Files of the set, of which prealloc are there at first (nfiles).
        files: u64 = 1000, 4..=1_000_000;
        /// Share of the files that are there at first (prealloc).
        prealloc: f64 = 0.8, 0.1..=0.99;
        /// Mean bytes of a file at first; sizes follow a gamma distribution of shape 1.5
        /// (filesize).
        mean_size: u64 = 16 << 10, 1..=16 << 20;
        /// Most bytes of an append, drawn evenly from 1 (meanappendsize).
        append: u64 = 16 << 10, 1..=16 << 20;
        /// Bytes of each read of a whole file, and of each write of the fill (iosize).
        io_size: u64 = 1 << 20, 512..=16 << 20;
        /// Threads (nthreads).
        threads: u64 = 16, 1..=4096;
        /// How often each thread goes through its steps.
        loops: u64 = 100, 1..=1 << 32;
    }
}

/// The directory of the set; its files come after it.
const DIRECTORY: FileSlot = FileSlot(1);

/// Largest size as a multiple of the mean: the distribution has no end, but a volume has.
const SIZE_MAX: f64 = 64.0;

impl Varmail {
    fn first(&self) -> u64 {
        (self.files as f64 * self.prealloc) as u64
    }

    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        // With this many files there is always one that no thread has open.
        let (first, needed) = (self.first(), 2 * self.threads + 1);
        if first < needed {
            let detail =
                format!("files times prealloc are {first}; expected {needed} or more for {} threads", self.threads);
            return Err(SpecError::Conflict { workload: "varmail", detail });
        }
        Ok(())
    }

    pub(crate) fn files(&self, seed: u64, free_bytes: u64) -> Result<StreamFiles<Mail>> {
        self.check()?;
        let mut sizes = Random::new(seed, "sizes of varmail");
        let size = |_| (gamma(&mut sizes) * self.mean_size as f64).round().max(1.0) as u64;
        let sizes: Vec<u64> = (0..self.first()).map(size).collect();
        // A file is appended to about once before it is deleted.
        let needed = sizes.iter().sum::<u64>().saturating_add(self.first().saturating_mul(self.append));
        fits("varmail", needed, free_bytes, "use fewer files, or a smaller mean_size and append")?;
        let thread = Thread { step: 0, file: None, loops: self.loops };
        let mail = Mail {
            spec: self.clone(),
            random: Random::new(seed, "varmail"),
            existing: (0..self.first() as u32).collect(),
            free: (self.first() as u32..self.files as u32).collect(),
            open: vec![0; self.files as usize],
            sizes: sizes.into_iter().chain(std::iter::repeat(0)).take(self.files as usize).collect(),
            threads: vec![thread; self.threads as usize],
        };
        Ok(StreamFiles::new(mail, self.threads, seed))
    }
}

/// A draw of the gamma distribution of shape 1.5 and mean 1.
///
/// The sum of a draw of shape 1 (exponential) and one of shape 1/2 (half the square of a normal
/// one, by Marsaglia's polar method).
fn gamma(random: &mut Random) -> f64 {
    let exponential = -(1.0 - random.fraction()).ln();
    let half_square = loop {
        let (x, y) = (2.0 * random.fraction() - 1.0, 2.0 * random.fraction() - 1.0);
        let s = x * x + y * y;
        if s > 0.0 && s < 1.0 {
            break x * x * (-s.ln() / s);
        }
    };
    ((exponential + half_square) / 1.5).min(SIZE_MAX)
}

#[derive(Clone, Debug)]
struct Thread {
    step: u32,
    /// The file that the thread has open.
    file: Option<u32>,
    loops: u64,
}

/// The set of files and the threads.
#[derive(Debug)]
pub(crate) struct Mail {
    spec: Varmail,
    random: Random,
    existing: Vec<u32>,
    free: Vec<u32>,
    /// How many threads have each file open.
    open: Vec<u32>,
    sizes: Vec<u64>,
    threads: Vec<Thread>,
}

const fn slot_of(file: u32) -> FileSlot {
    FileSlot(file + 2)
}

impl Mail {
    fn size_mut(&mut self, file: u32) -> Option<&mut u64> {
        self.sizes.get_mut(file as usize)
    }

    fn opened(&mut self, file: u32, by: i32) {
        if let Some(count) = self.open.get_mut(file as usize) {
            *count = count.saturating_add_signed(by);
        }
    }

    /// Deletes a file that nobody has open, if there is one.
    fn delete(&mut self, script: &mut Script) {
        let count = self.existing.len();
        let first = self.random.index(count);
        let is_closed =
            |at: &usize| self.existing.get(*at).is_some_and(|file| self.open.get(*file as usize) == Some(&0));
        let Some(at) = (0..count).map(|step| (first + step) % count).find(is_closed) else { return };
        let file = self.existing.swap_remove(at);
        self.free.push(file);
        script.remove(slot_of(file));
    }

    fn create(&mut self, script: &mut Script) -> Option<u32> {
        if self.free.is_empty() {
            return None;
        }
        let file = self.free.swap_remove(self.random.index(self.free.len()));
        self.existing.push(file);
        *self.size_mut(file)? = 0;
        script.create(slot_of(file), DIRECTORY, name(file));
        Some(file)
    }

    fn choose(&mut self, script: &mut Script) -> Option<u32> {
        let file = *self.existing.get(self.random.index(self.existing.len()))?;
        script.open(slot_of(file));
        Some(file)
    }

    fn append(&mut self, file: u32, script: &mut Script) {
        let length = self.random.between(1, self.spec.append);
        if let Some(size) = self.size_mut(file) {
            script.write(slot_of(file), *size, length);
            *size += length;
        }
    }
}

fn name(file: u32) -> String {
    format!("{:08}", u64::from(file) + 1)
}

impl Streams for Mail {
    fn fill(&mut self, step: u64, script: &mut Script) -> bool {
        if step == 0 {
            script.make_directory(DIRECTORY, FileSlot::ROOT, "mail");
            return true;
        }
        let Some(file) = self.existing.get(step as usize - 1).copied() else {
            script.sync(None);
            return false;
        };
        let size = self.sizes.get(file as usize).copied().unwrap_or(0);
        script.create(slot_of(file), DIRECTORY, name(file));
        script.write_in_pieces(slot_of(file), 0, size, self.spec.io_size);
        true
    }

    fn turn(&mut self, stream: usize, script: &mut Script) -> bool {
        let Some(Thread { step, file, loops }) = self.threads.get(stream).cloned() else { return false };
        if loops == 0 {
            return false;
        }
        let mut next = Thread { step: (step + 1) % 10, file, loops: loops - u64::from(step == 9) };
        let has_opened = match step {
            0 => {
                self.delete(script);
                None
            }
            1 => self.create(script),
            4 | 8 => self.choose(script),
            _ => None,
        };
        if let Some(file) = has_opened {
            self.opened(file, 1);
            next.file = Some(file);
        }
        if let Some(file) = file {
            match step {
                2 | 6 => self.append(file, script),
                3 | 7 => script.sync(Some(slot_of(file))),
                5 | 9 => {
                    let size = self.sizes.get(file as usize).copied().unwrap_or(0);
                    script.read_in_pieces(slot_of(file), size, self.spec.io_size);
                }
                _ => {}
            }
            // Behind the steps that close.
            if matches!(step, 3 | 7 | 9) {
                self.opened(file, -1);
                next.file = None;
            }
        }
        if let Some(thread) = self.threads.get_mut(stream) {
            *thread = next;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_mean_and_the_spread_of_the_distribution() {
        let mut random = Random::new(1, "test");
        let draws: Vec<f64> = (0..200_000).map(|_| gamma(&mut random)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        // Shape 1.5 and mean 1: the variance is 1 / 1.5.
        assert!((mean - 1.0).abs() < 0.01 && (variance - 1.0 / 1.5).abs() < 0.02, "{mean} {variance}");
        // A quarter lies below 0.4042 (R: qgamma(0.25, 1.5) / 1.5).
        let below = draws.iter().filter(|draw| **draw < 0.404_2).count() as f64 / draws.len() as f64;
        assert!((below - 0.25).abs() < 0.01, "{below}");
    }
}
