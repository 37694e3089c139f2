//! Images of mtd-utils in memory.

use nandkit_jffs2::{DamageKind, Jffs2, MountOptions};
use nandkit_testkit::flash_memory::RamFlash;
use nandkit_testkit::judges::must_run;
use nandkit_units::Clock;
use nandkit_vfs::check::{Kind as _, Repair};

/// Runs a tool of mtd-utils; a missing or failing one fails the test.
pub fn run(tool: &str, arguments: &[&str]) {
    must_run("mtd-utils", tool, arguments);
}

/// Asserts that every intact node found space in the repaired volume.
pub fn assert_finds_room(repair: &Repair) {
    let lost: Vec<_> = repair.dropped.iter().filter(|dropped| dropped.kind == DamageKind::NoRoom.name()).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

/// Mounts for reading only.
pub fn mount(flash: RamFlash, options: MountOptions) -> nandkit_vfs::Result<Jffs2<RamFlash>> {
    Jffs2::mount(flash, Clock::default(), MountOptions { read_only: true, ..options })
}
