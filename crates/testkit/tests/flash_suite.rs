//! The flash suite passes on a correct device and on every wrapper around it, and finds every
//! planted bug by name.

use nandkit_flash::Flash;
use nandkit_flash::wrap::{CutFlash, CutPlan, FaultFlash, FlashEvent, StatsFlash, TraceFlash};
use nandkit_testkit::flash_suite::planted::{FlashBug, Shows, TinyFlash};
use nandkit_testkit::flash_suite::{self, FlashOptions, PageOrder};
use nandkit_testkit::violation::{NO_PANIC, without_fault};
use nandkit_units::{BlockIndex, FlashGeometry};

fn options() -> FlashOptions {
    // The default axis, and a page of more units than it takes programs.
    let mut geometries = flash_suite::geometries();
    geometries.push(FlashGeometry { write_unit: 256, ..FlashGeometry::nand(2048, 64, 4, 8) });
    FlashOptions { geometries, partial_programs: TinyFlash::PARTIAL_PROGRAMS, ..FlashOptions::default() }
}

fn run(make: impl Fn(TinyFlash) -> Box<dyn Flash>) {
    let axes = [(flash_suite::geometries(), PageOrder::Ascending), (flash_suite::nor_geometries(), PageOrder::Any)];
    for (geometries, order) in axes {
        let options = FlashOptions { geometries, order, rounds: 500, ..options() };
        flash_suite::run(|geometry| make(TinyFlash::new(*geometry)), &options).unwrap();
    }
}

#[test]
fn the_tiny_flash_passes() {
    run(|flash| Box::new(flash));
    let bad = [BlockIndex(1), BlockIndex(4)];
    flash_suite::run(|geometry| Box::new(TinyFlash::new(*geometry).with_bad_blocks(&bad)), &options()).unwrap();
    flash_suite::run_interrupts(|geometry| Box::new(TinyFlash::new(*geometry)), &options()).unwrap();
}

#[test]
fn boxes_and_references_pass() {
    run(|flash| Box::new(Box::new(flash) as Box<dyn Flash>));
    let boxed = |geometry: &FlashGeometry| Box::new(Box::new(TinyFlash::new(*geometry))) as Box<_>;
    flash_suite::run_interrupts(boxed, &options()).unwrap();
}

#[test]
fn wrappers_pass() {
    run(|flash| Box::new(TraceFlash::new(flash, |_: FlashEvent| {})));
    run(|flash| Box::new(StatsFlash::new(flash)));
    run(|flash| Box::new(FaultFlash::new(flash, [])));
    run(|flash| Box::new(CutFlash::new(flash, CutPlan::None)));
}

#[test]
fn a_store_without_bytes_passes() {
    let options = FlashOptions { keeps_bytes: false, rounds: 500, ..options() };
    flash_suite::run(|geometry| Box::new(TinyFlash::new(*geometry).without_bytes()), &options).unwrap();
    flash_suite::run_interrupts(|geometry| Box::new(TinyFlash::new(*geometry).without_bytes()), &options).unwrap();
}

#[test]
fn every_planted_bug_is_found_by_the_check_that_is_named() {
    for (bug, check, shows) in FlashBug::ALL {
        let make = |geometry: &FlashGeometry| TinyFlash::with_bug(*geometry, bug);
        let options = FlashOptions { rounds: 60, ..options() };
        let result = match shows {
            Shows::Nand => flash_suite::run(|geometry| Box::new(make(geometry)), &options),
            Shows::Nor => {
                let options =
                    FlashOptions { geometries: flash_suite::nor_geometries(), order: PageOrder::Any, ..options };
                flash_suite::run(|geometry| Box::new(make(geometry)), &options)
            }
            Shows::WithoutBytes => {
                let options = FlashOptions { keeps_bytes: false, ..options };
                flash_suite::run(|geometry| Box::new(make(geometry).without_bytes()), &options)
            }
            Shows::Interrupted => flash_suite::run_interrupts(|geometry| Box::new(make(geometry)), &options),
        };
        let found = result.expect_err(&format!("{bug:?} was not found"));
        assert!(found.has(check), "{bug:?} was not found by {check}, only:\n{found}");
    }
}

/// Checks for which no fault is planted, each with the reason. This list only ever becomes shorter.
const WITHOUT_FAULT: [&str; 0] = [];

#[test]
fn every_check_has_a_planted_bug() {
    let checks = flash_suite::check_names().chain(flash_suite::INTERRUPT_CHECKS).chain([NO_PANIC]);
    assert_eq!(without_fault(checks, FlashBug::ALL.map(|(_, check, _)| check)), WITHOUT_FAULT);
}
