//! Verdicts on made-up records: sets on which each claim holds, and sets on which it fails.

use std::collections::BTreeMap;

use nandkit_record::{Figures, Latency, LayerValue, RunRecord};
use serde_json::json;

use super::plan::{
    BASELINE, CAT, CAT_OPEN_WIDE, LAYERS, LINUX, LOOKED_AT, PATTERNS, REGIONS, Scale, Setting, Volume, dac, grid,
    hot_and_cold, separations, settings_of,
};
use super::{CLAIMS, Runs, judge};
use crate::testing::only;

/// What a made-up run gives: speed, erases, write amplification, blocks never erased, evaluations,
/// and the share of the collector's moves that go to the top region.
#[derive(Clone, Copy)]
struct Given {
    speed: f64,
    erases: u64,
    amplification: f64,
    never: u64,
    evaluations: u64,
    top: f64,
}

const USUAL: Given = Given { speed: 2.0, erases: 4000, amplification: 2.0, never: 64, evaluations: 4000, top: 0.8 };

fn record(setting: &Setting, stack: serde_json::Value, seed: u64, given: Given) -> RunRecord {
    // Seeds differ, the ratios of each do not.
    let speed = given.speed * (1.0 + seed as f64 / 100.0);
    let user_bytes: u64 = 1 << 28;
    let mut figures = Figures {
        user_bytes_written: user_bytes,
        erases: given.erases,
        waf: Some(given.amplification),
        elapsed_ns: (user_bytes as f64 / speed * 1e3) as u64,
        write_mb_per_s: Some(speed),
        ..Figures::default()
    };
    figures.erases_per_block.never = given.never;
    figures.latency_ns.insert("write".into(), Latency { count: 65_536, ..Latency::default() });
    let mut fs = BTreeMap::from([("policy_evaluations".to_string(), LayerValue::Count(given.evaluations))]);
    let separation = stack["fs"]["separation"].as_str().unwrap_or("none").to_string();
    if let Some(regions) = separation.strip_prefix("dac:regions=").and_then(|regions| regions.parse::<usize>().ok()) {
        let mut flows = vec![0.0; (regions + 1) * regions];
        (flows[regions - 1], flows[0]) = (given.top * 1000.0, (1.0 - given.top) * 1000.0);
        fs.insert("clean_flows".into(), LayerValue::Series(flows.clone()));
        fs.insert("write_flows".into(), LayerValue::Series(flows));
    }
    let mut stack = stack;
    stack["device"] = json!({"geometry": {"blocks": 256}});
    let (pattern, files) = (setting.pattern, setting.fill.files);
    let workload = json!({"kind": "overwrite", "pattern": pattern, "files": files, "stale": setting.stale()});
    RunRecord {
        spec: json!({"stack": stack, "workload": workload}),
        workload: "overwrite".into(),
        figures,
        layers: BTreeMap::from([("fs".to_string(), fs)]),
        ..crate::testing::record(seed)
    }
}

fn jffs2(collector: &str, separation: &str) -> serde_json::Value {
    json!({"fs": {"kind": "jffs2", "victim": collector, "separation": separation}, "ftl": {"kind": "none"}})
}

/// All settings.
fn settings() -> Vec<Setting> {
    [hot_and_cold(), settings_of("rnd"), settings_of("seq")].concat()
}

/// A grid of runs in which each is what `given` says of its setting, collector and number of
/// regions.
fn made(collectors: &[&str], given: impl Fn(&Setting, &str, u8) -> Given) -> Vec<RunRecord> {
    let mut records = Vec::new();
    for setting in settings() {
        for collector in collectors {
            for regions in REGIONS {
                for seed in [1, 2] {
                    let stack = jffs2(collector, &dac(regions));
                    records.push(record(&setting, stack, seed, given(&setting, collector, regions)));
                }
            }
        }
    }
    records
}

/// What the paper found.
fn as_the_paper(setting: &Setting, collector: &str, regions: u8) -> Given {
    let loss = 1.0 - 0.02 * f64::from(regions - 1);
    let is_cat = collector == CAT;
    match setting.pattern {
        "rnd" => Given { erases: if is_cat { 3800 } else { 4000 }, amplification: 1.9, ..USUAL },
        "seq" => Given { speed: 6.0 * if regions == 1 { 1.0 } else { 0.9 }, ..USUAL },
        _ if is_cat => Given { speed: 6.0 * loss, erases: 1500, ..USUAL },
        _ => Given { speed: 2.0 * loss, ..USUAL },
    }
}

