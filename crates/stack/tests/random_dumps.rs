//! Whole dumps put together at random: every change stays inside the volume, and every file is read
//! right or something is said. More by
//! `NANDKIT_ROUNDS=20000 cargo test --release -p nandkit-stack --test all random_dumps::`.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use nandkit_block::{BlockDevice, RamDevice};
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions};
use nandkit_fat::{Cache, Fat, FormatOptions};
use nandkit_flash_image::oob::{self, OobLayout};
use nandkit_jffs2::layout::ByteOrder;
use nandkit_jffs2::medium::Cleanmarker;
use nandkit_jffs2::write::WriteOptions;
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_stack::image::{self, ChangeOptions, ChangingImage, Image, OobLayoutChoice, OpenOptions, RegionInfo};
use nandkit_testkit::clock;
use nandkit_testkit::flash_memory::{StrictFlash, nor};
use nandkit_testkit::judges::must_run;
use nandkit_testkit::rounds::in_parallel;
use nandkit_ubi::Geometry;
use nandkit_ubi::build::{ImageHeaders, VolumeContent};
use nandkit_ubi::layout::{VolumeRecord, VolumeType};
use nandkit_units::random::Random;
use nandkit_units::{Context, FlashGeometry, Lba, Payload, ReadInto};
use nandkit_vfs::{FileSystem, NewNode};

/// Bytes of a part that is put somewhere on flash.
const UNIT: usize = 32 << 10;
/// Erase sizes of JFFS2 as powers of two, the large ones more seldom: a volume has eight blocks at
/// the least.
const ERASE_POWERS: [u32; 16] = [12, 12, 12, 12, 12, 13, 13, 13, 13, 13, 14, 14, 14, 15, 15, 16];
/// Sectors of a FAT.
const SECTORS: u32 = 192;
/// One dump without OOB in this many holds F2FS: it is 400 times as large as a FAT, and each look
/// at its dump takes as much longer.
const F2FS_SELDOM: u64 = 128;
/// One device of UBI without OOB in this many holds UBIFS.
const UBIFS_SELDOM: u64 = 4;
/// The device that holds UBIFS.
const UBIFS_GEOMETRY: Geometry = Geometry { peb_size: 16 << 10, vid_offset: 512, data_offset: 1024 };
/// One dump with OOB in this many has any of the known layouts.
const ANY_LAYOUT_SELDOM: u64 = 8;

/// Layouts of small pages, whose volumes are small: the other dumps with OOB have one of them.
const SMALL_LAYOUTS: [&str; 2] = ["linux-hamming-512-16", "smartmedia-512-16"];

/// Names and contents.
type Files = Vec<(String, Vec<u8>)>;

/// A volume in a dump, by its data bytes.
struct PlantedVolume {
    format: &'static str,
    start: usize,
    end: usize,
    files: Files,
}

struct Dump {
    /// Data; the OOB is put between when the dump is stored.
    bytes: Vec<u8>,
    volumes: Vec<PlantedVolume>,
    /// NAND, and how its pages lie on it; else there is no OOB.
    nand: Option<Nand>,
    /// A partition table in front names all volumes.
    has_table: bool,
}

/// Pages that prove a code of one bit by its code words.
const PAGES_OF_PROOF: usize = 4;

/// NAND with OOB.
struct Nand {
    layout: Arc<OobLayout>,
    /// The OOB of each page, as the layout shows it.
    oob: Vec<u8>,
    /// Data bytes of an erase block.
    block: usize,
    /// Bad blocks by their first data byte, each as it lies on the flash.
    bad: Vec<(usize, Vec<u8>)>,
}

impl Nand {
    fn page(&self) -> usize {
        self.layout.page_size() as usize
    }

    fn raw_block(&self) -> usize {
        self.block / self.page() * self.layout.raw_bytes()
    }
}

impl Dump {
    /// Where a data byte that begins a page lies in the file.
    fn place(&self, at: usize) -> usize {
        self.nand.as_ref().map_or(at, |nand| at / nand.page() * nand.layout.raw_bytes())
    }

