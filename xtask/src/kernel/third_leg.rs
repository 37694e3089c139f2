//! nandkit writes into what Linux wrote, by the commands that change images, and Linux mounts it
//! once more.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::build::Kernel;
use super::jffs2::{Device, Image};
use super::manifest::Manifest;
use super::ours::Nandkit;

/// Bytes of the file that is written again and again.
const BLOB_BYTES: usize = 256 << 10;

/// Bytes written as a multiple of the free space, so that the collector has to make room.
const TIMES: u64 = 3;

/// An image that nandkit has changed.
#[derive(Debug)]
pub struct Changed {
    /// The image.
    pub image: Image,
    /// The commands that were given.
    pub commands: usize,
    /// Bytes of files that were put.
    pub put_bytes: u64,
    /// Bytes that were free when the puts began.
    pub free_bytes: u64,
}

/// Changes a copy of an image that Linux has left at `image`; `extracted` is its tree in a
/// directory, `tree` one that is put into it.
pub fn change(nandkit: &Nandkit, device: Device, image: &Image, extracted: &Path, tree: &Path) -> Result<Changed> {
    let place = image.path.with_extension("third");
    fs::copy(&image.path, &place)?;
    let mut changed = Changed {
        image: Image { path: place.clone(), with_oob: image.with_oob },
        commands: 0,
        put_bytes: 0,
        free_bytes: 0,
    };
    let mut command = |words: &[&str]| -> Result<Value> {
        changed.commands += 1;
        nandkit.change(device, &place, words)
    };
    let mut directories: Vec<String> = Vec::new();
    for entry in fs::read_dir(extracted.join("churn")).context("Linux left no directory with changes")? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            directories.push(format!("/churn/{}", entry.file_name().to_string_lossy()));
        }
    }
    directories.sort();
    let (moved, gone) = directories.split_last().context("Linux left no directories with changes")?;
    for directory in gone.iter().take(gone.len().div_ceil(2)) {
        command(&["rm", "-r", directory])?;
    }
    let shown = |path: &Path| path.to_str().map(str::to_owned).context("a path that is no text");
    let report = command(&["put", "-r", &shown(tree)?, "/again"])?;
    let free = report["free_bytes_before"].as_u64().context("no free space is told")?;
    let blob = image.path.with_extension("blob");
    let (mut state, mut put) = (88_172_645_463_325_252_u64, 0);
    while put < TIMES * free.max(BLOB_BYTES as u64) {
        // Bytes that no compression makes shorter.
        let bytes = (0..BLOB_BYTES / 8).flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        });
        fs::write(&blob, bytes.collect::<Vec<u8>>())?;
        command(&["put", &shown(&blob)?, "/blob"])?;
        put += BLOB_BYTES as u64;
    }
    fs::remove_file(&blob)?;
    for words in [
        &["mv", moved, "/moved"][..],
        &["chmod", "-R", "u+rwX,go-w", "/moved"],
        &["chown", "-R", "12:34", "/moved"],
        &["mkdir", "-p", "/deep/er/still", "-m", "2710"],
        &["ln", "/setuid", "/deep/er/linked"],
        &["ln", "-s", "../../again", "/deep/er/symbolic"],
        &["setfattr", "-n", "user.third", "-v", "leg", "/setuid"],
        &["rm", "-r", "/empty"],
    ] {
        command(words)?;
    }
    (changed.put_bytes, changed.free_bytes) = (put, free);
    Ok(changed)
}

/// What nandkit itself finds in the image: a listing, of which the tree that was put must be a part
/// as it was.
pub fn listing(
    nandkit: &Nandkit,
    kernel: &Kernel,
    device: Device,
    changed: &Changed,
    expected: &Manifest,
) -> Result<Manifest> {
    let to = changed.image.path.with_extension("extracted");
    let found = nandkit.extract(kernel, device, &changed.image, &to)?;
    let again = Manifest::of_directory(kernel, &to.join("again"))?.without_root();
    expected.must_equal(&again, "the tree / what was put")?;
    ensure!(changed.put_bytes > changed.free_bytes, "the collector had nothing to do");
    Ok(found)
}
