//! `cargo xtask bench`: the criterion benches, and their results as one table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use serde_json::Value;

use crate::options::Options;
use crate::process;

/// Runs the benches and prints a Markdown table of what they measured.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[], &["--filter"], 0)?;
    let start = SystemTime::now();
    let packages = bench_packages()?;
    if packages.is_empty() {
        println!("no crate has a bench");
        return Ok(false);
    }
    let mut passed = true;
    for (package, bench) in &packages {
        let mut command = process::cargo(&["bench", "--locked", "--package", package, "--bench", bench]);
        if let Some(filter) = options.text("--filter") {
            command.args(["--", filter]);
        }
        passed &= process::succeeds(&mut command)?;
    }
    let mut rows = BTreeMap::new();
    collect(&process::target_directory()?.join("criterion"), start, &mut rows)?;
    println!("\n{}", table(&rows));
    println!("Machine: {}. Put the table and this line into docs/guide/speed.md.", machine());
    Ok(passed && !rows.is_empty())
}

/// Package and name of every bench of the workspace.
fn bench_packages() -> Result<Vec<(String, String)>> {
    let metadata = process::metadata()?;
    let mut benches = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let is_bench = target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "bench"));
            if let (true, Some(package), Some(bench)) = (is_bench, package["name"].as_str(), target["name"].as_str()) {
                benches.push((package.to_owned(), bench.to_owned()));
            }
        }
    }
    Ok(benches)
}

/// One measured bench: its name, the mean time of one iteration, and the work that one iteration
/// does.
#[derive(Debug, PartialEq)]
struct Row {
    time_ns: f64,
    work: Option<(f64, &'static str)>,
}

/// Reads every result under criterion's directory that was written since `start`.
fn collect(directory: &Path, start: SystemTime, rows: &mut BTreeMap<String, Row>) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name == "new") {
            let estimates = path.join("estimates.json");
            if std::fs::metadata(&estimates).and_then(|file| file.modified()).is_ok_and(|time| time >= start) {
                let read =
                    |file: PathBuf| -> Result<Value> { Ok(serde_json::from_str(&std::fs::read_to_string(file)?)?) };
                if let Some((name, row)) = row(&read(path.join("benchmark.json"))?, &read(estimates)?) {
                    rows.insert(name, row);
                }
            }
        } else if path.is_dir() {
            collect(&path, start, rows)?;
        }
    }
    Ok(())
}

fn row(benchmark: &Value, estimates: &Value) -> Option<(String, Row)> {
    let name = benchmark["full_id"].as_str()?.to_owned();
    let time_ns = estimates["mean"]["point_estimate"].as_f64()?;
    let throughput = &benchmark["throughput"];
    let work = [("Elements", "operations"), ("Bytes", "bytes"), ("BytesDecimal", "bytes")]
        .into_iter()
        .find_map(|(key, unit)| throughput[key].as_f64().map(|amount| (amount, unit)));
    Some((name, Row { time_ns, work }))
}

fn table(rows: &BTreeMap<String, Row>) -> String {
    let mut text = String::from("| bench | time | rate |\n| --- | ---: | ---: |\n");
    for (name, row) in rows {
        let rate = match row.work {
            Some((amount, unit)) => rate(amount / (row.time_ns * 1e-9), unit),
            None => String::new(),
        };
        text.push_str(&format!("| {name} | {} | {rate} |\n", time(row.time_ns)));
    }
    text
}

fn time(ns: f64) -> String {
    match ns {
        ..1e3 => format!("{ns:.1} ns"),
        ..1e6 => format!("{:.2} us", ns / 1e3),
        ..1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

fn rate(per_second: f64, unit: &str) -> String {
    match (unit, per_second) {
        ("bytes", 1e9..) => format!("{:.2} GB/s", per_second / 1e9),
        ("bytes", _) => format!("{:.1} MB/s", per_second / 1e6),
        (_, 1e6..) => format!("{:.2} million {unit}/s", per_second / 1e6),
        _ => format!("{per_second:.0} {unit}/s"),
    }
}

/// The processor's name and its number of threads, as Linux tells them.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    let threads = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {threads} threads", model.unwrap_or("processor unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_becomes_a_row() {
        let benchmark = serde_json::json!({"full_id": "ftl/sequential", "throughput": {"Elements": 1000}});
        let estimates = serde_json::json!({"mean": {"point_estimate": 250_000.0}});
        let rows = BTreeMap::from([row(&benchmark, &estimates).unwrap()]);
        assert!(
            table(&rows).ends_with("| ftl/sequential | 250.00 us | 4.00 million operations/s |\n"),
            "{}",
            table(&rows)
        );
        assert_eq!(row(&serde_json::json!({}), &estimates), None);
    }

    #[test]
    fn rates_keep_their_unit() {
        assert_eq!(rate(2.5e9, "bytes"), "2.50 GB/s");
        assert_eq!(rate(2.5e6, "bytes"), "2.5 MB/s");
        assert_eq!(rate(900.0, "operations"), "900 operations/s");
        assert_eq!((time(12.0), time(2e9)), ("12.0 ns".into(), "2.00 s".into()));
    }

    #[test]
    fn only_results_of_this_run_are_collected() {
        let root = std::env::temp_dir().join(format!("nandkit-xtask-bench-{}", std::process::id()));
        let new = root.join("group/one/new");
        std::fs::create_dir_all(&new).unwrap();
        std::fs::write(new.join("benchmark.json"), r#"{"full_id":"one","throughput":null}"#).unwrap();
        std::fs::write(new.join("estimates.json"), r#"{"mean":{"point_estimate":5.0}}"#).unwrap();
        let (mut all, mut none) = (BTreeMap::new(), BTreeMap::new());
        collect(&root, SystemTime::UNIX_EPOCH, &mut all).unwrap();
        collect(&root, SystemTime::now() + std::time::Duration::from_secs(3600), &mut none).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(all["one"], Row { time_ns: 5.0, work: None });
        assert!(none.is_empty());
    }
}