    /// Where the bad blocks lie in the file.
    fn bad(&self) -> Vec<Range<usize>> {
        let of = |nand: &Nand| {
            nand.bad.iter().map(|(at, raw)| self.place(*at)..self.place(*at) + raw.len()).collect::<Vec<_>>()
        };
        self.nand.as_ref().map_or_else(Vec::new, of)
    }

    /// The file: with each page's OOB behind it and ECC, in which some pages have a wrong bit.
    fn stored(&self, random: &mut Random) -> Vec<u8> {
        let Some(nand) = &self.nand else { return self.bytes.clone() };
        let layout = &nand.layout;
        let (blank, oob_size) = (vec![0xFF; layout.raw_bytes()], layout.oob_size() as usize);
        // Fewer pages prove no ECC, so that nothing in them can be corrected.
        let programmed = self.bytes.chunks(nand.page()).filter(|data| data.iter().any(|byte| *byte != 0xFF)).count();
        let mut stored = Vec::new();
        for (data, oob) in self.bytes.chunks(nand.page()).zip(nand.oob.chunks(oob_size)) {
            let start = stored.len();
            stored.extend(layout.encode_page(data, oob, &blank));
            if data.iter().any(|byte| *byte != 0xFF) && random.below(8) == 0 && programmed >= PAGES_OF_PROOF {
                // The first 256 bytes are in a code word, whatever the layout.
                stored[start + random.index(256)] ^= 1 << random.below(8);
            }
        }
        for (place, (_, raw)) in self.bad().into_iter().zip(&nand.bad) {
            stored[place].copy_from_slice(raw);
        }
        stored
    }
}

fn noise(random: &mut Random, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    random.fill(&mut bytes);
    bytes
}

/// Files with names of their own, so that volumes side by side say different things.
fn files(random: &mut Random) -> Files {
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
    let mut device = RamDevice::with_sectors(512, SECTORS.into()).expect("a device");
    nandkit_fat::format(&mut device, &clock(), &FormatOptions::default()).expect("formats");
    let options = nandkit_fat::MountOptions { cache: Cache::None, ..nandkit_fat::MountOptions::default() };
    let mut fs = Fat::mount(device, clock(), options).expect("mounts");
    fill(&mut fs, files);
    fs.unmount().expect("unmounts");
    all_of(&fs.into_device())
}

fn all_of(device: &RamDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().capacity() as usize];
    device.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut bytes)).expect("reads");
    bytes
}

/// A volume of F2FS of the smallest size, made once: each is the same.
fn f2fs() -> &'static (Vec<u8>, Files) {
    static MADE: OnceLock<(Vec<u8>, Files)> = OnceLock::new();
    MADE.get_or_init(|| {
        let files = files(&mut Random::new(0, "f2fs"));
        let options = MkfsOptions::default();
        let tree = EmptyTree::new(&options);
        let new = Mkfs::new(&tree, options).expect("options");
        let sectors = new.smallest_size().expect("a size") / 4096;
        let mut device = RamDevice::with_sectors(4096, sectors).expect("a device");
        new.write(&mut device, &clock(), &|_| {}).expect("formats");
        let write = nandkit_f2fs::WriteOptions::default();
        let mut fs = nandkit_f2fs::WritableVolume::mount(vec![device], clock(), write).expect("mounts");
        fill(&mut fs, &files);
        let devices = fs.unmount().map_err(|(_, error)| error).expect("unmounts");
        (all_of(&devices[0]), files)
    })
}

/// A UBIFS in a volume of UBI, made once by mkfs.ubifs: each is the same.
fn ubifs() -> &'static (Vec<u8>, Files) {
    static MADE: OnceLock<(Vec<u8>, Files)> = OnceLock::new();
    MADE.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let (root, image) = (directory.path().join("tree"), directory.path().join("image"));
        std::fs::create_dir(&root).expect("a directory");
        let files = files(&mut Random::new(0, "ubifs"));
        for (name, content) in &files {
            std::fs::write(root.join(name), content).expect("writes");
        }
        let leb_size = UBIFS_GEOMETRY.leb_size().to_string();
        let [from, to] = [&root, &image].map(|path| path.to_str().expect("a path"));
        must_run("mtd-utils", "mkfs.ubifs", ["-m", "512", "-e", &leb_size, "-c", "40", "-r", from, "-o", to]);
        (std::fs::read(image).expect("an image"), files)
    })
}

