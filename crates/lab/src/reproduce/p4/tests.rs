//! Verdicts on made-up records: sets on which each claim holds, and sets on which it fails.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use nandkit_cleaning::recycling::Costs;
use nandkit_record::{Figures, LayerValue, RunRecord};
use serde_json::json;

use super::plan::{
    BESIDE, LARGE_IN_PIECES, LIMITS, LOG_BLOCKS, SETTINGS, Scale, Setting, WORKLOADS, all_settings,
    growth as growth_runs,
};
use super::{Runs, judge};
use crate::Options;
use crate::reproduce::{Claim, Verdict};

/// A record as a run with these parameters would leave it, `seconds` long.
fn record(workload: &str, mut ftl: serde_json::Value, setting: &Setting, seed: u64, seconds: f64) -> RunRecord {
    ftl["sector_size"] = setting.sector_size.into();
    let workload = match workload {
        LARGE_IN_PIECES => json!({"kind": "postmark-large", "write": 4096}),
        kind => json!({"kind": kind, "write": 65_536}),
    };
    let mut fs = json!({
        "kind": "fat", "fat_type": setting.fat_type, "cache_sectors": setting.cache_sectors,
        "cluster_size": setting.cluster_size, "alignment": setting.alignment,
    });
    // As specs do: what is usual is not written.
    if setting.just_formatted {
        fs["write_padding"] = false.into();
    }
    if setting.just_formatted && !setting.is_blank {
        fs["formatted_before"] = true.into();
    }
    RunRecord {
        spec: json!({
            "stack": {"device": {"geometry": {"blocks": setting.blocks}}, "fs": fs, "ftl": ftl},
            "workload": workload,
        }),
        figures: Figures { elapsed_ns: (seconds * 1e9) as u64, ..Figures::default() },
        ..crate::testing::record(seed)
    }
}

fn block_map(policy: &str, log_blocks: u32, limit: u32) -> serde_json::Value {
    json!({"kind": "block-map", "policy": policy, "alpha": "origin", "log_blocks": log_blocks, "limit": limit, "trace_block": null})
}

