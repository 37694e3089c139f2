//! Volumes as full as Linux's rules allow, mounted anew for each change: as long as there is dirty
//! space the collector reclaims it, and a deletion is always possible.

use crate::filling;
use nandkit_jffs2::Jffs2;
use nandkit_testkit::clock;
use nandkit_testkit::flash_memory::{StrictFlash, nor};
use nandkit_units::{FlashGeometry, Payload};
use nandkit_vfs::{Changes, ErrorKind, FileSystem};

/// Devices of 32 blocks of 16 and of 128 KiB.
fn devices() -> [FlashGeometry; 3] {
    let (small, large) = (FlashGeometry::nand(512, 16, 32, 32), FlashGeometry::nand(2048, 64, 64, 32));
    [small, large, nor(16 << 10, 32)]
}

/// Blocks that waited for their erase counted as free, were not erased before the unmount, and held
/// valid copies for the next mount, until no block was left for the collector: not even a file
/// could be removed.
#[test]
fn a_nearly_full_volume_that_is_mounted_anew_for_each_change_never_gets_stuck() {
    for geometry in devices() {
        let rounds = if geometry.block_size() > 16 << 10 { 40 } else { 150 };
        for (percent, reopen) in [(85, true), (95, true), (85, false), (95, false)] {
            filling::overwrite(StrictFlash::new(geometry), clock, (percent, rounds), reopen);
        }
    }
}

/// A mount must not skip a page in a block that it continues to write, so each mount closes the
/// block that the previous one left open.
#[test]
fn a_nearly_full_volume_whose_pages_come_without_gaps_never_gets_stuck() {
    let device = || StrictFlash::new(FlashGeometry::nand(2048, 64, 8, 32)).without_gaps();
    for percent in [85, 95] {
        filling::overwrite(device(), clock, (percent, 300), false);
    }
    filling::empty(device(), clock, 10, false);
    filling::empty(device(), clock, 3000, false);
}

#[test]
fn of_a_full_volume_every_name_can_be_removed() {
    for geometry in devices() {
        for (size, reopen) in [(10, true), (10, false), (3000, true), (3000, false)] {
            filling::empty(StrictFlash::new(geometry), clock, size, reopen);
        }
    }
}

/// If programs fail while the collector works and no block is free for their nodes, that is an
/// error and neither an endless search nor a panic, and what was synced is there.
#[test]
fn programs_that_fail_on_a_full_volume_lose_nothing_that_was_synced() {
    let (mut refused, mut without_block) = (0, 0);
    for geometry in [FlashGeometry::nand(512, 16, 32, 20), FlashGeometry::nand(2048, 64, 8, 20), nor(16 << 10, 20)] {
        let options = filling::options(false);
        let mut fs = Jffs2::format(StrictFlash::new(geometry), clock(), options.clone()).unwrap();
        // Pieces of pages fill the space that whole pages leave.
        let files = filling::fill(&mut fs, "file-", 3 << 12, usize::MAX);
        filling::fill(&mut fs, "small-", 1 << 10, usize::MAX);
        let device = fs.into_flash();
        for first in (1..200).step_by(3) {
            for failing in [1, 2, 5, 20] {
                let mut fs = Jffs2::mount(device.clone(), clock(), options.clone()).unwrap();
                fs.flash_mut().fail_programs(first..first + failing);
                for number in 0..60 {
                    let name = format!("file-{}", number % (files / 2));
                    let inode = fs.lookup(fs.root(), name.as_bytes()).unwrap();
                    let written = fs.write(inode, 4096, Payload::Bytes(&[number as u8; 4096]));
                    let synced = written.and_then(|_| if number % 7 == 0 { fs.sync(None) } else { Ok(()) });
                    let Err(error) = synced else { continue };
                    assert!(matches!(error.kind, ErrorKind::NoSpace | ErrorKind::Device), "{geometry:?}: {error}");
                    refused += 1;
                    without_block += usize::from(error.to_string().contains("no block is left"));
                }
                fs.catalogue().recount().unwrap();
                let fs = Jffs2::mount(fs.into_flash(), clock(), options.clone()).unwrap();
                for number in files / 2..files {
                    let content = filling::content(number as u64, 3 << 12);
                    let what = format!("{geometry:?}, {failing} programs from {first} on, file {number}");
                    assert!(filling::holds(&fs, &format!("file-{number}"), &content), "{what}");
                }
            }
        }
    }
    assert!(refused > 100 && without_block > 100, "{refused} errors, {without_block} for want of a block");
}