/// A device of UBI with these volumes.
fn ubi(random: &mut Random, geometry: Geometry, volumes: &[(String, Vec<u8>)], volume_type: VolumeType) -> Vec<u8> {
    let record = |(name, content): &(String, Vec<u8>)| {
        let lebs = content.len().div_ceil(geometry.leb_size() as usize).max(1) as u32;
        VolumeRecord::new(name, volume_type, lebs)
    };
    let contents: Vec<VolumeContent<'_>> = (0..)
        .zip(volumes)
        .map(|(number, volume)| VolumeContent { number, record: record(volume), content: &volume.1 })
        .collect();
    let headers = ImageHeaders { geometry, image_sequence: 1 + random.below(1 << 30) as u32, erase_counter: 1 };
    nandkit_ubi::build::build(&headers, &contents).expect("volumes that fit")
}

/// A device of UBI: its files are static volumes, or now and then those of a UBIFS.
fn add_ubi(random: &mut Random, dump: &mut Dump) {
    if dump.nand.is_none() && random.below(UBIFS_SELDOM) == 0 {
        let (image, files) = ubifs();
        let volumes = [("kernel".to_owned(), noise(random, 3000)), ("rootfs".to_owned(), image.clone())];
        let device = ubi(random, UBIFS_GEOMETRY, &volumes, VolumeType::Dynamic);
        return add(dump, "ubi", (UBIFS_GEOMETRY.peb_size as usize, device), files.clone());
    }
    let geometry = match &dump.nand {
        Some(nand) => {
            let page = nand.layout.page_size();
            Geometry { peb_size: nand.block as u32, vid_offset: page, data_offset: 2 * page }
        }
        None => {
            let peb_size = 1 << ERASE_POWERS[random.index(ERASE_POWERS.len())];
            let (vid_offset, data_offset) = [(64, 128), (512, 1024), (512, 2048)][random.index(3)];
            Geometry { peb_size, vid_offset, data_offset }
        }
    };
    let files: Files = files(random).into_iter().filter(|(_, content)| !content.is_empty()).collect();
    let device = ubi(random, geometry, &files, VolumeType::Static);
    add(dump, "ubi", (geometry.peb_size as usize, device), files);
}

/// A volume of JFFS2 on NAND, as data and OOB.
fn jffs2_on_nand(random: &mut Random, files: &[(String, Vec<u8>)], nand: &Nand) -> (Vec<u8>, Vec<u8>) {
    let (page, oob_size) = (nand.layout.page_size(), nand.layout.oob_size());
    let blocks = 8 + random.below(4) as u32;
    let order = [ByteOrder::Little, ByteOrder::Big][random.below(2) as usize];
    let flash = StrictFlash::new(FlashGeometry::nand(page, oob_size, nand.block as u32 / page, blocks));
    // Who keeps ECC where the cleanmarker would be has none.
    let cleanmarker = match Cleanmarker::of_nand(page, oob_size) {
        Cleanmarker::Oob { offset } if !(0..8).all(|byte| nand.layout.keeps_oob(offset as usize + byte)) => {
            Cleanmarker::None
        }
        usual => usual,
    };
    let options = MountOptions { order: Some(order), cleanmarker: Some(cleanmarker), ..MountOptions::default() };
    let mut fs = Jffs2::format(flash, clock(), options).expect("formats");
    fill(&mut fs, files);
    // An image is written from the beginning of its part on, and what is blank stands behind.
    // (Blank blocks in front, though cleanmarkers in the OOB say whose they are, are no part of a
    // volume that is found.) Nodes stand wherever their block does.
    let stored = fs.into_flash().dump();
    let mut blocks: Vec<_> = stored.chunks(nand.block / page as usize * (page + oob_size) as usize).collect();
    blocks.sort_by_key(|block| block.starts_with(&[0xFF; 12]));
    let (mut data, mut oob) = (Vec::new(), Vec::new());
    for stored in blocks.concat().chunks((page + oob_size) as usize) {
        data.extend_from_slice(&stored[..page as usize]);
        oob.extend_from_slice(&stored[page as usize..]);
    }
    (data, oob)
}

