//! Recoveries for `cargo xtask kernel f2fs-recover`.
//!
//! `f2fs-recover IMAGE` mounts a volume for writing, which recovers it, and unmounts it.
//! `f2fs-recover --cut IMAGE SEED` makes a volume, changes files with fsyncs after its last
//! checkpoint, and ends as in a power cut.

use std::error::Error;
use std::path::Path;

use nandkit_block::{Access, BlockGeometry, FileDevice};
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Clock, Payload};
use nandkit_vfs::{AtomicWrites, AttributeChange, Changes, FileSystem, InodeNumber, NewNode, OpenFiles, XattrChanges};

type Anything<T> = Result<T, Box<dyn Error>>;

/// 2020-01-01, the time of all changes.
const EPOCH_UNIX_NS: u64 = 1_577_836_800_000_000_000;
const BYTES: u64 = 256 << 20;

fn main() -> Anything<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["--cut", image, seed] => cut(Path::new(image), seed.parse()?),
        [image] => recover(Path::new(image)),
        _ => Err("f2fs-recover IMAGE, or f2fs-recover --cut IMAGE SEED".into()),
    }
}

fn recover(image: &Path) -> Anything<()> {
    let device = FileDevice::open(image, 4096, Access::ReadWrite)?;
    let volume = WritableVolume::mount(vec![device], Clock::starting_at(EPOCH_UNIX_NS), WriteOptions::default())?;
    println!("{:?}", volume.recovered());
    volume.unmount().map_err(|(_, error)| error)?;
    Ok(())
}

fn cut(image: &Path, seed: u64) -> Anything<()> {
    let geometry = BlockGeometry { sector_size: 4096, sectors: BYTES / 4096, preferred_size: 4096, recycling_size: 0 };
    let mut device = FileDevice::create(image, geometry)?;
    let options = MkfsOptions::default();
    let clock = Clock::starting_at(EPOCH_UNIX_NS);
    Mkfs::new(&EmptyTree::new(&options), options.clone())?.write(&mut device, &clock, &|_| {})?;
    let mut volume = WritableVolume::mount(vec![device], clock, WriteOptions::default())?;
    let root = volume.root();
    let directory = volume.create(root, b"d", &NewNode::DIRECTORY)?;
    let mut random = Random::new(seed, "files that are fsynced");
    let mut files = Vec::new();
    for number in 0..40 {
        files.push(volume.create(directory, format!("before-{number}").as_bytes(), &NewNode::FILE)?);
    }
    for _ in 0..80 {
        change(&mut volume, &files, &mut random)?;
    }
    // Open without a name when the checkpoint is written.
    let open = volume.create(root, b"open", &NewNode::FILE)?;
    volume.write(NodeId(open.0 as u32), 0, Payload::Bytes(&[1; 50_000]))?;
    volume.retain(open)?;
    volume.remove(root, b"open")?;
    volume.sync()?;
    for number in 0..600 {
        if number % 3 == 0 {
            let directory = if number % 2 == 0 { root } else { directory };
            let file = volume.create(directory, format!("behind-{number}").as_bytes(), &NewNode::FILE)?;
            volume.fsync(NodeId(file.0 as u32), false)?;
            files.push(file);
        }
        change(&mut volume, &files, &mut random)?;
    }
    drop(volume.abandon());
    Ok(())
}

/// Changes a file and fsyncs it.
fn change(volume: &mut WritableVolume<FileDevice>, files: &[InodeNumber], random: &mut Random) -> Anything<()> {
    let file = files[random.below(files.len() as u64) as usize];
    let nid = NodeId(file.0 as u32);
    let mut bytes = vec![0; [10, 900, 3000, 5000, 40_000][random.below(5) as usize]];
    random.fill(&mut bytes);
    match random.below(9) {
        8 => {
            // Several ranges at once, or none: a commit is durable by itself.
            let draft = volume.begin_atomic(file)?;
            for _ in 0..3 {
                Changes::write(volume, draft, random.below(4) * random.below(9000), Payload::Bytes(&bytes))?;
            }
            return Ok(volume.commit_atomic(draft)?);
        }
        0..4 => drop(Changes::write(volume, file, random.below(3) * random.below(9000), Payload::Bytes(&bytes))?),
        4 => drop(Changes::write(volume, file, 3_600_000 + random.below(900_000), Payload::Bytes(&bytes))?),
        5 => {
            let change = AttributeChange { size: Some(random.below(60_000)), ..AttributeChange::default() };
            volume.set_attributes(file, &change)?;
        }
        6 => volume.set_xattr(file, b"user.some", bytes.get(..bytes.len().min(1000)).unwrap_or_default())?,
        _ => {
            let change = AttributeChange { mode: Some(random.below(0o777) as u16), ..AttributeChange::default() };
            volume.set_attributes(file, &change)?;
        }
    }
    Ok(volume.fsync(nid, random.below(4) == 0)?)
}
