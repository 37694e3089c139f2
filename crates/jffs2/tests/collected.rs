//! The collector preserves what it moves: times, names that decay on the flash, deletions whose
//! erase is interrupted, holes of old kernels, inodes without versions left.

use std::sync::{Arc, Mutex};

use nandkit_flash::{Flash, FlashError, Operation, PageProgram, PageRead, Result as Flashed};
use nandkit_jffs2::write::{CompressionMode, WriteOptions};
use nandkit_jffs2::{Ino, Jffs2, MountOptions};
use nandkit_testkit::flash_memory::StrictFlash;
use nandkit_units::{BlockIndex, Clock, Context, Done, FlashGeometry, Nanos, PageAddress, Payload, ReadInto};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileSystem, InodeNumber, NewNode, Timestamp};

const PAGE: usize = 4096;
const SECOND: u64 = 1_000_000_000;

fn options() -> MountOptions {
    let write = WriteOptions { compression: CompressionMode::None, ..WriteOptions::default() };
    MountOptions { write, ..MountOptions::default() }
}

fn geometry() -> FlashGeometry {
    FlashGeometry::nand(512, 16, 32, 26)
}

/// Overwrites a file until every block was erased twice.
fn churn<F: Flash>(fs: &mut Jffs2<F>) {
    let root = fs.root();
    let file = match fs.lookup(root, b"churned") {
        Ok(file) => file,
        Err(_) => fs.create(root, b"churned", &NewNode::FILE).unwrap(),
    };
    let before = fs.counters().unwrap().erases;
    for round in 0..600_u32 {
        let bytes: Vec<u8> =
            (0..PAGE as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> (round % 13)) as u8).collect();
        fs.write(file, u64::from(round % 30) * PAGE as u64, Payload::Bytes(&bytes)).unwrap();
    }
    fs.sync(None).unwrap();
    let erases = fs.counters().unwrap().erases - before;
    assert!(erases > 52, "{erases} erases");
}

fn modified<F: Flash>(fs: &Jffs2<F>, path: &[&[u8]]) -> i64 {
    let inode = path.iter().fold(fs.root(), |at, name| fs.lookup(at, name).unwrap());
    fs.stat(inode).unwrap().modified.0 / SECOND as i64
}

/// A mount takes a directory's times from its newest entry. An entry that the collector moved used
/// to bring back the time at which its name was made.
#[test]
fn a_moved_name_leaves_its_directorys_times() {
    let clock = Clock::starting_at(1_600_000_000 * SECOND);
    let mut fs = Jffs2::format(StrictFlash::new(geometry()), clock.clone(), options()).unwrap();
    let root = fs.root();
    let names = fs.create(root, b"names", &NewNode::DIRECTORY).unwrap();
    let by_hand = fs.create(root, b"by hand", &NewNode::DIRECTORY).unwrap();
    for (name, wait) in [(b"a", 100), (b"b", 100)] {
        clock.advance_to(Nanos(clock.now().0 + wait * SECOND));
        fs.create(names, name, &NewNode::FILE).unwrap();
        fs.create(by_hand, name, &NewNode::FILE).unwrap();
    }
    let newest = modified(&fs, &[b"names"]);
    let change = AttributeChange { modified: Some(Timestamp(1_234 * SECOND as i64)), ..AttributeChange::default() };
    fs.set_attributes(by_hand, &change).unwrap();
    churn(&mut fs);
    let fs = Jffs2::mount(fs.into_flash(), Clock::default(), options()).unwrap();
    assert_eq!((modified(&fs, &[b"names"]), modified(&fs, &[b"by hand"])), (newest, 1_234));
}

/// The address in [`Decayed`] that makes all reads fail.
const FAILS: usize = usize::MAX;

/// A flash on which bytes can decay while the volume is mounted, and whose erases can be observed.
struct Watched<W> {
    inner: StrictFlash,
    decayed: Decayed,
    before_erase: W,
}

impl<W: FnMut(&StrictFlash, BlockIndex) + Send + Sync> Flash for Watched<W> {
    nandkit_testkit::forward_flash!();