/// Gains over merge: workload, then merge+migration, LIMIT, macroscopic.
type Gains<'a> = &'a [(&'a str, [f64; 3])];

/// Runs in this setting whose gains over merge are these.
fn gains_in(setting: &Setting, gains: Gains<'_>) -> Vec<RunRecord> {
    let mut records = Vec::new();
    for (workload, of_policy) in gains {
        let policies =
            [("merge", 0.0), ("merge+migration", of_policy[0]), ("limit", of_policy[1]), ("macroscopic", of_policy[2])];
        for (policy, gain) in policies {
            for seed in 1..=2 {
                let seconds = 100.0 / (1.0 + gain) * if seed == 1 { 1.0 } else { 1.1 };
                records.push(record(workload, block_map(policy, 8, 0), setting, seed, seconds));
            }
        }
    }
    records
}

fn with_gains(gains: Gains<'_>) -> Runs {
    Runs { policies: all_settings().flat_map(|setting| gains_in(setting, gains)).collect(), ..Runs::default() }
}

fn swept_limits(best: u32) -> Vec<RunRecord> {
    let seconds = |limit: u32| 10.0 + f64::from(limit.abs_diff(best));
    let in_setting = |setting| {
        LIMITS.map(|limit| record("postmark-small", block_map("limit", 8, limit), setting, 1, seconds(limit)))
    };
    SETTINGS.iter().flat_map(in_setting).collect()
}

/// Runs of two lengths with these gains of merge+migration.
fn lengths(gains: [f64; 2]) -> Vec<RunRecord> {
    let mut records = Vec::new();
    for setting in &SETTINGS {
        for (transactions, gain) in [(1600, gains[0]), (3200, gains[1])] {
            for (policy, gain) in [("merge", 0.0), ("merge+migration", gain)] {
                let seconds = transactions as f64 / (1.0 + gain);
                let mut record = record("postmark-small", block_map(policy, 8, 0), setting, 1, seconds);
                record.spec["workload"]["transactions"] = transactions.into();
                records.push(record);
            }
        }
    }
    records
}

fn swept_log_blocks(loss: impl Fn(&str, u32) -> f64) -> Runs {
    let mut log_blocks = Vec::new();
    for setting in &SETTINGS {
        for workload in WORKLOADS {
            for count in LOG_BLOCKS {
                let seconds = 10.0 / (1.0 - loss(workload, count));
                log_blocks.push(record(workload, block_map("macroscopic", count, 0), setting, 1, seconds));
            }
        }
    }
    Runs { log_blocks, ..Runs::default() }
}

fn traced(series: &[f64]) -> Runs {
    let ftl = json!({"kind": "block-map", "policy": "merge+migration", "log_blocks": 8, "limit": 0, "trace_block": 0});
    let in_setting = |setting| {
        let mut record = record("postmark-small", ftl.clone(), setting, 1, 1.0);
        let layer = BTreeMap::from([("traced_p".to_string(), LayerValue::Series(series.to_vec()))]);
        record.layers.insert("ftl_trace".to_string(), layer);
        record
    };
    Runs { growth: SETTINGS.iter().map(in_setting).collect(), ..Runs::default() }
}

#[track_caller]
fn verdict(claim: &str, runs: &Runs) -> Claim {
    let judged = judge(runs, &|id| id == claim);
    let [judged] = judged.as_slice() else { panic!("{claim}: {judged:?}") };
    judged.clone()
}

#[track_caller]
fn fails(claim: &str, runs: &Runs, because: &str) {
    let judged = verdict(claim, runs);
    assert!(judged.verdict() == Verdict::DoesNotHold && judged.note.contains(because), "{claim}: {}", judged.note);
}

#[track_caller]
fn holds(claim: &str, runs: &Runs) {
    let judged = verdict(claim, runs);
    assert_eq!(judged.verdict(), Verdict::Holds, "{claim}: {}", judged.note);
}

/// It holds in all settings but this one.
#[track_caller]
fn fails_in_one(claim: &str, runs: &Runs, setting: &str, because: &str) {
    let judged = verdict(claim, runs);
    assert_eq!(judged.verdict(), Verdict::HoldsInSome, "{claim}: {}", judged.note);
    let failing: Vec<&str> =
        judged.settings.iter().filter(|(_, holds)| !**holds).map(|(name, _)| name.as_str()).collect();
    assert_eq!(failing, [setting], "{claim}: {}", judged.note);
    assert!(judged.note.contains(because), "{claim}: {}", judged.note);
}

#[test]
fn nothing_holds_without_records() {
    for claim in ["P4.1", "P4.2", "P4.3", "P4.4", "P4.5"] {
        fails(claim, &Runs::default(), "not measured");
    }
}

fn small(gains: [f64; 3], best_limit: u32, by_length: [f64; 2]) -> Runs {
    let mut runs = with_gains(&[("postmark-small", gains)]);
    runs.policies.extend(swept_limits(best_limit));
    Runs { settling: lengths(by_length), ..runs }
}

#[test]
fn small_files() {
    let settled = [0.052, 0.05];
    holds("P4.1", &small([0.05, 0.27, 0.26], 64, settled));
    let figure = "merge+migration on postmark-small: paper +5.0 %, ours +20.0 %";
    fails("P4.1", &small([0.20, 0.27, 0.26], 64, settled), figure);
    fails("P4.1", &small([0.05, 0.22, 0.27], 64, settled), "about equal");
    fails("P4.1", &small([0.05, 0.25, 0.27], 64, settled), "slightly ahead");
    fails("P4.1", &small([-0.01, 0.27, 0.26], 64, settled), "order on postmark-small");
    fails("P4.1", &small([0.05, 0.27, 0.26], 8, settled), "ours is 8");
    fails("P4.1", &small([0.05, 0.27, 0.26], 64, [0.08, 0.05]), "has settled: +8.0 % with 1600 transactions");
}

#[test]
fn large_files() {
    let runs = |large, pieces| {
        with_gains(&[("postmark-small", [0.05, 0.27, 0.26]), ("postmark-large", large), (LARGE_IN_PIECES, pieces)])
    };
    let fine = [0.01, 0.02, 0.03];
    holds("P4.2", &runs(fine, fine));
    fails("P4.2", &runs([0.01, 0.03, 0.02], [0.01, 0.03, 0.02]), "order on postmark-large");
    let larger = verdict("P4.2", &runs([0.06, 0.07, 0.08], fine));
    assert!(larger.note.contains("merge+migration: gain on large files below"), "{}", larger.note);
    // By the size of the calls: each setting counts twice.
    let by_calls = verdict("P4.2", &runs(fine, [0.06, 0.28, 0.29]));
    assert_eq!(by_calls.verdict(), Verdict::HoldsInSome);
    assert_eq!(by_calls.settings.len(), 2 * SETTINGS.len());
    assert!(by_calls.settings.iter().all(|(name, holds)| *holds != name.contains("a call")), "{:?}", by_calls.settings);
}

/// Gains with which P4.3 holds.
const EMBEDDED: Gains<'static> =
    &[("fax", [0.02, 0.04, 0.05]), ("phone", [0.1, 0.2, 0.22]), ("event-recorder", [-0.01, 0.1, 0.14])];

#[test]
fn embedded() {
    let with = |at: usize, gains| {
        let mut all = EMBEDDED.to_vec();
        all[at].1 = gains;
        with_gains(&all)
    };
    holds("P4.3", &with_gains(EMBEDDED));
    fails("P4.3", &with(2, [0.01, 0.1, 0.14]), "order on event-recorder");
    fails("P4.3", &with(1, [0.1, 0.2, 0.40]), "macroscopic on phone");
    fails("P4.3", &with(0, [0.05, 0.04, 0.06]), "order on fax");
}

#[test]
fn a_claim_that_fails_in_one_setting_holds_in_some() {
    let odd = &SETTINGS[2];
    let policies = all_settings().flat_map(|setting| {
        let gains: Gains<'_> = if setting == odd { &[("fax", [0.3; 3])] } else { EMBEDDED };
        gains_in(setting, gains)
    });
    let runs = Runs { policies: policies.collect(), ..Runs::default() };
    fails_in_one("P4.3", &runs, odd.name, "Does not hold in 864 MiB, just formatted: 0 of 6 checks hold");
    // What is run short is told and does not count.
    let policies = SETTINGS.iter().flat_map(|setting| gains_in(setting, EMBEDDED)).collect();
    let judged = verdict("P4.3", &Runs { policies, ..Runs::default() });
    assert!(judged.holds && judged.note.contains(BESIDE[0].name), "{}", judged.note);
}

#[test]
fn growth() {
    holds("P4.4", &traced(&(1..=60).map(|n| 2.0 + (f64::from(n) * 0.1).floor()).collect::<Vec<f64>>()));
    fails("P4.4", &traced(&(1..=60).map(f64::from).collect::<Vec<f64>>()), "alpha about 0.1");
    fails("P4.4", &traced(&[5.0; 60]), "not measured");
    fails("P4.4", &traced(&(1..=60).map(|n| if n < 55 { 1.0 } else { 9.0 }).collect::<Vec<f64>>()), "linearly");
    // A plateau behind the growth does not count, and is told.
    let rising = (1..=100).map(|n| 2.0 + 0.1 * f64::from(n));
    let long: Vec<f64> = rising.chain(std::iter::repeat_n(12.0, 2000)).collect();
    holds("P4.4", &traced(&long));
    assert!(verdict("P4.4", &traced(&long)).note.contains("With the plateau: 108 MiB: 2100 migrations, alpha 0.00"));
}

/// Runs, not made-up records: a new format of a used chip leaves 63 pages in the FAT's log block,
/// which are copied for ever; with the block merged p starts small. At 864 MiB they are 64, and are
/// merged at once. Each setting is told apart by its records.
#[test]
fn the_log_block_of_the_fat_starts_as_the_settings_say() {
    let stop = AtomicBool::new(false);
    let options = Options { jobs: 2, stop: &stop, ..Options::default() };
    let records = growth_runs(&Scale::new(true)).unwrap().run(&options).unwrap();
    let points = super::point::read(&records);
    let first = |name: &str| {
        let of_setting: Vec<_> = points.iter().filter(|point| point.setting == name).collect();
        let [point] = of_setting.as_slice() else { panic!("{name}: {} records", of_setting.len()) };
        // The merge of a first format is no migration.
        let migrations = point.traced().into_iter().flatten().copied().find(|p| *p >= 0.0);
        migrations.unwrap_or(f64::NAN)
    };
    for setting in all_settings() {
        let p = first(setting.name);
        if setting.just_formatted && setting.cluster_size == 4096 {
            assert_eq!(p, 63.0, "{}", setting.name);
        } else {
            assert!(p.is_nan() || p < 60.0, "{}: {p}", setting.name);
        }
    }
    assert!(first(SETTINGS[0].name) < 20.0);
}

#[test]
fn log_blocks() {
    let hurt = |workload: &str, count: u32| if count < 8 && workload != "event-recorder" { 0.3 } else { 0.0 };
    holds("P4.5", &swept_log_blocks(hurt));
    fails("P4.5", &swept_log_blocks(|_, _| 0.0), "1 log block hurt fax much");
    fails("P4.5", &swept_log_blocks(|_, count| if count < 8 { 0.3 } else { 0.0 }), "do not hurt event-recorder");
    fails(
        "P4.5",
        &swept_log_blocks(|workload, count| hurt(workload, count) + if count == 32 { 0.2 } else { 0.0 }),
        "stable",
    );
}

/// The stack with eight log blocks is run long for P4.3, too: once its times were averaged with the
/// short ones of the sweep, and eight log blocks looked five times as slow.
#[test]
fn log_blocks_are_judged_by_their_own_runs_alone() {
    let hurt = |workload: &str, count: u32| if count < 8 && workload != "event-recorder" { 0.3 } else { 0.0 };
    let long = WORKLOADS.map(|workload| record(workload, block_map("macroscopic", 8, 0), &SETTINGS[0], 1, 1000.0));
    holds("P4.5", &Runs { policies: long.to_vec(), ..swept_log_blocks(hurt) });
}

#[test]
fn mathematics() {
    holds("P4.6", &Runs::default());
    let wrong = super::mathematics::judge(&Costs { copy: 0.3, ..Costs::P4 });
    assert!(!wrong.holds && wrong.note.contains("W(49)"), "{}", wrong.note);
}
