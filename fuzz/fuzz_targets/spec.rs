//! Specs of any content become a checked experiment, or an error with a message; nothing runs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nandkit_block::card::CardSpec;
use nandkit_lab::{Experiment, parse_setting};
use nandkit_nand_sim::ChipSpec;
use nandkit_workload::WorkloadSpec;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Experiment::parse(text, "fuzz", &[], None) {
        Ok(experiment) => assert!(!experiment.runs().is_empty(), "an experiment has runs"),
        Err(error) => assert!(!error.to_string().is_empty(), "an error says something"),
    }
    if let Err(error) = ChipSpec::from_toml(text) {
        assert!(!error.to_string().is_empty(), "an error says something");
    }
    if let Err(error) = CardSpec::from_toml(text) {
        assert!(!error.to_string().is_empty(), "an error says something");
    }
    for line in text.lines().take(8) {
        if let Ok(setting) = parse_setting(line) {
            // Laid over an empty spec: whatever the setting is, it is taken or refused.
            let _ = Experiment::parse("", "fuzz", &[setting], Some(&[1]));
        }
        if let Ok(workload) = line.parse::<WorkloadSpec>() {
            assert!(!workload.name().is_empty() && workload.check().is_ok(), "what was parsed is checked");
        }
    }
});
