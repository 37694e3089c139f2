//! Overwrites files of an F2FS image at random until the collector has moved blocks.
//!
//! `f2fs-collect IMAGE SEED lfs|adaptive BLOCKS` runs until a collector has moved this many blocks:
//! with `lfs` the foreground one, with `adaptive` the background one, since gaps are filled before
//! anything has to wait. Reads all written pages again after a second mount. Prints what was done;
//! fails if the collector had nothing to do.

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;

use nandkit_block::{Access, FileDevice};
use nandkit_f2fs::testing::counters::Collections;
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Clock, Nanos, Payload};
use nandkit_vfs::{Changes, ErrorKind, FileKind, FileSystem, InodeNumber, NewNode};

type Anything<T> = Result<T, Box<dyn Error>>;

/// 2025-01-01: later than what the image holds, earlier than the guest's clock.
const EPOCH_UNIX_NS: u64 = 1_735_689_600_000_000_000;
const PAGE: u64 = 4096;
/// The most pages written.
const MOST: u64 = 400_000;
/// The number of writes between two syncs, and between two idle times.
const EVERY: u64 = 500;

/// Regular files with whole pages, and their numbers of pages.
fn files(volume: &WritableVolume<FileDevice>) -> Anything<Vec<(InodeNumber, u64)>> {
    let (mut found, mut queue) = (BTreeMap::new(), vec![volume.root()]);
    while let Some(directory) = queue.pop() {
        let mut entries = Vec::new();
        volume.read_dir(directory, 0, &mut |entry| {
            entries.push((entry.inode, entry.kind));
            ControlFlow::Continue(())
        })?;
        for (inode, kind) in entries {
            match kind {
                FileKind::Directory => queue.push(inode),
                FileKind::Regular => drop(found.insert(inode, volume.stat(inode)?.size / PAGE)),
                _ => {}
            }
        }
    }
    // Sparse files do not have blocks for all their pages.
    Ok(found.into_iter().filter(|(_, pages)| (1..10_000).contains(pages)).collect())
}

fn page(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE as usize];
    Random::new(seed, "page").fill(&mut bytes);
    bytes
}

struct Work {
    volume: WritableVolume<FileDevice>,
    clock: Clock,
    lfs: bool,
    /// The version last written of each page.
    written: BTreeMap<(InodeNumber, u64), u64>,
}

impl Work {
    fn moved(&self) -> (Collections, u64) {
        let counters = self.volume.counters();
        let of = if self.lfs { counters.foreground } else { counters.background };
        (of, of.data + of.nodes)
    }

    /// Runs until the collector has moved enough. Returns how many pages were written.
    fn run(&mut self, random: &mut Random, blocks: u64) -> Anything<u64> {
        let root = self.volume.root();
        let own = self.volume.create(root, b"written until nandkit collected", &NewNode::FILE)?;
        let mut files = files(&self.volume)?;
        files.push((own, 2000));
        for number in 1..=MOST {
            let at = random.below(files.len() as u64) as usize;
            let Some(&(inode, pages)) = files.get(at) else { break };
            let index = random.below(pages);
            match Changes::write(&mut self.volume, inode, index * PAGE, Payload::Bytes(&page(number))) {
                Ok(_) => drop(self.written.insert((inode, index), number)),
                Err(error) if error.kind == ErrorKind::NoSpace => {}
                Err(error) => return Err(error.into()),
            }
            self.clock.advance_by(Nanos(1_000_000));
            if number.is_multiple_of(EVERY) {
                self.volume.sync()?;
                self.rest()?;
                if self.moved().1 >= blocks {
                    return Ok(number);
                }
            }
        }
        Err(format!("{MOST} pages were written, and the collector moved {} blocks", self.moved().1).into())
    }

    fn rest(&mut self) -> Anything<()> {
        for _ in 0..if self.lfs { 0 } else { 4 } {
            self.clock.advance_by(Nanos::from_secs(90));
            self.volume.work_when_idle()?;
        }
        Ok(())
    }
}

fn main() -> Anything<()> {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().ok_or("f2fs-collect IMAGE SEED lfs|adaptive BLOCKS");
    let (image, seed, mode, blocks) = (word()?, word()?.parse::<u64>()?, word()?, word()?.parse::<u64>()?);
    let clock = Clock::starting_at(EPOCH_UNIX_NS);
    let options = WriteOptions { lfs: mode == "lfs", ..WriteOptions::default() };
    let mount = || -> Anything<WritableVolume<FileDevice>> {
        let device = FileDevice::open(Path::new(&image), 4096, Access::ReadWrite)?;
        Ok(WritableVolume::mount(vec![device], clock.clone(), options)?)
    };
    let mut work = Work { volume: mount()?, clock: clock.clone(), lfs: options.lfs, written: BTreeMap::new() };
    let pages = work.run(&mut Random::new(seed, "f2fs-collect"), blocks)?;
    let Collections { sections, emptied, data, nodes } = work.moved().0;
    let kind = if work.lfs { "foreground" } else { "background" };
    work.volume.unmount().map_err(|(_, error)| error)?;
    let volume = mount()?;
    let mut bytes = vec![0; PAGE as usize];
    for (&(inode, index), &number) in &work.written {
        volume.read_at(&volume.inode_at(NodeId(u32::try_from(inode.0)?))?, index * PAGE, &mut bytes)?;
        if bytes != page(number) {
            return Err(format!("inode {}, page {index}: not what was written there", inode.0).into());
        }
    }
    drop(volume.abandon());
    println!(
        "{pages} pages written; the {kind} collector took {sections} sections, emptied {emptied}, moved {data} data blocks and {nodes} nodes"
    );
    Ok(())
}
