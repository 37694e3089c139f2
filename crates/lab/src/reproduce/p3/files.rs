//! The files that archives are made of: generated ones, or those of a directory of this host.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use nandkit_units::random::Random;
use nandkit_vfs::VolumeStatus;
use nandkit_workload::tree::source::TreeEntry;
use nandkit_workload::{Inputs, Outside};
use serde::Serialize;

use crate::LabError;

/// The files of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "files")]
pub enum Files {
    /// All of one size, in one directory.
    Even {
        /// Bytes of each.
        size: u64,
        /// Bytes of all.
        total: u64,
    },
    /// `count` files with the sizes of a Linux source tree.
    Linux {
        /// Number of files.
        count: u64,
    },
    /// The names and sizes of a directory of this host; what is in its files is not read.
    Directory {
        /// Its path, as the user gave it.
        path: String,
        /// What changes when a name, a size or a time in it does.
        fingerprint: String,
        /// Its directories and files.
        #[serde(skip)]
        entries: Arc<[TreeEntry]>,
    },
}

/// Number of files, and of bytes, of P3's tree: Linux 4.4.52.
pub const LINUX: (u64, u64) = (58_779, 725_000_000);
/// The deviation of the sizes' logarithm. Assumption: a median of 4.5 KB beside the mean of 12.3.
const SPREAD: f64 = 1.42;
/// Files of a directory. Assumption; Linux has about as many.
const PER_DIRECTORY: usize = 16;

/// A file of a tree that no host has.
fn generated(parent: Option<usize>, number: usize, size: u64) -> TreeEntry {
    TreeEntry { parent, name: format!("{number:06}").into_bytes(), size: Some(size) }
}

/// Draws `count` sizes whose mean is that of Linux's files.
fn linux_sizes(count: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed, "sizes of a tree");
    let mut normal = || (0..12).map(|_| random.fraction()).sum::<f64>() - 6.0;
    let plain: Vec<f64> = (0..count).map(|_| (SPREAD * normal()).exp()).collect();
    let mean = LINUX.1 as f64 / LINUX.0 as f64;
    let scale = mean * count as f64 / plain.iter().sum::<f64>().max(1.0);
    plain.iter().map(|size| (size * scale) as u64).collect()
}

impl Files {
    /// A directory of this host. Errors: it cannot be read, or it has no files.
    pub fn of_directory(path: &str, inputs: &dyn Inputs) -> Result<Self, LabError> {
        let unreadable = |error| LabError::Input(format!("--dir: {error}"));
        let entries: Arc<[TreeEntry]> = inputs.tree(path).map_err(unreadable)?.entries().into();
        if entries.iter().all(|entry| entry.size.is_none()) {
            return Err(LabError::Input(format!("--dir: {path} has no plain files; give a directory with some")));
        }
        let fingerprint = Outside::Tree(path).fingerprint(inputs).map_err(unreadable)?;
        Ok(Self::Directory { path: path.to_string(), fingerprint, entries })
    }

    /// Directories and files, each directory before what is in it.
    pub fn entries(&self, seed: u64) -> Cow<'_, [TreeEntry]> {
        match self {
            Self::Even { size, total } => {
                let count = (total / (*size).max(1)).max(1) as usize;
                (0..count).map(|number| generated(None, number, *size)).collect()
            }
            Self::Linux { count } => {
                let mut entries = Vec::new();
                let mut directory = None;
                for (number, size) in linux_sizes(*count, seed).into_iter().enumerate() {
                    if number.is_multiple_of(PER_DIRECTORY) {
                        directory = Some(entries.len());
                        let name = format!("directory-{number:06}").into_bytes();
                        entries.push(TreeEntry { parent: None, name, size: None });
                    }
                    entries.push(generated(directory, number, size));
                }
                entries.into()
            }
            Self::Directory { entries, .. } => Cow::Borrowed(entries),
        }
    }

    /// Errors: a directory needs more room than the volume has, counted in whole blocks, with one
    /// for each inode.
    pub fn must_fit(&self, volume: VolumeStatus) -> Result<(), LabError> {
        let Self::Directory { path, entries, .. } = self else { return Ok(()) };
        let block = u64::from(volume.block_size.max(1));
        let needed =
            entries.iter().map(|entry| 1 + entry.size.unwrap_or(0).div_ceil(block)).fold(0, u64::saturating_add);
        if needed <= volume.blocks_free {
            return Ok(());
        }
        let mib = |blocks: u64| (u128::from(blocks) * u128::from(block)) >> 20;
        Err(LabError::Input(format!(
            "--dir: {path} needs {} MiB and the volume has {}; give a smaller directory{}",
            mib(needed),
            mib(volume.blocks_free),
            if mib(volume.blocks_free) < 1024 { ", or leave out --quick" } else { "" }
        )))
    }
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Even { size, .. } => write!(f, "files of {size} bytes"),
            Self::Linux { count } => write!(f, "{count} files of Linux's sizes"),
            Self::Directory { path, .. } => f.write_str(path),
        }
    }
}