    fn read(&self, context: &Context, at: PageAddress, mut read: PageRead<'_>) -> Flashed<Done> {
        let page = self.inner.geometry().page_size;
        let from = ((at.block.0 * self.inner.geometry().pages_per_block + at.page) * page + read.column) as usize;
        let mut bytes = vec![0; read.data.len()];
        let inner = PageRead { column: read.column, data: ReadInto::Bytes(&mut bytes), oob: &mut *read.oob };
        let done = self.inner.read(context, at, inner)?;
        if self.decayed.lock().unwrap().iter().any(|(place, _)| *place == FAILS) {
            return Err(FlashError::new(nandkit_flash::ErrorKind::Misuse, Operation::Read, at, "on demand"));
        }
        for (place, flip) in self.decayed.lock().unwrap().iter() {
            if let Some(byte) = place.checked_sub(from).and_then(|place| bytes.get_mut(place)) {
                *byte ^= flip;
            }
        }
        if let ReadInto::Bytes(into) = &mut read.data {
            into.copy_from_slice(&bytes);
        }
        Ok(done)
    }

    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Flashed<Done> {
        self.inner.program(context, at, program)
    }

    fn erase(&mut self, context: &Context, block: BlockIndex) -> Flashed<Done> {
        (self.before_erase)(&self.inner, block);
        let size = self.inner.geometry().block_size() as usize;
        self.decayed.lock().unwrap().retain(|(place, _)| place / size != block.index());
        self.inner.erase(context, block)
    }
}

/// All bytes of a flash, without the decay.
fn bytes_of(flash: &StrictFlash) -> Vec<u8> {
    let geometry = *flash.geometry();
    let mut all = vec![0; geometry.block_size() as usize * geometry.blocks as usize];
    for (number, page) in all.chunks_mut(geometry.page_size as usize).enumerate() {
        let (block, place) = (number as u32 / geometry.pages_per_block, number as u32 % geometry.pages_per_block);
        let _ = flash.read(&Context::default(), BlockIndex(block).page(place), PageRead::bytes(0, page));
    }
    all
}

fn places(all: &[u8], what: &[u8]) -> Vec<usize> {
    all.windows(what.len()).enumerate().filter(|(_, found)| *found == what).map(|(at, _)| at).collect()
}

/// The collector used to make a valid node of whatever it read, also if that had decayed: the wrong
/// inode, or no entry at all.
#[test]
fn a_name_and_a_mode_that_decay_on_the_flash_are_moved_from_memory() {
    let clock = Clock::starting_at(1_600_000_000 * SECOND);
    let decayed = Arc::new(Mutex::new(Vec::new()));
    let flash = Watched {
        inner: StrictFlash::new(geometry()),
        decayed: Arc::clone(&decayed),
        before_erase: |_: &StrictFlash, _: BlockIndex| {},
    };
    let mut fs = Jffs2::format(flash, clock, options()).unwrap();
    let root = fs.root();
    let mut expected = Vec::new();
    for name in [&b"inode-bits"[..], b"name-bits", b"link", b"directory"] {
        let node = match name {
            b"link" => NewNode { kind: nandkit_vfs::FileKind::Symlink, target: b"some/target", ..NewNode::FILE },
            b"directory" => NewNode { mode: 0o2750, uid: 77, ..NewNode::DIRECTORY },
            _ => NewNode::FILE,
        };
        expected.push((name, fs.create(root, name, &node).unwrap()));
    }
    fs.sync(None).unwrap();
    let watched = fs.into_flash();
    let all = bytes_of(&watched.inner);
    let mut fs = Jffs2::mount(watched, Clock::default(), options()).unwrap();
    // Reads everything, and finds it correct, before it decays.
    let all_inodes = expected.iter().map(|(_, inode)| *inode).chain([root]);
    assert!(all_inodes.map(|inode| fs.stat(inode)).all(|found| found.is_ok()));
    let of = |name: &[u8]| places(&all, name)[0];
    // A directory entry has 40 bytes before its name, the inode at byte 20. An inode node has 68
    // bytes before its data, the mode at byte 20.
    let flips = [
        (of(b"inode-bits") - 20, 0x10),
        (of(b"name-bits"), 0x01),
        (of(b"some/target") - 68 + 20, 0x04),
        (of(b"some/target"), 0x02),
    ];
    decayed.lock().unwrap().extend(flips);
    churn(&mut fs);
    assert!(decayed.lock().unwrap().is_empty(), "what decayed was collected");
    let fs = Jffs2::mount(fs.into_flash(), Clock::default(), options()).unwrap();
    for (name, inode) in expected {
        assert_eq!(fs.lookup(root, name).unwrap(), inode, "{}", String::from_utf8_lossy(name));
    }
    let link = fs.lookup(root, b"link").unwrap();
    assert_eq!(fs.symlinks().unwrap().read_link(link).unwrap(), b"some/target");
    let directory = fs.stat(fs.lookup(root, b"directory").unwrap()).unwrap();
    assert_eq!((directory.mode, directory.uid), (0o2750, 77));
    assert!(fs.damage().is_empty(), "{:?}", fs.damage());
}

