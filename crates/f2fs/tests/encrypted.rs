//! Encrypted inodes: names are listed as Linux lists them without the key, content is refused, and
//! everything unencrypted is readable. Writing with fscrypt needs a kernel; these tests set the
//! flags in an image of sload.f2fs, so that names and content act as ciphertext.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;

use crate::common::{mkfs, ram_of_bytes, sload};
use nandkit_block::RamDevice;
use nandkit_f2fs::layout::inode::advise;
use nandkit_f2fs::layout::{Footer, InodeHead};
use nandkit_f2fs::{F2fs, MountOptions};
use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::{ErrorKind, FileSystem, InodeNumber};

/// Sets the flags on every inode with one of these names.
fn marked(names: &[&[u8]]) -> F2fs<RamDevice> {
    let scratch = tempfile::tempdir().unwrap();
    let (source, image) = (scratch.path().join("source"), scratch.path().join("image"));
    fs::create_dir_all(source.join("secret/below")).unwrap();
    fs::write(source.join("secret/file"), "content").unwrap();
    fs::write(source.join("secret").join("n".repeat(255)), "content").unwrap();
    fs::write(source.join("open"), "content").unwrap();
    symlink("target", source.join("secret/link")).unwrap();
    mkfs(&image, 64, "-O encrypt");
    sload(&image, &source);
    let mut bytes = fs::read(&image).unwrap();
    let mut count = 0;
    for block in bytes.chunks_exact_mut(4096) {
        let (footer, head) = (Footer::of_block(block).unwrap(), InodeHead::of_block(block).unwrap());
        let is_inode = footer.nid.get() > 3 && footer.nid == footer.ino && footer.nid.get() < 100;
        if is_inode && head.name().is_some_and(|name| names.contains(&name)) {
            block[2] |= advise::ENCRYPTED;
            count += 1;
        }
    }
    assert!(count >= names.len());
    F2fs::mount(ram_of_bytes(&bytes), Clock::default(), MountOptions::default()).unwrap()
}

fn names(volume: &F2fs<RamDevice>, directory: InodeNumber) -> Vec<(Vec<u8>, InodeNumber)> {
    let mut names = Vec::new();
    let sink = &mut |entry: nandkit_vfs::DirectoryEntry<'_>| {
        names.push((entry.name.to_vec(), entry.inode));
        ControlFlow::Continue(())
    };
    volume.read_dir(directory, 0, sink).unwrap();
    names
}

#[test]
fn names_are_shown_without_the_key_and_contents_are_refused() {
    let volume = marked(&[b"secret", b"file", b"link"]);
    let secret = volume.lookup(volume.root(), b"secret").unwrap();
    let shown = names(&volume, secret);
    assert_eq!(shown.len(), 4);
    for (name, inode) in &shown {
        assert!(name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)), "{name:?}");
        assert_eq!(volume.lookup(secret, name).unwrap(), *inode);
    }
    assert_eq!(volume.lookup(secret, b"file").unwrap_err().kind, ErrorKind::NotFound);
    let refused: Vec<_> = shown
        .iter()
        .filter_map(|(_, inode)| match volume.read(*inode, 0, ReadInto::Bytes(&mut [0; 100])) {
            Err(error) if error.kind == ErrorKind::NotSupported => Some(error.to_string()),
            _ => None,
        })
        .collect();
    assert!(refused.len() == 1 && refused[0].contains("is encrypted (fscrypt)"), "{refused:?}");
    let links = shown.iter().filter_map(|(_, inode)| volume.symlinks().unwrap().read_link(*inode).err());
    assert_eq!(links.filter(|error| error.kind == ErrorKind::NotSupported).count(), 1);
    let open = volume.lookup(volume.root(), b"open").unwrap();
    let mut bytes = [0; 10];
    assert_eq!(volume.read(open, 0, ReadInto::Bytes(&mut bytes)).unwrap(), 7);
    assert_eq!(&bytes[..7], b"content");
}
