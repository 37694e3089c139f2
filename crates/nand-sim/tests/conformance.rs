//! The chip satisfies the flash contract with each store, each set of rules, and page sizes of 512
//! to 16,384 bytes.

use nandkit_flash::{Flash, Interrupt};
use nandkit_nand_sim::{
    AddressStore, ChipKind, ChipSpec, ContentStore, CopybackReach, DescribedStore, GeometrySpec, NandChip, NorSpec,
    PageOrder, ShadowStore, Store,
};
use nandkit_testkit::flash_suite::{self, FlashOptions};
use nandkit_units::{FlashGeometry, FlashKind};

fn spec(geometry: &FlashGeometry, order: PageOrder, partial_programs: u32, faults: bool) -> ChipSpec {
    let mut spec = ChipSpec {
        geometry: GeometrySpec {
            kind: if geometry.kind == FlashKind::Nor { ChipKind::Nor } else { ChipKind::Nand },
            page_size: geometry.page_size,
            oob_size: geometry.oob_size,
            write_unit: geometry.write_unit,
            pages_per_block: geometry.pages_per_block,
            blocks: geometry.blocks,
            planes: geometry.planes,
            dies: geometry.dies,
            channels: geometry.channels,
        },
        ..ChipSpec::default()
    };
    spec.rules.order = order;
    spec.rules.partial_programs = partial_programs;
    spec.rules.copyback = CopybackReach::Plane;
    spec.bad_blocks.enabled = faults && geometry.oob_size > 0;
    spec.bad_blocks.factory_max = 2;
    spec.bad_blocks.good_at_start = 2;
    if geometry.kind == FlashKind::Nor {
        (spec.nor, spec.rules.copyback, spec.bad_blocks.enabled) =
            (Some(NorSpec { sector_size: 0, ..NorSpec::default() }), CopybackReach::None, false);
        (spec.ecc.code_word_bytes, spec.ecc.correctable_bits) = (0, 0);
    }
    spec
}

fn conforms<S: Store + 'static>(order: PageOrder, partial_programs: u32, keeps_bytes: bool, seed: u64) {
    let options = FlashOptions {
        order: match order {
            PageOrder::Any => flash_suite::PageOrder::Any,
            PageOrder::Ascending => flash_suite::PageOrder::Ascending,
            PageOrder::Consecutive => flash_suite::PageOrder::Consecutive,
        },
        partial_programs,
        keeps_bytes,
        seed,
        ..FlashOptions::default()
    };
    let chip =
        |geometry: &FlashGeometry| NandChip::<S>::new(&spec(geometry, order, partial_programs, true), seed).unwrap();
    flash_suite::run(|geometry| Box::new(chip(geometry)) as Box<dyn Flash>, &options)
        .unwrap_or_else(|violations| panic!("{order:?}, {partial_programs} programs per page: {violations:?}"));
    flash_suite::run_interrupts(|geometry| Box::new(chip(geometry)) as Box<dyn Interrupt>, &options)
        .unwrap_or_else(|violations| panic!("{order:?}, {partial_programs} programs per page: {violations:?}"));
}

#[test]
fn content_chip() {
    conforms::<ContentStore>(PageOrder::Consecutive, 1, true, 1);
    conforms::<ContentStore>(PageOrder::Ascending, 4, true, 2);
    conforms::<ContentStore>(PageOrder::Any, 1, true, 3);
    conforms::<ContentStore>(PageOrder::Any, 8, true, 4);
}

#[test]
fn described_chip() {
    conforms::<DescribedStore>(PageOrder::Consecutive, 1, true, 1);
    conforms::<DescribedStore>(PageOrder::Any, 4, true, 2);
}

#[test]
fn shadow_chip() {
    conforms::<ShadowStore>(PageOrder::Consecutive, 1, false, 1);
    conforms::<ShadowStore>(PageOrder::Ascending, 1, false, 2);
    conforms::<ShadowStore>(PageOrder::Any, 4, false, 3);
}

#[test]
fn address_chip() {
    // Data in bytes are stored whole.
    conforms::<AddressStore>(PageOrder::Consecutive, 1, true, 1);
    conforms::<AddressStore>(PageOrder::Ascending, 1, true, 2);
    conforms::<AddressStore>(PageOrder::Any, 4, true, 3);
}

#[test]
fn nor_chip() {
    for seed in 1..=3 {
        let options = FlashOptions {
            geometries: flash_suite::nor_geometries(),
            order: flash_suite::PageOrder::Any,
            partial_programs: 255,
            seed,
            ..FlashOptions::default()
        };
        let chip = |geometry: &FlashGeometry| {
            NandChip::<ContentStore>::new(&spec(geometry, PageOrder::Any, 255, false), seed).unwrap()
        };
        flash_suite::run(|geometry| Box::new(chip(geometry)) as Box<dyn Flash>, &options).unwrap();
        flash_suite::run_interrupts(|geometry| Box::new(chip(geometry)) as Box<dyn Interrupt>, &options).unwrap();
        let described = |geometry: &FlashGeometry| {
            NandChip::<DescribedStore>::new(&spec(geometry, PageOrder::Any, 255, false), seed).unwrap()
        };
        flash_suite::run(|geometry| Box::new(described(geometry)) as Box<dyn Flash>, &options).unwrap();
    }
}
