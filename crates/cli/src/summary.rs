//! A text summary of what a stack did while a program or clients used it.

use nandkit_record::{LayerValue, RunRecord};
use nandkit_units::{Nanos, format_bytes};
use nandkit_vfs::VolumeStatus;

/// Largest number of causes and of request kinds that are shown.
const TOLD_MAX: usize = 6;

/// Lines on what requests waited for inside the page-mapped layer, and on its work in idle times,
/// in the measured phase; none if there was neither.
pub fn stalls(record: &RunRecord) -> Vec<String> {
    let Some(layer) = record.layers.get("ftl") else { return Vec::new() };
    let count = |name: &str| layer.get(name).and_then(LayerValue::as_f64).unwrap_or(0.0) as u64;
    let time = |name: &str| Nanos(count(name)).to_string();
    let mut lines = Vec::new();
    let (erases, cleaning) = (count("ftl_stalls_by_erases"), count("ftl_stalls_by_cleaning"));
    if erases + cleaning > 0 {
        lines.push(format!(
            "stalls: {cleaning} requests waited for cleaning ({}), {erases} for erases alone ({}), at least one request waited for {}",
            time("ftl_stalls_by_cleaning_ns"),
            time("ftl_stalls_by_erases_ns"),
            time("ftl_stalled_ns"),
        ));
    }
    let (cleanings, moves) = (count("ftl_idle_cleanings"), count("ftl_idle_moves"));
    if cleanings + moves > 0 {
        lines.push(format!(
            "in idle times: {cleanings} superblocks cleaned, {moves} moved in {}; {} ended after the next request arrived ({} in all)",
            time("ftl_idle_work_ns"),
            count("ftl_idle_overruns"),
            time("ftl_idle_overruns_ns"),
        ));
    }
    lines
}

/// The lines of the summary. `passed` says which bytes are counted.
pub fn lines(record: &RunRecord, passed: &str, space: Option<&VolumeStatus>) -> Vec<String> {
    let figures = &record.figures;
    let time = |ns: u64| Nanos(ns).to_string();
    let mut lines = vec![
        record.stack.clone(),
        format!("device time {}, elapsed {} (simulated)", time(figures.device_time_ns), time(figures.elapsed_ns)),
        format!(
            "{} written, {} read ({passed}), {} programmed, {} erases{}",
            format_bytes(figures.user_bytes_written),
            format_bytes(figures.user_bytes_read),
            format_bytes(figures.bytes_programmed),
            figures.erases,
            figures.waf.map_or_else(String::new, |waf| format!(", WAF {waf:.2}")),
        ),
    ];
    let causes = &figures.bytes_programmed_by_cause.0;
    let mut causes: Vec<_> = causes.iter().filter(|(_, bytes)| **bytes > 0).collect();
    causes.sort_by_key(|(name, bytes)| (std::cmp::Reverse(**bytes), (*name).clone()));
    let share = |bytes: u64| bytes as f64 / figures.user_bytes_written.max(1) as f64;
    let causes: Vec<String> =
        causes.into_iter().take(TOLD_MAX).map(|(name, bytes)| format!("{name} {:.2}", share(*bytes))).collect();
    if figures.waf.is_some() {
        lines.push(format!("WAF by cause: {}", causes.join(", ")));
    }
    let mut kinds: Vec<_> = figures.latency_ns.iter().filter(|(_, latency)| latency.max > 0).collect();
    kinds.sort_by_key(|(name, latency)| (std::cmp::Reverse(latency.count), (*name).clone()));
    for (name, latency) in kinds.into_iter().take(TOLD_MAX) {
        let (p50, p99, max) = (time(latency.p50), time(latency.p99), time(latency.max));
        lines.push(format!("{name}: {} requests, p50 {p50}, p99 {p99}, longest {max}", latency.count));
    }
    lines.extend(stalls(record));
    if let Some(space) = space {
        let bytes = |blocks: u64| format_bytes(blocks.saturating_mul(space.block_size.into()));
        lines.push(format!("{} free of {}", bytes(space.blocks_free), bytes(space.blocks)));
    }
    lines
}
