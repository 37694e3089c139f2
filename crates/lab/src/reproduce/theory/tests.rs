//! Rows as claims, and the quick ones in full.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::Options;

fn claims(wanted: &dyn Fn(&str) -> bool) -> Vec<Claim> {
    let stop = AtomicBool::new(false);
    let options = Options { jobs: 2, stop: &stop, ..Options::default() };
    let request = Request { quick: true, directories: &[], wanted, options: &options };
    Theory.reproduce(&request).unwrap()
}

#[test]
fn ids_are_there_once() {
    let mut ids: Vec<&str> = Theory.claims().to_vec();
    assert!(ids.len() >= 30 && ids.iter().all(|id| id.starts_with("theory.")), "{ids:?}");
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), Theory.claims().len());
}

#[test]
fn a_row_that_misses_says_so() {
    let row = |simulation: Vec<f64>| Row {
        id: "theory.x",
        name: "x".into(),
        theory: 4.0,
        simulation,
        source: "somebody",
        note: String::new(),
    };
    let near = row(vec![4.02, 4.03, 4.04]).claim();
    assert!(near.holds && near.note.is_empty(), "{near:?}");
    assert_eq!(near.measured["difference_percent"], 0.75);
    assert!((near.measured["half_width_95"].as_f64().unwrap() - 0.0248).abs() < 1e-4, "{near:?}");
    let far = row(vec![4.05]).claim();
    assert!(!far.holds && far.note.contains("Misses") && far.measured["half_width_95"].is_null(), "{far:?}");
    assert!(!row(vec![]).claim().holds);
}

#[test]
fn p4s_cost_functions_are_what_the_layer_costs() {
    let claims = claims(&|id| recycling::ROWS.iter().any(|row| row.id == id));
    assert_eq!(claims.len(), recycling::ROWS.len());
    for claim in claims {
        println!("{} {} {}", claim.claim, claim.paper, claim.measured);
        assert!(claim.holds, "{claim:?}");
    }
}

#[test]
fn a_small_device_is_near_theory() {
    let claims = claims(&|id| ["theory.5-choices-0.28", "theory.mixed-fifo-0.28"].contains(&id));
    assert_eq!(claims.len(), 2);
    for claim in claims {
        println!("{} {} {}", claim.claim, claim.paper, claim.measured);
        assert!(claim.holds, "{claim:?}");
    }
}
