//! P2.4, and what policies cost in processor time.
//!
//! Device time knows no processor. The verdict adds processor time by counts that are in the
//! records (blocks that the policy looked at, versions whose region was decided) at
//! [`EVALUATION_NS`] each; the same records give the same verdict on any host. What a choice really
//! takes on this host is shown beside it.

use std::hint::black_box;

use nandkit_cleaning::separation::{DatumKey, Separation, Separator};
use nandkit_cleaning::victim::{BlockView, Queue, VictimPolicy};
use nandkit_units::Nanos;
use serde_json::{Value, json};

use super::super::Claim;
use super::super::check::{Check, Judged, Stated, judge_in};
use super::over::over_settings;
use super::plan::{BASELINE, BASELINES, CAT, LINUX, REGIONS, Setting, dac, settings_of};
use super::point::{Point, View};
use super::verdict::{SAME, by_regions, figures, measured};
use crate::HostMeter;

/// What one evaluation, and one decision of a region, is taken to cost: 1 microsecond, 200 cycles
/// of a 200 MHz processor of the paper's time, enough for a 64-bit division in software. An
/// assumption on the dear side; P2 names no processor.
pub const EVALUATION_NS: f64 = 1000.0;

/// The share of the time that counts as negligible.
const NEGLIGIBLE: f64 = 0.01;

/// Processor time on the simulating host in nanoseconds, the least of several batches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostTimes {
    /// Nanoseconds for a choice of a victim among 256 blocks by the baseline.
    pub baseline: f64,
    /// Nanoseconds for a choice of a victim among 256 blocks by Linux's lists.
    pub linux: f64,
    /// Nanoseconds for a choice of a victim among 256 blocks by CAT.
    pub cat: f64,
    /// Nanoseconds for a decision of a region by DAC with three regions.
    pub dac: f64,
}

/// Measures the policies apart from everything else; `None` where the host has no clock.
pub fn measure(host: &dyn HostMeter) -> Option<HostTimes> {
    Some(HostTimes {
        baseline: choice_ns(host, BASELINE)?,
        linux: choice_ns(host, LINUX)?,
        cat: choice_ns(host, CAT)?,
        dac: region_ns(host)?,
    })
}

const BATCHES: u32 = 20;
const PER_BATCH: u32 = 500;

/// The least mean over batches: whatever else the host does only adds.
fn least_ns(host: &dyn HostMeter, mut once: impl FnMut(u64)) -> Option<f64> {
    let mut least = f64::INFINITY;
    for batch in 0..BATCHES {
        let started = host.now_ns();
        for step in 0..PER_BATCH {
            once(u64::from(batch * PER_BATCH + step));
        }
        least = least.min(host.now_ns().saturating_sub(started) as f64 / f64::from(PER_BATCH));
    }
    (least > 0.0).then_some(least)
}

fn choice_ns(host: &dyn HostMeter, policy: &str) -> Option<f64> {
    let policy: VictimPolicy = policy.parse().ok()?;
    let block_bytes = 128 << 10;
    let blocks: Vec<BlockView> = (0..256_u32)
        .map(|block| {
            let invalid = u64::from(block * 37 % 256) * 512;
            let valid = block_bytes - invalid;
            BlockView {
                block,
                valid,
                invalid,
                erases: block % 7,
                written: Nanos(u64::from(block) * 1_000_000),
                first_written: Nanos(u64::from(block) * 900_000),
                queue: Queue::of(valid, invalid, 0),
                place: i64::from(block * 91 % 256),
                dirtied: i64::from(block * 53 % 256),
                ..BlockView::default()
            }
        })
        .collect();
    least_ns(host, |step| {
        let now = Nanos(1_000_000_000 + step);
        black_box(policy.choose(black_box(&blocks).iter().copied(), now, &mut |n| (step % u64::from(n.max(1))) as u32));
    })
}

fn region_ns(host: &dyn HostMeter) -> Option<f64> {
    let scheme: Separation = dac(3).parse().ok()?;
    let mut separator = Separator::new(scheme);
    let mut datum = separator.on_write(DatumKey(0), None, Nanos(1));
    least_ns(host, |step| {
        datum = black_box(separator.on_write(DatumKey(step % 64), Some(datum), Nanos(step * 1_000_000)));
    })
}

/// Nanoseconds of policy by the counts of a run: its evaluations, and one decision for each version
/// written or moved where there are regions.
fn policy_ns(point: &Point<'_>) -> f64 {
    let decisions = point.flows("clean_flows").map_or(0.0, |moved| point.writes() + moved.iter().sum::<f64>());
    (point.count("policy_evaluations") + decisions) * EVALUATION_NS
}

/// The share of the policy in all time.
fn policy_share(point: &Point<'_>) -> f64 {
    let policy = policy_ns(point);
    policy / (policy + point.elapsed_ns()).max(1.0)
}

/// User bytes per nanosecond with the policy's time.
fn whole_speed(point: &Point<'_>) -> f64 {
    point.record.figures.user_bytes_written as f64 / (point.elapsed_ns() + policy_ns(point)).max(1.0)
}

