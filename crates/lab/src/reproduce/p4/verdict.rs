//! P4.1 to P4.3: how much faster each policy is than plain merging.
//!
//! A claim is taken apart into checks; it holds in a setting where every check does. The tolerances
//! stand here, in one place, and were set before the first run: an order is an order of means over
//! seeds; a figure agrees within five percentage points; "about equal" is within three. The small
//! files are run until a run twice as long moves the gain of merge+migration by less than half a
//! point.

use serde_json::{Value, json};

use super::super::Claim;
use super::cause::sentence;
use super::plan::{BESIDE, LARGE_IN_PIECES, LIMITS, SETTINGS, Setting, WORKLOADS, all_settings};
use super::point::{Point, REGRESSION, Spread, gain, standard};

/// Percentage points within which a gain agrees with the paper's.
const FIGURE_TOLERANCE: f64 = 0.05;
/// Percentage points within which two policies are about equal.
const EQUAL_TOLERANCE: f64 = 0.03;
/// Percentage points by which a gain may move when its run is doubled, and has settled.
const SETTLED: f64 = 0.005;

/// One part of a claim.
pub(super) struct Check {
    /// What it says, without a measured figure: the same in every run.
    pub name: String,
    pub text: String,
    pub holds: bool,
    /// The figure that stands beside the paper's in the table of claims.
    pub measured: Option<f64>,
}

impl Check {
    /// A check whose text has its figures behind the first colon or semicolon.
    pub fn new(text: impl Into<String>, holds: bool) -> Self {
        let text = text.into();
        let name = text.find([':', ';']).and_then(|end| text.get(..end)).unwrap_or(&text).to_string();
        Self { name, text, holds, measured: None }
    }

    /// This check under another name.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// This check with its figure, if it was measured.
    pub fn with(self, measured: Option<f64>) -> Self {
        Self { measured, ..self }
    }
}

/// What each check measured, by its name.
fn figures<'c>(checks: impl IntoIterator<Item = &'c Check>) -> Vec<(String, Option<f64>)> {
    checks.into_iter().map(|check| (check.name.clone(), check.measured)).collect()
}

/// The checks of one setting.
pub(super) struct InSetting {
    pub setting: String,
    pub checks: Vec<Check>,
}

impl InSetting {
    fn failed(&self) -> Vec<&str> {
        self.checks.iter().filter(|check| !check.holds).map(|check| check.text.as_str()).collect()
    }

    fn holds(&self) -> bool {
        !self.checks.is_empty() && self.failed().is_empty()
    }

    fn held(&self) -> String {
        let count = self.checks.len();
        format!("{}: {} of {count} checks hold", self.setting, count - self.failed().len())
    }
}

/// Judges a claim in each of these settings with the same checks.
pub(super) fn in_settings<'s>(
    settings: impl IntoIterator<Item = &'s Setting>,
    checks: impl Fn(&'static str) -> Vec<Check>,
) -> Vec<InSetting> {
    let judged = |setting: &Setting| InSetting { setting: setting.name.to_string(), checks: checks(setting.name) };
    settings.into_iter().map(judged).collect()
}

/// Verdicts in the settings that count, and in those that are only told.
pub(super) struct Verdicts {
    pub counted: Vec<InSetting>,
    pub beside: Vec<InSetting>,
}

impl Verdicts {
    /// The checks of each setting, for what was measured.
    pub fn to_json(&self) -> Value {
        let of = |all: &[InSetting]| {
            let verdict = |of: &InSetting| (of.setting.clone(), json!({"holds": of.holds(), "fails": of.failed()}));
            Value::Object(all.iter().map(verdict).collect())
        };
        json!({"counted": of(&self.counted), "beside": of(&self.beside)})
    }

    /// Where the claim holds and where it does not, in a sentence each.
    fn note(&self) -> String {
        let named = |holds: bool| {
            let chosen = self.counted.iter().filter(|of| of.holds() == holds);
            chosen.map(|of| if holds { of.setting.clone() } else { of.held() }).collect::<Vec<_>>().join("; ")
        };
        let mut note = String::new();
        for (what, settings) in [("Holds in", named(true)), ("Does not hold in", named(false))] {
            if !settings.is_empty() {
                note += &format!("{what} {settings}. ");
            }
        }
        if !self.beside.is_empty() {
            let beside: Vec<String> = self.beside.iter().map(InSetting::held).collect();
            note += &format!("Run short, and not counted: {}. ", beside.join("; "));
        }
        note
    }

