//! Images of any content are mounted or refused; what is mounted is walked, checked, repaired and
//! asked for its past.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nandkit_jffs2::{Ino, Jffs2, MountOptions};
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::hostile;
use nandkit_units::Clock;
use nandkit_vfs::FileSystem;

fn walk(volume: &Jffs2<RamFlash>) {
    for met in hostile::roam(volume, 10_000) {
        assert_eq!(volume.lookup(met.directory, &met.name).unwrap(), met.inode, "what is listed is found");
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
