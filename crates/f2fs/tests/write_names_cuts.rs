//! Power cuts at every request while names come, go and move: behind each the tree is that of the last checkpoint, with the names of what was fsynced since, and nothing in between.

mod made;
mod writing;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use made::{alone, clock, complaints};
use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::names::new_inode::Making;
use nandkit_f2fs::{Volume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_vfs::{Changes, ErrorKind, FileKind, FileSystem, InodeNumber, Links, NewNode, RenameFlags, Result};
use writing::findings;
use writing::oracle::{BLOCK, Image, SECTORS, device_of, empty_image, image_of};

const STEPS: u32 = 220;

/// Inodes by directory and name.
type Tree = BTreeMap<(InodeNumber, Vec<u8>), InodeNumber>;

fn tree<D: BlockDevice>(volume: &Volume<D>) -> Tree {
    let (mut tree, mut queue) = (Tree::new(), vec![volume.root()]);
    while let Some(directory) = queue.pop() {
        let mut sink = |entry: nandkit_vfs::DirectoryEntry<'_>| {
            tree.insert((directory, entry.name.to_vec()), entry.inode);
            if entry.kind == FileKind::Directory {
                queue.push(entry.inode);
            }
            ControlFlow::Continue(())
        };
        volume.read_dir(directory, 0, &mut sink).unwrap();
    }
    tree
}

/// An fsync that was no checkpoint: the file and where its name was then.
#[derive(Clone)]
struct Synced {
    inode: InodeNumber,
    place: (InodeNumber, Vec<u8>),
}

/// What may be on the device.
#[derive(Default)]
struct Known {
    now: Tree,
    /// That of the last checkpoint, and its version.
    durable: Tree,
    version: u64,
    synced: Vec<Synced>,
    /// The fsync that was under way.
    syncing: Option<Synced>,
    checkpoints: u32,
}

impl Known {
    /// The trees that a cut now may leave.
    fn possible(&self) -> Vec<Tree> {
        let mut all = vec![recovered(&self.durable, &self.synced), self.now.clone()];
        if let Some(syncing) = &self.syncing {
            all.push(recovered(&self.durable, &[&self.synced[..], std::slice::from_ref(syncing)].concat()));
        }
        all
    }

    fn saw<D: BlockDevice>(&mut self, volume: &Volume<D>) {
        let version = volume.checkpoint_state().0.head.version.get();
        if version != self.version {
            // Checkpoints come before an operation changes anything, or behind everything.
            (self.version, self.durable) = (version, self.now.clone());
            self.synced.clear();
            self.checkpoints += 1;
        }
    }
}

/// The tree of a checkpoint with what was fsynced since.
fn recovered(durable: &Tree, synced: &[Synced]) -> Tree {
    let mut tree = durable.clone();
    for Synced { inode, place } in synced {
        if !durable.values().any(|known| known == inode) {
            tree.insert(place.clone(), *inode);
        }
    }
    tree
}

struct Run<'a, D: BlockDevice> {
    volume: &'a mut Volume<D>,
    known: &'a mut Known,
    random: Random,
}

impl<D: BlockDevice> Run<'_, D> {
    fn place(&mut self) -> (InodeNumber, Vec<u8>) {
        let directories: Vec<InodeNumber> = std::iter::once(self.volume.root())
            .chain(
                self.known
                    .now
                    .values()
                    .copied()
                    .filter(|&inode| self.volume.stat(inode).is_ok_and(|stat| stat.kind == FileKind::Directory)),
            )
            .collect();
        let directory = directories[self.random.below(directories.len() as u64) as usize];
        let number = self.random.below(20);
        (directory, format!("{number}{}", "-long".repeat((number * 3) as usize)).into_bytes())
    }

    fn some(&mut self) -> Option<((InodeNumber, Vec<u8>), InodeNumber)> {
        let at = self.random.below(self.known.now.len().max(1) as u64) as usize;
        self.known.now.iter().nth(at).map(|(place, inode)| (place.clone(), *inode))
    }

    fn step(&mut self) -> Result<()> {
        let (new, some, choice) = (self.place(), self.some(), self.random.below(12));
        let root = self.volume.root();
        match (choice, some) {
            // Owners that come and go: where there are quotas, check holds them against what is there.
            (0..4, _) => {
                let node = NewNode { uid: new.1.len() as u32 * 1_000_003, ..NewNode::FILE };
                self.volume.create(new.0, &new.1, &node).map(drop)
            }
            (4, _) => self.volume.create(new.0, &new.1, &NewNode::DIRECTORY).map(drop),
            (5 | 6, Some((old, _))) => self.volume.rename((old.0, &old.1), (new.0, &new.1), RenameFlags::Replace),
            (7, Some((_, inode))) => self.volume.link(inode, new.0, &new.1),
            (8, Some((old, _))) => self.volume.remove(old.0, &old.1),
            (9 | 10, Some((place, inode))) => {
                let stat = self.volume.stat(inode)?;
                if stat.kind == FileKind::Regular {
                    self.known.syncing = Some(Synced { inode, place });
                }
                Changes::sync(self.volume, Some(inode))
            }
            (11, _) if self.random.below(4) == 0 => Changes::sync(self.volume, None),
            _ => self.volume.lookup(root, b"absent").map(drop),
        }
    }

    /// Until the power goes.
    fn go(&mut self) -> Result<()> {
        for _ in 0..STEPS {
            let done = self.step();
            // A refused operation may have made a checkpoint first, too.
            self.known.saw(self.volume);
            match done {
                Ok(()) => {}
                Err(error) if [ErrorKind::Device, ErrorKind::ReadOnly].contains(&error.kind) => return Err(error),
                Err(_) => {}
            }
            if let Some(synced) = self.known.syncing.take()
                && !self.known.durable.values().any(|known| *known == synced.inode)
            {
                self.known.synced.push(synced);
            }
            self.known.now = tree(self.volume);
        }
        Ok(())
    }
}

