//! Calibration gives an emulated card its own numbers back.

use std::sync::atomic::AtomicBool;

use nandkit_block::card::{CardSpec, Pattern, presets};
use nandkit_lab::LabError;
use nandkit_lab::calibrate::{
    CalibrateOptions, Calibration, Direction, EmulatedTarget, Placing, Target, TargetShape, calibrate,
};
use nandkit_stack::{FsSpec, StackSpec};
use nandkit_units::Nanos;

fn options<'a>(stop: &'a AtomicBool, quick: bool) -> CalibrateOptions<'a> {
    CalibrateOptions { writes: true, fill: false, quick, unit: None, seed: 1, progress: &|_, _| (), stop }
}

fn emulated(device: &str) -> EmulatedTarget {
    let spec: StackSpec = toml::from_str(&format!("device = {device}\nfs = 'none'")).unwrap();
    assert_eq!(spec.fs, FsSpec::None);
    EmulatedTarget::build(&spec, 1).unwrap_or_else(|error| panic!("{device}: {error}"))
}

fn calibrated(device: &str, quick: bool) -> Calibration {
    let stop = AtomicBool::new(false);
    calibrate(&mut emulated(device), &options(&stop, quick)).unwrap_or_else(|error| panic!("{device}: {error}"))
}

/// The largest difference of any time of two cards, as a part of the first's: at every size that
/// was measured, and between.
fn difference(card: &CardSpec, found: &CardSpec) -> (f64, String) {
    let sizes = (9..=24).flat_map(|power| [1_u64 << power, 3 << (power - 1)]).filter(|bytes| *bytes <= 16 << 20);
    let mut worst = (0.0, String::new());
    for bytes in sizes {
        let pairs = [
            (
                "sequential read",
                card.read_time(Pattern::Sequential, bytes),
                found.read_time(Pattern::Sequential, bytes),
            ),
            ("random read", card.read_time(Pattern::Random, bytes), found.read_time(Pattern::Random, bytes)),
            (
                "sequential write",
                card.write_time(Pattern::Sequential, bytes),
                found.write_time(Pattern::Sequential, bytes),
            ),
            ("random write", card.write_time(Pattern::Random, bytes), found.write_time(Pattern::Random, bytes)),
            ("spread write", card.spread_write_time(bytes), found.spread_write_time(bytes)),
        ];
        for (what, own, found) in pairs {
            let part = own.0.abs_diff(found.0) as f64 / own.0 as f64;
            if part >= worst.0 {
                worst = (part, format!("{what} of {bytes} bytes: {own}, found {found}"));
            }
        }
    }
    worst
}

#[test]
fn every_measured_preset_gets_its_own_numbers_back() {
    for (name, _) in presets::all() {
        let card = presets::load(name).unwrap();
        let calibration = calibrated(&format!("'{name}'"), false);
        let found = calibration.card("found", "a card that was found again").unwrap();
        let open = calibration.open_units.as_ref().unwrap();
        assert!(open.is_exact, "{name}: {open:?}");
        assert_eq!(found.spec.open_units.count, card.open_units.count, "{name}: {open:?}");
        assert_eq!(found.spec.open_units.size, card.open_units.size, "{name}");
        assert_eq!((&found.spec.geometry, found.moved), (&card.geometry, 0), "{name}");
        let (part, what) = difference(&card, &found.spec);
        assert!(part < 0.01, "{name}: {what}");
        found.spec.check_sources().unwrap();
        // What was written reads as it is.
        assert_eq!(CardSpec::from_toml(&found.spec.to_toml().unwrap()), Ok(found.spec), "{name}");
    }
}

#[test]
fn any_number_of_open_units_is_found() {
    for count in [1, 2, 3, 7, 8, 9, 31, 100] {
        let device = format!("{{ preset = 'sd-lexar-16', open_units.count = {count} }}");
        let open = calibrated(&device, false).open_units.unwrap();
        assert_eq!((open.count, open.is_exact), (count, true), "{open:?}");
        assert!(open.times.windows(2).all(|pair| pair[0].streams < pair[1].streams), "{open:?}");
    }
    // More than are tried.
    let open = calibrated("{ preset = 'sd-lexar-16', open_units.count = 64 }", true).open_units.unwrap();
    assert_eq!((open.count, open.is_exact), (32, false));
}

#[test]
fn a_wrong_figure_is_another_result() {
    let card = presets::load("sd-lexar-16").unwrap();
    let wrong = "{ preset = 'sd-lexar-16', open_units.merge_ns = 300_000_000 }";
    let found = calibrated(wrong, false).card("x", "x").unwrap().spec;
    assert!(difference(&card, &found).0 > 0.1);
}

#[test]
fn the_same_again_and_quickly_is_much_the_same() {
    let (one, other) = (calibrated("'sd-lexar-16'", true), calibrated("'sd-lexar-16'", true));
    assert_eq!(one, other);
    let found = one.card("quick", "quick").unwrap().spec;
    let card = presets::load("sd-lexar-16").unwrap();
    assert_eq!(found.open_units.count, 5);
    for bytes in [4096, 65_536, 1 << 20] {
        let times = [&card, &found].map(|card| card.write_time(Pattern::Random, bytes).0 as f64);
        assert!((times[0] / times[1] - 1.0).abs() < 0.01, "{bytes}: {times:?}");
    }
}

