//! P4.5: how the number of log blocks matters.

use serde_json::{Value, json};

use super::super::Claim;
use super::plan::{LOG_BLOCKS, SETTINGS, WORKLOADS};
use super::point::{Point, Spread};
use super::verdict::{Check, Verdicts, in_settings};

/// Loss of speed from which fewer log blocks "hurt much".
const MUCH: f64 = 0.10;
/// The numbers of log blocks that are fewer than 8. With 6 and 7 the paper's curves are not told
/// apart from 8 in its text, so they are measured and not judged.
const FEWER: [u32; 4] = [1, 2, 3, 4];
/// Change of speed up to which more log blocks leave it "stable".
const STABLE: f64 = 0.05;

fn seconds(points: &[Point<'_>], setting: &str, workload: &str, log_blocks: u32) -> Option<Spread> {
    let chosen = points.iter().filter(|point| {
        point.workload == workload
            && point.policy == "macroscopic"
            && point.log_blocks == u64::from(log_blocks)
            && point.setting == setting
    });
    Spread::of(chosen.map(|point| point.time_ns() / 1e9))
}

/// The fewest log blocks from which on the speed stays about that with eight.
fn fewest_stable(points: &[Point<'_>], setting: &str, workload: &str) -> Option<u32> {
    let is_stable = |count: &u32| {
        speed_to_eight(points, setting, workload, *count).is_some_and(|speed| (speed - 1.0).abs() <= STABLE)
    };
    LOG_BLOCKS.into_iter().rev().take_while(is_stable).last()
}

/// The mean speed with a number of log blocks, as a share of the mean speed with eight.
fn speed_to_eight(points: &[Point<'_>], setting: &str, workload: &str, log_blocks: u32) -> Option<f64> {
    Some(seconds(points, setting, workload, 8)?.mean / seconds(points, setting, workload, log_blocks)?.mean)
}

fn checks(points: &[Point<'_>], setting: &str) -> Vec<Check> {
    let mut checks = Vec::new();
    for workload in WORKLOADS {
        let speed = |count: u32| speed_to_eight(points, setting, workload, count);
        let shown = |speed: Option<f64>| {
            speed.map_or("not measured".to_string(), |speed| format!("{:.0} % of the speed with 8", speed * 100.0))
        };
        for count in FEWER {
            let ours = speed(count);
            let much = ours.is_some_and(|speed| speed <= 1.0 - MUCH);
            let blocks = if count == 1 { "log block" } else { "log blocks" };
            if workload == "event-recorder" {
                let text = format!("{count} {blocks} do not hurt {workload} much: {}", shown(ours));
                checks.push(Check::new(text, ours.is_some() && !much));
            } else {
                checks.push(Check::new(format!("{count} {blocks} hurt {workload} much: {}", shown(ours)), much));
            }
        }
        let mut most = LOG_BLOCKS.into_iter().filter(|count| *count > 8).map(speed);
        let stable = most.clone().all(|speed| speed.is_some_and(|speed| (speed - 1.0).abs() <= STABLE));
        let text = format!("from 8 log blocks on {workload} is stable: with 32 {}", shown(most.next_back().flatten()));
        checks.push(Check::new(text, stable).with(fewest_stable(points, setting, workload).map(f64::from)));
    }
    checks
}

fn measured(points: &[Point<'_>], setting: &str) -> Value {
    let of_workload = |workload: &str| {
        let swept = LOG_BLOCKS.into_iter().filter_map(|count| {
            let speed = speed_to_eight(points, setting, workload, count).map(|speed| (speed * 1e4).round() / 1e4);
            let seconds = seconds(points, setting, workload, count)?.to_json();
            Some(json!({"log_blocks": count, "seconds": seconds, "speed_to_eight": speed}))
        });
        (workload.to_string(), Value::Array(swept.collect()))
    };
    Value::Object(WORKLOADS.into_iter().map(of_workload).collect())
}

/// P4.5.
pub fn log_blocks(points: &[Point<'_>]) -> Claim {
    let verdicts = Verdicts { counted: in_settings(&SETTINGS, |setting| checks(points, setting)), beside: Vec::new() };
    let settings = SETTINGS.iter().map(|setting| (setting.name.to_string(), measured(points, setting.name)));
    let settings: serde_json::Map<String, Value> = settings.collect();
    let ours = json!({"verdicts": verdicts.to_json(), "settings": settings});
    let text = "Fewer than 8 log blocks hurt much (except the event recorder); from 8 on the speed is stable";
    let paper = json!("a figure without numbers in the text");
    let note =
        format!("\"Much\" is {:.0} % of the speed with 8, \"stable\" within {:.0} %.", MUCH * 100.0, STABLE * 100.0);
    verdicts.claim("P4.5", text, paper, ours, &note)
}
