//! A dump satisfies the flash contract: NAND with OOB in each placement and without, and NOR; in
//! memory and in a file.

use nandkit_flash::Flash;
use nandkit_flash_image::{DumpFlash, DumpOptions, Image, ImageLayout, OobPlacement};
use nandkit_testkit::flash_suite::{self, FlashOptions, PageOrder};
use nandkit_units::{FlashGeometry, FlashKind};

fn geometries(oob: OobPlacement) -> Vec<FlashGeometry> {
    let all = [
        FlashGeometry::nand(512, 16, 32, 16),
        FlashGeometry { write_unit: 512, ..FlashGeometry::nand(2048, 64, 64, 11) },
        FlashGeometry::nand(4096, 224, 17, 16),
        FlashGeometry::nand(16_384, 1872, 6, 8),
    ];
    match oob {
        OobPlacement::None => all.map(|geometry| FlashGeometry { oob_size: 0, ..geometry }).to_vec(),
        _ => all.to_vec(),
    }
}

fn layout(geometry: &FlashGeometry, oob: OobPlacement) -> ImageLayout {
    let block_size = geometry.block_size() as u32;
    ImageLayout {
        write_unit: geometry.write_unit,
        ..ImageLayout::new(geometry.kind, block_size, geometry.page_size, geometry.oob_size, oob)
    }
}

/// An erased dump, with the OOB in a second vector if the placement asks for it.
fn erased(geometry: &FlashGeometry, layout: &ImageLayout) -> (Vec<u8>, Option<Vec<u8>>) {
    let image = vec![0xFF; layout.stored_block() as usize * geometry.blocks as usize];
    let oob = vec![0xFF; geometry.pages() as usize * geometry.oob_size as usize];
    (image, (layout.oob == OobPlacement::Separate).then_some(oob))
}

#[test]
fn in_memory() {
    for oob in [OobPlacement::None, OobPlacement::AfterPage, OobPlacement::AfterBlock, OobPlacement::Separate] {
        let options = FlashOptions {
            geometries: geometries(oob),
            order: PageOrder::Any,
            partial_programs: 4,
            ..FlashOptions::default()
        };
        let make = |geometry: &FlashGeometry| -> Box<dyn Flash> {
            let layout = layout(geometry, oob);
            let (image, spare) = erased(geometry, &layout);
            Box::new(DumpFlash::new(Image::from_bytes(image, spare).unwrap(), layout).unwrap())
        };
        flash_suite::run(make, &options).unwrap_or_else(|violations| panic!("{oob:?}: {violations:?}"));
    }
}

#[test]
fn nor_in_memory() {
    let options =
        FlashOptions { geometries: flash_suite::nor_geometries(), order: PageOrder::Any, ..FlashOptions::default() };
    let make = |geometry: &FlashGeometry| -> Box<dyn Flash> {
        let layout = layout(geometry, OobPlacement::None);
        assert_eq!(layout.kind, FlashKind::Nor);
        Box::new(DumpFlash::from_bytes(erased(geometry, &layout).0, layout).unwrap())
    };
    flash_suite::run(make, &options).unwrap_or_else(|violations| panic!("{violations:?}"));
}

#[test]
fn in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let options = FlashOptions {
        geometries: vec![FlashGeometry::nand(512, 16, 8, 9)],
        order: PageOrder::Any,
        rounds: 300,
        ..FlashOptions::default()
    };
    let mut count = 0;
    let make = |geometry: &FlashGeometry| -> Box<dyn Flash> {
        count += 1;
        let path = directory.path().join(format!("dump-{count}"));
        let layout = layout(geometry, OobPlacement::AfterPage);
        std::fs::write(&path, erased(geometry, &layout).0).unwrap();
        Box::new(DumpFlash::new(Image::open(&path, &DumpOptions::read_write()).unwrap(), layout).unwrap())
    };
    flash_suite::run(make, &options).unwrap_or_else(|violations| panic!("{violations:?}"));
}
