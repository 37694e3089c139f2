//! Drives and memory cards in stacks: FAT on each of them gives back what was written.

use nandkit_stack::{Mounted, Stack, StackSpec, ssds};
use nandkit_vfs::NewNode;
use nandkit_vfs::path::{read_file, write_file};

fn round_trip(device: &str) {
    let spec: StackSpec = toml::from_str(&format!("device = '{device}'\nfs = 'fat'")).unwrap();
    let mut stack = Stack::build(&spec, 1).unwrap_or_else(|error| panic!("{device}: {error}"));
    let content: Vec<u8> = (0..300_000_u32).map(|index| ((index * 7) >> 3) as u8).collect();
    let before = stack.clock.now();
    let Mounted::Files(files) = &mut stack.mounted else { panic!("{device}: no file system") };
    let changes = files.changes().expect("a volume that can be changed");
    write_file(changes, b"a", &NewNode::FILE, &content).unwrap();
    assert_eq!(read_file(&**files, b"a").unwrap(), content, "{device}");
    assert!(stack.clock.now() > before, "{device}: it takes time");
    let layers: Vec<&str> = stack.watched.layers.iter().map(|(name, _)| name.as_str()).collect();
    let has_flash = stack.watched.flash.is_some();
    let is_drive = ssds::names().contains(&device);
    assert_eq!((has_flash, layers.contains(&"interface"), layers.contains(&"card")), (is_drive, is_drive, !is_drive));
    stack.close().unwrap();
}

#[test]
fn fat_on_every_drive_and_on_a_card_gives_back_what_was_written() {
    ssds::names().into_iter().chain(["sd-kingston-4", "card-a"]).for_each(round_trip);
}