/// A setting with the collector that CAT is held against.
struct Against {
    setting: Setting,
    baseline: &'static str,
}

impl Judged for Against {
    const KIND: &'static str = "setting";

    fn name(&self) -> String {
        format!("{}, against {}", self.setting.name(), self.baseline)
    }
}

/// P2.4.
pub fn sequential(points: &[Point<'_>], host: Option<HostTimes>) -> Claim {
    let all = measured(points, settings_of("seq"));
    let against =
        BASELINES.iter().flat_map(|baseline| all.iter().map(|setting| Against { setting: *setting, baseline }));
    let verdicts = judge_in(against.collect(), |Against { setting, baseline }| {
        let view = View::new(points, setting);
        let erases = view.ratio((CAT, "none"), (baseline, "none"), Point::erases);
        let share = view.figure((CAT, "none"), policy_share);
        let mut checks = vec![
            Check::new("CAT erases as often as baseline", erases, |x| (x - 1.0).abs() <= SAME),
            Check::new("CAT's share of the time is under 1 %", share, |x| x < NEGLIGIBLE),
        ];
        for collector in [baseline, CAT] {
            let name = if collector == CAT { CAT } else { "baseline" };
            let ratios = REGIONS.iter().filter(|regions| **regions > 1).filter_map(|regions| {
                view.ratio((collector, &dac(*regions)), (collector, "none"), whole_speed)
                    .map(|spread| (*regions, spread))
            });
            let best = ratios.map(|(_, spread)| spread).max_by(|a, b| a.mean.total_cmp(&b.mean));
            checks.push(Check::new(format!("{name}: R=1 is at least 2 % faster than any other"), best, |x| {
                x <= 1.0 - SAME
            }));
        }
        checks
    });
    let stated = Stated {
        id: "P2.4",
        text: "Sequential: the processor cost of CAT is negligible; erases are the same; R=1 is clearly fastest, since DAC is only processor time",
        paper: json!({"erases_by_baseline": 1.0, "cat_share_of_time": "negligible", "fastest_regions": 1}),
    };
    let shown = json!({
        "figures": figures(points, &all, &by_regions(&[BASELINE, CAT, LINUX])),
        "processor": shares(points, &all),
        "host": host_json(host),
    });
    over_settings(stated, &verdicts, shown, &causes(points, &all, host))
}

/// The policy's counts and shares in the first of the settings.
fn shares(points: &[Point<'_>], settings: &[Setting]) -> Value {
    let Some(setting) = settings.first() else { return Value::Null };
    let view = View::new(points, setting);
    let rows = by_regions(&[BASELINE, CAT, LINUX]).into_iter().filter_map(|(collector, separation)| {
        let scheme = (collector.as_str(), separation.as_str());
        let per_write = |point: &Point<'_>| point.count("policy_evaluations") / point.writes().max(1.0);
        let evaluations = view.figure(scheme, per_write)?;
        let share = view.figure(scheme, policy_share)?;
        let row = json!({"evaluations_per_write": evaluations.to_json(), "share_at_1_us": share.to_json()});
        Some((format!("{collector} | {separation}"), row))
    });
    Value::Object(rows.collect())
}

fn host_json(host: Option<HostTimes>) -> Value {
    host.map_or(Value::Null, |host| {
        let round = |ns: f64| (ns * 10.0).round() / 10.0;
        json!({
            "host_ns_per_choice": {"p2-baseline": round(host.baseline), "jffs2-lists": round(host.linux), "cat": round(host.cat)},
            "host_ns_per_region_decision": round(host.dac),
        })
    })
}

fn causes(points: &[Point<'_>], settings: &[Setting], host: Option<HostTimes>) -> String {
    let erases = settings.iter().map(|setting| {
        let by = |baseline| View::new(points, setting).ratio((CAT, "none"), (baseline, "none"), Point::erases);
        let figure = |baseline| by(baseline).map_or("-".to_string(), |ratio| format!("{:.3}", ratio.mean));
        format!("{} {} and {}", setting.name(), figure(BASELINE), figure(LINUX))
    });
    let mut text = format!(
        "CAT's erases by those of p2-baseline and of jffs2-lists: {}. The verdict counts 1 us for each block that the policy looks at and each region that DAC decides.",
        erases.collect::<Vec<_>>().join("; ")
    );
    let Some(host) = host else { return text };
    text += &format!(
        " On this host, measured apart among 256 blocks: {:.0} ns per choice of CAT, {:.0} of baseline, {:.0} of linux; {:.0} ns per region of DAC.",
        host.cat, host.baseline, host.linux, host.dac
    );
    let share = settings.first().and_then(|setting| {
        View::new(points, setting)
            .figure((CAT, "none"), |point| point.record.figures.erases as f64 * host.cat / point.elapsed_ns().max(1.0))
    });
    if let Some(share) = share {
        text += &format!(" So CAT takes {:.5} % of the time here, at one choice for each erase.", share.mean * 100.0);
    }
    text
}
