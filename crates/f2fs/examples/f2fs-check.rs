//! Checks images one by one and prints the time for each: `f2fs-check IMAGE...`. Findings go to
//! standard error. Exit status 1 if anything is wrong.

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
                sound &= report.is_clean();
                for found in &report.findings {
                    let shown = found.paths.iter().map(|path| format!(" (/{})", String::from_utf8_lossy(path)));
                    let harmless = if found.is_harmless() { "harmless " } else { "" };
                    eprintln!("{harmless}{found}{}", shown.collect::<String>());
                }
                let took = start.elapsed().as_secs_f64();
                let faults = report.faults().count();
                println!("{path}: {faults} faults; {:?}, {took:.2} s", report.counts);
            }
        }
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
