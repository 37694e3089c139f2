//! P4.1 to P4.3: how much faster each policy is than plain merging.
//!
//! A claim is taken apart into checks; it holds where every check does. The tolerances stand here, in one place, and were set before the
//! first run: an order is an order of means over seeds; a figure agrees within five percentage points; "about equal" is within three.

use serde_json::{Value, json};

use super::super::Claim;
use super::plan::{LIMITS, SETTINGS, WORKLOADS};
use super::point::{Point, REGRESSION, Spread, gain, standard};

/// Percentage points within which a gain agrees with the paper's.
const FIGURE_TOLERANCE: f64 = 0.05;
/// Percentage points within which two policies are about equal.
const EQUAL_TOLERANCE: f64 = 0.03;

/// One part of a claim.
pub(super) struct Check {
    pub text: String,
    pub holds: bool,
}

impl Check {
    pub fn new(text: impl Into<String>, holds: bool) -> Self {
        Self { text: text.into(), holds }
    }
}

/// A claim from its checks; the note says which failed.
pub(super) fn claim(id: &str, text: &str, paper: Value, measured: Value, checks: Vec<Check>, note: String) -> Claim {
    let failed: Vec<&str> = checks.iter().filter(|check| !check.holds).map(|check| check.text.as_str()).collect();
    let holds = failed.is_empty() && !checks.is_empty();
    let why = if failed.is_empty() { String::new() } else { format!("Does not hold: {}. ", failed.join("; ")) };
    Claim {
        claim: id.into(),
        text: text.into(),
        paper,
        measured,
        holds,
        note: format!("{why}{note}").trim().to_string(),
    }
}

/// The policies whose gain over merge is shown.
const POLICIES: [&str; 5] = ["merge+migration", "limit", "macroscopic", REGRESSION, "fast"];