/// Nobody typed in a curve: what comes out are curves all the same, and small random writes cost
/// far more a byte.
#[test]
fn a_card_of_parts_has_curves() {
    for name in ["card-parts-fast", "card-parts-block-map", "card-parts-page-map"] {
        let stop = AtomicBool::new(false);
        let mut target = emulated(&format!("{{ preset = '{name}', blocks = 512 }}"));
        assert!(target.has_flash(), "{name}");
        let calibration = calibrate(&mut target, &CalibrateOptions { fill: true, ..options(&stop, true) });
        let card = calibration.unwrap().card(name, name).unwrap().spec;
        let per_byte = |bytes: u64| card.spread_write_time(bytes).0 as f64 / bytes as f64;
        let sequential = card.write_time(Pattern::Sequential, 1 << 20).0 as f64 / f64::from(1 << 20);
        assert!(per_byte(4096) > 3.0 * sequential, "{name}: {} and {sequential} ns a byte", per_byte(4096));
    }
}

#[test]
fn what_cannot_be_calibrated_is_refused() {
    let stop = AtomicBool::new(false);
    let run = |device: &str, unit| calibrate(&mut emulated(device), &CalibrateOptions { unit, ..options(&stop, true) });
    let told = |result: Result<Calibration, LabError>| match result {
        Err(LabError::Input(detail)) => detail,
        other => panic!("{other:?}"),
    };
    let small = told(run("{ preset = 'ram', size = '16M' }", None));
    assert_eq!(small, "too small to calibrate: 16 MiB are 4 units of 4 MiB; expected at least 8 units");
    assert!(run("{ preset = 'ram', size = '16M' }", Some(1 << 20)).is_ok(), "smaller units");
    assert!(told(run("'sd-pny-10'", Some(5000))).contains("a unit of 5000 bytes; expected 16 KiB to 1 GiB"));
    let stopped = AtomicBool::new(true);
    let result = calibrate(&mut emulated("'sd-pny-10'"), &options(&stopped, true));
    assert!(matches!(result, Err(LabError::Stopped { .. })), "{result:?}");
}

/// A device that notes what it is asked.
struct Noting {
    written: u64,
    fails_at: u64,
}

impl Target for Noting {
    fn shape(&self) -> TargetShape {
        TargetShape { capacity: 256 << 20, sector_size: 4096, page_size: 4096, unit: 0 }
    }

    fn read(&mut self, at: u64, bytes: u32) -> Result<Nanos, String> {
        assert!(at.is_multiple_of(4096) && bytes.is_multiple_of(4096) && at + u64::from(bytes) <= 256 << 20);
        Ok(Nanos(1000 + u64::from(bytes)))
    }

    fn write(&mut self, at: u64, bytes: u32) -> Result<Nanos, String> {
        assert!(
            at.is_multiple_of(4096) && bytes.is_multiple_of(4096) && at + u64::from(bytes) <= 256 << 20,
            "{at} {bytes}"
        );
        self.written += 1;
        if self.written == self.fails_at { Err("cannot write at byte 0: no".to_string()) } else { Ok(Nanos(0)) }
    }
}

#[test]
fn without_leave_nothing_is_written_and_there_is_no_card() {
    let stop = AtomicBool::new(false);
    let mut target = Noting { written: 0, fails_at: 0 };
    let calibration = calibrate(&mut target, &CalibrateOptions { writes: false, ..options(&stop, false) }).unwrap();
    assert_eq!((target.written, calibration.open_units.is_none()), (0, true));
    assert!(!calibration.unit.is_told && calibration.unit.bytes == 4 << 20);
    let points = &calibration.series(Direction::Read, Placing::Spread).unwrap().points;
    assert_eq!(points.first().map(|point| (point.bytes, point.mean_ns)), Some((4096, 5096)));
    assert_eq!(points.last().map(|point| point.bytes), Some(16 << 20));
    assert!(calibration.card("x", "x").unwrap_err().to_string().contains("nothing was written"));
}

#[test]
fn a_device_without_steps_and_times_is_no_trouble() {
    let stop = AtomicBool::new(false);
    let mut target = Noting { written: 0, fails_at: 0 };
    let calibration = calibrate(&mut target, &options(&stop, false)).unwrap();
    let open = calibration.open_units.clone().unwrap();
    assert!(!open.is_exact && open.count == 48, "{open:?}");
    let card = calibration.card("x", "x").unwrap();
    assert_eq!((card.spec.geometry.sector_size, card.spec.open_units.merge_ns), (4096, 0));
    let mut failing = Noting { written: 0, fails_at: 100 };
    let result = calibrate(&mut failing, &options(&stop, false));
    assert!(matches!(&result, Err(LabError::Failed(detail)) if detail.contains("byte 0")), "{result:?}");
}
