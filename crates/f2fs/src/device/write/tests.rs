use nandkit_block::wrap::{CutDevice, DeviceCutMoment, DeviceCutPlan, DeviceEvent, StatsDevice, Survival, TraceDevice};
use nandkit_block::wrap::{DeviceAction, RequestKind};
use nandkit_block::{RamDevice, ServiceTime};
use nandkit_units::{Clock, Described, Description, Generator};

use super::super::Devices;
use super::*;

const MAIN: BlockAddress = BlockAddress(4096);

fn ram(sector_size: u32) -> RamDevice {
    ram_of(sector_size, (4096 + 100 * 512) * 4096 / u64::from(sector_size))
}

fn ram_of(sector_size: u32, sectors: u64) -> RamDevice {
    let service = ServiceTime { per_request: Nanos(1000), per_byte_ps: 1000 };
    RamDevice::with_sectors(sector_size, sectors).unwrap().with_service_time(service)
}

fn volume<D: BlockDevice>(device: D) -> (WritableBlocks<D>, Clock) {
    let clock = Clock::default();
    let geometry = Geometry::for_tests(4096);
    let mut devices = Devices::new(vec![device], clock.clone()).unwrap();
    devices.arrange(&geometry, &mut |finding| panic!("{finding}")).unwrap();
    let blocks = DeviceBlocks { devices, geometry };
    (WritableBlocks::new(blocks, Atomicity::Required, &mut |finding| panic!("{finding}")).unwrap(), clock)
}

fn described(record: u64) -> Payload<'static> {
    let description = Description { record, version: 0, offset: 0, generator: Generator::Record };
    Payload::Described(Described { description, length: 4096 })
}

#[test]
fn sectors_that_tear_blocks_are_refused_or_told() {
    let geometry = Geometry::for_tests(4096);
    let blocks = || {
        let mut devices = Devices::new(vec![ram(512)], Clock::default()).unwrap();
        devices.arrange(&geometry, &mut |_| {}).unwrap();
        DeviceBlocks { devices, geometry: geometry.clone() }
    };
    let refused = WritableBlocks::new(blocks(), Atomicity::Required, &mut |_| {}).unwrap_err();
    assert!(refused.detail.contains("sectors of 512 bytes") && refused.kind == ErrorKind::NotSupported);
    let mut told = Vec::new();
    WritableBlocks::new(blocks(), Atomicity::Told, &mut |finding| told.push(finding.kind)).unwrap();
    assert_eq!(told, [FindingKind::Note]);
}

#[test]
fn the_clock_stands_still_until_the_queue_is_full_or_drained() {
    let (blocks, clock) = volume(ram(4096));
    let mut blocks = blocks.with_depth(3);
    for number in 0..3 {
        blocks
            .write(Submission::of(Cause::UserData, Log::WarmData), BlockAddress(MAIN.0 + number), &[described(1)])
            .unwrap();
    }
    // Each takes 1000 ns and 4096 bytes at a nanosecond.
    assert_eq!((clock.now(), blocks.under_way()), (Nanos(0), 3));
    blocks.write(Submission::of(Cause::UserData, Log::WarmData), MAIN, &[described(1)]).unwrap();
    assert_eq!((clock.now(), blocks.under_way()), (Nanos(5096), 3));
    blocks.drain();
    assert_eq!((clock.now(), blocks.under_way()), (Nanos(4 * 5096), 0));
}

#[test]
fn merged_requests_stay_described_and_one() {
    let (mut blocks, _) = volume(StatsDevice::new(ram(4096)));
    let parts: Vec<Payload<'_>> = (0..8).map(described).collect();
    blocks.write(Submission::of(Cause::UserData, Log::HotData), MAIN, &parts).unwrap();
    let mut contents = vec![Content::new(); 8];
    blocks.read_contents(Cause::Cleaning, MAIN, &mut contents).unwrap();
    assert!(
        contents.iter().zip(0..).all(|(content, record)| content.described().unwrap().description.record == record)
    );
    let devices = blocks.into_inner().devices.into_inner();
    let counts = devices[0].snapshot();
    assert_eq!((counts.total(RequestKind::Write).requests, counts.total(RequestKind::Read).requests), (1, 1));
    assert_eq!(devices[0].inner().held_sectors(), (0, 8));
}