/// The decayed bytes: address, and flipped bits.
type Decayed = Arc<Mutex<Vec<(usize, u8)>>>;

fn watched() -> (Watched<impl FnMut(&StrictFlash, BlockIndex) + Send + Sync>, Decayed) {
    let decayed = Arc::new(Mutex::new(Vec::new()));
    let before_erase = |_: &StrictFlash, _: BlockIndex| {};
    (Watched { inner: StrictFlash::new(geometry()), decayed: Arc::clone(&decayed), before_erase }, decayed)
}

/// A node was identified by what its header says, even if that had decayed. The file kept the
/// address, and later showed whatever was written there.
#[test]
fn data_whose_header_decays_are_never_those_of_another_file() {
    let (flash, decayed) = watched();
    let mut fs = Jffs2::format(flash, Clock::default(), options()).unwrap();
    let root = fs.root();
    let (mut files, mut contents) = (Vec::new(), Vec::new());
    for number in 0..12_u8 {
        let content: Vec<u8> = (0..PAGE).map(|at| (at as u8).wrapping_mul(number | 1) ^ number).collect();
        let file = fs.create(root, format!("file-{number}").as_bytes(), &NewNode::FILE).unwrap();
        fs.write(file, 0, Payload::Bytes(&content)).unwrap();
        files.push(file);
        contents.push(content);
    }
    fs.sync(None).unwrap();
    let all = bytes_of(&fs.flash().inner);
    let mut bytes = vec![0; PAGE];
    for (number, (file, content)) in files.iter().zip(&contents).enumerate() {
        assert_eq!(fs.read(*file, 0, ReadInto::Bytes(&mut bytes)).unwrap(), PAGE);
        // The node's type, its inode, its version, its offset in the file.
        let at = [2, 12, 16, 45][number % 4];
        decayed.lock().unwrap().push((places(&all, &content[..600])[0] - 68 + at, 0x02));
    }
    for _ in 0..3 {
        churn(&mut fs);
        for file in &files {
            let read = fs.read(*file, 0, ReadInto::Bytes(&mut bytes)).map_err(|error| error.kind);
            assert_eq!(read, Err(ErrorKind::Corrupt));
        }
    }
    assert!(decayed.lock().unwrap().is_empty(), "what decayed was collected");
}

