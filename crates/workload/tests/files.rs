//! Every workload on the model file system: it runs, is the same for the same seed, and its
//! verification sees damage.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::common::{SlowFileSystem, keep_going};
use nandkit_units::{Nanos, Payload};
use nandkit_vfs::{Changes, FileSystem};
use nandkit_workload::{
    DriverReport, FileDriver, FileOperation, HostInputs, OperationKind, Phase, WorkloadError, WorkloadSpec,
};

const SPECS: [&str; 24] = [
    "postmark:transactions=200,number=50,delete=false,subdirectories=4",
    "postmark-small:transactions=10",
    "postmark-large:transactions=3,write=64K",
    "fax:faxes=30,kept=5,pages_min=1,pages_max=4",
    "phone:days=20",
    "event-recorder:events=500,log_records=100,configuration_every=50",
    "overwrite:files=8,file_size=64K,operations=500,sync_every=16",
    "overwrite:files=8,file_size=64K,operations=500,pattern=hci",
    "overwrite:files=8,file_size=64K,operations=500,stale=3",
    "random:footprint_size=1M,reads=0.3,sync_every=10,age=0.5",
    "random:footprint_size=1M,distribution=zipf,operations=300",
    "random:footprint_size=1M,distribution=hotcold,bytes=1M",
    "sequential:footprint_size=4M,block_size=16K,reads=50%",
    "copyfiles:size=50000,count=3,bytes=400K,keep=4,sync=true,piece=16K",
    "copyfiles:size=64K,count=2,bytes=256K,piece=64K",
    "tiobench:file_size=64K,operations=100,reads=40,sync_every=16",
    "tiobench:file_size=64K,order=sequential,reads=10",
    "varmail:files=100,loops=10,threads=8,mean_size=4K,append=4K",
    "dbench:fixtures/small.load,clients=3,loops=3",
    "dbench:clients=2,operations=300,data=1M",
    "dbench:clients=1,operations=100,data=1M,loops=3",
    "interleaved:size=30000,read_size=16K,sync_every=7,reads=2",
    "trace:fixtures/sample.iolog",
    "trace:fixtures/fio-3.33.iolog,timing=recorded,fill=false",
];

