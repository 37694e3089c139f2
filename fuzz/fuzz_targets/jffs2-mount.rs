//! Images of any content are mounted or refused; what is mounted is walked, checked, repaired and asked for its past.

#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_jffs2::{Ino, Jffs2, MountOptions};
use nandkit_units::{Clock, ReadInto};
use nandkit_vfs::{FileKind, FileSystem};

fn walk(volume: &Jffs2<RamFlash>) {
    let mut next = vec![volume.root()];
    let mut steps = 0;
    while let Some(directory) = next.pop() {
        let mut found = Vec::new();
        let _ = volume.read_dir(directory, 0, &mut |entry| {
            found.push((entry.name.to_vec(), entry.inode));
            ControlFlow::Continue(())
        });
        for (name, inode) in found {
            steps += 1;
            assert_eq!(volume.lookup(directory, &name).unwrap(), inode, "what is listed is found");
            if let Ok(stat) = volume.stat(inode) {
                if stat.kind == FileKind::Directory && steps < 10_000 {
                    next.push(inode);
                }
                let mut bytes = vec![0; stat.size.min(1 << 16) as usize];
                let _ = volume.read(inode, 0, ReadInto::Bytes(&mut bytes));
            }
            let _ = volume.symlinks().unwrap().read_link(inode);
            for name in volume.xattrs().unwrap().xattr_names(inode).unwrap() {
                let _ = volume.xattrs().unwrap().xattr(inode, &name);
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    let nand = choice & 1 == 1;
    let mut bytes = data.to_vec();
    bytes.resize(bytes.len().next_multiple_of(4096).clamp(4096, 16 * 4096), 0xFF);
    let flash = |bytes| if nand { RamFlash::nand(bytes, 4096, 512, 16) } else { RamFlash::nor(bytes, 4096) };
    let length = bytes.len();
    let image = flash(bytes);
    let options = || MountOptions { read_only: true, use_summaries: choice & 2 == 0, ..MountOptions::default() };
    let Ok(volume) = Jffs2::mount(image, Clock::default(), options()) else { return };
    assert_eq!(volume.catalogue().recount(), Ok(()), "sums fit their nodes");
    walk(&volume);
    volume.check(false).unwrap();
    for inode in (1..64).map(Ino) {
        for version in volume.versions(inode).unwrap_or_default() {
            let _ = volume.content_within(inode, version.version, 0..8192);
        }
    }
    volume.deleted().unwrap();
    let mut output = flash(vec![0xFF; length]);
    volume.repair(false, &mut output).unwrap();
});
