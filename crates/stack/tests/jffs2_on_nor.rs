//! JFFS2 on the NOR part, erased by 64 KiB and by 4 KiB: it is filled, overwritten until the
//! collector has worked on all of it, and mounted again.

use nandkit_flash::Flash;
use nandkit_jffs2::write::{CompressionMode, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_nand_sim::ContentChip;
use nandkit_stack::{DeviceSpec, StackSpec};
use nandkit_testkit::clock;
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Clock, Context, Payload, ReadInto};
use nandkit_vfs::{Changes, FileSystem, NewNode};

const PAGE: u64 = 4096;

fn chip(keys: &str) -> ContentChip {
    let spec: StackSpec = toml::from_str(&format!("fs = 'jffs2'\n[device]\nkind = 'nor'\n{keys}")).unwrap();
    spec.check().unwrap();
    let DeviceSpec::Chip { chip, .. } = &spec.device else { panic!("a chip") };
    ContentChip::new(chip, 1).unwrap()
}

fn options() -> MountOptions {
    let write = WriteOptions { compression: CompressionMode::None, ..WriteOptions::default() };
    MountOptions { write, ..MountOptions::default() }
}

/// Fills `pages` of one file, then overwrites pages at random; returns the volume and the version
/// that each page has.
fn used(chip: ContentChip, clock: Clock, pages: u64, overwrites: u64) -> (Jffs2<ContentChip>, Vec<u8>) {
    let mut fs = Jffs2::format(chip, clock, options()).unwrap();
    let file = fs.create(fs.root(), b"f", &NewNode::FILE).unwrap();
    let mut versions = vec![0; pages as usize];
    let mut random = Random::new(1, "nor");
    for step in 0..pages + overwrites {
        let page = if step < pages { step } else { random.below(pages) };
        let version = &mut versions[page as usize];
        *version = if step < pages { 1 } else { *version % 250 + 1 };
        assert_eq!(fs.write(file, page * PAGE, Payload::Bytes(&[*version; PAGE as usize])).unwrap(), PAGE as usize);
    }
    fs.sync(None).unwrap();
    (fs, versions)
}

#[test]
fn it_is_filled_cleaned_and_mounted_again() {
    // 2 MiB of which 60 % are filled; nodes are split where they do not fit what is left of a
    // sector.
    for (keys, erase_ns) in [("blocks = 32", 150_000_000), ("erase_size = '4K'\nblocks = 512", 45_000_000)] {
        let clock = clock();
        let (fs, versions) = used(chip(keys), clock.clone(), 300, 1500);
        let flash = fs.flash().clone();
        let erases: u32 = flash.erase_counts().sum();
        assert!(erases > 2 * flash.geometry().blocks, "{keys}: {erases} erases");
        assert!(clock.now().get() > u64::from(erases) * erase_ns, "{keys}: {}", clock.now());
        // A cleanmarker begins each block that JFFS2 has erased.
        let mut marker = [0; 4];
        let at = BlockIndex(3).page(0);
        flash.read(&Context::at(clock.now()), at, nandkit_flash::PageRead::bytes(0, &mut marker)).unwrap();
        assert_eq!(marker[..2], [0x85, 0x19], "{keys}");
        let again = Jffs2::mount(flash, clock, options()).unwrap();
        again.catalogue().recount().unwrap();
        let file = again.lookup(again.root(), b"f").unwrap();
        for (page, version) in versions.iter().enumerate() {
            let mut bytes = [0; PAGE as usize];
            again.read(file, page as u64 * PAGE, ReadInto::Bytes(&mut bytes)).unwrap();
            assert!(bytes.iter().all(|byte| byte == version), "{keys}: page {page}");
        }
    }
}

#[test]
fn a_program_of_few_bytes_takes_less_and_no_translation_layer_works_on_it() {
    let mut chip = chip("");
    let mut program = |column, length: usize| {
        let bytes = vec![0; length];
        let program = nandkit_flash::PageProgram::bytes(column, &bytes);
        chip.program(&Context::default(), BlockIndex(9).page(0), program).unwrap().busy.get()
    };
    // Command, transfer, first and further bytes; never more than a page's time.
    let [few, whole] = [program(0, 11), program(11, 245)];
    assert_eq!((few, whole), (400 + 212 + 30_000 + 10 * 2500, 400 + 4712 + 400_000));
    let refused: StackSpec = toml::from_str("fs = 'fat'\ndevice = 'w25q128jv'").unwrap();
    let error = refused.check().unwrap_err().to_string();
    assert!(error.contains("w25q128jv is NOR; expected fs = \"jffs2\""), "{error}");
}
