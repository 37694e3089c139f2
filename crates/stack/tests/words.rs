//! What is told of hosts, drives, volumes and wrong names.

use nandkit_stack::format::fact::{self, Fact};
use nandkit_stack::{FtlSpec, HostSpec, ssds, suggest};
use serde_json::json;

#[test]
fn a_cost_for_requests_is_told_and_bounded() {
    let host = HostSpec::parse("request_ns=3000").unwrap();
    assert_eq!(host, HostSpec { request_ns: 3000, ..HostSpec::default() });
    assert!(host.told().contains("costs 3000 ns") && host.title().ends_with("3000 ns a request"));
    let error = HostSpec::parse("request_ns=20000000").unwrap_err().to_string();
    assert!(error.contains("request_ns is 20000000; expected up to 10000000"), "{error}");
    assert!(!toml::to_string(&HostSpec::default()).unwrap().contains("request_ns"));
}

#[test]
fn every_drive_loads_and_every_figure_has_a_source() {
    for name in ssds::names() {
        let drive = ssds::load(name).unwrap().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(drive.chip.name, name);
        assert!(!drive.chip.title.is_empty());
        drive.chip.check_sources().unwrap_or_else(|error| panic!("{name}: {error}"));
        let figures = drive.figures().unwrap();
        for figure in &figures {
            assert!(figure.source.as_deref().is_some_and(|source| source.len() > 5), "{name}: {}", figure.key);
        }
        let has =
            |key: &str| figures.iter().any(|figure| figure.key == key || figure.key.starts_with(&format!("{key}.")));
        assert!(drive.sources.keys().all(|key| has(key)), "{name}: a source of no figure: {:?}", drive.sources.keys());
        let is_card = name.starts_with("card-parts-");
        let writes = matches!(&drive.ftl, FtlSpec::PageMap(ftl) if ftl.journal && ftl.write_buffer > 0);
        assert_eq!(writes, !is_card, "{name}");
        assert_eq!(drive.interface.queue_depth == 1, is_card, "{name}: a card takes one command at a time");
    }
    assert!(ssds::load("p3_ssd").is_none() && ssds::load("P3-SSD").is_some());
}

#[test]
fn what_p3_does_not_tell_is_marked() {
    let drive = ssds::load("p3-ssd").unwrap().unwrap();
    for figure in drive.figures().unwrap() {
        let source = figure.source.unwrap_or_default();
        let told = ["geometry.page_size", "ftl.kind"].contains(&figure.key.as_str());
        assert_eq!(told, source.starts_with("P3"), "{}: {source}", figure.key);
    }
}

#[test]
fn serde_messages_get_the_nearest_name() {
    assert_eq!(
        suggest::explain("unknown field `polcy`, expected one of `kind`, `policy`"),
        "unknown field `polcy`, expected one of `kind`, `policy` (did you mean `policy`?)"
    );
    assert_eq!(
        suggest::explain("unknown variant `contnt`, expected `content`"),
        "unknown variant `contnt`, expected `content` (did you mean `content`?)"
    );
    let explained = suggest::explain("unknown field `polcy`, expected one of `kind`, `policy`");
    assert_eq!(suggest::explain(&explained), explained, "said once");
    assert_eq!(suggest::explain("invalid type: string"), "invalid type: string");
    assert_eq!(
        suggest::explain("invalid value: integer `-1`, expected u16\n"),
        "invalid value: integer `-1`, expected a whole number from 0 to 65535"
    );
}

#[test]
fn unknown_names_come_with_all_there_are() {
    assert_eq!(
        suggest::unknown("policy", "limt", &["merge", "limit"]),
        "unknown policy \"limt\"; did you mean \"limit\"? Known: merge, limit"
    );
}

#[test]
fn a_fact_is_a_line_and_members() {
    let facts = [
        Fact::new("file system", "FAT16, sectors of 512 bytes", "kind", "FAT16").and("sector_size", 512),
        Fact::member("label", ""),
        Fact::line("note", "two sectors are bad"),
    ];
    assert_eq!(fact::json(&facts), json!({"kind": "FAT16", "sector_size": 512, "label": ""}));
    let lines: Vec<_> = fact::lines(&facts).collect();
    assert_eq!(lines, [("file system", "FAT16, sectors of 512 bytes"), ("note", "two sectors are bad")]);
}
