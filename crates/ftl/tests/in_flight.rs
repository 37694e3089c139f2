//! Rule 2 of docs/design/02-block-map-protocol.md: only one change of the flash is in flight, even
//! if the host does not wait.

use std::sync::{Arc, Mutex};

use crate::common::{BlockMap, Fast, Layer};
use nandkit_block::BlockDevice;
use nandkit_flash::wrap::{FlashAction, FlashEvent, TraceFlash};
use nandkit_ftl::{BlockMapOptions, FastOptions, LogicalCapacity};
use nandkit_nand_sim::{ChipSpec, ContentChip};
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Nanos, Payload, ReadInto};

/// Four dies that can work at once.
fn chip() -> ContentChip {
    let mut spec: ChipSpec = crate::common::spec(2048, 64, 16, 160);
    spec.geometry.channels = 2;
    spec.geometry.dies = 4;
    spec.timing.overlap = true;
    ContentChip::new(&spec, 5).unwrap()
}

/// The changes that reach the flash if all requests are issued at once.
fn changes_of_a_host_that_never_waits<L: Layer>(options: &L::Options) -> Vec<FlashEvent> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let flash = TraceFlash::new(chip(), move |event: FlashEvent| sink.lock().unwrap().push(event));
    let mut device = L::attach(flash, options).unwrap();
    let sectors = device.geometry().sectors;
    let mut random = Random::new(3, "in flight");
    let data = vec![7; 2048];
    let context = Context::at(Nanos(1_000));
    for round in 0..3_000 {
        let at = Lba(random.below(sectors));
        match round % 50 {
            47 => device.flush(&context).map(|_| ()).unwrap(),
            48 => device.trim().unwrap().trim(&context, at, 1).map(|_| ()).unwrap(),
            49 => device.read(&context, at, ReadInto::Nothing { length: 2048 }).map(|_| ()).unwrap(),
            _ => device.write(&context, at, Payload::Bytes(&data)).map(|_| ()).unwrap(),
        }
    }
    drop(device);
    std::mem::take(&mut *events.lock().unwrap())
}

fn check(events: &[FlashEvent]) {
    let mut free = Nanos::ZERO;
    let mut changes = 0;
    for event in events {
        if matches!(event.action, FlashAction::Read { .. } | FlashAction::Sync) {
            continue;
        }
        changes += 1;
        assert!(event.context.issued >= free, "issued at {} before {}: {event}", event.context.issued.0, free.0);
        free = event.result.unwrap().completed;
    }
    assert!(changes > 5_000, "{changes}");
}

#[test]
fn the_block_mapped_layer_changes_one_thing_at_a_time() {
    let options =
        BlockMapOptions { capacity: LogicalCapacity::SpareBlocks(20), log_blocks: 4, ..BlockMapOptions::default() };
    check(&changes_of_a_host_that_never_waits::<BlockMap>(&options));
}

#[test]
fn fast_changes_one_thing_at_a_time() {
    let options = FastOptions { capacity: LogicalCapacity::SpareBlocks(20), log_blocks: 4, ..FastOptions::default() };
    check(&changes_of_a_host_that_never_waits::<Fast>(&options));
}
