//! The frame of a trial: a prepared kernel, and a directory that holds the files of one run.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use super::build::{self, Kernel};
use super::manifest::Manifest;
use crate::options::Options;

/// The option by which a trial that passed leaves its files.
pub const KEEP: &str = "--keep";

/// One run of a trial.
#[derive(Debug)]
pub struct Trial {
    /// The kernel that guests boot.
    pub kernel: Kernel,
    /// The directory of this run.
    pub work: PathBuf,
}

impl Trial {
    /// Runs the trial `name` and tells how long it took. Its files go where it passes, unless
    /// [`KEEP`] is given; where it fails they stay, and the error names their directory.
    pub fn run(name: &str, options: &Options, work: impl FnOnce(&Self) -> Result<()>) -> Result<bool> {
        let start = Instant::now();
        let kernel = build::build()?;
        let directory = kernel.directory.join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let trial = Self { kernel, work: directory };
        let place = format!("files in {}", trial.work.display());
        work(&trial).with_context(|| place.clone())?;
        if options.flag(KEEP) {
            println!("{place}");
        } else {
            fs::remove_dir_all(&trial.work)?;
        }
        println!("kernel {name}: passed in {:.0} s", start.elapsed().as_secs_f64());
        Ok(true)
    }

    /// The image of a volume.
    pub fn image(&self, volume: &str) -> PathBuf {
        self.work.join(format!("{volume}.img"))
    }

    /// The image of a volume as a disk of a guest.
    pub fn disk(&self, volume: &str) -> Result<String> {
        let image = self.image(volume);
        Ok(image.to_str().context("a path that is no text")?.to_owned())
    }

    /// A new image of `mib` MiB of zeroes as a disk of a guest.
    pub fn new_disk(&self, volume: &str, mib: u64) -> Result<String> {
        fs::File::create(self.image(volume))?.set_len(mib << 20)?;
        self.disk(volume)
    }

    /// The list of a volume that a guest left in its shared directory as `VOLUME.KIND`.
    pub fn manifest(&self, volume: &str, kind: &str) -> Result<Manifest> {
        Manifest::of_file(&self.work.join(format!("{volume}.{kind}")))
    }
}
