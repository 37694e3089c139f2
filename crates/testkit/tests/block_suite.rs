//! The block suite passes on every device of the block crate and every wrapper, and finds every
//! planted bug by name.

use std::path::PathBuf;

use nandkit_block::wrap::{
    CutDevice, DeviceCutMoment, DeviceCutPlan, DeviceEvent, FaultDevice, OverlayDevice, StatsDevice, Survival,
    TraceDevice,
};
use nandkit_block::{Access, BlockDevice, BlockGeometry, FileDevice, JournalledFile, RamDevice};
use nandkit_testkit::block_suite::planted::{BlockBug, PlantedDevice};
use nandkit_testkit::block_suite::{self, BlockOptions, Reopen};
use nandkit_testkit::violation::{NO_PANIC, without_fault};
use tempfile::TempDir;

fn run(make: impl Fn(PlantedDevice) -> Box<dyn BlockDevice>) {
    let options = BlockOptions { rounds: 400, ..BlockOptions::default() };
    block_suite::run(|geometry| make(PlantedDevice::new(geometry)), &options).unwrap();
}

#[test]
fn the_ram_device_and_the_reference_pass() {
    block_suite::run(|geometry| Box::new(RamDevice::new(*geometry).unwrap()), &BlockOptions::default()).unwrap();
    run(|device| Box::new(device));
    run(|device| Box::new(Box::new(device) as Box<dyn BlockDevice>));
}

#[test]
fn wrappers_pass() {
    run(|device| Box::new(TraceDevice::new(device, |_: DeviceEvent| {})));
    run(|device| Box::new(StatsDevice::new(device)));
    run(|device| Box::new(FaultDevice::new(device, [])));
    run(|device| Box::new(CutDevice::new(device, DeviceCutPlan::NONE)));
    run(|device| Box::new(OverlayDevice::new(device).unwrap()));
}

/// Fresh file names in a directory that goes away with it.
struct Files {
    directory: TempDir,
    count: u32,
}

impl Files {
    fn new() -> Self {
        Self { directory: TempDir::new().unwrap(), count: 0 }
    }

    fn next(&mut self) -> PathBuf {
        self.count += 1;
        self.directory.path().join(format!("{}.img", self.count))
    }
}

#[test]
fn file_devices_pass() {
    let mut files = Files::new();
    let options = BlockOptions { rounds: 300, ..BlockOptions::default() };
    block_suite::run(|geometry| Box::new(FileDevice::create(&files.next(), *geometry).unwrap()), &options).unwrap();
    block_suite::run(|geometry| Box::new(JournalledFile::create(&files.next(), *geometry).unwrap()), &options).unwrap();
    let spilling =
        |geometry: &BlockGeometry| JournalledFile::create(&files.next(), *geometry).unwrap().with_buffer_limit(5000);
    let mut spilling = spilling;
    block_suite::run(|geometry| Box::new(spilling(geometry)), &options).unwrap();
}

struct OnFile<D> {
    device: Option<D>,
    open: Box<dyn Fn() -> D>,
}

impl<D: BlockDevice> Reopen for OnFile<D> {
    fn device(&mut self) -> &mut dyn BlockDevice {
        self.device.as_mut().unwrap()
    }
    fn reopen(&mut self) {
        self.device = None;
        self.device = Some((self.open)());
    }
}

#[test]
fn flushed_data_are_there_after_reopening() {
    let mut files = Files::new();
    let options = BlockOptions::default();
    block_suite::run_durability(|geometry| Box::new(PlantedDevice::new(geometry)), &options).unwrap();
    block_suite::run_durability(
        |geometry| {
            let path = files.next();
            let device = Some(JournalledFile::create(&path, *geometry).unwrap());
            Box::new(OnFile { device, open: Box::new(move || JournalledFile::open(&path, Access::ReadWrite).unwrap()) })
        },
        &options,
    )
    .unwrap();
    block_suite::run_durability(
        |geometry| {
            let path = files.next();
            let device = Some(FileDevice::create(&path, *geometry).unwrap());
            let size = geometry.sector_size;
            let open = move || FileDevice::open(&path, size, Access::ReadWrite).unwrap();
            Box::new(OnFile { device, open: Box::new(open) })
        },
        &options,
    )
    .unwrap();
}

/// A volatile cache that is cut at every reopening.
struct Volatile {
    device: Option<CutDevice<RamDevice>>,
    survival: Survival,
    seed: u64,
}

impl Reopen for Volatile {
    fn device(&mut self) -> &mut dyn BlockDevice {
        self.device.as_mut().unwrap()
    }
    fn reopen(&mut self) {
        let mut device = self.device.take().unwrap();
        self.seed += 1;
        let next = device.requests() + 1;
        device.set_plan(DeviceCutPlan::at(next, DeviceCutMoment::Before, self.survival, self.seed));
        device.flush(&nandkit_units::Context::default()).unwrap_err();
        assert!(device.is_off());
        self.device = Some(CutDevice::new(device.into_inner().unwrap(), DeviceCutPlan::NONE));
    }
}

#[test]
fn a_cut_loses_nothing_that_was_flushed_and_tears_nothing() {
    for survival in [Survival::None, Survival::All, Survival::Prefix, Survival::Subset] {
        for seed in 0..10 {
            let options = BlockOptions { seed, ..BlockOptions::default() };
            block_suite::run_durability(
                |geometry| {
                    let device = CutDevice::new(RamDevice::new(*geometry).unwrap(), DeviceCutPlan::NONE);
                    Box::new(Volatile { device: Some(device), survival, seed })
                },
                &options,
            )
            .unwrap();
        }
    }
}

#[test]
fn every_planted_bug_is_found_by_the_check_that_is_named() {
    for (bug, check) in BlockBug::ALL {
        let options = BlockOptions { rounds: 150, ..BlockOptions::default() };
        let result = if check == block_suite::DURABILITY {
            block_suite::run_durability(|geometry| Box::new(PlantedDevice::with_bug(geometry, bug)), &options)
        } else {
            block_suite::run(|geometry| Box::new(PlantedDevice::with_bug(geometry, bug)), &options)
        };
        let found = result.expect_err(&format!("{bug:?} was not found"));
        assert!(found.has(check), "{bug:?} was not found by {check}, only:\n{found}");
    }
}

/// Checks for which no fault is planted, each with the reason. This list only ever becomes shorter.
const WITHOUT_FAULT: [&str; 0] = [];

#[test]
fn every_check_has_a_planted_bug() {
    let checks = block_suite::check_names().chain([block_suite::DURABILITY, NO_PANIC]);
    assert_eq!(without_fault(checks, BlockBug::ALL.map(|(_, check)| check)), WITHOUT_FAULT);
}
