//! The figures by which people choose a stack.

use nandkit_record::{Figures, Latency, RunRecord};

use crate::summary::{Group, Summary, number};

/// The share of operations that a kind has at least for its slowness to count.
const KIND_SHARE_MIN: f64 = 0.01;

/// 99 % of the operations took at most this, of the slowest kind that is no rarity, in simulated
/// nanoseconds.
pub(crate) fn p99_ns(figures: &Figures) -> Option<f64> {
    slowest_kind(figures).map(|(_, latency)| latency.p99 as f64)
}

/// The kind of operation that is no rarity and has the longest p99, with its latencies.
pub(crate) fn slowest_kind(figures: &Figures) -> Option<(&str, &Latency)> {
    let all: u64 = figures.latency_ns.values().map(|kind| kind.count).sum();
    let counts = figures.latency_ns.iter().filter(|(_, kind)| kind.count as f64 >= all as f64 * KIND_SHARE_MIN);
    let counts = counts.map(|(name, latency)| (name.as_str(), latency)).filter(|(_, kind)| kind.count > 0);
    counts.reduce(|a, b| if b.1.p99 > a.1.p99 { b } else { a })
}

/// The share of what was programmed that was copied to make room; `None` where no flash is seen.
pub(crate) fn cleaning_share(figures: &Figures) -> Option<f64> {
    let all = figures.bytes_programmed_by_cause.total();
    (all > 0).then(|| figures.bytes_programmed_by_cause.get("cleaning") as f64 / all as f64)
}

/// Block erases for each 10^6 bytes that the user wrote.
pub(crate) fn erases_per_mb(figures: &Figures) -> Option<f64> {
    let sees_flash = !figures.bytes_programmed_by_cause.0.is_empty();
    (sees_flash && figures.user_bytes_written > 0)
        .then(|| figures.erases as f64 * 1e6 / figures.user_bytes_written as f64)
}

/// Bytes that users can write before every block has had the erases that the part is rated for, if
/// wear stays even; `None` where the record tells no rating, or nothing was erased.
pub(crate) fn lifetime_bytes(record: &RunRecord) -> Option<f64> {
    let device = record.spec.get("stack")?.get("device")?;
    let cycles = device.get("endurance")?.get("cycles")?.as_f64()?;
    let blocks = device.get("geometry")?.get("blocks")?.as_f64()?;
    let figures = &record.figures;
    (figures.erases > 0).then(|| figures.user_bytes_written as f64 * cycles * blocks / figures.erases as f64)
}

/// Mean and spread of a figure over a group's records.
pub(crate) fn of_records(group: &Group<'_>, figure: impl Fn(&RunRecord) -> Option<f64>) -> Option<Summary> {
    let values: Vec<f64> = group.records.iter().filter_map(|record| figure(record)).collect();
    Summary::of(&values)
}

/// A time with its unit.
pub(crate) fn time(ns: f64) -> String {
    scaled(ns, &[(1e9, "s"), (1e6, "ms"), (1e3, "us")], "ns")
}

/// Bytes with their unit, in powers of ten as makers of drives count.
pub(crate) fn bytes(bytes: f64) -> String {
    scaled(bytes, &[(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")], "B")
}

/// A rate in megabytes a second with its unit.
pub(crate) fn rate(mb_per_s: f64) -> String {
    scaled(mb_per_s * 1e6, &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")], "B/s")
}

fn scaled(value: f64, units: &[(f64, &str)], least: &str) -> String {
    match units.iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{} {unit}", number(value / size)),
        None => format!("{value:.0} {least}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn units_follow_the_value() {
        let shown = [time(0.0), time(1_500.0), time(2e9), bytes(3.2e12), bytes(999.0), rate(0.02), rate(2000.0)];
        assert_eq!(shown, ["0 ns", "1.50 us", "2.00 s", "3.20 TB", "999 B", "20.0 kB/s", "2.00 GB/s"]);
    }

    #[test]
    fn rare_operations_do_not_decide_the_latency() {
        let mut figures = Figures::default();
        let mut add = |kind: &str, count, p99| {
            figures.latency_ns.insert(kind.into(), Latency { count, p99, ..Latency::default() });
        };
        add("write", 1000, 5);
        add("sync", 100, 70);
        add("remove", 1, 900);
        assert_eq!(p99_ns(&figures), Some(70.0));
        assert_eq!(p99_ns(&Figures::default()), None);
    }

    #[test]
    fn a_part_lasts_as_long_as_its_erases() {
        let mut record = crate::testing::record("a", "w", 1, 1.0);
        assert_eq!(lifetime_bytes(&record), None);
        record.spec = json!({"stack": {"device": {"endurance": {"cycles": 5000}, "geometry": {"blocks": 1024}}}});
        // 160 erases for 10 MB: each of 1,024 blocks has had 0.16 of its 5,000.
        assert_eq!(lifetime_bytes(&record), Some(320e9));
        record.figures.erases = 0;
        assert_eq!(lifetime_bytes(&record), None);
    }
}
