//! Cards and host interfaces satisfy the contract of the device below, and hide no fault of it.

use nandkit_block::card::{Card, CardSpec, presets};
use nandkit_block::{BlockDevice, BlockGeometry, HostLink, HostLinkSpec, RamDevice};
use nandkit_testkit::block_suite::planted::{BlockBug, PlantedDevice};
use nandkit_testkit::block_suite::{self, BlockOptions, Reopen};

/// A device that adds time to another one.
trait Timed: BlockDevice + Sized + 'static {
    /// The bugs of the device below that the added time hides.
    const COVERED: &'static [BlockBug];

    fn over(device: PlantedDevice) -> Self;
    fn below(&mut self) -> &mut PlantedDevice;
}

impl Timed for Card<PlantedDevice> {
    // The card completes much later.
    const COVERED: &'static [BlockBug] = &[BlockBug::CompletesBeforeIssued, BlockBug::TimeDependsOnChance];

    fn over(device: PlantedDevice) -> Self {
        Self::new(&card_spec("sd-pny-10"), device).unwrap()
    }

    fn below(&mut self) -> &mut PlantedDevice {
        self.inner_mut()
    }
}

impl Timed for HostLink<PlantedDevice> {
    // No command ends before the interface has transferred it.
    const COVERED: &'static [BlockBug] = &[BlockBug::CompletesBeforeIssued];

    fn over(device: PlantedDevice) -> Self {
        Self::new(&link_spec(), device).unwrap()
    }

    fn below(&mut self) -> &mut PlantedDevice {
        self.inner_mut()
    }
}

/// A preset with units so small that the suite's devices have several of them and close some.
fn card_spec(name: &str) -> CardSpec {
    let mut spec = presets::load(name).unwrap();
    spec.open_units.size = 64 << 10;
    spec.open_units.count = 2;
    spec
}

fn link_spec() -> HostLinkSpec {
    HostLinkSpec {
        queue_depth: 2,
        command_ns: 1_000,
        read_latency_ns: 10_000,
        write_latency_ns: 4_000,
        link_ps_per_byte: 1_667,
        full_duplex: false,
    }
}

/// For devices that can be reopened.
struct Opened<T>(T);

impl<T: Timed> Reopen for Opened<T> {
    fn device(&mut self) -> &mut dyn BlockDevice {
        &mut self.0
    }

    fn reopen(&mut self) {
        self.0.below().reopen();
    }
}

fn keeps_the_contract<T: Timed>() {
    let options = BlockOptions { rounds: 400, ..BlockOptions::default() };
    block_suite::run(|geometry| Box::new(T::over(PlantedDevice::new(geometry))), &options).unwrap();
    let opened = |geometry: &BlockGeometry| Opened(T::over(PlantedDevice::new(geometry)));
    block_suite::run_durability(|geometry| Box::new(opened(geometry)), &options).unwrap();
    let geometry = block_suite::geometries()[0];
    let mut with = T::over(PlantedDevice::new(&geometry));
    assert!(with.trim().is_some());
    assert_eq!(with.remap().map(|remap| remap.unit()), Some(geometry.sector_size));
}

/// Runs the suite for a device over one that can only trim.
fn passes_over_memory<D: BlockDevice + 'static>(make: impl Fn(RamDevice) -> D) {
    let options = BlockOptions { rounds: 400, ..BlockOptions::default() };
    block_suite::run(|geometry| Box::new(make(RamDevice::new(*geometry).unwrap())), &options).unwrap();
    let mut without = make(RamDevice::new(block_suite::geometries()[0]).unwrap());
    assert!(without.trim().is_some() && without.remap().is_none());
}

#[test]
fn cards_pass() {
    for name in ["sd-transcend-2", "sd-kingston-4"] {
        passes_over_memory(|device| Card::new(&card_spec(name), device).unwrap());
    }
    keeps_the_contract::<Card<PlantedDevice>>();
}

#[test]
fn drives_pass() {
    let plain = link_spec();
    for spec in [plain.clone(), HostLinkSpec::default(), HostLinkSpec { full_duplex: true, queue_depth: 1, ..plain }] {
        passes_over_memory(|device| HostLink::new(&spec, device).unwrap());
    }
    keeps_the_contract::<HostLink<PlantedDevice>>();
}

fn every_bug_is_found_through<T: Timed>() {
    for (bug, check) in BlockBug::ALL.into_iter().filter(|(bug, _)| !T::COVERED.contains(bug)) {
        let options = BlockOptions { rounds: 150, ..BlockOptions::default() };
        let make = |geometry: &BlockGeometry| T::over(PlantedDevice::with_bug(geometry, bug));
        let result = if check == block_suite::DURABILITY {
            block_suite::run_durability(|geometry| Box::new(Opened(make(geometry))), &options)
        } else {
            block_suite::run(|geometry| Box::new(make(geometry)), &options)
        };
        let found = result.expect_err(&format!("{bug:?} was not found"));
        assert!(found.has(check), "{bug:?} was not found by {check}, only:\n{found}");
    }
}

#[test]
fn every_bug_of_the_device_below_is_found() {
    every_bug_is_found_through::<Card<PlantedDevice>>();
    every_bug_is_found_through::<HostLink<PlantedDevice>>();
}