/// A bad block as it lies on the flash: blank but for the mark, or of noise.
fn bad_block(random: &mut Random, nand: &Nand) -> Vec<u8> {
    let mut raw = match random.below(2) {
        0 => vec![0xFF; nand.raw_block()],
        _ => noise(random, nand.raw_block()),
    };
    let mark = nand.page() + if nand.page() == 512 { 5 } else { 0 };
    raw[mark] = 0;
    raw
}

fn draw(random: &mut Random) -> Dump {
    let nand = (random.below(5) == 0).then(|| draw_nand(random));
    let has_table = nand.is_none() && random.below(4) == 0;
    let bytes = if has_table { vec![0; UNIT] } else { Vec::new() };
    let mut dump = Dump { bytes, volumes: Vec::new(), nand, has_table };
    let holds_f2fs = dump.nand.is_none() && random.below(F2FS_SELDOM) == 0;
    // Little stands beside what is large, or dear to read.
    let parts = match &dump.nand {
        Some(nand) if nand.page() > 512 => random.below(2),
        Some(_) => random.below(3),
        None if holds_f2fs => random.below(2),
        None => 1 + random.below(4),
    };
    if holds_f2fs {
        let (volume, files) = f2fs();
        add(&mut dump, "f2fs", (4096, volume.clone()), files.clone());
    }
    for part in 0..parts {
        let length = UNIT * (1 + random.below(2) as usize);
        match random.below(6) {
            0 => dump.bytes.extend(noise(random, length)),
            1 => dump.bytes.resize(dump.bytes.len() + length, 0xFF),
            2 if part > 0 => {
                let mut nvram = b"NVRAM\0mac=00:11:22:33:44:55\0".to_vec();
                nvram.resize(UNIT, 0xFF);
                dump.bytes.extend(nvram);
            }
            3 if dump.nand.is_none() => {
                let files = files(random);
                add(&mut dump, "fat", (1, fat(&files)), files);
            }
            4 => add_ubi(random, &mut dump),
            _ => add_jffs2(random, &mut dump),
        }
    }
    add_jffs2(random, &mut dump);
    if random.below(2) == 0 {
        dump.bytes.extend(noise(random, UNIT));
    }
    if let Some(nand) = &mut dump.nand {
        dump.bytes.resize(dump.bytes.len().next_multiple_of(nand.block), 0xFF);
        nand.oob.resize(dump.bytes.len() / nand.page() * nand.layout.oob_size() as usize, 0xFF);
    }
    if dump.has_table {
        write_table(&mut dump);
    }
    dump
}

/// NAND of a shipped layout with the usual blocks.
fn draw_nand(random: &mut Random) -> Nand {
    let layout = match random.below(ANY_LAYOUT_SELDOM) {
        0 => Arc::clone(&oob::all()[random.index(oob::all().len())]),
        _ => oob::named(SMALL_LAYOUTS[random.index(SMALL_LAYOUTS.len())]).expect("a layout"),
    };
    let pages = if layout.page_size() == 512 { 32 } else { 64 };
    Nand { block: layout.page_size() as usize * pages, layout, oob: Vec::new(), bad: Vec::new() }
}

/// An MBR that names the volumes.
fn write_table(dump: &mut Dump) {
    for (number, volume) in dump.volumes.iter().enumerate().take(4) {
        let kind = if volume.format == "fat" { 0x01 } else { 0x83 };
        let entry = &mut dump.bytes[446 + 16 * number..][..16];
        entry[4] = kind;
        entry[8..12].copy_from_slice(&((volume.start / 512) as u32).to_le_bytes());
        entry[12..].copy_from_slice(&(((volume.end - volume.start) / 512) as u32).to_le_bytes());
    }
    dump.bytes[510..512].copy_from_slice(&[0x55, 0xAA]);
}

