//! What each flash wrapper adds: the suite (`flash_suite.rs`) already shows that they forward.

use nandkit_flash::wrap::{
    CutFlash, CutMoment, CutPlan, Fault, FaultEffect, FaultFlash, FaultWhen, FlashAction, FlashEvent, StatsFlash,
    TraceFlash,
};
use nandkit_flash::{ErrorKind, Flash, Operation, PageProgram, PageRead};
use nandkit_testkit::durability::cut;
use nandkit_testkit::flash_suite::planted::TinyFlash;
use nandkit_units::{Area, BlockIndex, Cause, Context, FlashGeometry, Nanos, PageAddress, Payload, ReadInto};

fn geometry() -> FlashGeometry {
    FlashGeometry { planes: 2, ..FlashGeometry::nand(512, 16, 4, 8) }
}

fn tiny() -> TinyFlash {
    TinyFlash::new(geometry())
}

fn program(flash: &mut impl Flash, at: PageAddress, byte: u8) -> nandkit_flash::Result<nandkit_units::Done> {
    flash.program(&Context::default(), at, PageProgram::new(Payload::Bytes(&[byte; 512]), &[byte; 4]))
}

fn first_byte(flash: &impl Flash, at: PageAddress) -> nandkit_flash::Result<u8> {
    let mut byte = [0];
    flash.read(&Context::default(), at, PageRead::bytes(0, &mut byte))?;
    Ok(byte[0])
}

#[test]
fn stats_count_by_cause_and_area_and_phase() {
    let mut flash = StatsFlash::new(tiny());
    let user = Context::at(Nanos(5));
    let map = user.for_device_cause(Cause::Mapping);
    let metadata = user.for_cause(Cause::Metadata).in_area(Area::Metadata);
    let whole = PageProgram::new(Payload::Bytes(&[1; 512]), &[2; 10]);
    flash.program(&user, PageAddress::new(0, 0), whole).unwrap();
    let fill = flash.snapshot();
    flash.program(&map, PageAddress::new(0, 1), whole).unwrap();
    flash.program(&metadata, PageAddress::new(0, 2), whole).unwrap();
    let read = PageRead { column: 0, data: ReadInto::Nothing { length: 100 }, oob: &mut [] };
    flash.read(&user, PageAddress::new(0, 0), read).unwrap();
    flash.copyback().unwrap().copy(&map, PageAddress::new(0, 0), PageAddress::new(2, 0), Some(&[3; 6])).unwrap();
    flash.erase(&map, BlockIndex(0)).unwrap();
    flash.erase(&map, BlockIndex(0)).unwrap();
    flash.program(&user, PageAddress::new(9, 0), whole).unwrap_err();
    let measured = &flash.snapshot() - &fill;
    let mapping = measured.cause(Cause::Mapping);
    assert_eq!((mapping.programs, mapping.copies, mapping.erases), (1, 1, 2));
    assert_eq!((mapping.bytes_programmed, mapping.oob_bytes_programmed), (1024, 16));
    assert_eq!(mapping.busy_ns, 200_000 + 225_000 + 2 * 2_000_000);
    assert_eq!(measured.area(Area::Metadata).programs, 1);
    assert_eq!((measured.cause(Cause::UserData).reads, measured.cause(Cause::UserData).bytes_read), (1, 100));
    assert_eq!(measured.cause(Cause::UserData).programs, 0, "the fill was taken off");
    assert_eq!(measured.failures(ErrorKind::Misuse), 1);
    assert_eq!(measured.erases_per_block, [2, 0, 0, 0, 0, 0, 0, 0]);
    let spread = measured.erase_distribution();
    assert_eq!((spread.min, spread.p50, spread.max, spread.never), (0, 0, 2, 7));
}

#[test]
fn marking_a_block_bad_takes_time_that_is_counted() {
    let mut flash = StatsFlash::new(tiny());
    let context = Context::at(Nanos(5)).for_device_cause(Cause::Recovery);
    let done = flash.mark_bad(&context, BlockIndex(3)).unwrap();
    let counted = flash.snapshot();
    assert!(done.busy > Nanos::ZERO, "the device below takes its time");
    assert_eq!(counted.cause(Cause::Recovery).busy_ns, done.busy.0);
    assert_eq!(counted.total().busy_ns, done.busy.0);
}

#[test]
fn faults_strike_as_scripted() {
    let at = PageAddress::new(0, 1);
    let carried = FaultEffect::Fail { kind: ErrorKind::EraseFailed, carried_out: true };
    let mut flash = FaultFlash::new(
        tiny(),
        [
            Fault::fail(Operation::Program, FaultWhen::Nth(2), ErrorKind::ProgramFailed),
            Fault { operation: Operation::Erase, when: FaultWhen::Always, effect: carried, times: 1 },
            Fault {
                operation: Operation::Read,
                when: FaultWhen::Page(PageAddress::new(0, 0)),
                effect: FaultEffect::Flip { offset: 0, mask: 0x81 },
                times: 2,
            },
        ],
    );
    program(&mut flash, PageAddress::new(0, 0), 0xF0).unwrap();
    let error = program(&mut flash, at, 1).unwrap_err();
    assert_eq!((error.kind, error.at), (ErrorKind::ProgramFailed, at));
    program(&mut flash, at, 2).expect("the fault struck once, and left the page untouched");
    let bytes: Vec<u8> = (0..3).map(|_| first_byte(&flash, PageAddress::new(0, 0)).unwrap()).collect();
    assert_eq!(bytes, [0x71, 0x71, 0xF0]);
    assert_eq!(flash.erase(&Context::default(), BlockIndex(0)).unwrap_err().kind, ErrorKind::EraseFailed);
    assert_eq!(first_byte(&flash, at).unwrap(), 0xFF, "the erase was carried out before it failed");
    assert_eq!(flash.struck(), [1, 1, 2]);
}

