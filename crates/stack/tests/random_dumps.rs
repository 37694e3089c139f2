//! Whole dumps put together at random: every change stays inside the volume, and every file is read
//! right or something is said. More by
//! `NANDKIT_ROUNDS=20000 cargo test --release -p nandkit-stack --test all random_dumps::`.

use std::path::Path;

use nandkit_fat::{Cache, Fat, FormatOptions};
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::medium::Cleanmarker;
use nandkit_jffs2::write::WriteOptions;
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_stack::image::{self, ChangeOptions, ChangingImage, Image, OobLayoutChoice, OpenOptions, RegionInfo};
use nandkit_testkit::clock;
use nandkit_testkit::flash_memory::{StrictFlash, nor};
use nandkit_testkit::rounds::in_parallel;
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};
use nandkit_vfs::{FileSystem, NewNode};

/// Bytes of a part that is put somewhere on flash.
const UNIT: usize = 32 << 10;
/// Erase sizes of JFFS2 as powers of two, the large ones more seldom: a volume has eight blocks at
/// the least.
const ERASE_POWERS: [u32; 16] = [12, 12, 12, 12, 12, 13, 13, 13, 13, 13, 14, 14, 14, 15, 15, 16];
/// Sectors of a FAT.
const SECTORS: u32 = 192;

/// A volume in a dump.
struct Volume {
    format: &'static str,
    start: usize,
    end: usize,
    files: Vec<(String, Vec<u8>)>,
}

struct Dump {
    bytes: Vec<u8>,
    volumes: Vec<Volume>,
}