/// A volume of JFFS2, on NAND with a bad block in it or behind it now and then.
fn add_jffs2(random: &mut Random, dump: &mut Dump) {
    let files = files(random);
    let Some(mut nand) = dump.nand.take() else {
        let volume = jffs2(random, &files);
        return add(dump, "jffs2", volume, files);
    };
    let (mut data, mut oob) = jffs2_on_nand(random, &files, &nand);
    let (block, oob_block) = (nand.block, nand.block / nand.page() * nand.layout.oob_size() as usize);
    let start = dump.bytes.len().next_multiple_of(block);
    // Elsewhere the controllers put data where the mark is.
    let can_be_bad = nand.layout.name().starts_with("linux-");
    let bad = (can_be_bad && random.below(2) == 0).then(|| 1 + random.index(data.len() / block));
    let is_behind = bad == Some(data.len() / block);
    if let Some(number) = bad {
        data.splice(number * block..number * block, vec![0xFF; block]);
        oob.splice(number * oob_block..number * oob_block, vec![0xFF; oob_block]);
        let raw = bad_block(random, &nand);
        nand.bad.push((start + number * block, raw));
    }
    nand.oob.resize(start / nand.page() * nand.layout.oob_size() as usize, 0xFF);
    nand.oob.extend(oob);
    dump.nand = Some(nand);
    add(dump, "jffs2", (block, data), files);
    if let Some(volume) = dump.volumes.last_mut().filter(|_| is_behind) {
        volume.end -= block;
    }
}

/// Puts a volume at the next beginning of a block, behind blank flash where that is not here.
fn add(dump: &mut Dump, format: &'static str, volume: (usize, Vec<u8>), files: Files) {
    let (erase_size, bytes) = volume;
    dump.bytes.resize(dump.bytes.len().next_multiple_of(erase_size), 0xFF);
    let start = dump.bytes.len();
    dump.bytes.extend(bytes);
    dump.volumes.push(PlantedVolume { format, start, end: dump.bytes.len(), files });
}