fn run(text: &str, seed: u64) -> (SlowFileSystem, DriverReport) {
    let spec: WorkloadSpec = text.parse().unwrap();
    let mut fs = SlowFileSystem::new();
    let mut workload = spec.file_workload(fs.free_bytes(), seed, &HostInputs).unwrap();
    let mut driver = FileDriver::new(fs.clock.clone(), true);
    for phase in Phase::ALL {
        driver.run_phase(phase, &mut *workload, &mut fs, &mut keep_going).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    driver.verify_all(&mut *workload, &mut fs, &mut keep_going).unwrap_or_else(|e| panic!("{text}: {e}"));
    let report = driver.report().clone();
    (fs, report)
}

fn operations(text: &str, seed: u64) -> Vec<FileOperation> {
    let spec: WorkloadSpec = text.parse().unwrap();
    let mut workload = spec.file_workload(1 << 30, seed, &HostInputs).unwrap();
    let mut operations = Vec::new();
    for phase in Phase::ALL {
        workload.begin(phase);
        while let Some(operation) = workload.next_operation().unwrap() {
            operations.push(operation);
        }
    }
    operations
}

#[test]
fn every_workload_runs_and_reads_back_what_it_wrote() {
    for text in SPECS {
        let (_, report) = run(text, 1);
        let measured = report.phase(Phase::Measure).unwrap_or_else(|| panic!("{text} measures nothing"));
        assert!(measured.user_bytes_written > 0, "{text}");
        assert!(report.verified_at_end.unwrap() > 0 && report.verified_bytes > 0, "{text}");
        let writes = measured.latency(OperationKind::Write).unwrap();
        assert!(writes.min() >= Nanos::from_millis(1), "{text}");
        // Recorded arrivals come faster than this file system writes: waiting is part of their
        // latency.
        assert_eq!(writes.max() > Nanos::from_millis(1), text.contains("recorded"), "{text}");
    }
}

#[test]
fn the_same_seed_gives_the_same_operations_and_report() {
    for text in SPECS {
        let first = operations(text, 7);
        assert!(!first.is_empty() && first == operations(text, 7), "{text}");
        assert_eq!(run(text, 7).1, run(text, 7).1, "{text}");
    }
    for text in [
        "tiobench:file_size=256K,operations=99",
        "varmail:files=100,loops=2,threads=8",
        "dbench:operations=99,clients=2,data=1M",
        "dbench:fixtures/small.load",
    ] {
        assert_ne!(operations(text, 1), operations(text, 2), "{text}");
    }
    for text in ["random:footprint_size=1M", "fax:pages_max=9", "phone:days=2", "overwrite:start=0", "postmark:seed=0"]
    {
        assert_ne!(operations(text, 1), operations(text, 2), "{text}");
    }
}

#[test]
fn the_fill_of_overwrite_is_whole_and_counted_apart() {
    let (fs, report) = run("overwrite:files=8,file_size=64K,operations=500,sync_every=16", 1);
    let fill = report.phase(Phase::Fill).unwrap();
    assert_eq!((fill.user_bytes_written, fill.operations(OperationKind::Create)), (8 << 16, 8));
    let measured = report.phase(Phase::Measure).unwrap();
    assert_eq!(measured.user_bytes_written, 500 * 4096);
    assert_eq!(measured.operations(OperationKind::Sync), 500 / 16);
    assert_eq!(fs.stat(fs.lookup(fs.root(), b"f0007").unwrap()).unwrap().size, 64 << 10);
    assert!(report.phase(Phase::Age).is_none());
}

/// The writes that make the volume a used one are not measured, and do not change the measured
/// sequence.
#[test]
fn stale_records_of_overwrite_are_written_between_fill_and_sequence() {
    let (_, report) = run("overwrite:files=8,file_size=64K,operations=500,stale=2,stale_span=32K", 1);
    // 128 records, two of every eight.
    let aged = report.phase(Phase::Age).unwrap();
    assert_eq!((aged.user_bytes_written, aged.operations(OperationKind::Sync)), (32 * 4096, 1));
    assert_eq!(report.phase(Phase::Measure).unwrap().user_bytes_written, 500 * 4096);
    let places = |text: &str| -> Vec<(u32, u64)> {
        let spec: WorkloadSpec = text.parse().unwrap();
        let mut workload = spec.file_workload(1 << 30, 1, &HostInputs).unwrap();
        workload.begin(Phase::Measure);
        let written = std::iter::from_fn(|| workload.next_operation().unwrap());
        let place = |operation| match operation {
            FileOperation::Write { slot, offset, .. } => Some((slot.0, offset)),
            _ => None,
        };
        written.filter_map(place).collect()
    };
    let fresh = "overwrite:files=8,file_size=64K,operations=500";
    assert_eq!(places(fresh), places(&format!("{fresh},stale=2,stale_span=32K")));
}

type Damage = fn(&mut SlowFileSystem);

#[test]
fn a_planted_corruption_is_found_and_named() {
    let text = "overwrite:files=8,file_size=64K,operations=500";
    let spec: WorkloadSpec = text.parse().unwrap();
    let damages: [(&str, Damage); 5] = [
        ("/f0003 byte 12345", |fs| {
            let inode = fs.lookup(fs.root(), b"f0003").unwrap();
            let mut byte = [0];
            fs.read(inode, 12_345, nandkit_units::ReadInto::Bytes(&mut byte)).unwrap();
            fs.write(inode, 12_345, Payload::Bytes(&[byte[0] ^ 0x10])).unwrap();
        }),
        ("/f0001", |fs| {
            let inode = fs.lookup(fs.root(), b"f0001").unwrap();
            fs.write(inode, 64 << 10, Payload::Bytes(&[0])).unwrap();
        }),
        ("f0002 is missing", |fs| fs.rename_in_root(b"f0002", b"other")),
        ("surplus must not be there", |fs| {
            fs.create(fs.root(), b"surplus", &nandkit_vfs::NewNode::FILE).unwrap();
        }),
        ("/f0000 byte 0", |fs| fs.corrupts_reads = true),
    ];
    for (expected, damage) in damages {
        let mut fs = SlowFileSystem::new();
        let mut workload = spec.file_workload(fs.free_bytes(), 1, &HostInputs).unwrap();
        let mut driver = FileDriver::new(fs.clock.clone(), true);
        for phase in Phase::ALL {
            driver.run_phase(phase, &mut *workload, &mut fs, &mut keep_going).unwrap();
        }
        damage(&mut fs);
        let error = driver.verify_all(&mut *workload, &mut fs, &mut keep_going).unwrap_err();
        assert!(matches!(error, WorkloadError::Mismatch { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.is_input());
    }
}

impl SlowFileSystem {
    fn rename_in_root(&mut self, from: &[u8], to: &[u8]) {
        let root = self.root();
        self.rename((root, from), (root, to), nandkit_vfs::RenameFlags::Replace).unwrap();
    }
}

#[test]
fn a_read_during_the_run_is_compared_too() {
    let spec: WorkloadSpec = "random:footprint_size=64K,reads=0.9,operations=100".parse().unwrap();
    let mut fs = SlowFileSystem::new();
    let mut workload = spec.file_workload(fs.free_bytes(), 1, &HostInputs).unwrap();
    let mut driver = FileDriver::new(fs.clock.clone(), true);
    driver.run_phase(Phase::Fill, &mut *workload, &mut fs, &mut keep_going).unwrap();
    fs.corrupts_reads = true;
    let error = driver.run_phase(Phase::Measure, &mut *workload, &mut fs, &mut keep_going).unwrap_err();
    assert!(error.to_string().contains("/data.bin byte 0"), "{error}");
}

#[test]
fn a_full_volume_is_an_error_that_says_so() {
    let spec: WorkloadSpec = "postmark:number=200,size_low=5M,size_high=10M,write=1M".parse().unwrap();
    let mut fs = SlowFileSystem::new();
    let mut workload = spec.file_workload(fs.free_bytes(), 1, &HostInputs).unwrap();
    let mut driver = FileDriver::new(fs.clock.clone(), false);
    let error = driver.run_phase(Phase::Fill, &mut *workload, &mut fs, &mut keep_going).unwrap_err();
    assert!(error.to_string().contains("no space left"), "{error}");
    for text in
        ["overwrite:files=8000", "fax:kept=100000", "random:footprint_size=2G", "postmark-small:file_size=1G,write=1M"]
    {
        let spec: WorkloadSpec = text.parse().unwrap();
        let error = spec.file_workload(fs.free_bytes(), 1, &HostInputs).err().unwrap();
        assert!(matches!(error, WorkloadError::DoesNotFit { .. }) && error.is_input(), "{text}: {error}");
    }
}

#[test]
fn long_requests_go_to_the_file_system_in_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.iolog");
    let lines = "write 0 200000\nf write 70000 65537\nf read 0 536870912\nf read 65536 65536\nf read 300000000 65537\n";
    std::fs::write(&path, format!("fio version 2 iolog\nf add\nf open\nf {lines}")).unwrap();
    let (fs, report) = run(&format!("trace:{},fill=false", path.display()), 1);
    let measured = report.phase(Phase::Measure).unwrap();
    assert_eq!((measured.operations(OperationKind::Write), measured.operations(OperationKind::Read)), (2, 3));
    assert_eq!((measured.user_bytes_written, measured.user_bytes_read), (265_537, 265_536));
    // 200,000 and 65,537 bytes are four pieces and two.
    assert_eq!(measured.latency(OperationKind::Write).unwrap().max(), Nanos::from_millis(4));
    assert_eq!(fs.longest.into_inner(), nandkit_workload::PIECE_BYTES_MAX as usize);
}

#[test]
fn progress_is_told_and_can_stop_the_run() {
    let spec: WorkloadSpec = "overwrite:files=8,file_size=1M".parse().unwrap();
    let mut fs = SlowFileSystem::new();
    let mut workload = spec.file_workload(fs.free_bytes(), 1, &HostInputs).unwrap();
    let mut driver = FileDriver::new(fs.clock.clone(), false);
    let mut last = 0.0;
    driver
        .run_phase(Phase::Fill, &mut *workload, &mut fs, &mut |progress| {
            let fraction = progress.fraction().unwrap();
            assert!(fraction >= last);
            last = fraction;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(last, 1.0);
    let stop = &mut |_| ControlFlow::Break(());
    let error = driver.run_phase(Phase::Measure, &mut *workload, &mut fs, stop).unwrap_err();
    assert!(matches!(error, WorkloadError::Cancelled { .. }));
}

#[test]
fn a_directory_of_the_host_is_copied_changed_and_compared() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut files = BTreeMap::new();
    for number in 0..40u8 {
        let sub = path.join(format!("dir{}", number % 4));
        std::fs::create_dir_all(&sub).unwrap();
        let bytes: Vec<u8> = (0..u32::from(number) * 5000).map(|i| (i as u8).wrapping_mul(number)).collect();
        std::fs::write(sub.join(format!("file {number}")), &bytes).unwrap();
        files.insert(number, bytes);
    }
    let text = format!("tree:{},rounds=3,share=0.5", path.display());
    let (_, report) = run(&text, 3);
    let fill = report.phase(Phase::Fill).unwrap();
    assert_eq!(fill.user_bytes_written, files.values().map(|bytes| bytes.len() as u64).sum::<u64>());
    assert_eq!(fill.operations(OperationKind::MakeDirectory), 4);
    let measured = report.phase(Phase::Measure).unwrap();
    for kind in [OperationKind::Rename, OperationKind::Remove, OperationKind::Write, OperationKind::Read] {
        assert!(measured.operations(kind) > 0, "{kind:?}");
    }
    // The source changes under the run: that is told, not taken for a defect of the file system.
    let spec: WorkloadSpec = format!("tree:{},rounds=0", path.display()).parse().unwrap();
    let mut fs = SlowFileSystem::new();
    let mut workload = spec.file_workload(fs.free_bytes(), 1, &HostInputs).unwrap();
    let mut driver = FileDriver::new(fs.clock.clone(), true);
    driver.run_phase(Phase::Fill, &mut *workload, &mut fs, &mut keep_going).unwrap();
    std::fs::write(path.join("dir3/file 39"), b"new").unwrap();
    let error = driver.verify_all(&mut *workload, &mut fs, &mut keep_going).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("changed"), "{error}");
}

#[test]
fn another_workload_goes_on_behind_the_holes() {
    let spec: WorkloadSpec = "holes:then=random:footprint_size=1M;operations=100".parse().unwrap();
    let mut workload = spec.file_workload(64 << 20, 1, &HostInputs).unwrap();
    let mut written = |phase: Phase| {
        workload.begin(phase);
        let mut slots = Vec::new();
        while let Some(operation) = workload.next_operation().unwrap() {
            if let FileOperation::Write { slot, .. } = operation {
                slots.push(slot.0);
            }
        }
        slots
    };
    written(Phase::Fill);
    // The footprint is filled behind the two files of holes.
    assert_eq!(written(Phase::Age).last(), Some(&3));
    assert_eq!(written(Phase::Measure), [3; 100]);
}