/// Data that had decayed to look like a hole used to become one, with a correct checksum.
#[test]
fn data_of_several_pages_that_decay_are_not_made_a_hole() {
    use nandkit_jffs2::layout::{ByteOrder, compression};
    use nandkit_jffs2::testing::encode::{InodeFields, Piece, inode_node};
    let mut fs = Jffs2::format(StrictFlash::new(geometry()), Clock::default(), options()).unwrap();
    let root = fs.root();
    let file = fs.create(root, b"wide", &NewNode::FILE).unwrap();
    fs.sync(None).unwrap();
    // A node as systems with larger pages write it, into a blank block.
    let content = vec![0x5A; 2 * PAGE];
    let fields = InodeFields {
        inode: Ino(file.0 as u32),
        version: 9,
        mode: 0o100_644,
        file_size: 8192,
        ..InodeFields::default()
    };
    let piece = Piece { offset: 0, size: 8192, compression: compression::NONE, bytes: &content };
    let mut node = Vec::new();
    inode_node(ByteOrder::Little, &fields, &piece, &mut node);
    let mut flash = fs.into_flash();
    let blank = |block: &[u8]| block.iter().all(|byte| *byte == 0xFF);
    let place = bytes_of(&flash).chunks(16 << 10).position(blank).unwrap() * (16 << 10);
    flash.poke(place, &node);
    let (mut watched, decayed) = watched();
    watched.inner = flash;
    let mut fs = Jffs2::mount(watched, Clock::default(), options()).unwrap();
    let mut bytes = vec![0; 2 * PAGE];
    assert_eq!((fs.read(file, 0, ReadInto::Bytes(&mut bytes)).unwrap(), &bytes), (2 * PAGE, &content));
    decayed.lock().unwrap().push((place + 56, compression::NONE ^ compression::ZERO));
    churn(&mut fs);
    assert!(decayed.lock().unwrap().is_empty(), "what decayed was collected");
    let read = fs.read(file, 0, ReadInto::Bytes(&mut bytes)).map_err(|error| error.kind);
    assert_eq!(read, Err(ErrorKind::Corrupt));
}

/// A file that contains a name, which only an attacker makes, was collected as a directory, and
/// nothing referred to its data there.
#[test]
fn a_file_that_holds_names_keeps_its_data() {
    let mut fs = Jffs2::format(StrictFlash::new(geometry()), Clock::default(), options()).unwrap();
    let root = fs.root();
    let file = fs.create(root, b"file", &NewNode::FILE).unwrap();
    fs.write(file, 0, Payload::Bytes(&[0x5A; 3000])).unwrap();
    let directory = fs.create(root, b"directory", &NewNode::DIRECTORY).unwrap();
    fs.create(directory, b"inside", &NewNode::FILE).unwrap();
    fs.sync(None).unwrap();
    let mut flash = fs.into_flash();
    let all = bytes_of(&flash);
    let name = places(&all, b"inside")[0] - 40;
    let mut bytes = all[name..name + 36].to_vec();
    bytes[12..16].copy_from_slice(&(file.0 as u32).to_le_bytes());
    let sum = nandkit_jffs2::layout::crc(&bytes[..32]).to_le_bytes();
    bytes[32..36].copy_from_slice(&sum);
    flash.poke(name, &bytes);
    let mut fs = Jffs2::mount(flash, Clock::default(), options()).unwrap();
    churn(&mut fs);
    let fs = Jffs2::mount(fs.into_flash(), Clock::default(), options()).unwrap();
    let mut bytes = vec![0; 3000];
    assert_eq!(fs.read(file, 0, ReadInto::Bytes(&mut bytes)).unwrap(), 3000);
    assert_eq!(bytes, [0x5A; 3000]);
}

/// After an error of the device, inodes counted as known that were not, so that obsolete nodes were
/// copied and valid ones could be lost.
#[test]
fn inodes_are_known_before_anything_is_moved_also_after_an_error() {
    let (flash, decayed) = watched();
    let mut fs = Jffs2::format(flash, Clock::default(), options()).unwrap();
    let root = fs.root();
    let file = fs.create(root, b"file", &NewNode::FILE).unwrap();
    for _ in 0..40 {
        fs.write(file, 0, Payload::Bytes(&[1; PAGE])).unwrap();
    }
    fs.sync(None).unwrap();
    let mut fs = Jffs2::mount(fs.into_flash(), Clock::default(), options()).unwrap();
    let before = fs.volume().unwrap().blocks_free;
    decayed.lock().unwrap().push((FAILS, 0));
    assert_eq!(fs.account().map_err(|error| error.kind), Err(ErrorKind::Device));
    decayed.lock().unwrap().clear();
    fs.account().unwrap();
    let after = fs.volume().unwrap().blocks_free;
    assert!(after >= before + 30, "{before}, {after}");
}

