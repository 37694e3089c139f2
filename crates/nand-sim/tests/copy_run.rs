//! A run of copies equals its copies one by one in content, completion time, and the page at which
//! it stops.

use nandkit_flash::{CopyRun, Copyback, Flash, PageProgram, copy_each};
use nandkit_nand_sim::{ChipSpec, FailureScript, ShadowChip};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Context, Described, Description, Generator, Nanos, PageAddress, Payload};

const PAGES: u32 = 16;
const BLOCKS: u32 = 12;

fn chip(dies: u32, bus_ps_per_byte: u64) -> ShadowChip {
    let mut spec = ChipSpec::default();
    (spec.geometry.pages_per_block, spec.geometry.blocks, spec.geometry.dies) = (PAGES, BLOCKS, dies);
    spec.timing.bus_ps_per_byte = bus_ps_per_byte;
    let mut chip = ShadowChip::new(&spec, 7).unwrap();
    for block in 0..4 {
        for page in 0..PAGES - block {
            let description = Description {
                record: u64::from(block * PAGES + page),
                version: 3,
                offset: 0,
                generator: Generator::Record,
            };
            let data = Payload::Described(Described { description, length: 2048 });
            // Some pages hold OOB bytes alone.
            let data = if page == 5 { Payload::Bytes(&[]) } else { data };
            let oob = [page as u8; 16];
            chip.program(&Context::default(), PageAddress::new(block, page), PageProgram::new(data, &oob)).unwrap();
        }
    }
    chip
}

fn same(mut chip: ShadowChip, from: &[PageAddress], to: PageAddress, oob: &[u8]) -> usize {
    let mut twin = chip.clone();
    let context = Context::at(Nanos(5_000));
    let run = chip.copy_run(&context, from, to, oob);
    let each = copy_each(&mut twin, &context, from, to, oob);
    let told = |run: &CopyRun| (run.copied, run.done, run.failed.as_ref().map(ToString::to_string));
    assert_eq!(told(&run), told(&each), "{from:?} to {to}");
    for block in (0..BLOCKS).map(BlockIndex) {
        for at in (0..PAGES).map(|page| block.page(page)) {
            let kept =
                |chip: &ShadowChip| chip.place(at).map(|place| nandkit_nand_sim::Store::keep(chip.store(), place));
            assert_eq!(kept(&chip), kept(&twin), "{at}");
        }
    }
    // The next operation starts at the same time, on every die.
    for block in (8..BLOCKS).map(BlockIndex) {
        assert_eq!(chip.erase(&context, block).unwrap(), twin.erase(&context, block).unwrap());
    }
    run.copied
}

#[test]
fn runs_of_any_shape_equal_their_copies() {
    let mut random = Random::new(1, "copy run");
    let (mut whole, mut stopped) = (0, 0);
    for round in 0..600 {
        let mut chip = chip(1 + round % 2, u64::from(round % 3) * 1000);
        // Mostly programmed pages; now and then an erased page, a page of the target block, or one
        // outside the device.
        let length = random.below(u64::from(PAGES)) as usize;
        let mut from: Vec<_> =
            (0..length as u32).map(|page| PageAddress::new((random.below(2) * 2) as u32, page)).collect();
        if random.below(3) == 0 && !from.is_empty() {
            let odd = [PageAddress::new(3, PAGES - 1), PageAddress::new(6, 0), PageAddress::new(BLOCKS, 0)];
            let place = random.below(length as u64) as usize;
            from[place] = odd[random.below(3) as usize];
        }
        let mut to = PageAddress::new(6, 0);
        match random.below(8) {
            0 => to.page = 2,
            1 => to.block = BlockIndex(1),
            2 => to.block = BlockIndex(BLOCKS),
            3 => {
                let pages = [to.block.page(random.below(16) as u32)].into();
                chip.script_failures(FailureScript { pages, ..FailureScript::default() });
            }
            4 => drop(chip.mark_bad(&Context::default(), to.block)),
            _ => {}
        }
        let oob: Vec<u8> = (0..length * if random.below(4) == 0 { 5 } else { 16 }).map(|at| at as u8 | 1).collect();
        match same(chip, &from, to, &oob) == length {
            true => whole += 1,
            false => stopped += 1,
        }
    }
    assert!(whole > 100 && stopped > 50, "{whole} whole, {stopped} stopped");
}