fn noise(random: &mut Random, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// Files with names of their own, so that volumes side by side say different things.
fn files(random: &mut Random) -> Vec<(String, Vec<u8>)> {
    let stem = random.below(1 << 30);
    let count = 1 + random.below(5);
    (0..count)
        .map(|number| {
            let length = random.below(9000) as usize;
            (format!("file-{stem:x}-{number}"), noise(random, length))
        })
        .collect()
}

fn fill(fs: &mut impl FileSystem, files: &[(String, Vec<u8>)]) {
    let root = fs.root();
    let changes = fs.changes().expect("can be changed");
    for (name, content) in files {
        let inode = changes.create(root, name.as_bytes(), &NewNode::FILE).expect("a file");
        for (number, part) in content.chunks(4096).enumerate() {
            changes.write(inode, number as u64 * 4096, Payload::Bytes(part)).expect("room");
        }
    }
    changes.sync(None).expect("syncs");
}

/// A volume of JFFS2 as Linux leaves it on NOR, behind its erase size: in some blocks the
/// cleanmarker is marked obsolete.
fn jffs2(random: &mut Random, files: &[(String, Vec<u8>)]) -> (usize, Vec<u8>) {
    let erase_size = 1 << ERASE_POWERS[random.index(ERASE_POWERS.len())];
    let blocks = (UNIT / erase_size * (3 + random.below(3) as usize)).max(8) as u32;
    let order = [ByteOrder::Little, ByteOrder::Big][random.below(2) as usize];
    // Who marks nodes obsolete writes no summaries (fs/jffs2/os-linux.h,
    // `jffs2_can_mark_obsolete`).
    let write = WriteOptions { summaries: false, ..WriteOptions::default() };
    let cleanmarker = Some(Cleanmarker::Inline);
    let options = MountOptions { order: Some(order), cleanmarker, write, ..MountOptions::default() };
    let flash = StrictFlash::new(nor(erase_size as u32, blocks));
    let mut fs = Jffs2::format(flash, clock(), options).expect("formats");
    fill(&mut fs, files);
    let mut bytes = fs.into_flash().dump();
    for block in bytes.chunks_mut(erase_size) {
        let is_used = block[12..16] != [0xFF; 4];
        if is_used && random.below(2) == 0 {
            // The bit ACCURATE of the type.
            let at = if order == ByteOrder::Little { 3 } else { 2 };
            block[at] &= !0x20;
        }
    }
    (erase_size, bytes)
}

fn fat(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut device = nandkit_block::RamDevice::with_sectors(512, SECTORS.into()).expect("a device");
    nandkit_fat::format(&mut device, &clock(), &FormatOptions::default()).expect("formats");
    let options = nandkit_fat::MountOptions { cache: Cache::None, ..nandkit_fat::MountOptions::default() };
    let mut fs = Fat::mount(device, clock(), options).expect("mounts");
    fill(&mut fs, files);
    fs.unmount().expect("unmounts");
    let mut bytes = vec![0; 512 * SECTORS as usize];
    let device = fs.into_device();
    nandkit_block::BlockDevice::read(&device, &Context::default(), Lba(0), ReadInto::Bytes(&mut bytes)).expect("reads");
    bytes
}

fn draw(random: &mut Random) -> Dump {
    let mut dump = Dump { bytes: Vec::new(), volumes: Vec::new() };
    let parts = 1 + random.below(4);
    for part in 0..parts {
        let length = UNIT * (1 + random.below(2) as usize);
        match random.below(5) {
            0 => dump.bytes.extend(noise(random, length)),
            1 => dump.bytes.resize(dump.bytes.len() + length, 0xFF),
            2 if part > 0 => {
                let mut nvram = b"NVRAM\0mac=00:11:22:33:44:55\0".to_vec();
                nvram.resize(UNIT, 0xFF);
                dump.bytes.extend(nvram);
            }
            3 => {
                let files = files(random);
                add(&mut dump, "fat", (1, fat(&files)), files);
            }
            _ => {
                let files = files(random);
                let volume = jffs2(random, &files);
                add(&mut dump, "jffs2", volume, files);
            }
        }
    }
    let files = files(random);
    let volume = jffs2(random, &files);
    add(&mut dump, "jffs2", volume, files);
    if random.below(2) == 0 {
        dump.bytes.extend(noise(random, UNIT));
    }
    dump
}

/// Puts a volume at the next beginning of a block, behind blank flash where that is not here.
fn add(dump: &mut Dump, format: &'static str, volume: (usize, Vec<u8>), files: Vec<(String, Vec<u8>)>) {
    let (erase_size, bytes) = volume;
    dump.bytes.resize(dump.bytes.len().next_multiple_of(erase_size), 0xFF);
    let start = dump.bytes.len();
    dump.bytes.extend(bytes);
    dump.volumes.push(Volume { format, start, end: dump.bytes.len(), files });
}

/// The region of a volume whose ends are not proven, which is told.
fn doubtful<'a>(path: &Path, regions: &'a [RegionInfo], volume: &Volume) -> Option<&'a RegionInfo> {
    regions.iter().filter(|region| !region.doubts.is_empty()).find(|region| {
        let options = OpenOptions { region: Some(region.name.clone()), ..OpenOptions::default() };
        image::open(path, &options).is_ok_and(|opened| content(opened.fs(), &volume.files[0].0).is_some())
    })
}

/// The regions of a dump, or all of it where it is one volume.
fn parts(path: &Path) -> Vec<RegionInfo> {
    match image::inspect(path, &OpenOptions::default()) {
        Ok(Image::Dump(summary)) => summary.regions,
        other => panic!("{other:?}"),
    }
}

fn content(fs: &dyn FileSystem, name: &str) -> Option<Vec<u8>> {
    let inode = fs.lookup(fs.root(), name.as_bytes()).ok()?;
    let mut bytes = vec![0; fs.stat(inode).ok()?.size as usize];
    let length = fs.read(inode, 0, ReadInto::Bytes(&mut bytes)).ok()?;
    bytes.truncate(length);
    Some(bytes)
}

