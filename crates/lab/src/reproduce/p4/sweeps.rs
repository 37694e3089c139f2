//! P4.5: how the number of log blocks matters.

use serde_json::{Value, json};

use super::super::Claim;
use super::plan::{LOG_BLOCKS, SETTINGS, WORKLOADS};
use super::point::{Point, Spread};
use super::verdict::{Check, claim};

/// Loss of speed from which fewer log blocks "hurt much".
const MUCH: f64 = 0.10;
/// Change of speed up to which more log blocks leave it "stable".
const STABLE: f64 = 0.05;

fn seconds(points: &[Point<'_>], workload: &str, log_blocks: u32) -> Option<Spread> {
    let chosen = points.iter().filter(|point| {
        point.workload == workload
            && point.policy == "macroscopic"
            && point.log_blocks == u64::from(log_blocks)
            && point.setting == SETTINGS[0].name
    });
    Spread::of(chosen.map(|point| point.time_ns() / 1e9))
}

/// P4.5.
pub fn log_blocks(points: &[Point<'_>]) -> Claim {
    let mut checks = Vec::new();
    let mut measured = serde_json::Map::new();
    for workload in WORKLOADS {
        let time = |count: u32| seconds(points, workload, count).map(|spread| spread.mean);
        let speed_to_eight = |count: u32| Some(time(8)? / time(count)?);
        let fewest = speed_to_eight(LOG_BLOCKS[0]);
        let loss =
            fewest.map_or("not measured".to_string(), |speed| format!("{:.0} % of the speed with 8", speed * 100.0));
        if workload == "event-recorder" {
            let unhurt = fewest.is_some_and(|speed| speed > 1.0 - MUCH);
            checks.push(Check::new(format!("one log block does not hurt {workload}: {loss}"), unhurt));
        } else {
            let hurt = fewest.is_some_and(|speed| speed <= 1.0 - MUCH);
            checks.push(Check::new(format!("one log block hurts {workload} much: {loss}"), hurt));
        }
        let stable = [12, 16, 32]
            .into_iter()
            .all(|count| speed_to_eight(count).is_some_and(|speed| (speed - 1.0).abs() <= STABLE));
        checks.push(Check::new(format!("from 8 log blocks on {workload} is stable"), stable));
        let swept: Vec<Value> = LOG_BLOCKS
            .into_iter()
            .filter_map(|count| {
                let speed = speed_to_eight(count).map(|speed| (speed * 1e4).round() / 1e4);
                Some(json!({"log_blocks": count, "seconds": seconds(points, workload, count)?.to_json(), "speed_to_eight": speed}))
            })
            .collect();
        measured.insert(workload.to_string(), Value::Array(swept));
    }
    let text = "Fewer than 8 log blocks hurt much (except the event recorder); from 8 on the speed is stable";
    let paper = json!("a figure without numbers in the text");
    let note =
        format!("\"Much\" is {:.0} % of the speed with 8, \"stable\" within {:.0} %.", MUCH * 100.0, STABLE * 100.0);
    claim("P4.5", text, paper, Value::Object(measured), checks, note)
}