/// An interrupted erase may leave any page of the block. Neither a name nor an attribute that was
/// removed and synced may come back through it.
#[test]
fn what_was_removed_stays_removed_whatever_an_erase_leaves() {
    let looked = Arc::new(Mutex::new((0, 0)));
    let counts = Arc::clone(&looked);
    let before_erase = move |flash: &StrictFlash, block: BlockIndex| {
        let size = flash.geometry().block_size() as usize;
        let content = bytes_of(flash)[block.index() * size..][..size].to_vec();
        let mut counts = counts.lock().unwrap();
        if places(&content, b"removed").is_empty() && places(&content, b"user.gone").is_empty() {
            return;
        }
        counts.0 += 1;
        for page in 0..flash.geometry().pages_per_block {
            let mut torn = flash.clone();
            torn.keep_only(block, page);
            let fs = Jffs2::mount(torn, Clock::default(), options()).unwrap();
            let found = fs.lookup(fs.root(), b"removed");
            assert_eq!(found.map_err(|error| error.kind), Err(ErrorKind::NotFound), "block {}, page {page}", block.0);
            let kept = fs.lookup(fs.root(), b"kept").unwrap();
            assert!(fs.xattrs().unwrap().xattr(kept, b"user.gone").is_err(), "block {}, page {page}", block.0);
            counts.1 += 1;
        }
    };
    let flash = Watched { inner: StrictFlash::new(geometry()), decayed: Arc::default(), before_erase };
    let mut fs = Jffs2::format(flash, Clock::default(), options()).unwrap();
    let root = fs.root();
    // In one block each: a name and its removal, an attribute and its removal, on separate pages.
    let removed = fs.create(root, b"removed", &NewNode::FILE).unwrap();
    fs.write(removed, 0, Payload::Bytes(&[1; 600])).unwrap();
    let kept = fs.create(root, b"kept", &NewNode::FILE).unwrap();
    let changes = fs.changes().unwrap();
    changes.xattr_changes().unwrap().set_xattr(kept, b"user.gone", &[3; 700]).unwrap();
    fs.sync(None).unwrap();
    fs.remove(root, b"removed").unwrap();
    fs.changes().unwrap().xattr_changes().unwrap().remove_xattr(kept, b"user.gone").unwrap();
    fs.sync(None).unwrap();
    churn(&mut fs);
    let (blocks, mounts) = *looked.lock().unwrap();
    assert!(blocks >= 1 && mounts >= 32, "{blocks} blocks, {mounts} mounts");
    assert!(fs.lookup(root, b"removed").is_err());
}

/// The summary lists the deletion. Its node used to be read, found damaged, and the name came back.
#[test]
fn a_deletion_whose_node_decays_stays_one() {
    let mut fs = Jffs2::format(StrictFlash::new(geometry()), Clock::default(), options()).unwrap();
    let root = fs.root();
    let removed = fs.create(root, b"removed", &NewNode::FILE).unwrap();
    fs.write(removed, 0, Payload::Bytes(&[1; 600])).unwrap();
    fs.sync(None).unwrap();
    fs.remove(root, b"removed").unwrap();
    let filler = fs.create(root, b"filler", &NewNode::FILE).unwrap();
    for page in 0..8 {
        fs.write(filler, page * PAGE as u64, Payload::Bytes(&[2; PAGE])).unwrap();
    }
    fs.sync(None).unwrap();
    let mut flash = fs.into_flash();
    let all = bytes_of(&flash);
    let deletion = places(&all, b"removed").into_iter().find(|at| all[at - 20..at - 16] == [0; 4]);
    let deletion = deletion.expect("40 bytes stand before the name, the inode at byte 20");
    flash.poke(deletion, b"R");
    let gone = |fs: &Jffs2<StrictFlash>| fs.lookup(root, b"removed").map_err(|error| error.kind);
    let mut fs = Jffs2::mount(flash, Clock::default(), options()).unwrap();
    assert_eq!(gone(&fs), Err(ErrorKind::NotFound));
    fs.account().unwrap();
    assert_eq!((gone(&fs), fs.damage().is_empty()), (Err(ErrorKind::NotFound), false));
    churn(&mut fs);
    let fs = Jffs2::mount(fs.into_flash(), Clock::default(), options()).unwrap();
    assert_eq!(gone(&fs), Err(ErrorKind::NotFound));
}

