//! The presets against P5's table 1.

use nandkit_units::random::Random;

use super::*;

/// P5, table 1, in MB/s: sequential write, sequential read, random write, random read.
const TABLE: [(&str, [f64; 4]); 8] = [
    ("sd-transcend-2", [4.35, 13.52, 1.38, 2.92]),
    ("sd-ridata-2", [5.86, 11.51, 0.03, 2.76]),
    ("sd-sandisk-4", [4.93, 8.44, 0.67, 0.73]),
    ("sd-kingston-4", [4.56, 9.84, 0.01, 1.94]),
    ("sd-wintec-6", [9.91, 13.38, 0.01, 3.82]),
    ("sd-a-data-6", [8.93, 13.49, 0.01, 3.64]),
    ("sd-patriot-10", [8.83, 13.38, 0.01, 3.72]),
    ("sd-pny-10", [10.28, 14.02, 0.01, 3.95]),
];

const RANDOM_REQUESTS: u64 = 2000;

/// 32 MiB in requests of 128 KiB, and 4 KiB anywhere on the card: MB/s (of 10^6 bytes) in the order
/// of P5's columns, with two digits as P5 prints them.
fn measured(spec: &CardSpec) -> [f64; 4] {
    let mut card = Card::in_memory(spec).unwrap();
    let mut random = Random::new(5, "random requests");
    let places = spec.geometry.capacity / 4096;
    let mut speeds = [0.0; 4];
    for (column, speed) in speeds.iter_mut().enumerate() {
        let (writes, sequential) = (column % 2 == 0, column < 2);
        let (requests, bytes) = if sequential { (256, 131_072) } else { (RANDOM_REQUESTS, 4096) };
        let mut request = |request: u64| {
            let at = if sequential { request * bytes } else { random.below(places) * 4096 };
            if writes { write(&mut card, at, bytes) } else { read(&card, at, bytes) }
        };
        // The first of sequential requests has no predecessor.
        request(0);
        let time_ns: u64 = (1..=requests).map(request).sum();
        *speed = ((requests * bytes) as f64 * 1e5 / time_ns as f64).round() / 100.0;
    }
    speeds
}

#[test]
fn presets_give_the_papers_speeds_back() {
    assert_eq!(presets::all().map(|(name, _)| name)[..TABLE.len()], TABLE.map(|(name, _)| name));
    for (name, speeds) in TABLE {
        assert_eq!(measured(&presets::load(name).unwrap()), speeds, "{name}");
    }
}

#[test]
fn a_wrong_figure_gives_another_speed() {
    let slower = |curve: &Curve| {
        Curve::new(curve.points().iter().map(|&(bytes, time_ns)| (bytes, time_ns + time_ns / 50)).collect())
    };
    for (name, speeds) in TABLE {
        let spec = presets::load(name).unwrap();
        let merges = spec.open_units.merge_ns > 0;
        for column in 0..4 {
            let mut wrong = spec.clone();
            let curves = &mut wrong.curves;
            match column {
                0 => curves.write_sequential = slower(&curves.write_sequential),
                1 => curves.read_sequential = slower(&curves.read_sequential),
                // A speed of 0.01 MB/s has one digit: only a change by half shows in it.
                2 if merges => wrong.open_units.merge_ns *= 3,
                2 => curves.write_random = slower(&curves.write_random),
                _ => curves.read_random = slower(&curves.read_random),
            }
            let found = measured(&wrong);
            for (other, (found, speed)) in found.into_iter().zip(speeds).enumerate() {
                assert_eq!(found != speed, other == column, "{name}: column {other} with column {column} wrong");
            }
        }
    }
}

#[test]
fn every_preset_has_a_source_for_each_figure_and_needs_no_fit() {
    for (name, text) in presets::all().into_iter().take(TABLE.len()) {
        let spec = presets::load(&name.to_ascii_uppercase()).unwrap();
        assert_eq!(spec.name, name);
        assert!(!spec.title.is_empty());
        spec.check_sources().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(text.contains("P5 table 1") && text.contains("assumption"), "{name}");
        // Sequential requests are never slower than random ones, whatever the size.
        for bytes in (9..=22).map(|power| 1 << power) {
            for pattern_time in [CardSpec::read_time, CardSpec::write_time] {
                let times = [Pattern::Sequential, Pattern::Random].map(|pattern| pattern_time(&spec, pattern, bytes));
                assert!(times[0] <= times[1], "{name}: {bytes} bytes take {times:?}");
            }
            assert!(spec.spread_write_time(bytes) >= spec.write_time(Pattern::Sequential, bytes), "{name}: {bytes}");
        }
    }
    let error = presets::load("sd-wintek-6").unwrap_err().to_string();
    assert!(error.contains("did you mean \"sd-wintec-6\"?; known are sd-transcend-2, sd-ridata-2"), "{error}");
}

/// P1's figure 5 and table of cards: on some, small random writes cost nearly what large ones do;
/// on others they scale.
#[test]
fn spread_writes_are_what_random_writes_over_the_card_cost() {
    for name in ["sd-transcend-2", "sd-wintec-6"] {
        let spec = presets::load(name).unwrap();
        let mut card = Card::in_memory(&spec).unwrap();
        let mut random = Random::new(6, "units");
        for bytes in [4096, 65_536, 1 << 20] {
            let unit = spec.open_units.size;
            // Beyond the units that are open, so that each write opens one; and never at its start.
            for unit_number in (0..40).map(|round| round * 90 + random.below(90)) {
                write(&mut card, unit_number * unit + unit / 4, bytes);
            }
            let before = card.busy_until();
            write(&mut card, 3700 * unit + unit / 4, bytes);
            assert_eq!(card.busy_until().since(before), spec.spread_write_time(bytes), "{name}: {bytes} bytes");
        }
        let unit = spec.open_units.size;
        assert_eq!(spec.spread_write_time(unit), spec.write_time(Pattern::Sequential, unit));
        // The factor that the guide quotes.
        let factor = spec.spread_write_time(4096).0 / spec.write_time(Pattern::Random, 4096).0;
        assert_eq!(factor, if name == "sd-transcend-2" { 1 } else { 90 });
    }
}

const GUIDE: &str = include_str!("../../../../../docs/guide/cards.md");

#[test]
fn the_guide_shows_the_presets_and_a_file_that_loads() {
    let rows = GUIDE.lines().filter(|line| line.starts_with("| `sd-"));
    let found: Vec<&str> = rows.collect();
    let expected = TABLE.map(|(name, speeds)| {
        let columns = speeds.map(|speed| format!("{speed:.2}")).join(" | ");
        let merge_ns = presets::load(name).unwrap().open_units.merge_ns;
        format!("| `{name}` | {columns} | {:.0} |", merge_ns as f64 / 1e6)
    });
    assert_eq!(found, expected);
    let file = GUIDE.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let spec = CardSpec::from_toml(file).unwrap();
    let kingston = presets::load("sd-kingston-4").unwrap();
    assert_eq!((spec.geometry, spec.curves), (kingston.geometry, kingston.curves));
    assert_eq!((spec.timing, spec.open_units), (kingston.timing, kingston.open_units));
}