struct Shape {
    features: &'static str,
    options: WriteOptions,
    survival: Survival,
    seed: u64,
}

fn shapes() -> [Shape; 3] {
    let options = WriteOptions { ordered_fsync: true, ..WriteOptions::default() };
    let blocks = Making { inline_entries: false, ..Making::default() };
    [
        Shape { features: "", options, survival: Survival::Subset, seed: 1 },
        Shape {
            features: "extra_attr,inode_checksum,flexible_inline_xattr,quota,project_quota",
            options: WriteOptions { strict_fsync: true, ..options },
            survival: Survival::None,
            seed: 2,
        },
        Shape { features: "", options: WriteOptions { making: blocks, ..options }, survival: Survival::All, seed: 3 },
    ]
}

/// The device behind a cut and what may be on it; `None` where the run ends before.
fn cut_run(image: &Image, shape: &Shape, plan: DeviceCutPlan) -> Option<(RamDevice, Known)> {
    let device = CutDevice::new(device_of(image), plan);
    let mut volume = Volume::mount(vec![device], clock(), shape.options).unwrap();
    let mut known = Known { version: volume.checkpoint_state().0.head.version.get(), ..Known::default() };
    let random = Random::new(shape.seed, "cuts of names");
    let ended = Run { volume: &mut volume, known: &mut known, random }.go();
    let device = volume.abandon().remove(0);
    if !device.is_off() {
        ended.unwrap();
        assert!(known.checkpoints > 5, "{} checkpoints", known.checkpoints);
        return None;
    }
    Some((device.into_inner().unwrap(), known))
}

#[test]
fn trees_are_whole_behind_cuts_at_every_request() {
    let _alone = alone();
    let scratch = tempfile::tempdir().unwrap();
    for shape in shapes() {
        let image = empty_image(shape.features);
        let (mut request, mut with_more) = (1, 0);
        loop {
            let moment = [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After];
            let plan = DeviceCutPlan::at(request, moment[request as usize % 3], shape.survival, request);
            let Some((device, known)) = cut_run(&image, &shape, plan) else { break };
            let context = format!("seed {}, {plan}", shape.seed);
            let volume = Volume::mount(vec![device], clock(), shape.options);
            let volume = volume.unwrap_or_else(|error| panic!("{context}: {error}"));
            let (found, possible) = (tree(&volume), known.possible());
            with_more += u32::from(found != known.durable);
            assert!(possible.contains(&found), "{context}: {found:?}\nis none of {possible:?}");
            let device = writing::unmount(volume);
            let image = image_of(&device);
            assert_eq!(findings(device_of(&image)), Vec::<String>::new(), "{context}: check");
            if request % 17 == 0 {
                let path = scratch.path().join("image");
                let mut bytes = vec![0; SECTORS as usize * BLOCK];
                for (sector, content) in &image {
                    bytes[*sector as usize * BLOCK..][..BLOCK].copy_from_slice(content);
                }
                std::fs::write(&path, bytes).unwrap();
                assert_eq!(complaints(&path), Vec::<String>::new(), "{context}: fsck.f2fs");
            }
            request += 1;
        }
        assert!(request > 60 && with_more > 5, "{request} requests, {with_more} trees with more than the checkpoint's");
    }
}
