//! A host interface keeps the contract of the device below, and hides no fault of it.

use nandkit_block::{BlockDevice, BlockGeometry, HostLink, HostLinkSpec, RamDevice};
use nandkit_testkit::block_suite::planted::{BlockBug, PlantedDevice};
use nandkit_testkit::block_suite::{self, BlockOptions, Reopen};

fn spec() -> HostLinkSpec {
    HostLinkSpec {
        queue_depth: 2,
        command_ns: 1_000,
        read_latency_ns: 10_000,
        write_latency_ns: 4_000,
        link_ps_per_byte: 1_667,
        full_duplex: false,
    }
}

fn drive(geometry: &BlockGeometry, bug: Option<BlockBug>) -> HostLink<PlantedDevice> {
    let device = match bug {
        Some(bug) => PlantedDevice::with_bug(geometry, bug),
        None => PlantedDevice::new(geometry),
    };
    HostLink::new(&spec(), device).unwrap()
}

/// A drive that can be opened anew.
struct OnDrive(HostLink<PlantedDevice>);

impl Reopen for OnDrive {
    fn device(&mut self) -> &mut dyn BlockDevice {
        &mut self.0
    }

    fn reopen(&mut self) {
        self.0.inner_mut().reopen();
    }
}

#[test]
fn drives_pass() {
    let options = BlockOptions { rounds: 400, ..BlockOptions::default() };
    for spec in [spec(), HostLinkSpec::default(), HostLinkSpec { full_duplex: true, queue_depth: 1, ..spec() }] {
        let make = |geometry: &BlockGeometry| HostLink::new(&spec, RamDevice::new(*geometry).unwrap()).unwrap();
        block_suite::run(|geometry| Box::new(make(geometry)), &options).unwrap();
    }
    block_suite::run(|geometry| Box::new(drive(geometry, None)), &options).unwrap();
    block_suite::run_durability(|geometry| Box::new(OnDrive(drive(geometry, None))), &options).unwrap();
}

#[test]
fn capabilities_are_those_of_the_device_below() {
    let geometry = block_suite::geometries()[0];
    let mut with = drive(&geometry, None);
    assert!(with.trim().is_some());
    assert_eq!(with.remap().map(|remap| remap.unit()), Some(geometry.sector_size));
    let mut without = HostLink::new(&spec(), RamDevice::new(geometry).unwrap()).unwrap();
    assert!(without.trim().is_some() && without.remap().is_none());
}

#[test]
fn every_bug_of_the_device_below_is_found_through_the_interface() {
    for (bug, check) in BlockBug::ALL {
        // No command ends before the interface has passed it on.
        if bug == BlockBug::CompletesBeforeIssued {
            continue;
        }
        let options = BlockOptions { rounds: 150, ..BlockOptions::default() };
        let result = if check == block_suite::DURABILITY {
            block_suite::run_durability(|geometry| Box::new(OnDrive(drive(geometry, Some(bug)))), &options)
        } else {
            block_suite::run(|geometry| Box::new(drive(geometry, Some(bug))), &options)
        };
        let found = result.expect_err(&format!("{bug:?} was not found"));
        assert!(found.has(check), "{bug:?} was not found by {check}, only:\n{found}");
    }
}
