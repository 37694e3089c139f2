//! P4.1 to P4.3: how much faster each policy is than plain merging.
//!
//! A claim is taken apart into checks; it holds where every check does. The tolerances stand here,
//! in one place, and were set before the first run: an order is an order of means over seeds; a
//! figure agrees within five percentage points; "about equal" is within three.

use serde_json::{Value, json};

use super::super::Claim;
use super::cause::sentence;
use super::plan::{LIMITS, SETTINGS, SWEPT, Setting, WORKLOADS};
use super::point::{Point, REGRESSION, Spread, gain, standard};

/// Percentage points within which a gain agrees with the paper's.
const FIGURE_TOLERANCE: f64 = 0.05;
/// Percentage points within which two policies are about equal.
const EQUAL_TOLERANCE: f64 = 0.03;

/// One part of a claim.
pub(super) struct Check {
    /// What it says, without a measured figure: the same in every run.
    pub name: String,
    pub text: String,
    pub holds: bool,
}

impl Check {
    /// A check whose text has its figures behind the first colon or semicolon.
    pub fn new(text: impl Into<String>, holds: bool) -> Self {
        let text = text.into();
        let name = text.find([':', ';']).and_then(|end| text.get(..end)).unwrap_or(&text).to_string();
        Self { name, text, holds }
    }

    /// The same under another name.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }
}

/// What the checks of one setting say.
pub(super) struct InSetting {
    pub setting: &'static str,
    pub checks: Vec<Check>,
}

/// Judges a claim in each of these settings with the same checks.
pub(super) fn in_settings<'s>(
    settings: impl IntoIterator<Item = &'s Setting>,
    checks: impl Fn(&'static str) -> Vec<Check>,
) -> Vec<InSetting> {
    settings.into_iter().map(|setting| InSetting { setting: setting.name, checks: checks(setting.name) }).collect()
}

/// The verdict of each setting, for what was measured.
pub(super) fn by_setting(verdicts: &[InSetting]) -> Value {
    let verdict = |of: &InSetting| {
        let failed: Vec<&str> =
            of.checks.iter().filter(|check| !check.holds).map(|check| check.text.as_str()).collect();
        (of.setting.to_string(), json!({"holds": failed.is_empty(), "fails": failed}))
    };
    Value::Object(verdicts.iter().map(verdict).collect())
}

/// The checks of the first setting, from which the verdict is taken, and a note on the others.
pub(super) fn first(verdicts: Vec<InSetting>) -> (Vec<Check>, String) {
    let note = verdicts.iter().skip(1).map(|of| {
        let failed = of.checks.iter().filter(|check| !check.holds).count();
        format!("{}: {} of {} checks hold", of.setting, of.checks.len() - failed, of.checks.len())
    });
    let note: Vec<String> = note.collect();
    let first = verdicts.into_iter().next();
    let name = first.as_ref().map_or("", |of| of.setting);
    let note = format!("Verdict in the setting \"{name}\". In others: {}.", note.join("; "));
    (first.map(|of| of.checks).unwrap_or_default(), note)
}