/// On a part that takes no cleanmarkers, a half-erased block must not be written to.
#[test]
fn without_cleanmarkers_a_blank_block_is_erased_before_use() {
    let none = MountOptions { cleanmarker: Some(nandkit_jffs2::medium::Cleanmarker::None), ..options() };
    let mut fs = Jffs2::format(StrictFlash::new(geometry()), Clock::default(), none.clone()).unwrap();
    let root = fs.root();
    fs.create(root, b"first", &NewNode::FILE).unwrap();
    fs.sync(None).unwrap();
    let mut flash = fs.into_flash();
    // Interrupted erases: one block still has its last page, the other only looks erased.
    for block in [20, 21] {
        let data = vec![0x5A; 512];
        flash.program(&Context::default(), BlockIndex(block).page(31), PageProgram::bytes(0, &data)).unwrap();
    }
    flash.weaken(BlockIndex(22));
    let mut fs = Jffs2::mount(flash, Clock::default(), none.clone()).unwrap();
    churn(&mut fs);
    let fs = Jffs2::mount(fs.into_flash(), Clock::default(), none).unwrap();
    assert!(fs.lookup(root, b"first").is_ok());
    let churned = fs.lookup(root, b"churned").unwrap();
    let mut bytes = vec![0; 30 * PAGE];
    assert_eq!(fs.read(churned, 0, ReadInto::Bytes(&mut bytes)).unwrap(), bytes.len());
}

/// If one node has the highest possible version, nothing more can be written to its inode.
/// Everything else can be written, and the collector continues.
#[test]
fn an_inode_without_versions_left_stops_nobody_else() {
    let mut fs = Jffs2::format(StrictFlash::new(geometry()), Clock::default(), options()).unwrap();
    let root = fs.root();
    let spent = fs.create(root, b"spent", &NewNode::DIRECTORY).unwrap();
    let inside = fs.create(spent, b"inside", &NewNode::FILE).unwrap();
    fs.write(inside, 0, Payload::Bytes(&[9; 3000])).unwrap();
    fs.write(inside, 1000, Payload::Bytes(&[8; 100])).unwrap();
    fs.sync(None).unwrap();
    let mut flash = fs.into_flash();
    let all = bytes_of(&flash);
    // The newest node of each gets the highest version: the name in the directory, and the second
    // write of the file (found by its data).
    let name = places(&all, b"inside")[0] - 40;
    let data = places(&all, &[8; 100])[0] - 68;
    for (node, covered, crc_at) in [(name, 32, 32), (data, 60, 64)] {
        let mut bytes = all[node..node + 68].to_vec();
        bytes[16..20].fill(0xFF);
        let sum = nandkit_jffs2::layout::crc(&bytes[..covered]).to_le_bytes();
        bytes[crc_at..crc_at + 4].copy_from_slice(&sum);
        flash.poke(node, &bytes[..crc_at + 4]);
    }
    let mut fs = Jffs2::mount(flash, Clock::default(), options()).unwrap();
    churn(&mut fs);
    // The error is not lack of space, as a larger volume would not help. A rename out of the
    // directory fails before the new name is written.
    let error = fs.create(spent, b"more", &NewNode::FILE).unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotSupported);
    let error = fs.rename((spent, b"inside"), (root, b"outside"), Default::default()).unwrap_err();
    assert_eq!((error.kind, fs.lookup(root, b"outside").is_err()), (ErrorKind::NotSupported, true));
    assert_eq!(fs.stat(inside).unwrap().links, 1);
    let fs = Jffs2::mount(fs.into_flash(), Clock::default(), options()).unwrap();
    let spent = fs.lookup(root, b"spent").unwrap();
    let inside: InodeNumber = fs.lookup(spent, b"inside").unwrap();
    let mut bytes = vec![0; 3000];
    fs.read(inside, 0, ReadInto::Bytes(&mut bytes)).unwrap();
    assert!(bytes[..1000].iter().all(|byte| *byte == 9) && bytes[1000..1100].iter().all(|byte| *byte == 8));
}