fn gains(points: &[Point<'_>], workload: &str) -> Value {
    let mut settings = serde_json::Map::new();
    for setting in &SETTINGS {
        let mut of_policy = serde_json::Map::new();
        for policy in POLICIES {
            if let Some(spread) = gain(points, workload, setting.name, policy, "merge") {
                of_policy.insert(policy.to_string(), spread.to_json());
            }
        }
        settings.insert(setting.name.to_string(), Value::Object(of_policy));
    }
    Value::Object(settings)
}

fn mean_gain(points: &[Point<'_>], workload: &str, policy: &str) -> Option<f64> {
    gain(points, workload, SETTINGS[0].name, policy, "merge").map(|spread| spread.mean)
}

/// Checks of a gain against the paper's figure; a missing measurement fails.
fn figure(points: &[Point<'_>], workload: &str, policy: &str, paper: f64) -> Check {
    let ours = mean_gain(points, workload, policy);
    let shown = ours.map_or("not measured".to_string(), percent);
    let text = format!("{policy} on {workload}: paper {}, ours {shown}", percent(paper));
    Check::new(text, ours.is_some_and(|ours| (ours - paper).abs() <= FIGURE_TOLERANCE))
}

fn percent(gain: f64) -> String {
    format!("{:+.1} %", gain * 100.0)
}

/// Checks that each policy is faster than the one before it.
fn order(points: &[Point<'_>], workload: &str, policies: &[&str]) -> Check {
    let means: Vec<Option<f64>> = policies
        .iter()
        .map(|policy| if *policy == "merge" { Some(0.0) } else { mean_gain(points, workload, policy) })
        .collect();
    let rises = means.windows(2).all(|pair| matches!(pair, [Some(slower), Some(faster)] if slower < faster));
    let shown: Vec<String> = policies
        .iter()
        .zip(&means)
        .map(|(policy, mean)| format!("{policy} {}", mean.map_or("not measured".to_string(), percent)))
        .collect();
    Check::new(format!("order on {workload} from slow to fast: {}", shown.join(", ")), rises)
}

/// What recycling did, averaged over seeds: the counters behind the figures.
fn counters(points: &[Point<'_>], workload: &str) -> Value {
    let mut of_policy = serde_json::Map::new();
    for policy in ["merge"].into_iter().chain(POLICIES) {
        let chosen: Vec<&Point<'_>> =
            standard(points, workload, SETTINGS[0].name).filter(|point| point.policy == policy).collect();
        let mean =
            |name: &str| Spread::of(chosen.iter().map(|point| point.count(name))).map(|spread| spread.mean.round());
        of_policy.insert(
            policy.to_string(),
            json!({
                "host_page_writes": mean("ftl_host_page_writes"), "full_merges": mean("ftl_full_merges"), "swap_merges": mean("ftl_swap_merges"),
                "migrations": mean("ftl_migrations"), "forced_merges": mean("ftl_forced_merges"), "pages_copied": mean("ftl_pages_copied"),
            }),
        );
    }
    Value::Object(of_policy)
}

/// P4.1.
pub fn small_files(points: &[Point<'_>]) -> Claim {
    let workload = "postmark-small";
    let (limit, macroscopic) = (mean_gain(points, workload, "limit"), mean_gain(points, workload, "macroscopic"));
    let about_equal = limit.zip(macroscopic).is_some_and(|(a, b)| (a - b).abs() <= EQUAL_TOLERANCE);
    let ahead = limit.zip(macroscopic).is_some_and(|(limit, macroscopic)| limit >= macroscopic);
    let sweep = limit_sweep(points);
    let best = sweep.iter().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean)).map(|(limit, _)| *limit);
    let checks = vec![
        order(points, workload, &["merge", "merge+migration", "limit"]),
        order(points, workload, &["merge+migration", "macroscopic"]),
        figure(points, workload, "merge+migration", 0.05),
        figure(points, workload, "limit", 0.265),
        figure(points, workload, "macroscopic", 0.265),
        Check::new("limit and macroscopic about equal", about_equal),
        Check::new("limit slightly ahead of macroscopic", ahead),
        Check::new(
            format!(
                "the best limit is Np/2 = 64; ours is {}",
                best.map_or("not measured".into(), |best| best.to_string())
            ),
            best == Some(64),
        ),
    ];
    let swept: Vec<Value> =
        sweep.iter().map(|(limit, time)| json!({"limit": limit, "seconds": time.to_json()})).collect();
    let measured = json!({"gain_over_merge": gains(points, workload), "limit_sweep": swept, "counters": counters(points, workload)});
    let paper = json!({"gain_over_merge": {"merge+migration": 0.05, "limit": [0.26, 0.27], "macroscopic": [0.26, 0.27]}, "best_limit": 64});
    let text = "Postmark small files: merge+migration +5 % over merge; LIMIT and macroscopic +26 to 27 %, LIMIT slightly ahead; Np/2 is the best limit";
    claim("P4.1", text, paper, measured, checks, setting_note())
}

fn setting_note() -> String {
    format!("Verdict in the setting \"{}\"; gains in the others beside it.", SETTINGS[0].name)
}

/// Seconds of simulated time for each limit of the sweep.
fn limit_sweep(points: &[Point<'_>]) -> Vec<(u32, Spread)> {
    let times = |limit: u32| {
        let chosen = points.iter().filter(move |point| {
            point.policy == "limit" && point.limit == u64::from(limit) && point.workload == "postmark-small"
        });
        Spread::of(chosen.map(|point| point.time_ns() / 1e9))
    };
    LIMITS.into_iter().filter_map(|limit| Some((limit, times(limit)?))).collect()
}

/// P4.2.
pub fn large_files(points: &[Point<'_>]) -> Claim {
    let (small, large) = ("postmark-small", "postmark-large");
    let smaller = |policy: &str| {
        let (on_small, on_large) = (mean_gain(points, small, policy), mean_gain(points, large, policy));
        Check::new(
            format!("{policy}: gain on large files below that on small files"),
            on_small.zip(on_large).is_some_and(|(on_small, on_large)| on_large < on_small),
        )
    };
    let mut checks = vec![order(points, large, &["merge", "merge+migration", "limit", "macroscopic"])];
    checks.extend(["merge+migration", "limit", "macroscopic"].map(smaller));
    let measured = json!({"gain_over_merge": gains(points, large), "counters": counters(points, large)});
    let text = "Postmark large files: the same order, smaller gains";
    claim(
        "P4.2",
        text,
        json!({"order": ["merge", "merge+migration", "limit", "macroscopic"]}),
        measured,
        checks,
        setting_note(),
    )
}

/// P4.3.
pub fn embedded(points: &[Point<'_>]) -> Claim {
    let paper = [("phone", 0.22), ("event-recorder", 0.14), ("fax", 0.05)];
    let mut checks: Vec<Check> =
        paper.iter().map(|(workload, gain)| figure(points, workload, "macroscopic", *gain)).collect();
    for workload in ["fax", "phone"] {
        checks.push(order(points, workload, &["merge", "merge+migration", "limit", "macroscopic"]));
    }
    checks.push(order(points, "event-recorder", &["merge+migration", "merge", "limit", "macroscopic"]));
    let mut measured = serde_json::Map::new();
    for workload in &WORKLOADS[2..] {
        let of_workload = json!({"gain_over_merge": gains(points, workload), "counters": counters(points, workload)});
        measured.insert((*workload).to_string(), of_workload);
    }
    let paper = json!({"macroscopic_over_merge": {"phone": 0.22, "event-recorder": 0.14, "fax": 0.05}});
    let text = "Embedded workloads: macroscopic over merge phone +22 %, event recorder +14 %, fax +5 %; merge < merge+migration < LIMIT < \
                macroscopic, except that merge+migration is slightly worse than merge on the event recorder";
    claim("P4.3", text, paper, Value::Object(measured), checks, setting_note())
}
