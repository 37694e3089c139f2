//! Recorders keep their devices' promises, and a cut that is made from notes leaves what the same
//! cut of the run leaves.

use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, Survival};
use nandkit_block::{BlockDevice, RamDevice};
use nandkit_flash::wrap::{CutFlash, CutMoment, CutPlan};
use nandkit_flash::{Flash, PageProgram, PageRead};
use nandkit_testkit::block_suite::{self, BlockOptions};
use nandkit_testkit::flash_memory::StrictFlash;
use nandkit_testkit::flash_suite::planted::TinyFlash;
use nandkit_testkit::flash_suite::{self, FlashOptions};
use nandkit_testkit::record::{ChangeReplay, MemoryDisk, RecordingDevice, RecordingFlash, RequestReplay};
use nandkit_units::random::Random;
use nandkit_units::{BlockIndex, Cause, Context, FlashGeometry, Lba, PageAddress, Payload, ReadInto};

#[test]
fn the_memory_disk_and_the_recorder_pass() {
    let options = BlockOptions { rounds: 400, ..BlockOptions::default() };
    let disk = |geometry: &nandkit_block::BlockGeometry| MemoryDisk::new(geometry.sector_size, geometry.sectors);
    block_suite::run(|geometry| Box::new(disk(geometry).settle()), &options).unwrap();
    // A recorder keeps every byte that it was given.
    let options = BlockOptions { rounds: 40, ..options };
    let recorded = |geometry: &nandkit_block::BlockGeometry| RecordingDevice::new(RamDevice::new(*geometry).unwrap()).0;
    block_suite::run(|geometry| Box::new(recorded(geometry)), &options).unwrap();
}

fn bytes_of(device: &impl BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().capacity() as usize];
    device.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut bytes)).unwrap();
    bytes
}

/// Writes, durable ones too, trims and flushes, until something fails.
fn work(device: &mut impl BlockDevice) {
    let mut random = Random::new(3, "work");
    for number in 0..60_u8 {
        let (context, at) = (Context::default(), Lba(random.below(28)));
        let bytes = vec![number + 1; 512 * random.between(1, 4) as usize];
        let done = match random.below(8) {
            0 => device.flush(&context),
            1 => device.trim().unwrap().trim(&context, at, 2),
            2 => device.write_durable(&context, at, Payload::Bytes(&bytes)),
            _ => device.write(&context, at, Payload::Bytes(&bytes)),
        };
        if done.is_err() {
            return;
        }
    }
}

#[test]
fn a_cut_from_the_notes_is_the_cut_of_the_run() {
    let start = MemoryDisk::new(512, 32);
    let (mut recorded, requests) = RecordingDevice::new(start.clone());
    work(&mut recorded);
    assert_eq!(requests.count(), 60);
    let mut replay = RequestReplay::new(start.clone(), requests.take());
    while let Some((number, _)) = replay.peek() {
        for moment in [DeviceCutMoment::Before, DeviceCutMoment::After] {
            // What is drawn depends on where the count begins.
            for survival in [Survival::None, Survival::All] {
                let plan = DeviceCutPlan::at(number, moment, survival, 1);
                let mut run = CutDevice::new(start.clone(), plan);
                work(&mut run);
                assert!(bytes_of(&replay.cut(plan).unwrap()) == bytes_of(&run.into_inner().unwrap()), "{plan:?}");
            }
        }
        replay.advance().unwrap();
    }
    assert!(replay.peek().is_none());
}

#[test]
fn the_recorder_of_a_flash_passes() {
    let geometries = vec![FlashGeometry::nand(512, 16, 4, 8)];
    let options = FlashOptions { geometries, rounds: 40, ..FlashOptions::default() };
    flash_suite::run(|geometry| Box::new(RecordingFlash::new(TinyFlash::new(*geometry)).0), &options).unwrap();
}

/// Programs and erases of a block after the other; the third program fails.
fn program_all(flash: &mut impl Flash) {
    let context = Context::default().for_cause(Cause::Metadata);
    for block in 0..4 {
        let _ = flash.erase(&context, BlockIndex(block));
        for page in 0..3 {
            let oob = [block as u8; 4];
            let program = PageProgram::new(Payload::Bytes(&[7; 512]), &oob);
            let _ = flash.program(&context, PageAddress::new(block, page), program);
        }
    }
}

fn failing() -> StrictFlash {
    let mut flash = StrictFlash::new(FlashGeometry::nand(512, 16, 4, 8));
    flash.fail_programs([3]);
    flash
}

/// What can be read of each page.
fn content(flash: &impl Flash) -> Vec<Option<Vec<u8>>> {
    let read = |number: u32| {
        let mut bytes = vec![0; 512];
        let at = PageAddress::new(number / 4, number % 4);
        flash.read(&Context::default(), at, PageRead::bytes(0, &mut bytes)).ok().map(|_| bytes)
    };
    (0..32).map(read).collect()
}

#[test]
fn a_cut_of_changes_from_the_notes_is_the_cut_of_the_run() {
    let (mut recorded, changes) = RecordingFlash::new(failing());
    program_all(&mut recorded);
    assert_eq!(changes.count(), 16);
    let noted = changes.take();
    assert_eq!(noted.iter().filter(|noted| noted.failed.is_some()).count(), 1);
    assert!(noted.iter().all(|noted| noted.context.cause == Cause::Metadata));
    let mut replay = ChangeReplay::new(failing(), noted);
    while let Some((step, _)) = replay.peek() {
        for moment in CutMoment::ALL {
            let mut run = CutFlash::new(failing(), CutPlan::at(step, moment));
            program_all(&mut run);
            assert!(content(&replay.cut(moment).unwrap()) == content(&run.into_inner()), "{step}@{moment}");
        }
        replay.advance();
    }
}
