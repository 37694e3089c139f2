//! Names of a writable volume: the conformance suite of file systems, and random operations against
//! the model, with fsck.f2fs and our own check after each remount.

use crate::modelled::{CONFIGURATIONS, Maker, agree};
use nandkit_testkit::fs_suite;

fn conforms(number: usize) {
    let maker = Maker::new(CONFIGURATIONS[number], 1);
    if let Err(violations) = fs_suite::run(&maker) {
        panic!("{}:\n{violations}", maker.configuration.name);
    }
    assert!(maker.checked() > 10);
}

#[test]
fn conforms_as_mkfs_makes_it() {
    conforms(0);
}

#[test]
fn conforms_with_extra_attributes() {
    conforms(1);
}

#[test]
fn conforms_without_anything_in_inodes() {
    conforms(2);
}

#[test]
fn conforms_with_several_buckets_at_first() {
    conforms(3);
}

/// Few operations each; for 200,000: `cargo run --release -p nandkit-f2fs --example model`.
#[test]
fn agrees_with_the_model() {
    for (seed, configuration) in (1..).zip(CONFIGURATIONS) {
        let maker = Maker::new(configuration, 1);
        match agree(&maker, seed, 700) {
            Ok(summary) => {
                assert!(summary.operations == 700 && maker.checked() > 1, "{summary:?}, {}", maker.checked())
            }
            Err(disagreement) => panic!("{}:\n{disagreement}", configuration.name),
        }
    }
}
