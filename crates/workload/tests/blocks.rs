//! Block workloads on a RAM device: contents, times, queue depth, verification.

use crate::common::{RamDevice, SERVICE, keep_going};
use nandkit_block::BlockDevice;
use nandkit_units::{Clock, Context, Lba, Nanos, Payload};
use nandkit_workload::{
    BlockDriver, BlockOperation, BlockOperationKind, BlockWorkload, DriverReport, HostInputs, OperationKind, Phase,
    WorkloadError, WorkloadSpec,
};

const SPECS: [&str; 11] = [
    "overwrite:files=8,file_size=64K,operations=500,sync_every=16",
    "overwrite:files=8,file_size=64K,operations=500,pattern=hcc,stale=3",
    "random:reads=0.4,trims=0.1",
    "random:distribution=zipf,queue_depth=7,sync_every=5",
    "random:distribution=hotcold,block_size=512",
    "random:block_size=192K,reads=0.2,operations=50",
    "random:block_size=3K,footprint=1,age=1",
    "sequential:reads=0.5,queue_depth=4",
    "trace:fixtures/sample.iolog,fit=wrap",
    "trace:fixtures/fio-3.33.iolog,timing=recorded",
    "trace:fixtures/sample.iolog,fit=scale,timing=recorded,fill=false",
];

fn device(sector_size: u32, servers: usize) -> RamDevice {
    RamDevice::new(sector_size, (1 << 20) / u64::from(sector_size), servers)
}

fn run(text: &str, seed: u64, device: &mut RamDevice) -> Result<DriverReport, WorkloadError> {
    let spec: WorkloadSpec = text.parse().unwrap();
    let mut stream = spec.block_workload(&device.geometry, seed, &HostInputs)?;
    let mut driver = BlockDriver::new(device.geometry, Clock::default(), true);
    for phase in Phase::ALL {
        stream.run_phase(&mut driver, phase, device, &mut keep_going)?;
    }
    driver.verify_all(device, &mut keep_going)?;
    Ok(driver.report().clone())
}

#[test]
fn every_workload_runs_and_reads_back_what_it_wrote() {
    for text in SPECS {
        let mut ram = device(512, 3);
        let report = run(text, 1, &mut ram).unwrap_or_else(|e| panic!("{text}: {e}"));
        let measured = report.phase(Phase::Measure).unwrap();
        assert!(measured.user_bytes_written > 0 && report.verified_at_end.unwrap() > 0, "{text}");
        assert!(ram.writes.iter().all(|(_, length)| *length <= nandkit_workload::PIECE_BYTES_MAX as usize));
        let mut again = device(512, 3);
        assert_eq!(run(text, 1, &mut again).unwrap(), report, "{text}");
        assert_eq!(again.writes, ram.writes, "{text}");
    }
    let mut coarse = device(4096, 1);
    run("trace:fixtures/sample.iolog,fit=wrap", 1, &mut coarse).unwrap();
}

#[test]
fn overwrite_writes_the_same_content_as_on_files() {
    let mut ram = device(512, 1);
    run("overwrite:files=2,file_size=64K,operations=0,pattern=seq", 1, &mut ram).unwrap();
    let mut expected = vec![0; 512];
    let description = nandkit_units::Description {
        record: 17,
        version: 0,
        offset: 1024,
        generator: nandkit_units::Generator::Record,
    };
    description.generate(&mut expected);
    assert_eq!(ram.sectors[&(17 * 8 + 2)], expected);
}

#[test]
fn n_outstanding_operations_keep_n_servers_busy() {
    for (depth, servers, expected) in [(1, 4, 400), (4, 4, 100), (8, 4, 100), (2, 4, 200), (4, 1, 400)] {
        let mut ram = device(4096, servers);
        let text = format!("random:operations=400,fill=false,queue_depth={depth}");
        let report = run(&text, 1, &mut ram).unwrap();
        let measured = report.phase(Phase::Measure).unwrap();
        assert_eq!(measured.elapsed(), SERVICE.times(expected), "depth {depth} servers {servers}");
        let latency = measured.latency(OperationKind::Write).unwrap();
        assert_eq!(latency.max(), SERVICE.times(u64::max(1, depth / servers as u64)), "depth {depth}");
        assert_eq!(latency.count(), 400);
    }
}

struct Fixed(std::vec::IntoIter<BlockOperation>);

impl BlockWorkload for Fixed {
    fn begin(&mut self, _: Phase) -> Option<u64> {
        None
    }
    fn next_operation(&mut self) -> nandkit_workload::Result<Option<BlockOperation>> {
        Ok(self.0.next())
    }
    fn queue_depth(&self) -> u32 {
        8
    }
}

fn run_fixed(operations: Vec<BlockOperation>, servers: usize) -> (DriverReport, RamDevice) {
    let mut ram = device(512, servers);
    let mut driver = BlockDriver::new(ram.geometry, Clock::default(), true);
    let mut workload = Fixed(operations.into_iter());
    driver.run_phase(Phase::Measure, &mut workload, &mut ram, &mut keep_going).unwrap();
    (driver.report().clone(), ram)
}

