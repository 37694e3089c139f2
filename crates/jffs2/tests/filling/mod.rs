//! Volumes that are nearly full or full, mounted anew for each change.
#![allow(dead_code, reason = "not every user uses everything")]

use nandkit_flash::Flash;
use nandkit_jffs2::write::{CompressionMode, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_units::random::{self, Random};
use nandkit_units::{Clock, Payload, ReadInto};
use nandkit_vfs::{AttributeChange, Changes, ErrorKind, FileSystem, FsError, InodeNumber, NewNode};

const PAGE: usize = 4096;

pub fn options(reopen: bool) -> MountOptions {
    let write = WriteOptions { compression: CompressionMode::None, reopen, ..WriteOptions::default() };
    MountOptions { write, ..MountOptions::default() }
}

/// A file's content, in which each page has its number.
pub fn content(version: u64, length: usize) -> Vec<u8> {
    let word = |number: usize| random::hash(version, (number * 8 / PAGE) as u64, 0).to_le_bytes();
    (0..length.div_ceil(8)).flat_map(word).take(length).collect()
}

fn opened<F: Flash>(fs: &mut Jffs2<F>, name: &str) -> Result<InodeNumber, FsError> {
    match fs.lookup(fs.root(), name.as_bytes()) {
        Ok(inode) => {
            fs.set_attributes(inode, &AttributeChange { size: Some(0), ..AttributeChange::default() })?;
            Ok(inode)
        }
        Err(_) => fs.create(fs.root(), name.as_bytes(), &NewNode::FILE),
    }
}

/// Replaces a file's content as the command `put` does: the file is emptied first.
fn put<F: Flash>(fs: &mut Jffs2<F>, name: &str, content: &[u8]) -> Result<(), FsError> {
    let inode = opened(fs, name)?;
    for (number, part) in content.chunks(PAGE).enumerate() {
        let taken = fs.write(inode, (number * PAGE) as u64, Payload::Bytes(part))?;
        if taken < part.len() {
            return Err(FsError::new(ErrorKind::NoSpace, "in part"));
        }
    }
    fs.sync(None)
}

pub fn holds<F: Flash>(fs: &Jffs2<F>, name: &str, content: &[u8]) -> bool {
    let inode = fs.lookup(fs.root(), name.as_bytes()).unwrap();
    let mut found = vec![0; content.len() + 1];
    fs.read(inode, 0, ReadInto::Bytes(&mut found)).unwrap() == content.len() && found[..content.len()] == *content
}

/// Writes files of `size` bytes until there is no space or the next one would exceed `most` bytes
/// in total; returns their number.
pub fn fill<F: Flash>(fs: &mut Jffs2<F>, prefix: &str, size: usize, most: usize) -> usize {
    for number in 0..most / size {
        let name = format!("{prefix}{number}");
        if let Err(error) = put(fs, &name, &content(number as u64, size)) {
            assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
            drop_name(fs, &name, "full");
            return number;
        }
    }
    most / size
}

/// Removes a name, if it is there.
fn drop_name<F: Flash>(fs: &mut Jffs2<F>, name: &str, what: &str) {
    if fs.lookup(fs.root(), name.as_bytes()).is_ok() {
        let removed = fs.remove(fs.root(), name.as_bytes()).and_then(|()| fs.sync(None));
        removed.unwrap_or_else(|error| panic!("{what}, {name}: {error}"));
    }
}

fn remount<F: Flash>(fs: Jffs2<F>, clock: Clock, options: &MountOptions) -> Jffs2<F> {
    Jffs2::mount(fs.into_flash(), clock, options.clone()).unwrap()
}

/// Fills `percent` of a volume's capacity, and rewrites a file of nine blocks again and again, each
/// time on a new mount. It always fits, as the amount of valid data does not grow.
pub fn overwrite<F: Flash>(device: F, clock: impl Fn() -> Clock, (percent, rounds): (usize, u64), reopen: bool) {
    let (geometry, options) = (*device.geometry(), options(reopen));
    let (block, what) = (geometry.block_size() as usize, format!("{geometry:?}, {percent} %, reopen {reopen}"));
    let mut fs = Jffs2::format(device, clock(), options.clone()).unwrap();
    let size = block / 4;
    let capacity = size * fill(&mut fs, "file-", size, usize::MAX);
    assert!(capacity > geometry.blocks as usize * block * 3 / 5, "{what}: {capacity} bytes fit");
    let mut fs = Jffs2::format(fs.into_flash(), clock(), options.clone()).unwrap();
    let mut large = content(0, 9 * block);
    put(&mut fs, "large", &large).unwrap();
    let files = fill(&mut fs, "file-", size, capacity * percent / 100 - large.len());
    let mut random = Random::new(percent as u64, "sizes");
    for round in 1..=rounds {
        fs = remount(fs, clock(), &options);
        large = content(round, 9 * block - random.below(block as u64) as usize);
        put(&mut fs, "large", &large).unwrap_or_else(|error| panic!("{what}, round {round}: {error}"));
        if round % 25 == 0 {
            fs.catalogue().recount().unwrap();
            fs = remount(fs, clock(), &options);
            let same = (0..files).all(|number| holds(&fs, &format!("file-{number}"), &content(number as u64, size)));
            assert!(same && holds(&fs, "large", &large), "{what}, round {round}");
        }
    }
}

/// Fills a volume completely, writes to it without space, each time on a new mount, and removes all
/// names one by one, each on a new mount.
pub fn empty<F: Flash>(device: F, clock: impl Fn() -> Clock, size: usize, reopen: bool) {
    let (geometry, options) = (*device.geometry(), options(reopen));
    let what = format!("{geometry:?}, files of {size}, reopen {reopen}");
    let mut fs = Jffs2::format(device, clock(), options.clone()).unwrap();
    let files = fill(&mut fs, "file-", geometry.block_size() as usize / 4, usize::MAX);
    let small = fill(&mut fs, "small-", size, usize::MAX);
    for round in 0..20 {
        fs = remount(fs, clock(), &options);
        for name in ["new", "newer"] {
            let refused = put(&mut fs, name, &content(round, 9 * geometry.block_size() as usize));
            assert_eq!(refused.unwrap_err().kind, ErrorKind::NoSpace, "{what}, round {round}");
        }
        // The partly written file is removed at once in every other round, and otherwise only at
        // the end.
        if round % 2 == 0 {
            fs = remount(fs, clock(), &options);
            for name in ["new", "newer"] {
                drop_name(&mut fs, name, &what);
            }
        }
    }
    let names = (0..small).map(|number| format!("small-{number}"));
    for name in names.chain((0..files).map(|number| format!("file-{number}"))) {
        fs = remount(fs, clock(), &options);
        drop_name(&mut fs, &name, &what);
    }
    fs.catalogue().recount().unwrap();
    fs = remount(fs, clock(), &options);
    let again = fill(&mut fs, "file-", geometry.block_size() as usize / 4, usize::MAX);
    assert!(again + again / 10 + 4 >= files, "{what}: {again} files again, {files} at first");
}
