//! Records for tests.

use nandkit_record::{Figures, RunRecord, SCHEMA};

/// A record of a run that wrote 10 MB at this rate with a write amplification of 2.
pub(crate) fn record(stack: &str, workload: &str, seed: u64, mb_per_s: f64) -> RunRecord {
    let mut figures = Figures {
        user_bytes_written: 10_000_000,
        bytes_programmed: 20_000_000,
        erases: 160,
        elapsed_ns: (10_000.0 / mb_per_s * 1e6) as u64,
        ..Figures::default()
    };
    figures.bytes_programmed_by_cause.0.insert("user_data".into(), 20_000_000);
    figures.derive();
    figures.write_mb_per_s = Some(mb_per_s);
    RunRecord {
        schema: SCHEMA,
        nandkit: "0.1.0".into(),
        spec: format!("{stack} {workload}").into(),
        seed,
        stack: stack.into(),
        workload: workload.into(),
        figures,
        host_time_ns: 0,
        host_peak_bytes: 0,
        layers: Default::default(),
        phases: Default::default(),
    }
}

/// Whether a text is well-formed as XML, as far as our pages go: elements nest, attributes are
/// quoted and named once, `id`s are unique, and no `&` stands outside a reference.
pub(crate) fn well_formed(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    let mut rest = text.trim_start().strip_prefix("<!DOCTYPE html>").unwrap_or(text);
    while let Some(start) = rest.find('<') {
        let (before, tag) = rest.split_at(start);
        references(before)?;
        let end = tag.find('>').ok_or("a tag that does not end")?;
        let (inside, after) = (tag.get(1..end).unwrap_or_default(), tag.get(end + 1..).unwrap_or_default());
        rest = after;
        if let Some(name) = inside.strip_prefix('/') {
            let expected = open.pop();
            if expected != Some(name) {
                return Err(format!("{name} ends {expected:?}"));
            }
            continue;
        }
        let (inside, is_empty) = inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
        let (name, mut attributes) = inside.split_once(' ').unwrap_or((inside, ""));
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(format!("an element <{inside}>"));
        }
        let mut names = Vec::new();
        while !attributes.trim().is_empty() {
            let wrong = || format!("attributes of <{inside}>");
            let (name, value) = attributes.trim_start().split_once("=\"").ok_or_else(wrong)?;
            let (value, more) = value.split_once('"').ok_or_else(wrong)?;
            references(value)?;
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !is_name || names.contains(&name) || (name == "id" && !ids.insert(value)) {
                return Err(wrong());
            }
            names.push(name);
            attributes = more;
        }
        if !is_empty {
            open.push(name);
        }
    }
    references(rest)?;
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} do not end")) }
}

fn references(text: &str) -> Result<(), String> {
    let known = ["lt;", "gt;", "amp;", "quot;", "#39;"];
    match text.split('&').skip(1).find(|rest| !known.iter().any(|known| rest.starts_with(known))) {
        Some(rest) => Err(format!("&{}", rest.chars().take(20).collect::<String>())),
        None => Ok(()),
    }
}

#[test]
fn what_is_not_well_formed_is_noticed() {
    assert_eq!(well_formed("<a b=\"1\"><c/>&lt;</a>"), Ok(()));
    for wrong in ["<a>", "<a></b>", "<a b=1/>", "<a b=\"1\" b=\"2\"/>", "a & b", "<a id=\"x\"/><a id=\"x\"/>", "<"] {
        assert!(well_formed(wrong).is_err(), "{wrong}");
    }
}