#[test]
fn a_commit_goes_behind_a_flush_and_its_context_says_what_it_is() {
    let mut events = Vec::new();
    let (mut blocks, _) = volume(TraceDevice::new(ram(4096), |event: DeviceEvent| events.push(event)));
    blocks.write(Submission::of(Cause::Cleaning, Log::ColdNode), MAIN, &[Payload::Bytes(&[7; 4096])]).unwrap();
    blocks.commit(Submission::metadata(Cause::Checkpoint), BlockAddress(600), &[1; 4096]).unwrap();
    drop(blocks);
    let actions: Vec<_> = events.iter().map(|event| event.action).collect();
    let written = |at| (Lba(at), 4096);
    assert!(matches!(
        actions[..],
        [DeviceAction::Write { at, bytes }, DeviceAction::Flush, DeviceAction::WriteDurable { at: last, bytes: 4096 }]
            if (at, bytes) == written(4096) && last == Lba(600)
    ));
    assert_eq!((events[0].context.stream, events[0].context.area), (Stream(6), Area::Main));
    assert_eq!((events[2].context.stream, events[2].context.area), (Stream(0), Area::Metadata));
    // From the end of the write on.
    assert_eq!(events[1].context.issued, events[0].result.unwrap().completed);
}

#[test]
fn without_the_flush_a_commit_could_be_there_and_what_it_names_not() {
    let plan = DeviceCutPlan::at(4, DeviceCutMoment::Before, Survival::None, 1);
    let (mut blocks, _) = volume(CutDevice::new(ram(4096), plan));
    blocks.write(Submission::of(Cause::UserData, Log::WarmData), MAIN, &[Payload::Bytes(&[7; 4096])]).unwrap();
    blocks.commit(Submission::metadata(Cause::Checkpoint), BlockAddress(600), &[1; 4096]).unwrap();
    let late = Payload::Bytes(&[9; 4096]);
    assert!(blocks.write(Submission::of(Cause::UserData, Log::WarmData), MAIN, &[late]).is_err());
    let mut devices = blocks.into_inner().devices.into_inner();
    let ram = devices.remove(0).into_inner().unwrap();
    let mut found = [0; 4096];
    ram.read(&Context::default(), Lba(u64::from(MAIN.0)), nandkit_units::ReadInto::Bytes(&mut found)).unwrap();
    assert_eq!(found[0], 7);
}

#[test]
fn a_run_over_two_devices_is_a_request_to_each() {
    let clock = Clock::default();
    let mut geometry = Geometry::for_tests(4096);
    // 512 blocks before segment 0 and 27 segments; then 80 segments.
    geometry.devices = vec![27, 80];
    let border = 512 + 27 * 512;
    let mut devices = Devices::new(vec![ram_of(4096, border), ram_of(4096, 80 * 512)], clock).unwrap();
    devices.arrange(&geometry, &mut |finding| panic!("{finding}")).unwrap();
    let blocks = DeviceBlocks { devices, geometry };
    let mut blocks = WritableBlocks::new(blocks, Atomicity::Required, &mut |_| {}).unwrap();
    let parts: Vec<Payload<'_>> = (0..4).map(described).collect();
    let start = BlockAddress(border as u32 - 1);
    blocks.write(Submission::of(Cause::UserData, Log::WarmData), start, &parts).unwrap();
    blocks.flush(Cause::Checkpoint).unwrap();
    let mut contents = vec![Content::new(); 4];
    blocks.read_contents(Cause::UserData, start, &mut contents).unwrap();
    assert!(
        contents.iter().zip(0..).all(|(content, record)| content.described().unwrap().description.record == record)
    );
    blocks.discard(Cause::UserData, start.0..start.0 + 4).unwrap();
    let devices = blocks.into_inner().devices.into_inner();
    assert!(devices.iter().all(|device| device.held_sectors() == (0, 0)));
}
