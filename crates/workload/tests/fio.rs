//! A trace that fio writes here and now, with the command that the guide names.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use crate::common::{RamDevice, keep_going};
use nandkit_units::Clock;
use nandkit_workload::{BlockDriver, HostInputs, Phase, WorkloadSpec};

/// The documented command on a smaller file, in a directory.
fn record(directory: &Path) {
    let arguments = "--name=t --filename=t.img --size=1m --rw=randwrite --bs=4k --ioengine=psync --write_iolog=t.iolog";
    let guide = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/commands.md")).unwrap();
    assert!(guide.contains(&format!("fio {}", arguments.replace("--size=1m", "--size=16m"))), "as documented");
    let output = match Command::new("fio").args(arguments.split(' ')).current_dir(directory).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("fio is not there; install the package fio: apt-get install fio")
        }
        Err(error) => panic!("fio does not start: {error}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_trace_of_fio_replays_and_verifies() {
    let directory = tempfile::tempdir().unwrap();
    record(directory.path());
    let trace = directory.path().join("t.iolog");
    // fio's own account of what it did: one line per write, of 4 KiB each.
    let writes = fs::read_to_string(&trace).unwrap().lines().filter(|line| line.contains(" write ")).count() as u64;
    assert_eq!(writes, 256);
    for timing in ["asap", "recorded"] {
        let text = format!("trace:{},timing={timing}", trace.display());
        let spec: WorkloadSpec = text.parse().unwrap();
        let mut ram = RamDevice::new(512, (1 << 20) / 512, 1);
        let mut stream = spec.block_workload(&ram.geometry, 1, &HostInputs).unwrap();
        let mut driver = BlockDriver::new(ram.geometry, Clock::default(), true);
        for phase in Phase::ALL {
            stream.run_phase(&mut driver, phase, &mut ram, &mut keep_going).unwrap();
        }
        driver.verify_all(&mut ram, &mut keep_going).unwrap();
        let report = driver.report();
        assert_eq!(report.phase(Phase::Measure).unwrap().user_bytes_written, writes * 4096);
        // randwrite covers each block of the file once; counted are sectors.
        assert_eq!(report.verified_at_end, Some((1 << 20) / 512));
    }
}