const COLLECTORS: [&str; 3] = [BASELINE, CAT, LINUX];

fn paper() -> Runs {
    let grid = made(&COLLECTORS, as_the_paper);
    let open = made(&[CAT_OPEN_WIDE], |_, _, regions| Given { speed: 5.0 + f64::from(regions), never: 10, ..USUAL });
    let mut layers = Vec::new();
    for (layer, seed) in LAYERS.into_iter().zip([1; 4]) {
        let kind = if layer.contains("fast") { "fast" } else { "block-map" };
        let cache_sectors = if layer.contains("cached") { 64 } else { 0 };
        let stack = json!({"fs": {"kind": "fat", "cache_sectors": cache_sectors}, "ftl": {"kind": kind}});
        layers.push(record(&LOOKED_AT[0], stack, seed, Given { speed: 0.5, ..USUAL }));
    }
    Runs { grid, open, layers, ..Runs::default() }
}

#[track_caller]
fn verdict(claim: &str, runs: &Runs) -> (bool, String) {
    only(claim, judge(runs, &|id| id == claim))
}

#[track_caller]
fn fails(claim: &str, runs: &Runs, because: &str) {
    let (holds, note) = verdict(claim, runs);
    assert!(!holds && note.contains(because), "{claim}: {note}");
}

/// The paper's runs, but for those of one pattern's collector (any, where empty) with at least so
/// many regions.
#[track_caller]
fn fails_with(claim: &str, pattern: &str, collector: &str, least_regions: u8, change: fn(&mut Given), because: &str) {
    let given = |of: &Setting, with: &str, regions: u8| {
        let mut given = as_the_paper(of, with, regions);
        if of.pattern == pattern && (collector.is_empty() || with == collector) && regions >= least_regions {
            change(&mut given);
        }
        given
    };
    fails(claim, &Runs { grid: made(&COLLECTORS, given), ..paper() }, because);
}

#[test]
fn everything_holds_where_runs_are_as_the_paper_says() {
    for claim in CLAIMS {
        let (holds, note) = verdict(claim, &paper());
        assert!(holds, "{claim}: {note}");
    }
}

#[test]
fn nothing_holds_without_records() {
    for claim in CLAIMS {
        fails(claim, &Runs::default(), "Does not hold in any of");
    }
}

/// Each check fails in the six settings of its layout, or in all those of its pattern.
#[test]
fn each_check_can_fail() {
    fails_with(
        "P2.1",
        "hcf",
        CAT,
        1,
        |given| given.speed = 3.0,
        "CAT writes 2 to 4 times as fast as baseline: 12 of 18",
    );
    fails_with(
        "P2.1",
        "hcf",
        CAT,
        1,
        |given| given.speed = 9.0,
        "CAT writes 2 to 4 times as fast as baseline: 12 of 18",
    );
    fails_with("P2.1", "hcf", CAT, 1, |given| given.erases = 2100, "less than half as often: 12 of 18");
    fails_with("P2.2", "hcc", CAT, 3, |given| given.speed = 7.0, "cat: the best R above 1 adds nothing: 12 of 18");
    fails_with("P2.2", "hcc", BASELINE, 5, |given| given.speed = 1.0, "p2-baseline: the greatest R loses a little: 12");
    fails_with("P2.2", "hcc", CAT, 5, |given| given.speed = 5.95, "cat: the greatest R loses more than R=2: 12 of 18");
    fails_with("P2.3", "rnd", CAT, 1, |given| given.speed = 1.8, "CAT is no slower: 0 of 3");
    fails_with("P2.3", "rnd", CAT, 1, |given| given.erases = 4000, "CAT erases slightly less: 0 of 3");
    fails_with("P2.3", "rnd", CAT, 1, |given| given.erases = 2000, "CAT erases slightly less: 0 of 3");
    fails_with("P2.3", "rnd", BASELINE, 3, |given| given.speed = 2.2, "p2-baseline: DAC has no effect: 0 of 3");
    fails_with("P2.4", "seq", CAT, 1, |given| given.erases = 3000, "CAT erases as often as baseline: 0 of 6");
    fails_with("P2.4", "seq", LINUX, 1, |given| given.erases = 3000, "CAT erases as often as baseline: 3 of 6");
    fails_with("P2.4", "seq", CAT, 1, |given| given.evaluations = 1 << 24, "share of the time is under 1 %: 0 of 6");
    fails_with("P2.4", "seq", CAT, 3, |given| given.speed = 6.0, "cat: R=1 is at least 2 % faster than any other: 0");
    fails_with(
        "P2.4",
        "seq",
        LINUX,
        3,
        |given| given.speed = 6.0,
        "baseline: R=1 is at least 2 % faster than any other: 3",
    );
    fails_with(
        "P2.5",
        "hci",
        CAT,
        2,
        |given| given.speed = 7.0,
        "clean list closed: DAC's best R adds nothing: 12 of 18",
    );
    fails_with("P2.5", "hci", CAT, 1, |given| given.never = 0, "so cold data lie apart: 12 of 18");
    fails_with("P2.6", "hcf", BASELINE, 1, |given| given.amplification = 1.5, "at least as much as random: 12 of 18");
    fails_with("P2.F", "hcf", CAT, 5, |given| given.top = 0.2, "which hot and cold data share: 12 of 18");
}