/// A claim from its checks; the note says which failed.
pub(super) fn claim(id: &str, text: &str, paper: Value, measured: Value, checks: Vec<Check>, note: String) -> Claim {
    let failed: Vec<&str> = checks.iter().filter(|check| !check.holds).map(|check| check.text.as_str()).collect();
    let holds = failed.is_empty() && !checks.is_empty();
    let why = if failed.is_empty() { String::new() } else { format!("Does not hold: {}. ", failed.join("; ")) };
    Claim {
        checks: checks.iter().map(|check| (check.name.clone(), check.holds)).collect(),
        claim: id.into(),
        text: text.into(),
        paper,
        measured,
        holds,
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
        Check::new(text, ours.is_some_and(|ours| (ours - paper).abs() <= FIGURE_TOLERANCE))
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

/// The note with what the counters say of these workloads in the first setting.
fn with_causes(note: String, points: &[Point<'_>], workloads: &[&str]) -> String {
    let causes = workloads.iter().map(|workload| sentence(points, workload, SETTINGS[0].name));
    [note].into_iter().chain(causes).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
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
    Value::Object(SETTINGS.iter().map(of_setting).collect())
}

/// P4.1.
pub fn small_files(points: &[Point<'_>]) -> Claim {
    let workload = "postmark-small";
    let checks = |setting: &'static str| {
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
        if SWEPT.iter().any(|swept| swept.name == setting) {
            let sweep = limit_sweep(points, setting);
            let best = sweep.iter().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean)).map(|(limit, _)| *limit);
            let shown = best.map_or("not measured".to_string(), |best| best.to_string());
            checks.push(Check::new(format!("the best limit is Np/2 = 64; ours is {shown}"), best == Some(64)));
        }
        checks
    };
    let verdicts = in_settings(&SETTINGS, checks);
    let swept = SWEPT.map(|setting| {
        let times = limit_sweep(points, setting.name);
        let times: Vec<Value> =
            times.iter().map(|(limit, time)| json!({"limit": limit, "seconds": time.to_json()})).collect();
        (setting.name.to_string(), Value::Array(times))
    });
    let swept: serde_json::Map<String, Value> = swept.into_iter().collect();
    let ours = json!({"verdicts": by_setting(&verdicts), "settings": measured(points, workload), "limit_sweep": swept});
    let paper = json!({"gain_over_merge": {"merge+migration": 0.05, "limit": [0.26, 0.27], "macroscopic": [0.26, 0.27]}, "best_limit": 64});
    let text = "Postmark small files: merge+migration +5 % over merge; LIMIT and macroscopic +26 to 27 %, LIMIT slightly ahead; Np/2 is the best limit";
    let (checks, note) = first(verdicts);
    claim("P4.1", text, paper, ours, checks, with_causes(note, points, &[workload]))
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

/// P4.2.
pub fn large_files(points: &[Point<'_>]) -> Claim {
    let checks = |setting: &'static str| {
        let view = |workload| View { points, workload, setting };
        let (small, large) = (view("postmark-small"), view("postmark-large"));
        let smaller = |policy: &str| {
            let both = small.mean(policy).zip(large.mean(policy));
            let text = format!("{policy}: gain on large files below that on small files");
            let name = text.clone();
            Check::new(text, both.is_some_and(|(on_small, on_large)| on_large < on_small)).named(name)
        };
        let mut checks = vec![large.order(&["merge", "merge+migration", "limit", "macroscopic"])];
        checks.extend(["merge+migration", "limit", "macroscopic"].map(smaller));
        checks
    };
    let verdicts = in_settings(&SETTINGS, checks);
    let ours = json!({"verdicts": by_setting(&verdicts), "settings": measured(points, "postmark-large")});
    let paper = json!({"order": ["merge", "merge+migration", "limit", "macroscopic"]});
    let (checks, note) = first(verdicts);
    let note = with_causes(note, points, &["postmark-small", "postmark-large"]);
    claim("P4.2", "Postmark large files: the same order, smaller gains", paper, ours, checks, note)
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
    let verdicts = in_settings(&SETTINGS, checks);
    let workloads = WORKLOADS[2..].iter().map(|workload| ((*workload).to_string(), measured(points, workload)));
    let workloads: serde_json::Map<String, Value> = workloads.collect();
    let ours = json!({"verdicts": by_setting(&verdicts), "workloads": workloads});
    let paper = json!({"macroscopic_over_merge": {"phone": 0.22, "event-recorder": 0.14, "fax": 0.05}});
    let text = "Embedded workloads: macroscopic over merge phone +22 %, event recorder +14 %, fax +5 %; merge < merge+migration < LIMIT < \
                macroscopic, except that merge+migration is slightly worse than merge on the event recorder";
    let (checks, note) = first(verdicts);
    claim("P4.3", text, paper, ours, checks, with_causes(note, points, &WORKLOADS[2..]))
}
