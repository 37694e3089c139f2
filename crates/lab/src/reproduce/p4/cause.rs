//! Why a policy comes out as it does: the counters behind a gain, put into a sentence.

use super::point::{Point, Spread, standard};

/// Means over seeds of what recycling did under one policy.
struct Behaviour {
    seconds: f64,
    host_pages: f64,
    migrations: f64,
    full_merges: f64,
    forced: f64,
    swaps: f64,
    copied: f64,
}

fn behaviour(points: &[Point<'_>], workload: &str, setting: &str, policy: &str) -> Option<Behaviour> {
    let chosen: Vec<&Point<'_>> = standard(points, workload, setting).filter(|point| point.policy == policy).collect();
    let mean = |value: &dyn Fn(&Point<'_>) -> f64| {
        Spread::of(chosen.iter().map(|point| value(point))).map(|spread| spread.mean)
    };
    let count = |name: &'static str| mean(&|point: &Point<'_>| point.count(name));
    Some(Behaviour {
        seconds: mean(&|point: &Point<'_>| point.time_ns() / 1e9)?,
        host_pages: count("ftl_host_page_writes")?,
        migrations: count("ftl_migrations")?,
        full_merges: count("ftl_full_merges")?,
        forced: count("ftl_forced_merges")?,
        swaps: count("ftl_swap_merges")?,
        copied: count("ftl_pages_copied")?,
    })
}

/// Per hundred host pages.
fn per_hundred(count: f64, host_pages: f64) -> String {
    if host_pages > 0.0 { format!("{:.2}", count / host_pages * 100.0) } else { "-".to_string() }
}

/// What merge and the other policies did on a workload, per hundred host pages, and which part of
/// the time under merge was open to gain. Empty without measurements.
pub(super) fn sentence(points: &[Point<'_>], workload: &str, setting: &str) -> String {
    let Some(merge) = behaviour(points, workload, setting, "merge") else { return String::new() };
    let mut text = format!(
        "On {workload} merge made {} full merges per 100 host pages, {:.0} % of them forced by contention, and copied {} pages",
        per_hundred(merge.full_merges, merge.host_pages),
        share(merge.forced, merge.full_merges),
        per_hundred(merge.copied, merge.host_pages),
    );
    if merge.swaps > 0.0 {
        text += &format!(", beside {} swap merges", per_hundred(merge.swaps, merge.host_pages));
    }
    for policy in ["merge+migration", "limit", "macroscopic"] {
        if let Some(other) = behaviour(points, workload, setting, policy) {
            text += &format!(
                "; {policy}: {} merges, {} migrations, {} pages copied, {:.3} ms per host page",
                per_hundred(other.full_merges, other.host_pages),
                per_hundred(other.migrations, other.host_pages),
                per_hundred(other.copied, other.host_pages),
                other.seconds * 1e3 / other.host_pages.max(1.0),
            );
        }
    }
    text + &format!("; merge: {:.3} ms per host page.", merge.seconds * 1e3 / merge.host_pages.max(1.0))
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole * 100.0 } else { 0.0 }
}