/// The region of a volume whose ends are not proven, which is told.
fn doubtful<'a>(path: &Path, regions: &'a [RegionInfo], volume: &PlantedVolume) -> Option<&'a RegionInfo> {
    regions.iter().filter(|region| !region.doubts.is_empty()).find(|region| {
        let options = OpenOptions { region: Some(region.name.clone()), ..OpenOptions::default() };
        let holds = |(name, _): &(String, Vec<u8>)| {
            image::open(path, &options).is_ok_and(|opened| content(opened.fs(), name).is_some())
        };
        volume.files.first().is_some_and(holds)
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
fn changes_stay_inside(
    path: &Path,
    options: &OpenOptions,
    volume: &PlantedVolume,
    dump: &Stored,
) -> Result<(), String> {
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
    dump.is_same_outside(volume, changed.bytes())
}

/// A dump, and its file.
struct Stored {
    dump: Dump,
    file: Vec<u8>,
}

impl Stored {
    /// Where the blank flash behind a volume ends, bad blocks in it left out of account; where a
    /// table names the volume, at its end.
    fn end_of_blank(&self, mut at: usize) -> usize {
        while !self.dump.has_table && at < self.file.len() {
            match self.dump.bad().iter().find(|bad| bad.contains(&at)) {
                Some(bad) => at = bad.end,
                None if self.file[at] == 0xFF => at += 1,
                None => break,
            }
        }
        at
    }

    /// Whether all is as it was in front of a volume, in bad blocks and behind it. Behind a volume
    /// that no table names its own blank blocks may go on: what is not blank is as it was.
    fn is_same_outside(&self, volume: &PlantedVolume, after: &[u8]) -> Result<(), String> {
        let (start, end) = (self.dump.place(volume.start), self.dump.place(volume.end));
        let mut outside = vec![0..start, self.end_of_blank(end)..self.file.len()];
        outside.extend(self.dump.bad());
        let is_same = |range: &Range<usize>| after.get(range.clone()) == self.file.get(range.clone());
        match outside.iter().find(|range| !is_same(range)) {
            _ if after.len() != self.file.len() => Err(format!("{} bytes became {}", self.file.len(), after.len())),
            Some(range) => Err(format!("bytes outside {start:#x} to {end:#x} changed, in {range:#x?}")),
            None => Ok(()),
        }
    }
}

#[test]
fn what_is_no_volume_is_never_changed_and_every_file_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    in_parallel(90, |round| {
        let path = directory.path().join(format!("dump-{round}"));
        one_dump(round, &path);
        std::fs::remove_file(path).expect("removes");
    });
}

fn one_dump(round: u64, path: &Path) {
    let mut random = Random::new(round, "dump");
    let dump = draw(&mut random);
    let file = dump.stored(&mut random);
    let stored = Stored { dump, file };
    let dump = &stored.dump;
    std::fs::write(path, &stored.file).expect("writes");
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
        // The blocks between two volumes may be either's, with files that then are missing or the
        // other volume's: that was told.
        let is_proven = found.is_none_or(|region| region.doubts.is_empty());
        for (name, expected) in volume.files.iter().filter(|_| is_proven) {
            let found = content(opened.fs(), name);
            let length = found.as_ref().map(Vec::len);
            let expected_length = expected.len();
            assert!(found.as_ref() == Some(expected), "{what}: {name} has {length:?} bytes of {expected_length}");
        }
        let is_whole = opened.damage().iter().all(|(_, finding)| finding.is_harmless());
        assert!(!is_proven || is_whole, "{what}: {:?}", opened.damage());
        drop(opened);
        // Every command finds the layout of pages in one way, by the bytes alone. It is known by
        // now, and is dear to search.
        let layout = dump.nand.as_ref().map(|nand| OobLayoutChoice::Known(Arc::clone(&nand.layout)));
        // Who knows the part says its erase size.
        let erase_size = dump.nand.as_ref().filter(|_| random.below(2) == 0).map(|nand| nand.block as u32);
        let oob_layout = layout.unwrap_or(OobLayoutChoice::AsStored);
        let options = OpenOptions { oob_layout, erase_size, ..options };
        let checked = image::check(path, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
        let bad: Vec<_> = checked.report.findings.iter().filter(|finding| !finding.is_harmless()).collect();
        assert!(!is_proven || bad.is_empty(), "{what}: {bad:?}");
        changes_stay_inside(path, &options, volume, &stored).unwrap_or_else(|error| panic!("{what}: {error}"));
        if volume.format == "jffs2" && is_proven {
            let repaired = image::repair(path, &options).unwrap_or_else(|error| panic!("{what}: {error}"));
            let mut file = tempfile::tempfile().expect("a file");
            repaired.image.write_to(&mut file).expect("writes");
            let mut after = Vec::new();
            file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut after)).expect("reads");
            stored.is_same_outside(volume, &after).unwrap_or_else(|error| panic!("{what}, repaired: {error}"));
        }
    }
}

/// F2FS says how long it is: what stands behind that is not passed over.
#[test]
fn what_stands_behind_f2fs_is_a_region() {
    let (volume, files) = f2fs();
    let mut dump = Dump { bytes: Vec::new(), volumes: Vec::new(), nand: None, has_table: false };
    add(&mut dump, "f2fs", (4096, volume.clone()), files.clone());
    add_jffs2(&mut Random::new(474, "dump"), &mut dump);
    let path = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(path.path(), &dump.bytes).expect("writes");
    let regions = parts(path.path());
    let found: Vec<_> = regions.iter().map(|region| (region.offset as usize, region.opens_as)).collect();
    assert_eq!(found, [(0, Some("f2fs")), (volume.len(), Some("jffs2"))]);
    // Alone it is the whole, and has no regions.
    std::fs::write(path.path(), volume).expect("writes");
    assert!(parts(path.path()).is_empty());
}