#[test]
fn a_cut_stops_everything_until_the_power_comes_back() {
    for (moment, first, second) in [
        (CutMoment::Before, 1, 0xFF),
        (CutMoment::ALL[1], 1, 0xFF),
        (CutMoment::ALL[2], 1, 2),
        (CutMoment::ALL[3], 1, 2),
        (CutMoment::After, 1, 2),
    ] {
        let mut flash = CutFlash::new(tiny(), CutPlan::at(2, moment));
        program(&mut flash, PageAddress::new(0, 0), 1).unwrap();
        let result = program(&mut flash, PageAddress::new(0, 1), 2);
        assert_eq!(result.is_ok(), moment == CutMoment::After, "{moment}");
        assert!(flash.is_off());
        let context = Context::default();
        let kinds = [
            first_byte(&flash, PageAddress::new(0, 0)).unwrap_err().kind,
            flash.erase(&context, BlockIndex(1)).unwrap_err().kind,
            flash.mark_bad(&context, BlockIndex(1)).unwrap_err().kind,
            flash.sync(&context).unwrap_err().kind,
            flash
                .copyback()
                .unwrap()
                .copy(&context, PageAddress::new(0, 0), PageAddress::new(2, 0), None)
                .unwrap_err()
                .kind,
        ];
        assert_eq!(kinds, [ErrorKind::PowerLost; 5]);
        assert_eq!(flash.replay(), format!("at:2@{moment}"));
        assert_eq!(flash.outcomes()[0].to_string(), format!("2@{moment}/program/0.1"));
        let flash = flash.into_inner();
        assert_eq!(first_byte(&flash, PageAddress::new(0, 0)).unwrap(), first, "{moment}");
        assert_eq!(first_byte(&flash, PageAddress::new(0, 1)).unwrap(), second, "{moment}");
    }
}

#[test]
fn a_list_of_cuts_goes_on_counting() {
    let plan: CutPlan = "list:2@whole-whole,4@before".parse().unwrap();
    let mut flash = CutFlash::new(tiny(), plan.clone());
    program(&mut flash, PageAddress::new(0, 0), 7).unwrap();
    let error = program(&mut flash, PageAddress::new(1, 0), 7).unwrap_err();
    assert_eq!((error.kind, error.at), (ErrorKind::PowerLost, PageAddress::new(1, 0)));
    flash.power_on();
    assert_eq!(first_byte(&flash, PageAddress::new(1, 0)).unwrap(), 7);
    program(&mut flash, PageAddress::new(2, 0), 1).unwrap();
    program(&mut flash, PageAddress::new(2, 1), 1).unwrap_err();
    assert_eq!(flash.replay(), plan.to_string());
    flash.power_on();
    program(&mut flash, PageAddress::new(2, 1), 1).unwrap();
    assert_eq!(flash.steps(), 5);
}

/// A journal of two pages that is wrong on purpose: it trusts page 0 without a seal. The search
/// must find that.
fn write_sealed(flash: &mut dyn Flash) -> nandkit_flash::Result<()> {
    let context = Context::default();
    flash.erase(&context, BlockIndex(0))?;
    flash.program(&context, PageAddress::new(0, 0), PageProgram::bytes(0, &[0x55; 512]))?;
    flash.program(&context, PageAddress::new(0, 1), PageProgram::bytes(0, &[0xAA; 512]))?;
    Ok(())
}

fn judge(flash: &dyn Flash, trusts_the_seal: bool) -> Result<(), String> {
    let (mut data, mut seal) = ([0; 512], [0; 512]);
    let context = Context::default();
    let sealed =
        flash.read(&context, PageAddress::new(0, 1), PageRead::bytes(0, &mut seal)).is_ok() && seal == [0xAA; 512];
    let read = flash.read(&context, PageAddress::new(0, 0), PageRead::bytes(0, &mut data)).is_ok();
    let taken = if trusts_the_seal { sealed } else { data[0] == 0x55 };
    if taken && !(read && data == [0x55; 512]) { Err("took a torn page for whole".to_string()) } else { Ok(()) }
}

#[test]
fn exhaustive_search_finds_what_trusts_a_torn_page() {
    let search = |trusts_the_seal| {
        cut::search(cut::exhaustive(3), |plan| {
            let mut flash = CutFlash::new(tiny(), plan.clone());
            let _ = write_sealed(&mut flash);
            judge(&flash.into_inner(), trusts_the_seal)
        })
    };
    assert_eq!(search(true), Ok(18));
    assert_eq!(search(false).unwrap_err().plan.to_string(), "at:2@prefix-half");
}

#[test]
fn traces_tell_every_operation_with_its_result() {
    let mut events = Vec::new();
    let mut flash = TraceFlash::new(tiny(), |event: FlashEvent| events.push(event));
    program(&mut flash, PageAddress::new(0, 0), 1).unwrap();
    program(&mut flash, PageAddress::new(0, 0), 1).unwrap_err();
    first_byte(&flash, PageAddress::new(0, 0)).unwrap();
    flash.erase(&Context::at(Nanos(9)).for_device_cause(Cause::Cleaning), BlockIndex(3)).unwrap();
    drop(flash);
    let texts: Vec<String> = events.iter().skip(1).map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "#1 t=0 user_data program 0.0+0 512+4 -> Misuse at 0",
            "#2 t=0 user_data read 0.0+0 1+0 -> 25025",
            "#3 t=9 cleaning erase 3 -> 2000009"
        ]
    );
    assert_eq!(events.last().unwrap().action, FlashAction::Erase { block: BlockIndex(3) });
}
