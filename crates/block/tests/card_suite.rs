//! Cards keep the contract of the device below, and hide no fault of it.

use nandkit_block::card::{Card, CardSpec, presets};
use nandkit_block::{BlockDevice, BlockGeometry, RamDevice};
use nandkit_testkit::block_suite::planted::{BlockBug, PlantedDevice};
use nandkit_testkit::block_suite::{self, BlockOptions, Reopen};

/// A preset with units so small that the suite's devices have several, and closes some.
fn spec(name: &str) -> CardSpec {
    let mut spec = presets::load(name).unwrap();
    spec.open_units.size = 64 << 10;
    spec.open_units.count = 2;
    spec
}

fn card(geometry: &BlockGeometry, bug: Option<BlockBug>) -> Card<PlantedDevice> {
    let device = match bug {
        Some(bug) => PlantedDevice::with_bug(geometry, bug),
        None => PlantedDevice::new(geometry),
    };
    Card::new(&spec("sd-pny-10"), device).unwrap()
}

/// A card over a device that can be opened anew.
struct OnCard(Card<PlantedDevice>);

impl Reopen for OnCard {
    fn device(&mut self) -> &mut dyn BlockDevice {
        &mut self.0
    }

    fn reopen(&mut self) {
        self.0.inner_mut().reopen();
    }
}

#[test]
fn cards_pass() {
    let options = BlockOptions { rounds: 400, ..BlockOptions::default() };
    for name in ["sd-transcend-2", "sd-kingston-4"] {
        let make = |geometry: &BlockGeometry| Card::new(&spec(name), RamDevice::new(*geometry).unwrap()).unwrap();
        block_suite::run(|geometry| Box::new(make(geometry)), &options).unwrap();
    }
    block_suite::run(|geometry| Box::new(card(geometry, None)), &options).unwrap();
    block_suite::run_durability(|geometry| Box::new(OnCard(card(geometry, None))), &options).unwrap();
}

#[test]
fn capabilities_are_those_of_the_device_below() {
    let geometry = block_suite::geometries()[0];
    let mut with = card(&geometry, None);
    assert!(with.trim().is_some());
    assert_eq!(with.remap().map(|remap| remap.unit()), Some(geometry.sector_size));
    let mut without = Card::new(&spec("sd-pny-10"), RamDevice::new(geometry).unwrap()).unwrap();
    assert!(without.trim().is_some() && without.remap().is_none());
}

#[test]
fn every_bug_of_the_device_below_is_found_through_the_card() {
    for (bug, check) in BlockBug::ALL {
        // The time of the card covers that of the device below: it ends later by far.
        if [BlockBug::CompletesBeforeIssued, BlockBug::TimeDependsOnChance].contains(&bug) {
            continue;
        }
        let options = BlockOptions { rounds: 150, ..BlockOptions::default() };
        let result = if check == block_suite::DURABILITY {
            block_suite::run_durability(|geometry| Box::new(OnCard(card(geometry, Some(bug)))), &options)
        } else {
            block_suite::run(|geometry| Box::new(card(geometry, Some(bug))), &options)
        };
        let found = result.expect_err(&format!("{bug:?} was not found"));
        assert!(found.has(check), "{bug:?} was not found by {check}, only:\n{found}");
    }
}