#[test]
fn an_open_clean_list_without_gain_and_a_faster_layer_below_fat_are_seen() {
    let open = made(&[CAT_OPEN_WIDE], |_, _, _| USUAL);
    let runs = Runs { open, ..paper() };
    fails("P2.5", &runs, "clean list open: DAC's best R gains at least 5 %: 0 of 18");
    fails("P2.5", &runs, "so it is really open: 0 of 18");
    let mut runs = paper();
    runs.layers[1].figures.write_mb_per_s = Some(20.0);
    fails("P2.F", &runs, "faster than fat | fast: 0 of 1");
}

/// A claim that holds in some settings says in which; those of a used volume are others than those
/// of a fresh one.
#[test]
fn the_note_names_the_settings_in_which_a_claim_holds() {
    let given = |setting: &Setting, collector: &str, regions| match (setting.pattern, setting.volume, collector) {
        ("hcc", Volume::Used, BASELINE) | ("rnd" | "seq", ..) | (_, _, CAT) => {
            as_the_paper(setting, collector, regions)
        }
        _ => Given { amplification: 1.0, ..USUAL },
    };
    let (holds, note) = verdict("P2.6", &Runs { grid: made(&COLLECTORS, given), ..paper() });
    let told = "Holds in some settings, 3 of 18: hcc, 81 % full, used; hcc, 75 % full, used; hcc, 56 % full, used.";
    assert!(!holds && note.starts_with(told), "{note}");
}

/// A quick run has no records of some settings, and says nothing of them.
#[test]
fn settings_without_records_are_not_judged() {
    let mut runs = paper();
    runs.grid.retain(|record| record.spec["workload"]["files"] != 72);
    let (holds, note) = verdict("P2.1", &runs);
    assert!(holds && note.starts_with("Holds in all settings, 12."), "{note}");
}

#[test]
fn what_beats_cat_is_named() {
    let beyond: Vec<RunRecord> = [("greedy", 5.0), ("cost-benefit", 9.0), (CAT, 6.0)]
        .into_iter()
        .flat_map(|(policy, speed)| {
            [1, 2].map(|seed| record(&LOOKED_AT[0], jffs2(policy, "none"), seed, Given { speed, ..USUAL }))
        })
        .collect();
    let (_, note) = verdict("P2.F", &Runs { beyond, ..paper() });
    assert!(note.contains("of 3 schemes 1 write faster") && note.contains("cost-benefit | none, 1.50 times"), "{note}");
}

/// Every run that is planned is one that the stack takes, and the figures that verdicts look for
/// are among them.
#[test]
fn the_plan_can_be_run() {
    let scale = Scale::new(false);
    let grids = grid(&scale, &PATTERNS).unwrap();
    let runs: Vec<usize> = grids.iter().map(|experiment| experiment.runs().len()).collect();
    // Two collectors by regions and Linux's, in 18 and 3 settings; three by regions in 3.
    assert_eq!(runs, [(2 * REGIONS.len() + 1) * 21 * 5, 3 * REGIONS.len() * 3 * 5]);
    let others = [super::plan::thresholds(&scale), super::plan::open_clean(&scale), super::plan::layers(&scale)];
    for experiment in others.into_iter().chain([super::plan::beyond(&scale)]) {
        experiment.unwrap().runs().iter().for_each(|run| run.check().unwrap());
    }
    assert!(grids.iter().flat_map(|experiment| experiment.runs()).all(|run| run.check().is_ok()));
    assert!(separations().contains(&"sepbit".to_string()));
    let quick = grid(&Scale::new(true), &PATTERNS).unwrap();
    assert!(quick.iter().map(|experiment| experiment.runs().len()).sum::<usize>() < 300);
}
