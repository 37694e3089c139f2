//! Bad blocks anywhere, and programs and erases that fail at any moment.

use crate::common::model::{Mix, Model, Op, Ops};
use crate::common::{BlockMap, Fast, Layer, chip, spec};
use nandkit_block::{BlockDevice, ErrorKind};
use nandkit_cleaning::recycling::RecyclingPolicy;
use nandkit_flash::wrap::{Fault, FaultFlash, FaultWhen};
use nandkit_flash::{Flash, Operation};
use nandkit_ftl::{BlockMapFtl, BlockMapOptions, FastFtl, FastOptions, LogicalCapacity};
use nandkit_nand_sim::ContentChip;
use nandkit_units::{BlockIndex, Context, Lba, Payload, ReadInto};

/// Four blocks more than needed may go bad.
fn options() -> BlockMapOptions {
    BlockMapOptions {
        capacity: LogicalCapacity::Bytes(4 * 8 * 512),
        log_blocks: 2,
        policy: RecyclingPolicy::CostBased,
        ..BlockMapOptions::default()
    }
}

fn workload(seed: u64) -> Vec<Op> {
    Ops::new(seed, Mix::WRITES, 32).take(120).collect()
}

/// Runs the workload on any flash and checks all of it, also after attaching again.
fn check<L: Layer, F: Flash>(flash: F, options: &L::Options, ops: &[Op], what: &str) {
    let mut device = L::attach(flash, options).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut model = Model::new(&device);
    for &op in ops {
        model.apply(&mut device, op).unwrap_or_else(|error| panic!("{what}: {op:?}: {error}"));
    }
    assert_eq!(model.check(&device), Ok(true), "{what}");
    let device = L::attach(L::into_flash(device), options).unwrap();
    assert_eq!(model.settle(&device), Ok(true), "{what}, opened again");
}

#[test]
fn bad_blocks_at_every_position() {
    for first in 0..14 {
        for second in first..14 {
            let mut chip = chip(&spec(512, 16, 8, 14), 1);
            for block in [first, second] {
                chip.mark_bad(&Context::default(), BlockIndex(block)).unwrap();
            }
            check::<BlockMap, _>(chip, &options(), &workload(7), &format!("bad blocks {first} and {second}"));
        }
    }
}

#[test]
fn failures_at_every_program_erase_and_copy() {
    for (operation, kind) in [
        (Operation::Program, nandkit_flash::ErrorKind::ProgramFailed),
        (Operation::Copy, nandkit_flash::ErrorKind::ProgramFailed),
        (Operation::Erase, nandkit_flash::ErrorKind::EraseFailed),
    ] {
        let mut nth = 1;
        loop {
            let fault = Fault::fail(operation, FaultWhen::Nth(nth), kind);
            let again = Fault::fail(operation, FaultWhen::Nth(nth + 3), kind);
            let flash = FaultFlash::new(chip(&spec(512, 16, 8, 14), 2), [fault, again]);
            let options = BlockMapOptions { partial_merge: nth % 2 == 0, ..options() };
            check::<BlockMap, _>(flash, &options, &workload(3), &format!("{operation:?} number {nth} fails"));
            let whole = FaultFlash::new(chip(&spec(512, 16, 8, 14), 2), []);
            let mut device = BlockMapFtl::attach(whole, options).unwrap();
            let mut model = Model::new(&device);
            workload(3).into_iter().for_each(|op| model.apply(&mut device, op).unwrap());
            nth += 1;
            if nth > device.flash().count(operation) {
                break;
            }
        }
        assert!(nth > 30, "{operation:?}: {nth}");
    }
}

#[test]
fn fast_goes_on_after_failures_at_every_program_erase_and_copy() {
    let options =
        FastOptions { capacity: LogicalCapacity::Bytes(4 * 8 * 512), log_blocks: 2, ..FastOptions::default() };
    for (operation, kind) in [
        (Operation::Program, nandkit_flash::ErrorKind::ProgramFailed),
        (Operation::Copy, nandkit_flash::ErrorKind::ProgramFailed),
        (Operation::Erase, nandkit_flash::ErrorKind::EraseFailed),
    ] {
        let mut device = FastFtl::attach(FaultFlash::new(chip(&spec(512, 16, 8, 15), 2), []), options.clone()).unwrap();
        let mut model = Model::new(&device);
        workload(3).into_iter().for_each(|op| model.apply(&mut device, op).unwrap());
        let count = device.flash().count(operation);
        assert!(count > 30, "{operation:?}: {count}");
        for nth in 1..=count {
            let faults = [nth, nth + 3].map(|nth| Fault::fail(operation, FaultWhen::Nth(nth), kind));
            let flash = FaultFlash::new(chip(&spec(512, 16, 8, 15), 2), faults);
            check::<Fast, _>(flash, &options, &workload(3), &format!("{operation:?} number {nth} fails"));
        }
    }
}

