//! Checks an image as it is, for measuring: `f2fs-check IMAGE...`.

use std::path::Path;

use nandkit_block::{Access, FileDevice};
use nandkit_units::Clock;

fn main() {
    for path in std::env::args().skip(1) {
        let start = std::time::Instant::now();
        let device = FileDevice::open(Path::new(&path), 512, Access::ReadOnly).expect("an image that can be read");
        match nandkit_f2fs::check::check(vec![device], Clock::default()) {
            Err(error) => println!("{path}: {error}"),
            Ok(report) => {
                for found in &report.findings {
                    let shown = found
                        .path
                        .as_deref()
                        .map_or_else(String::new, |path| format!(" ({})", String::from_utf8_lossy(path)));
                    println!(
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
}
