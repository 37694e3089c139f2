//! Writes to an F2FS image until gaps of used segments are filled, with one mode of treating these
//! segments first.
//!
//! `f2fs-partial IMAGE MODE SEED` fills most of the volume with warm and cold data, overwrites
//! pages of it at random, and writes a new file into the gaps, with an fsync now and then. It
//! prints what was done, and fails if a mode that moves runs has moved none.

#[path = "../tests/reusing/mod.rs"]
mod reusing;

use std::error::Error;

use nandkit_block::{Access, FileDevice};
use nandkit_f2fs::clean::Collection;
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Clock, Payload};
use nandkit_vfs::{Changes, FileSystem, InodeNumber, NewNode};
use reusing::{MODES, slow_requests};

type Anything<T> = Result<T, Box<dyn Error>>;

/// 2025-01-01: earlier than the guest's clock.
const EPOCH_UNIX_NS: u64 = 1_735_689_600_000_000_000;
const BLOCK: u64 = 4096;
/// Warm data, cold data by its name, and the file written last; their shares of the free blocks in
/// per cent.
const FILES: [(&[u8], u64); 3] = [(b"warm.dat", 50), (b"cold.avi", 20), (b"new.dat", 15)];

struct Writer {
    volume: WritableVolume<FileDevice>,
    random: Random,
    writes: u64,
}

impl Writer {
    fn write(&mut self, file: InodeNumber, page: u64) -> Anything<()> {
        let mut bytes = vec![0; BLOCK as usize];
        self.random.fill(&mut bytes);
        Changes::write(&mut self.volume, file, page * BLOCK, Payload::Bytes(&bytes))?;
        self.writes += 1;
        if self.writes.is_multiple_of(700) {
            self.volume.fsync(NodeId(file.0 as u32), false)?;
        }
        if self.writes.is_multiple_of(5000) {
            self.volume.collect_one(Collection::Background)?;
        }
        Ok(())
    }

    fn fill(&mut self) -> Anything<()> {
        let free = self.volume.segments().space.free_blocks();
        let root = self.volume.root();
        let mut files = Vec::new();
        for (name, share) in FILES {
            files.push((self.volume.create(root, name, &NewNode::FILE)?, free * share / 100));
        }
        for &(file, pages) in files.iter().take(2) {
            (0..pages).try_for_each(|page| self.write(file, page))?;
        }
        self.volume.sync()?;
        for round in 0..free / 3 {
            let (file, pages) = files.get(usize::from(round % 3 == 0)).copied().ok_or("two files")?;
            let page = self.random.below(pages);
            self.write(file, page)?;
        }
        self.volume.sync()?;
        for &(file, pages) in files.iter().skip(2) {
            (0..pages).try_for_each(|page| self.write(file, page))?;
        }
        Ok(())
    }
}

fn main() -> Anything<()> {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().ok_or("f2fs-partial IMAGE MODE SEED");
    let (image, name, seed) = (word()?, word()?, word()?.parse::<u64>()?);
    let mode = MODES.iter().find(|mode| mode.name == name).ok_or("an unknown mode")?;
    let device = FileDevice::open(image.as_ref(), 4096, Access::ReadWrite)?;
    // Nothing is overwritten in place, so that holes appear.
    let options = mode.options(WriteOptions { ipu_policy: Some(0), ..WriteOptions::default() });
    let mut volume = WritableVolume::mount(vec![device], Clock::starting_at(EPOCH_UNIX_NS), options)?;
    let counters = mode.begin(&mut volume, slow_requests());
    let mut writer = Writer { volume, random: Random::new(seed, "f2fs-partial"), writes: 0 };
    writer.fill()?;
    writer.volume.unmount().map_err(|(_, error)| error)?;
    let counters = counters.map(|counters| counters.now()).unwrap_or_default();
    if mode.treats_without_time() && counters.treated == 0 {
        return Err("no segment was treated".into());
    }
    println!(
        "{} pages written, {} segments treated, runs by choice {:?}",
        writer.writes, counters.treated, counters.runs
    );
    Ok(())
}
