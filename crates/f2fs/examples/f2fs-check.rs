//! Checks images one by one, with the time that each took: `f2fs-check IMAGE...`. Findings go to standard error. Exit status 1 where anything is wrong.

use std::path::Path;
use std::process::ExitCode;

use nandkit_block::{Access, FileDevice};
use nandkit_units::Clock;

fn main() -> ExitCode {
    let mut sound = true;
    for path in std::env::args().skip(1) {
        let start = std::time::Instant::now();
        let device = FileDevice::open(Path::new(&path), 512, Access::ReadOnly).expect("an image that can be read");
        match nandkit_f2fs::check::check(vec![device], Clock::default()) {
            Err(error) => {
                sound = false;
                println!("{path}: {error}");
            }
            Ok(report) => {
                sound &= report.is_sound();
                for found in &report.findings {
                    let shown = found
                        .path
                        .as_deref()
                        .map_or_else(String::new, |path| format!(" ({})", String::from_utf8_lossy(path)));
                    eprintln!(
                        "{}{}: {}{shown}",
                        if found.harmless { "harmless " } else { "" },
                        found.finding.kind.name(),
                        found.finding
                    );
                }
                let took = start.elapsed().as_secs_f64();
                println!(
                    "{path}: {:?}; {} files, {} directories, {} others, {} nodes, {} blocks, {took:.2} s",
                    report.faults, report.files, report.directories, report.others, report.nodes, report.blocks
                );
            }
        }
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