    /// The claim: it holds where it holds in every setting that counts. Its checks, by which a
    /// later run is held against this one, are those of the first.
    pub fn claim(&self, id: &str, text: &str, paper: Value, measured: Value, note: &str) -> Claim {
        let first = self.counted.first();
        let failed = first.map(InSetting::failed).unwrap_or_default();
        let why = match (first, failed.as_slice()) {
            (None, _) | (_, []) => String::new(),
            (Some(first), failed) => format!("Fails in {}: {}. ", first.setting, failed.join("; ")),
        };
        let checks = first.into_iter().flat_map(|first| &first.checks);
        Claim {
            figures: figures(checks.clone()),
            checks: checks.map(|check| (check.name.clone(), check.holds)).collect(),
            claim: id.into(),
            text: text.into(),
            paper,
            measured,
            holds: !self.counted.is_empty() && self.counted.iter().all(InSetting::holds),
            settings: self.counted.iter().map(|of| (of.setting.clone(), of.holds())).collect(),
            note: format!("{}{why}{note}", self.note()).trim().to_string(),
            ..Claim::default()
        }
    }
}

/// A claim that no setting changes, from its checks; the note says which failed.
pub(super) fn claim(id: &str, text: &str, paper: Value, measured: Value, checks: &[Check], note: &str) -> Claim {
    let failed: Vec<&str> = checks.iter().filter(|check| !check.holds).map(|check| check.text.as_str()).collect();
    let why = if failed.is_empty() { String::new() } else { format!("Does not hold: {}. ", failed.join("; ")) };
    Claim {
        figures: figures(checks),
        checks: checks.iter().map(|check| (check.name.clone(), check.holds)).collect(),
        claim: id.into(),
        text: text.into(),
        paper,
        measured,
        holds: failed.is_empty() && !checks.is_empty(),
        note: format!("{why}{note}").trim().to_string(),
        ..Claim::default()
    }
}

/// The policies whose gain over merge is shown.
const POLICIES: [&str; 5] = ["merge+migration", "limit", "macroscopic", REGRESSION, "fast"];

/// One workload in one setting.
struct View<'a, 'b> {
    points: &'b [Point<'a>],
    workload: &'b str,
    setting: &'b str,
}

impl View<'_, '_> {
    fn gain(&self, policy: &str) -> Option<Spread> {
        gain(self.points, self.workload, self.setting, policy, "merge")
    }

    fn mean(&self, policy: &str) -> Option<f64> {
        if policy == "merge" { Some(0.0) } else { self.gain(policy).map(|spread| spread.mean) }
    }

    /// Checks a gain against the paper's figure; a missing measurement fails.
    fn figure(&self, policy: &str, paper: f64) -> Check {
        let ours = self.mean(policy);
        let shown = ours.map_or("not measured".to_string(), percent);
        let text = format!("{policy} on {}: paper {}, ours {shown}", self.workload, percent(paper));
        Check::new(text, ours.is_some_and(|ours| (ours - paper).abs() <= FIGURE_TOLERANCE)).with(ours)
    }

    /// Checks that each policy is faster than the one before it.
    fn order(&self, policies: &[&str]) -> Check {
        let means: Vec<Option<f64>> = policies.iter().map(|policy| self.mean(policy)).collect();
        let rises = means.windows(2).all(|pair| matches!(pair, [Some(slower), Some(faster)] if slower < faster));
        let shown = policies
            .iter()
            .zip(&means)
            .map(|(policy, mean)| format!("{policy} {}", mean.map_or("not measured".to_string(), percent)));
        let shown: Vec<String> = shown.collect();
        Check::new(format!("order on {} from slow to fast: {}", self.workload, shown.join(", ")), rises).named(format!(
            "order on {}: {}",
            self.workload,
            policies.join(" < ")
        ))
    }

    /// What recycling did, averaged over seeds: the counters behind the figures.
    fn counters(&self) -> Value {
        let of_policy = |policy: &str| {
            let chosen: Vec<&Point<'_>> =
                standard(self.points, self.workload, self.setting).filter(|point| point.policy == policy).collect();
            let mean =
                |name: &str| Spread::of(chosen.iter().map(|point| point.count(name))).map(|spread| spread.mean.round());
            json!({
                "host_page_writes": mean("ftl_host_page_writes"), "full_merges": mean("ftl_full_merges"),
                "swap_merges": mean("ftl_swap_merges"), "migrations": mean("ftl_migrations"),
                "forced_merges": mean("ftl_forced_merges"), "pages_copied": mean("ftl_pages_copied"),
            })
        };
        let all = ["merge"].into_iter().chain(POLICIES).map(|policy| (policy.to_string(), of_policy(policy)));
        Value::Object(all.collect())
    }
}