/// Changes a volume until it is full, or some times: `true` where all bytes outside of it are as
/// they were.
fn changes_stay_inside(path: &Path, options: &OpenOptions, volume: &Volume, before: &[u8]) -> Result<(), String> {
    let how =
        ChangeOptions { compression: None, now: nandkit_vfs::Timestamp(1_700_000_000_000_000_000), for_good: false };
    let mut changing = match ChangingImage::open(path, options, &how) {
        Ok(changing) => changing,
        // An erase size that nothing proves, a volume that is no single one: refused with a word.
        Err(error) if error.detail.contains("expected") => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let root = changing.fs().root();
    for number in 0..40 {
        let made = changing.changes().create(root, format!("new-{number}").as_bytes(), &NewNode::FILE);
        let written = made.and_then(|inode| changing.changes().write(inode, 0, Payload::Bytes(&[number; 8000])));
        if written.is_err() {
            break;
        }
    }
    let changed = changing.finish().map_err(|error| error.to_string())?;
    let after = changed.bytes();
    let is_same = after.len() == before.len()
        && after[..volume.start] == before[..volume.start]
        && is_same_behind(after, before, volume.end);
    if is_same { Ok(()) } else { Err(format!("bytes outside {:#x} to {:#x} changed", volume.start, volume.end)) }
}

/// Behind a volume its own blank blocks may go on: what is not blank is as it was.
fn is_same_behind(after: &[u8], before: &[u8], end: usize) -> bool {
    let blank = before[end..].iter().take_while(|byte| **byte == 0xFF).count();
    after[end + blank..] == before[end + blank..]
}

#[test]
fn what_is_no_volume_is_never_changed_and_every_file_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    in_parallel(500, |round| {
        let path = directory.path().join(format!("dump-{round}"));
        one_dump(round, &path);
        std::fs::remove_file(path).expect("removes");
    });
}

fn one_dump(round: u64, path: &Path) {
    let mut random = Random::new(round, "dump");
    let dump = draw(&mut random);
    std::fs::write(path, &dump.bytes).expect("writes");
    let regions = parts(path);
    for volume in &dump.volumes {
        let what = format!("round {round}, {} {:#x} to {:#x}", volume.format, volume.start, volume.end);
        let whole = || OpenOptions { offset: Some(volume.start as u64), ..OpenOptions::default() };
        let at_start = regions.iter().find(|region| region.offset == volume.start as u64);
        let found = at_start.or_else(|| doubtful(path, &regions, volume));
        let options = match found {
            Some(region) => OpenOptions { region: Some(region.name.clone()), ..OpenOptions::default() },
            None if dump.volumes.len() == 1 => OpenOptions::default(),
            None => whole(),
        };
        assert!(found.is_some() || dump.volumes.len() == 1, "{what}: not among {regions:#?}");
        let opened = image::open(path, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(opened.format, volume.format, "{what}");
        for (name, expected) in &volume.files {
            let found = content(opened.fs(), name);
            let length = found.as_ref().map(Vec::len);
            let expected_length = expected.len();
            assert!(found.as_ref() == Some(expected), "{what}: {name} has {length:?} bytes of {expected_length}");
        }
        assert!(opened.damage().iter().all(|(_, finding)| finding.is_harmless()), "{what}: {:?}", opened.damage());
        drop(opened);
        // Every command finds the layout of pages in one way, by the bytes alone. That was none,
        // and is dear to search.
        let options = OpenOptions { oob_layout: OobLayoutChoice::AsStored, ..options };
        let checked = image::check(path, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
        let bad: Vec<_> = checked.report.findings.iter().filter(|finding| !finding.is_harmless()).collect();
        assert!(bad.is_empty(), "{what}: {bad:?}");
        changes_stay_inside(path, &options, volume, &dump.bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        let is_proven = found.is_none_or(|region| region.doubts.is_empty());
        if volume.format == "jffs2" && is_proven {
            let repaired = image::repair(path, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut file = tempfile::tempfile().expect("a file");
            repaired.image.write_to(&mut file).expect("writes");
            let mut after = vec![0; dump.bytes.len()];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut after, 0).expect("reads");
            assert!(after[..volume.start] == dump.bytes[..volume.start], "{what}: repaired");
            assert!(is_same_behind(&after, &dump.bytes, volume.end), "{what}: repaired");
        }
    }
}