/// A volume of JFFS2 on NAND of this layout, and its files.
fn nand_dump(layout: &str) -> Dump {
    let layout = oob::named(layout).expect("a layout");
    let pages = if layout.page_size() == 512 { 32 } else { 64 };
    let block = layout.page_size() as usize * pages;
    let mut nand = Nand { layout, oob: Vec::new(), block, bad: Vec::new() };
    let mut random = Random::new(1, "nand");
    let files = vec![("file".to_owned(), noise(&mut random, 6000))];
    let (bytes, oob) = jffs2_on_nand(&mut random, &files, &nand);
    nand.oob = oob;
    let volume = PlantedVolume { format: "jffs2", start: 0, end: bytes.len(), files };
    Dump { bytes, volumes: vec![volume], nand: Some(nand), has_table: false }
}

/// Writes a file again and again, twice as much as the volume holds, so that blocks are erased.
fn filled(path: &Path, options: &OpenOptions, bytes: usize) -> Vec<u8> {
    let how = ChangeOptions { compression: Some("none".to_owned()), now: nandkit_vfs::Timestamp(0), for_good: false };
    let mut changing = ChangingImage::open(path, options, &how).expect("can be changed");
    let root = changing.fs().root();
    let inode = changing.changes().create(root, b"again", &NewNode::FILE).expect("a file");
    for number in 0..2 * bytes / 8000 {
        changing.changes().write(inode, 0, Payload::Bytes(&[number as u8; 8000])).expect("room");
    }
    changing.finish().expect("syncs").bytes().to_vec()
}

fn is_clean(path: &Path, options: &OpenOptions) -> bool {
    let checked = image::check(path, options).expect("checks");
    checked.report.findings.iter().all(nandkit_vfs::check::Finding::is_harmless)
}

/// Controllers that keep ECC where the layouts of Linux have room for the cleanmarker: a volume has
/// none then, also where blocks are erased or copied by a repair.
#[test]
fn layouts_without_room_for_cleanmarkers_are_repaired_and_changed() {
    let directory = tempfile::tempdir().expect("a directory");
    for layout in ["smartmedia-512-16", "omap-bch8-2048-64", "sunxi-bch16-2048-64"] {
        let dump = nand_dump(layout);
        let path = directory.path().join(layout);
        std::fs::write(&path, dump.stored(&mut Random::new(2, "nand"))).expect("writes");
        let block = dump.nand.as_ref().map(|nand| nand.block as u32);
        let options = OpenOptions { erase_size: block, ..OpenOptions::default() };
        assert!(is_clean(&path, &options), "{layout}");
        let repaired = image::repair(&path, &options).unwrap_or_else(|error| panic!("{layout}: {error}"));
        let mut file = std::fs::File::create(path.with_extension("repaired")).expect("a file");
        repaired.image.write_to(&mut file).expect("writes");
        std::fs::write(&path, filled(&path, &options, dump.bytes.len())).expect("writes");
        let (name, expected) = &dump.volumes[0].files[0];
        for path in [path.with_extension("repaired"), path] {
            assert!(is_clean(&path, &options), "{}", path.display());
            let opened = image::open(&path, &options).expect("opens");
            assert!(content(opened.fs(), name).as_ref() == Some(expected), "{}", path.display());
        }
    }
}

/// The nodes prove no erase size, but the cleanmarkers in the OOB do: of a block behind that is
/// blank only at its beginning nothing is the volume's.
#[test]
fn a_volume_on_nand_ends_with_a_whole_block() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("dump");
    let dump = nand_dump("linux-hamming-2048-64");
    let mut random = Random::new(3, "nand");
    let mut file = dump.stored(&mut random);
    let (end, raw) = (file.len(), 64 * (2048 + 64));
    file.resize(end + raw / 4, 0xFF);
    file.extend(noise(&mut random, raw / 32));
    file.resize(end + raw, 0xFF);
    std::fs::write(&path, &file).expect("writes");
    assert!(is_clean(&path, &OpenOptions::default()));
    let after = filled(&path, &OpenOptions::default(), dump.bytes.len());
    assert!(after[end..] == file[end..], "the block behind changed");
}