#[test]
fn failures_by_chance_until_no_block_is_left() {
    for seed in 0..30 {
        let mut spec = spec(512, 16, 8, 24);
        spec.failures.enabled = true;
        (spec.failures.program_probability, spec.failures.erase_probability) = (0.002, 0.004);
        let mut device = BlockMapFtl::attach(chip(&spec, seed), options()).unwrap();
        let mut model = Model::new(&device);
        let mut full = false;
        for op in Ops::new(seed, Mix::WRITES, 32).take(20_000) {
            match model.apply(&mut device, op) {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::Full => {
                    full = true;
                    break;
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        assert!(full, "the chip wears out");
        // What was written before can still be read, also after attaching again, for reading only
        // if need be.
        assert_eq!(model.check_pending(&device), Ok(true), "seed {seed}");
        let device = BlockMapFtl::attach(device.into_flash(), options()).unwrap();
        assert_eq!(model.settle(&device), Ok(true), "seed {seed}, opened again");
    }
}

/// A chip that refuses every program is attached for reading. The error of a write names the part's
/// first failure, not only the fact that there was one.
#[test]
fn a_chip_on_which_every_program_fails_says_so() {
    fn refusal<L: Layer>(options: &L::Options) -> nandkit_block::BlockError {
        let mut spec = spec(512, 16, 8, 14);
        spec.failures.enabled = true;
        spec.failures.program_probability = 1.0;
        let mut device = L::attach(chip(&spec, 1), options).unwrap();
        device.write(&Context::default(), Lba(0), Payload::Bytes(&[7; 512])).unwrap_err()
    }
    let fast = FastOptions { capacity: LogicalCapacity::Bytes(4 * 8 * 512), log_blocks: 2, ..FastOptions::default() };
    for error in [refusal::<BlockMap>(&options()), refusal::<Fast>(&fast)] {
        assert_eq!(error.kind, ErrorKind::ReadOnly);
        let message = error.to_string();
        for part in
            ["no good free block", "programs and 0 erases have failed, first: program of block", "the part reports"]
        {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn an_unreadable_page_stays_unreadable_until_it_is_written() {
    use nandkit_flash::wrap::FaultEffect;
    // From now on the data block's page 3 cannot be read, whenever it is moved.
    let mut device =
        BlockMapFtl::attach(chip(&spec(512, 16, 8, 14), 3), BlockMapOptions { copyback: false, ..options() }).unwrap();
    let context = Context::default();
    let page = [7u8; 512];
    for sector in 0..8 {
        device.write(&context, Lba(sector), Payload::Bytes(&page)).unwrap();
    }
    let (data, _) = device.blocks_of(0);
    let effect = FaultEffect::Fail { kind: nandkit_flash::ErrorKind::Uncorrectable, carried_out: false };
    let fault =
        Fault { operation: Operation::Read, when: FaultWhen::Page(data.unwrap().page(3)), effect, times: u64::MAX };
    let (chip, _) = device.close(&context).unwrap();
    let mut device =
        BlockMapFtl::attach(FaultFlash::new(chip, [fault]), BlockMapOptions { copyback: false, ..options() }).unwrap();
    let read = |device: &BlockMapFtl<_>, sector| {
        let mut found = [0; 512];
        device.read(&context, Lba(sector), ReadInto::Bytes(&mut found)).map(|_| found)
    };
    // Enough writes to merge the block.
    for n in 0..40 {
        device.write(&context, Lba([0, 1, 2, 4, 5, 6][n % 6]), Payload::Bytes(&page)).unwrap();
    }
    assert!(device.counters().full_merges > 0);
    assert_eq!(read(&device, 3).unwrap_err().kind, ErrorKind::Unreadable);
    assert_eq!(read(&device, 4).unwrap(), page);
    // Also after attaching again, from the flash alone: the copy is marked as holding nothing.
    let flash = device.into_flash().into_inner();
    let mut device =
        BlockMapFtl::attach(FaultFlash::new(flash, []), BlockMapOptions { copyback: false, ..options() }).unwrap();
    assert_eq!(read(&device, 3).unwrap_err().kind, ErrorKind::Unreadable);
    device.write(&context, Lba(3), Payload::Bytes(&page)).unwrap();
    assert_eq!(read(&device, 3).unwrap(), page);
}

/// The sectors that cannot be read; all others must be as the model has them.
fn lost(model: &Model, device: &impl BlockDevice, what: &str) -> Vec<u64> {
    let (mut found, mut expected) = ([0; 512], [0; 512]);
    let unreadable = |(at, sector): (usize, &crate::common::model::Sector)| {
        let at = at as u64;
        match device.read(&Context::default(), Lba(at), ReadInto::Bytes(&mut found)) {
            Ok(_) => {
                crate::common::model::fill(at, sector.now, &mut expected);
                assert!(found == expected, "{what}: sector {at} holds something else");
                None
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Unreadable, "{what}: {error}");
                Some(at)
            }
        }
    };
    model.sectors.iter().enumerate().filter_map(unreadable).collect()
}

/// A run of copies meets a lost source: only that page is lost and reads as an error from then on;
/// the pages after it in the run are copied.
fn lost_in_a_run<L: Layer>(
    blocks: u32,
    options: &L::Options,
    poisoned: impl Fn(&L::Device<FaultFlash<ContentChip>>) -> u64,
) {
    let ops = workload(5);
    let go = |faults: &[Fault], what: &str| {
        let flash = FaultFlash::new(chip(&spec(512, 16, 8, blocks), 6), faults.iter().copied());
        let mut device = L::attach(flash, options).unwrap();
        let mut model = Model::new(&device);
        for &op in &ops {
            model.apply(&mut device, op).unwrap_or_else(|error| panic!("{what}: {op:?}: {error}"));
        }
        (device, model)
    };
    let copies = L::into_flash(go(&[], "no fault").0).count(Operation::Copy);
    assert!(copies > 60, "{copies}");
    let (mut lost_at_the_end, mut twice) = (0, 0);
    for nth in 1..=copies {
        // The next page but one of the same run is lost too, when the pages after the first lost
        // one are copied one by one.
        let faults = [nth, nth + 2]
            .map(|nth| Fault::fail(Operation::Copy, FaultWhen::Nth(nth), nandkit_flash::ErrorKind::Uncorrectable));
        let what = format!("copies {nth} and {} meet a lost page", nth + 2);
        let (device, model) = go(&faults, &what);
        let (before, count) = (lost(&model, &device, &what), poisoned(&device));
        let flash = L::into_flash(device);
        // A poisoned page that is copied again stays poisoned and counts again.
        let struck: u64 = flash.struck().iter().sum();
        assert!(
            before.len() as u64 <= struck && count >= struck,
            "{what}: {before:?} lost, {count} poisoned, {struck}"
        );
        let device = L::attach(FaultFlash::new(flash.into_inner(), []), options).unwrap();
        assert_eq!(lost(&model, &device, &what), before, "{what}, opened again");
        lost_at_the_end += before.len();
        twice += usize::from(before.len() == 2);
    }
    assert!(lost_at_the_end > 20 && twice > 5, "{lost_at_the_end} pages, {twice} times two");
}

#[test]
fn a_run_of_copies_goes_on_behind_a_lost_page() {
    lost_in_a_run::<BlockMap>(14, &options(), |device| device.counters().poisoned_pages);
    let capacity = LogicalCapacity::Bytes(4 * 8 * 512);
    let options = FastOptions { capacity, log_blocks: 2, ..FastOptions::default() };
    lost_in_a_run::<Fast>(15, &options, |device| device.counters().poisoned_pages);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let cases: [(BlockMapOptions, &str); 6] = [
        (BlockMapOptions { log_blocks: 0, ..options() }, "log blocks"),
        (BlockMapOptions { sector_size: 1024, ..options() }, "sector size"),
        (BlockMapOptions { sector_size: 300, ..options() }, "sector size"),
        (BlockMapOptions { capacity: LogicalCapacity::SpareBlocks(3), ..options() }, "logical capacity"),
        (BlockMapOptions { capacity: LogicalCapacity::Bytes(0), ..options() }, "logical capacity"),
        (BlockMapOptions { log_blocks: 60_000, ..options() }, "fewer log blocks"),
    ];
    for (options, expected) in cases {
        let error = BlockMapFtl::attach(chip(&spec(512, 16, 8, 14), 1), options).unwrap_err();
        assert!(error.detail.contains(expected), "{error}");
    }
    for spec in [spec(512, 8, 8, 14), spec(512, 16, 2, 14)] {
        assert!(BlockMapFtl::attach(chip(&spec, 1), options()).is_err(), "{:?}", spec.geometry);
    }
    // A chip that holds more than the options allow.
    let mut device = BlockMapFtl::attach(chip(&spec(512, 16, 8, 14), 1), options()).unwrap();
    device.write(&Context::default(), Lba(31), Payload::Bytes(&[1; 512])).unwrap();
    let smaller = BlockMapOptions { capacity: LogicalCapacity::Bytes(8 * 512), ..options() };
    let error = BlockMapFtl::attach(device.into_flash(), smaller).unwrap_err();
    assert!(error.detail.contains("logical block 3"), "{error}");
}
