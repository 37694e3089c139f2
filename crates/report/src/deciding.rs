//! The figures by which people choose a stack.

use nandkit_record::{Figures, Latency};

use crate::summary::number;

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

/// A time with its unit.
pub(crate) fn time(ns: f64) -> String {
    scaled(ns, &[(1e9, "s"), (1e6, "ms"), (1e3, "us")], "ns")
}

/// Bytes with their unit, in powers of ten as makers of drives count.
pub(crate) fn bytes(bytes: f64) -> String {
    scaled(bytes, &[(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")], "B")
}

/// A lifetime in bytes with its unit: two digits, since it is an extrapolation.
pub(crate) fn lifetime_bytes(bytes: f64) -> String {
    let units = [(1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    in_two_digits(bytes, &units, "B")
}

/// A lifetime in seconds as years (y), days (d), hours (h) or less, in two digits.
pub(crate) fn lifetime(seconds: f64) -> String {
    // Of 365.25 days, as a mean year of the Julian calendar.
    in_two_digits(seconds, &[(365.25 * 86_400.0, "y"), (86_400.0, "d"), (3600.0, "h"), (60.0, "min")], "s")
}

fn in_two_digits(value: f64, units: &[(f64, &str)], least: &str) -> String {
    // Just under a unit, two digits round up to it.
    let (size, unit) = units.iter().copied().find(|(size, _)| value >= size * 0.9995).unwrap_or((1.0, least));
    let scaled = value / size;
    if scaled < 9.95 { format!("{scaled:.1} {unit}") } else { format!("{scaled:.0} {unit}") }
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

    #[test]
    fn units_follow_the_value() {
        let shown = [time(0.0), time(1_500.0), time(2e9), bytes(3.2e12), bytes(999.0), rate(0.02), rate(2000.0)];
        assert_eq!(shown, ["0 ns", "1.50 us", "2.00 s", "3.20 TB", "999 B", "20.0 kB/s", "2.00 GB/s"]);
    }

    #[test]
    fn lifetimes_have_two_digits() {
        let day = 86_400.0;
        let shown =
            [lifetime(day * 7.7), lifetime(day * 730.5), lifetime(5000.0), lifetime(30.0), lifetime(day * 0.9999)];
        assert_eq!(shown, ["7.7 d", "2.0 y", "1.4 h", "30 s", "1.0 d"]);
        assert_eq!([lifetime_bytes(1.012e12), lifetime_bytes(850e9)], ["1.0 TB", "850 GB"]);
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
}