fn write(at: u64, arrival: Option<Nanos>) -> BlockOperation {
    BlockOperation { kind: BlockOperationKind::Write, at: Lba(at), sectors: 1, bytes: 512, arrival }
}

#[test]
fn open_loop_latency_counts_from_the_arrival() {
    let arrivals = [0, 1_000, 2_000, 100_000];
    let operations = arrivals.map(|at| write(at, Some(Nanos(at)))).map(|mut o| {
        o.at = Lba(o.at.0 % 100);
        o
    });
    let (report, _) = run_fixed(operations.to_vec(), 1);
    let measured = report.phase(Phase::Measure).unwrap();
    let latency = measured.latency(OperationKind::Write).unwrap();
    // One server: the second and third wait 9 and 18 us; the last finds it idle.
    assert_eq!((latency.min(), latency.max()), (Nanos(10_000), Nanos(28_000)));
    assert_eq!(latency.sum(), Nanos(10_000 + 19_000 + 28_000 + 10_000));
    assert_eq!(measured.elapsed(), Nanos(110_000));
}

#[test]
fn a_flush_waits_for_what_is_outstanding() {
    let flush = BlockOperation { kind: BlockOperationKind::Flush, at: Lba(0), sectors: 0, bytes: 0, arrival: None };
    let (report, _) = run_fixed(vec![write(0, None), write(1, None), flush, write(2, None)], 8);
    let measured = report.phase(Phase::Measure).unwrap();
    assert_eq!(measured.elapsed(), SERVICE.times(3));
}

#[test]
fn planted_corruptions_are_found_and_named() {
    for text in ["random:fill=true,operations=10", "trace:fixtures/sample.iolog,fit=wrap"] {
        let spec: WorkloadSpec = text.parse().unwrap();
        for planted in ["flip", "zero", "old"] {
            let mut ram = device(512, 1);
            let mut stream = spec.block_workload(&ram.geometry, 1, &HostInputs).unwrap();
            let mut driver = BlockDriver::new(ram.geometry, Clock::default(), true);
            stream.run_phase(&mut driver, Phase::Fill, &mut ram, &mut keep_going).unwrap();
            let before = ram.sectors.clone();
            stream.run_phase(&mut driver, Phase::Measure, &mut ram, &mut keep_going).unwrap();
            let changed = *ram.sectors.iter().find(|(sector, bytes)| before[*sector] != **bytes).unwrap().0;
            let sector = ram.sectors.get_mut(&changed).unwrap();
            match planted {
                "flip" => sector[100] ^= 4,
                "zero" => sector.fill(0),
                _ => *sector = before[&changed].clone(),
            }
            let error = driver.verify_all(&mut ram, &mut keep_going).unwrap_err();
            let message = error.to_string();
            assert!(matches!(error, WorkloadError::Mismatch { .. }), "{message}");
            assert!(message.contains(&format!("sector {changed}:")), "{planted} at {changed}: {message}");
        }
    }
}

#[test]
fn a_lost_trim_and_an_old_version_are_told_apart() {
    let mut ram = device(512, 1);
    let trim = BlockOperation { kind: BlockOperationKind::Trim, at: Lba(4), sectors: 2, bytes: 1024, arrival: None };
    let mut driver = BlockDriver::new(ram.geometry, Clock::default(), true);
    let mut workload = Fixed(vec![write(4, None), write(5, None), trim].into_iter());
    driver.run_phase(Phase::Measure, &mut workload, &mut ram, &mut keep_going).unwrap();
    driver.verify_all(&mut ram, &mut keep_going).unwrap();
    ram.write(&Context::default(), Lba(5), Payload::Bytes(&[1; 512])).unwrap();
    let error = driver.verify_all(&mut ram, &mut keep_going).unwrap_err().to_string();
    assert!(error.contains("sector 5") && error.contains("trim"), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let mut ram = device(512, 1);
    for (text, part) in [
        ("overwrite:files=104", "smaller file_size"),
        ("overwrite:files=104,file_size=64K", "files=16 or fewer"),
        ("random:footprint_size=2M", "footprint_size"),
        ("random:block_size=700", "sector size"),
        ("trace:fixtures/sample.iolog", "line"),
        ("phone", "file system"),
        ("trace:fixtures/none", "cannot be opened"),
    ] {
        let error = run(text, 1, &mut ram).unwrap_err();
        assert!(error.is_input() && error.to_string().contains(part), "{text}: {error}");
    }
    assert!(ram.writes.is_empty());
    let beyond = Fixed(vec![write(1 << 40, None)].into_iter());
    let mut driver = BlockDriver::new(ram.geometry, Clock::default(), true);
    let error = driver.run_phase(Phase::Measure, &mut { beyond }, &mut ram, &mut keep_going).unwrap_err();
    assert!(matches!(error, WorkloadError::Block { .. }), "{error}");
}
