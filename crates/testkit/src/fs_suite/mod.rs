//! Conformance suite of `trait FileSystem`: every promise written on its methods and on those of
//! `Changes` and the capabilities.
//!
//! Checks of what a format cannot hold, by its `Features`, are left out. The caller makes volumes
//! and mounts them again:
//!
//! ```
//! use nandkit_testkit::fs_suite::{self, ModelMaker};
//! use nandkit_vfs::model::ModelOptions;
//!
//! fs_suite::run(&ModelMaker(ModelOptions::FAT)).unwrap();
//! ```

mod atomic;
mod attributes;
mod bench;
mod content;
pub mod extents;
mod listing;
mod names;
pub mod planted;
mod removal;
mod renames;
mod space;

use nandkit_units::Clock;
use nandkit_vfs::FileSystem;
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};

use crate::violation::{Violations, guarded};
use bench::{Bench, Mounted};

/// Size of the volume that a check needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeSize {
    /// At least 32 MiB for files and 3,000 of them.
    Roomy,
    /// From 64 KiB to 4 MiB for files, so that it can be filled quickly.
    Small,
}

/// Makes the file systems under test.
pub trait FsMaker {
    /// The file system.
    type Fs: FileSystem;

    /// A new, empty, mounted file system whose clock starts after the year 2000.
    fn make(&self, volume: VolumeSize) -> Self::Fs;

    /// Drops the file system without a sync and mounts it again. The suite syncs first where it
    /// relies on the content.
    fn remount(&self, fs: Self::Fs) -> Self::Fs;

    /// The clock from which the file system takes its time stamps.
    fn clock(&self, fs: &Self::Fs) -> Clock;
}

/// Makes model file systems.
#[derive(Clone, Copy, Debug)]
pub struct ModelMaker(
    /// Options of the models; the capacity is replaced by that of the wanted volume.
    pub ModelOptions,
);

impl FsMaker for ModelMaker {
    type Fs = ModelFileSystem;

    fn make(&self, volume: VolumeSize) -> ModelFileSystem {
        let blocks = match volume {
            VolumeSize::Roomy => 1 << 16,
            VolumeSize::Small => 100,
        };
        // 2001-09-09, so that formats which begin in 1980 can hold it.
        ModelFileSystem::new(self.0.with_capacity(blocks), Clock::starting_at(1_000_000_000_000_000_000))
    }

    fn remount(&self, mut fs: ModelFileSystem) -> ModelFileSystem {
        fs.remount();
        fs
    }

    fn clock(&self, fs: &ModelFileSystem) -> Clock {
        fs.clock().clone()
    }
}

type Check = fn(&mut Bench<'_>) -> Result<(), String>;

/// All checks: name, size of volume, function.
fn checks() -> impl Iterator<Item = (&'static str, VolumeSize, Check)> {
    let names = [names::CHECKS, renames::CHECKS, removal::CHECKS, listing::CHECKS];
    let files = [content::CHECKS, attributes::CHECKS, atomic::CHECKS];
    let roomy = names.into_iter().chain(files).flatten().map(|(name, check)| (*name, VolumeSize::Roomy, *check));
    roomy.chain(space::CHECKS.iter().map(|(name, check)| (*name, VolumeSize::Small, *check)))
}

/// The names of all checks, in the order in which they run.
pub fn check_names() -> Vec<&'static str> {
    checks().map(|(name, ..)| name).collect()
}

/// Runs all checks, each on a new volume.
pub fn run<M: FsMaker>(maker: &M) -> Result<(), Violations> {
    run_where(maker, |_| true)
}

/// Runs the checks whose name is wanted, each on a new volume.
pub fn run_where<M: FsMaker>(maker: &M, wanted: impl Fn(&str) -> bool) -> Result<(), Violations> {
    let mut found = Vec::new();
    for (name, volume, check) in checks().filter(|(name, ..)| wanted(name)) {
        found.extend(guarded(name, "file system", || {
            let mut mounted = Mounted::new(maker, volume);
            check(&mut Bench::new(&mut mounted)?)
        }));
    }
    Violations::or_ok(found)
}