/// What the counters say of these workloads in the first setting.
fn causes(points: &[Point<'_>], workloads: &[&str]) -> String {
    let causes = workloads.iter().map(|workload| sentence(points, workload, SETTINGS[0].name));
    causes.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

fn percent(gain: f64) -> String {
    format!("{:+.1} %", gain * 100.0)
}

/// Gains over merge and counters of one workload in every setting.
fn measured(points: &[Point<'_>], workload: &str) -> Value {
    let of_setting = |setting: &Setting| {
        let view = View { points, workload, setting: setting.name };
        let gains = POLICIES.iter().filter_map(|policy| Some(((*policy).to_string(), view.gain(policy)?.to_json())));
        let gains: serde_json::Map<String, Value> = gains.collect();
        (setting.name.to_string(), json!({"gain_over_merge": gains, "counters": view.counters()}))
    };
    Value::Object(all_settings().map(of_setting).collect())
}

/// The gain of merge+migration on the small files by the number of transactions.
fn lengths(settling: &[Point<'_>], setting: &str) -> Vec<(u64, f64)> {
    let mut lengths: Vec<u64> =
        settling.iter().filter(|point| point.setting == setting).map(|point| point.transactions).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let gain_at = |length: u64| {
        let of_length: Vec<Point<'_>> = settling.iter().filter(|point| point.transactions == length).cloned().collect();
        Some((length, gain(&of_length, "postmark-small", setting, "merge+migration", "merge")?.mean))
    };
    lengths.into_iter().filter_map(gain_at).collect()
}

/// Whether the last doubling moved the gain by less than half a percentage point.
pub fn is_settled(settling: &[Point<'_>], setting: &str) -> bool {
    matches!(lengths(settling, setting).as_slice(), [.., (_, before), (_, last)] if (last - before).abs() < SETTLED)
}

fn settled(settling: &[Point<'_>], setting: &str) -> Check {
    let shown: Vec<String> = lengths(settling, setting)
        .iter()
        .map(|(length, gain)| format!("{} with {length} transactions", percent(*gain)))
        .collect();
    let shown = if shown.is_empty() { "not measured".to_string() } else { shown.join(", ") };
    Check::new(format!("merge+migration's gain has settled: {shown}"), is_settled(settling, setting))
}

/// P4.1.
pub fn small_files(points: &[Point<'_>], settling: &[Point<'_>]) -> Claim {
    let workload = "postmark-small";
    let checks = |setting: &'static str, counts: bool| {
        let view = View { points, workload, setting };
        let (limit, macroscopic) = (view.mean("limit"), view.mean("macroscopic"));
        let both = limit.zip(macroscopic);
        let mut checks = vec![
            view.order(&["merge", "merge+migration", "limit"]),
            view.order(&["merge+migration", "macroscopic"]),
            view.figure("merge+migration", 0.05),
            view.figure("limit", 0.265),
            view.figure("macroscopic", 0.265),
            Check::new(
                "limit and macroscopic about equal",
                both.is_some_and(|(a, b)| (a - b).abs() <= EQUAL_TOLERANCE),
            ),
            Check::new("limit slightly ahead of macroscopic", both.is_some_and(|(a, b)| a >= b)),
        ];
        if counts {
            let sweep = limit_sweep(points, setting);
            let best = sweep.iter().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean)).map(|(limit, _)| *limit);
            let shown = best.map_or("not measured".to_string(), |best| best.to_string());
            checks.push(Check::new(format!("the best limit is Np/2 = 64; ours is {shown}"), best == Some(64)));
            checks.push(settled(settling, setting));
        }
        checks
    };
    let verdicts = Verdicts {
        counted: in_settings(&SETTINGS, |setting| checks(setting, true)),
        beside: in_settings(&BESIDE, |setting| checks(setting, false)),
    };
    let in_each = |value: &dyn Fn(&'static str) -> Value| -> Value {
        Value::Object(SETTINGS.iter().map(|setting| (setting.name.to_string(), value(setting.name))).collect())
    };
    let sweep = |setting: &'static str| {
        let times = limit_sweep(points, setting);
        times.iter().map(|(limit, time)| json!({"limit": limit, "seconds": time.to_json()})).collect()
    };
    let by_length = |setting: &'static str| {
        let gains = lengths(settling, setting);
        gains.iter().map(|(length, gain)| json!({"transactions": length, "merge_migration_over_merge": gain})).collect()
    };
    let ours = json!({
        "verdicts": verdicts.to_json(), "settings": measured(points, workload),
        "limit_sweep": in_each(&sweep), "gain_by_length": in_each(&by_length),
    });
    let paper = json!({"gain_over_merge": {"merge+migration": 0.05, "limit": [0.26, 0.27], "macroscopic": [0.26, 0.27]}, "best_limit": 64});
    let text = "Postmark small files: merge+migration +5 % over merge; LIMIT and macroscopic +26 to 27 %, LIMIT slightly ahead; Np/2 is the best limit";
    verdicts.claim("P4.1", text, paper, ours, &causes(points, &[workload]))
}

/// Seconds of simulated time for each limit of the sweep.
fn limit_sweep(points: &[Point<'_>], setting: &str) -> Vec<(u32, Spread)> {
    let times = |limit: u32| {
        let chosen = points.iter().filter(move |point| {
            point.policy == "limit"
                && point.limit == u64::from(limit)
                && point.workload == "postmark-small"
                && point.setting == setting
        });
        Spread::of(chosen.map(|point| point.time_ns() / 1e9))
    };
    LIMITS.into_iter().filter_map(|limit| Some((limit, times(limit)?))).collect()
}

/// P4.2, by the size of the calls as well.
pub fn large_files(points: &[Point<'_>]) -> Claim {
    let checks = |setting: &'static str, large: &'static str| {
        let view = |workload| View { points, workload, setting };
        let (small, large) = (view("postmark-small"), view(large));
        let smaller = |policy: &str| {
            let both = small.mean(policy).zip(large.mean(policy));
            let text = format!("{policy}: gain on large files below that on small files");
            let name = text.clone();
            // A policy that loses on small files has no gain of which a share could be taken.
            let share = both.filter(|(on_small, _)| *on_small > 0.0).map(|(on_small, on_large)| on_large / on_small);
            Check::new(text, both.is_some_and(|(on_small, on_large)| on_large < on_small)).named(name).with(share)
        };
        let mut checks = vec![large.order(&["merge", "merge+migration", "limit", "macroscopic"])];
        checks.extend(["merge+migration", "limit", "macroscopic"].map(smaller));
        checks
    };
    let by_calls = |settings: &'static [Setting]| {
        let in_pieces = in_settings(settings, |setting| checks(setting, LARGE_IN_PIECES)).into_iter();
        let in_pieces = in_pieces.map(|of| InSetting { setting: format!("{}, 4 KiB a call", of.setting), ..of });
        in_settings(settings, |setting| checks(setting, "postmark-large")).into_iter().chain(in_pieces).collect()
    };
    let verdicts = Verdicts { counted: by_calls(&SETTINGS), beside: by_calls(&BESIDE) };
    let ours = json!({
        "verdicts": verdicts.to_json(), "settings": measured(points, "postmark-large"),
        "4 KiB a call": measured(points, LARGE_IN_PIECES),
    });
    let paper = json!({"order": ["merge", "merge+migration", "limit", "macroscopic"]});
    let note = format!(
        "A call writes 64 KiB unless it says otherwise. {}",
        causes(points, &["postmark-small", "postmark-large", LARGE_IN_PIECES])
    );
    verdicts.claim("P4.2", "Postmark large files: the same order, smaller gains", paper, ours, &note)
}

/// P4.3.
pub fn embedded(points: &[Point<'_>]) -> Claim {
    let checks = |setting: &'static str| {
        let view = |workload| View { points, workload, setting };
        let mut checks = Vec::new();
        for (workload, gain) in [("phone", 0.22), ("event-recorder", 0.14), ("fax", 0.05)] {
            checks.push(view(workload).figure("macroscopic", gain));
        }
        for workload in ["fax", "phone"] {
            checks.push(view(workload).order(&["merge", "merge+migration", "limit", "macroscopic"]));
        }
        checks.push(view("event-recorder").order(&["merge+migration", "merge", "limit", "macroscopic"]));
        checks
    };
    let verdicts = Verdicts { counted: in_settings(&SETTINGS, checks), beside: in_settings(&BESIDE, checks) };
    let workloads = WORKLOADS[2..].iter().map(|workload| ((*workload).to_string(), measured(points, workload)));
    let workloads: serde_json::Map<String, Value> = workloads.collect();
    let ours = json!({"verdicts": verdicts.to_json(), "workloads": workloads});
    let paper = json!({"macroscopic_over_merge": {"phone": 0.22, "event-recorder": 0.14, "fax": 0.05}});
    let text = "Embedded workloads: macroscopic over merge phone +22 %, event recorder +14 %, fax +5 %; merge < merge+migration < LIMIT < \
                macroscopic, except that merge+migration is slightly worse than merge on the event recorder";
    verdicts.claim("P4.3", text, paper, ours, &causes(points, &WORKLOADS[2..]))
}
