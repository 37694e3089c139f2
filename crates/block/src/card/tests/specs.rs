//! Reading specs.

use nandkit_units::random::Random;

use super::super::spec_check::CardSpecError;
use super::*;

const CURVES: &str = "[curves]\n\
    read_sequential = [[4096, 300_000], [131_072, 9_000_000]]\n\
    read_random = [[4096, 1_000_000], [131_072, 9_000_000]]\n\
    write_sequential = [[4096, 3_000_000], [131_072, 13_000_000]]\n\
    write_random = [[4096, 4_000_000], [131_072, 14_000_000]]\n";

#[test]
fn a_spec_of_four_curves_is_enough_and_survives_a_round_trip() {
    let spec = CardSpec::from_toml(CURVES).unwrap();
    assert_eq!(spec.geometry(), CardSpec::default().geometry());
    assert_eq!(spec.read_time(Pattern::Random, 4096), Nanos(1_000_000));
    assert_eq!(CardSpec::from_toml(&spec.to_toml().unwrap()).unwrap(), spec);
    for (name, text) in presets::all() {
        let spec = CardSpec::from_toml(text).unwrap();
        assert_eq!(CardSpec::from_toml(&spec.to_toml().unwrap()).unwrap(), spec, "{name}");
    }
}

#[test]
fn slips_are_told_with_the_line_or_the_nearest_key() {
    for (text, told) in [
        (
            "[timing]\ncommand_us = 5",
            "unknown key \"timing.command_us\" in the card spec, did you mean \"timing.command_ns\"?",
        ),
        ("[curve]", "unknown key \"curve\" in the card spec, did you mean \"curves\"?"),
        ("merge_ns = 5", "unknown key \"merge_ns\" in the card spec, did you mean \"open_units.merge_ns\"?"),
        (
            "[timing]\ntrim_ns = 1\ncommand_ns = \"slow\"",
            "line 3: `command_ns = \"slow\"`: expected a whole number, 0 or more",
        ),
        ("[geometry]\npage_size = -1", "line 2: `page_size = -1`: expected a whole number from 0 to 4294967295"),
        ("[curves]\nread_random = 5", "line 2: `read_random = 5`: expected a list of pairs of bytes and nanoseconds"),
        ("[curves]\nread_random = [[4096]]", "line 2: `read_random = [[4096]]`: expected a list of pairs of bytes"),
        ("timing = 5", "line 1: `timing = 5`: expected "),
        ("[timing", "line 1: `[timing`: "),
    ] {
        let error = CardSpec::from_toml(text).unwrap_err().to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
    let key = ["a"; 79].join(".");
    let deep = format!("x = {}1{}", format!("{{{key} = ").repeat(70), "}".repeat(70));
    assert!(CardSpec::from_toml(&deep).unwrap_err().to_string().contains("plain tables"));
}

#[test]
fn impossible_values_are_refused_by_field() {
    for (text, field) in [
        ("[geometry]\nsector_size = 1000", "geometry.sector_size"),
        ("[geometry]\npage_size = 256", "geometry.page_size"),
        ("[geometry]\npage_size = 2097152", "geometry.page_size"),
        ("[geometry]\ncapacity = 0", "geometry.capacity"),
        ("[geometry]\ncapacity = 1000", "geometry.capacity"),
        ("[geometry]\ncapacity = 2251799813685248", "geometry.capacity"),
        ("[timing]\ncommand_ns = 3600000000001", "timing.command_ns"),
        ("[timing]\ntrim_ns = 3600000000001", "timing.trim_ns"),
        ("[timing]\nbus_ps_per_byte = 1000000001", "timing.bus_ps_per_byte"),
        ("[open_units]\nsize = 8192", "open_units.size"),
        ("[open_units]\nsize = 16385", "open_units.size"),
        ("[open_units]\nsize = 2147483648", "open_units.size"),
        ("[open_units]\ncount = 0", "open_units.count"),
        ("[open_units]\ncount = 1025", "open_units.count"),
        ("[open_units]\nmerge_ns = 3600000000001", "open_units.merge_ns"),
    ] {
        match CardSpec::from_toml(&format!("{CURVES}{text}")) {
            Err(CardSpecError::Impossible { field: found, .. }) => assert_eq!(found, field, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for (curve, told) in [
        (
            "[[4096, 9], [8192, 8]]",
            "[4096, 9] before [8192, 8], expected no request that takes less than a smaller one",
        ),
        ("[[4096, 9]]", "a list of 1, expected at least two points"),
        ("[[4096, 0], [8192, 8]]", "[4096, 0], expected sizes and times above 0"),
        (
            "[[1000, 9], [8192, 9]]",
            "[1000, 9], expected sizes of whole sectors, which geometry.sector_size says are of 512",
        ),
    ] {
        let text: String = CURVES
            .lines()
            .map(|line| match line.starts_with("read_random") {
                true => format!("read_random = {curve}\n"),
                false => format!("{line}\n"),
            })
            .collect();
        let error = CardSpec::from_toml(&text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("impossible card: curves.read_random is {told}")), "{error}");
    }
    // A card with larger sectors than the measured ones.
    let error = CardSpec::from_toml(&format!("{CURVES}[geometry]\nsector_size = 8192")).unwrap_err().to_string();
    assert!(error.contains("curves.read_sequential is [4096, 300000], expected sizes of whole sectors"), "{error}");
    for field in ["read_sequential", "read_random", "write_sequential", "write_random"] {
        let lines = CURVES.lines().filter(|line| !line.starts_with(field));
        let error = CardSpec::from_toml(&lines.collect::<Vec<_>>().join("\n")).unwrap_err().to_string();
        let told = format!("impossible card: curves.{field} is a list of 0, expected at least two points");
        assert!(error.starts_with(&told), "{error}");
    }
}

#[test]
fn a_figure_is_sourced_by_its_key_or_by_its_section() {
    let mut spec = CardSpec::from_toml(CURVES).unwrap();
    assert_eq!(spec.check_sources(), Err(CardSpecError::NoSource { figure: "curves.read_random".to_string() }));
    for section in ["geometry", "curves", "timing", "open_units"] {
        spec.sources.insert(section.to_string(), "assumption".to_string());
    }
    spec.sources.insert("timing.trim_ns".to_string(), "a stopwatch".to_string());
    spec.check_sources().unwrap();
    let figures = spec.figures().unwrap();
    let trim = figures.iter().find(|figure| figure.key == "timing.trim_ns").unwrap();
    assert_eq!((trim.value.as_str(), trim.source.as_deref()), ("0", Some("a stopwatch")));
    assert_eq!(figures.len(), 13);
    spec.sources.insert("timing.command_us".to_string(), "assumption".to_string());
    let error = spec.check_sources().unwrap_err().to_string();
    assert!(error.contains("did you mean \"timing.command_ns\"?"), "{error}");
    spec.sources.remove("timing.command_us");
    spec.sources.insert("open_units.count".to_string(), " ".to_string());
    assert_eq!(spec.check_sources(), Err(CardSpecError::NoSource { figure: "open_units.count".to_string() }));
}

/// Damaged files are refused, or yield ordinary cards: nothing panics, and no request ends before
/// it was issued.
#[test]
fn damaged_specs_do_no_harm() {
    let mut random = Random::new(3, "damage");
    let (mut refused, mut taken) = (0, 0);
    for round in 0..4000 {
        let mut text = presets::all()[round % 8].1.as_bytes().to_vec();
        for _ in 0..random.between(1, 4) {
            let at = random.below(text.len() as u64) as usize;
            match random.below(3) {
                0 => text[at] = b"0123456789_[],.=\"\n-"[random.below(19) as usize],
                1 => drop(text.remove(at)),
                _ => text.insert(at, b"0123456789"[random.below(10) as usize]),
            }
        }
        let spec = match CardSpec::from_toml(&String::from_utf8_lossy(&text)) {
            Ok(spec) => spec,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
                continue;
            }
        };
        taken += 1;
        let mut device = Card::new(&spec, RamDevice::with_sectors(512, 1 << 20).unwrap());
        let Ok(card) = device.as_mut() else { continue };
        for issued in [0, 1, u64::MAX - 1] {
            let at = random.below(1 << 19);
            let context = Context::at(Nanos(issued));
            let done = card.write(&context, Lba(at), described(random.between(1, 512) * 512)).unwrap();
            assert!(done.completed >= context.issued);
        }
        let _ = (spec.spread_write_time(u64::MAX), spec.read_time(Pattern::Random, u64::MAX));
    }
    assert!(refused > 500 && taken > 500, "{refused} refused, {taken} taken");
}
