//! Changes of two nodes of which only the first was written, because of a power cut, an error of
//! the device, or a directory without versions left. What is done after that must be right, too.

use std::sync::{Arc, Mutex};

use crate::promise::formatted;
use nandkit_flash::{
    ErrorKind as FlashErrorKind, Flash, FlashError, Operation, PageProgram, PageRead, Result as Flashed,
};
use nandkit_jffs2::{Ino, Jffs2, MountOptions};
use nandkit_testkit::clock;
use nandkit_testkit::flash_memory::{StrictFlash, nor};
use nandkit_units::{BlockIndex, Context, Done, PageAddress, Payload, ReadInto};
use nandkit_vfs::{Changes, ErrorKind, FileSystem, InodeNumber, NewNode, XattrChanges};

/// A flash that records the state that a cut before each program would leave, and refuses a program
/// on demand. A NOR flash: each node is programmed by itself.
struct Recording {
    inner: StrictFlash,
    left: Vec<StrictFlash>,
    /// Number of programs until one is refused.
    until: Arc<Mutex<Option<u32>>>,
}

impl Flash for Recording {
    nandkit_testkit::forward_flash!();

    fn read(&self, context: &Context, at: PageAddress, read: PageRead<'_>) -> Flashed<Done> {
        self.inner.read(context, at, read)
    }
    fn program(&mut self, context: &Context, at: PageAddress, program: PageProgram<'_>) -> Flashed<Done> {
        let mut until = self.until.lock().unwrap();
        if *until == Some(0) {
            *until = None;
            return Err(FlashError::new(FlashErrorKind::Misuse, Operation::Program, at, "on demand"));
        }
        *until = until.map(|left| left - 1);
        self.left.push(self.inner.clone());
        self.inner.program(context, at, program)
    }
    fn erase(&mut self, context: &Context, block: BlockIndex) -> Flashed<Done> {
        self.inner.erase(context, block)
    }
}

fn format() -> Jffs2<Recording> {
    let inner = formatted(nor(16 << 10, 16), &MountOptions::default()).into_flash();
    mount(Recording { inner, left: Vec::new(), until: Arc::default() })
}

fn mount<F: Flash>(flash: F) -> Jffs2<F> {
    Jffs2::mount(flash, clock(), MountOptions::default()).unwrap()
}

fn value<F: Flash>(fs: &Jffs2<F>, inode: InodeNumber) -> Option<Vec<u8>> {
    let names = fs.xattrs().unwrap().xattr_names(inode).unwrap();
    let value = fs.xattrs().unwrap().xattr(inode, b"user.k");
    assert_eq!((names.len(), value.is_ok()), if value.is_ok() { (1, true) } else { (0, false) });
    value.ok()
}

/// The old value used to come back, as only the newest of two references was removed. The old value
/// belongs to another inode as well.
#[test]
fn after_a_cut_in_setting_an_attribute_the_old_value_never_comes_back() {
    let mut fs = format();
    let root = fs.root();
    let [file, other] = [&b"file"[..], b"other"].map(|name| fs.create(root, name, &NewNode::FILE).unwrap());
    for inode in [file, other] {
        fs.set_xattr(inode, b"user.k", b"old").unwrap();
    }
    let before = fs.flash().left.len();
    fs.set_xattr(file, b"user.k", b"new").unwrap();
    let left = fs.flash().left[before..].to_vec();
    assert_eq!(left.len(), 3, "the attribute, its reference, the old one's deletion");
    let mut new = 0;
    for cut in left {
        for then in [None, Some(&b"old"[..]), Some(b"other")] {
            let mut fs = mount(cut.clone());
            let found = value(&fs, file).unwrap();
            assert!(found == b"old" || found == b"new");
            new += usize::from(found == b"new");
            match then {
                None => fs.remove_xattr(file, b"user.k").unwrap(),
                Some(then) => fs.set_xattr(file, b"user.k", then).unwrap(),
            }
            for _ in 0..2 {
                assert_eq!((value(&fs, file).as_deref(), value(&fs, other).as_deref()), (then, Some(&b"old"[..])));
                fs = mount(fs.into_flash());
            }
            // The count is right: the other inode's value stays as long as that inode exists.
            fs.remove_xattr(other, b"user.k").unwrap();
            assert_eq!(value(&fs, file).as_deref(), then);
            let again = b"again";
            fs.set_xattr(other, b"user.k", again).unwrap();
            let fs = mount(fs.into_flash());
            assert_eq!((value(&fs, file).as_deref(), value(&fs, other).as_deref()), (then, Some(&again[..])));
        }
    }
    assert_eq!(new, 3, "one of the cuts leaves both");
}

/// The search above a directory with two names used to follow only one of them.
#[test]
fn after_a_cut_in_a_rename_no_directory_comes_below_itself() {
    let mut fs = format();
    let root = fs.root();
    let [a, b] = [b"a", b"b"].map(|name| fs.create(root, name, &NewNode::DIRECTORY).unwrap());
    let d = fs.create(a, b"d", &NewNode::DIRECTORY).unwrap();
    fs.create(d, b"inside", &NewNode::FILE).unwrap();
    let before = fs.flash().left.len();
    fs.rename((a, b"d"), (b, b"d"), Default::default()).unwrap();
    let cut = fs.flash().left[before + 1].clone();
    for above in [b"a", b"b"] {
        let mut fs = mount(cut.clone());
        assert_eq!((fs.lookup(a, b"d").unwrap(), fs.lookup(b, b"d").unwrap()), (d, d));
        let error = fs.rename((root, above), (d, b"x"), Default::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        // When it is emptied and has lost its first name, it is still in the other directory.
        fs.remove(d, b"inside").unwrap();
        let (gone, stays) = if above == b"a" { (b, a) } else { (a, b) };
        fs.remove(gone, b"d").unwrap();
        assert_eq!(fs.path_of(Ino(d.0 as u32)), Some([&b"/"[..], above, b"/d"].concat()));
        let error = fs.rename((root, above), (d, b"x"), Default::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        fs.rename((stays, b"d"), (root, b"d"), Default::default()).unwrap();
        fs.rename((root, above), (d, b"x"), Default::default()).unwrap();
        assert_eq!(mount(fs.into_flash()).damage(), []);
    }
}

/// A file used to be forgotten when its first name was removed although it had a second one, and a
/// replaced file never was.
#[test]
fn after_an_error_in_a_rename_both_names_count() {
    let mut fs = format();
    let root = fs.root();
    let directory = fs.create(root, b"directory", &NewNode::DIRECTORY).unwrap();
    let [file, replaced] = [&b"file"[..], b"over"].map(|name| fs.create(root, name, &NewNode::FILE).unwrap());
    fs.write(file, 0, Payload::Bytes(b"content")).unwrap();
    fs.rename((root, b"over"), (directory, b"over"), Default::default()).unwrap();
    *fs.flash().until.lock().unwrap() = Some(1);
    let error = fs.rename((root, b"file"), (directory, b"over"), Default::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Device);
    assert_eq!((fs.lookup(root, b"file").unwrap(), fs.lookup(directory, b"over").unwrap()), (file, file));
    assert_eq!((fs.stat(file).unwrap().links, fs.stat(replaced).is_err()), (2, true));
    fs.remove(root, b"file").unwrap();
    for _ in 0..2 {
        let mut bytes = [0; 7];
        fs.read(file, 0, ReadInto::Bytes(&mut bytes)).unwrap();
        assert_eq!((&bytes, fs.stat(file).unwrap().links), (b"content", 1));
        fs = mount(fs.into_flash());
    }
}
