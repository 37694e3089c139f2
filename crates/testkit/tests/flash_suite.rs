//! The flash suite passes on a correct device and on every wrapper around it, and finds every planted bug by name.

use nandkit_flash::Flash;
use nandkit_flash::wrap::{
    CutFlash, CutPlan, FaultFlash, FlashTraceRing, OffsetFlash, StatsFlash, TraceFlash, WitnessFlash, WitnessStep,
};
use nandkit_testkit::flash_suite::{self, FlashOptions, PageOrder};
use nandkit_testkit::planted_flash::{FlashBug, TinyFlash};
use nandkit_units::{BlockIndex, Context, FlashGeometry};

fn options() -> FlashOptions {
    FlashOptions { partial_programs: TinyFlash::PARTIAL_PROGRAMS, ..FlashOptions::default() }
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
    run(|flash| Box::new(TraceFlash::new(flash, FlashTraceRing::new(16))));
    run(|flash| Box::new(StatsFlash::new(flash)));
    run(|flash| Box::new(FaultFlash::new(flash, [])));
    run(|flash| Box::new(CutFlash::new(flash, CutPlan::None)));
    run(|flash| Box::new(WitnessFlash::new(flash, |_: &TinyFlash, _: &Context, _: &WitnessStep<'_>| {})));
}

#[test]
fn a_window_passes() {
    flash_suite::run(
        |geometry| {
            let group = geometry.planes * geometry.dies;
            let larger = FlashGeometry { blocks: geometry.blocks + 3 * group, ..*geometry };
            Box::new(OffsetFlash::new(TinyFlash::new(larger), BlockIndex(2 * group), geometry.blocks).unwrap())
        },
        &options(),
    )
    .unwrap();
}

#[test]
fn every_planted_bug_is_found_by_the_check_that_is_named() {
    for (bug, check, interrupts) in FlashBug::ALL {
        let make = |geometry: &FlashGeometry| TinyFlash::with_bug(*geometry, bug);
        let options = FlashOptions { rounds: 60, ..options() };
        let result = if interrupts {
            flash_suite::run_interrupts(|geometry| Box::new(make(geometry)), &options)
        } else {
            flash_suite::run(|geometry| Box::new(make(geometry)), &options)
        };
        let found = result.expect_err(&format!("{bug:?} was not found"));
        assert!(found.has(check), "{bug:?} was not found by {check}, only:\n{found}");
    }
}
