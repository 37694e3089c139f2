//! A check of a damaged volume terminates, reads no more than there is, and never panics.

mod common;
mod damaged;
mod made;

use damaged::{BLOCK, Edits, base, damage};
use nandkit_block::wrap::{RequestKind, StatsDevice};
use nandkit_testkit::rounds::Rounds;
use nandkit_units::Clock;
use nandkit_units::random::Random;
use nandkit_vfs::check::Report;

/// Checks a damaged volume, and compares the work done with the size of the volume.
fn checked(edits: &Edits) -> Option<Report> {
    let mut device = StatsDevice::new(edits.device());
    let report = nandkit_f2fs::check(vec![&mut device], Clock::default()).ok();
    let read = device.snapshot().total(RequestKind::Read);
    // At most a few passes over the volume, at worst in single blocks; damaged fields may make a
    // table as large as the volume.
    let size = base().bytes.len() as u64;
    assert!(read.bytes <= 4 * size, "{} bytes read of {size}", read.bytes);
    assert!(read.requests <= 4 * size / BLOCK as u64, "{} requests", read.requests);
    if let Some(report) = &report {
        assert!(report.findings.len() < 60_000);
        assert!(report.findings.iter().all(|found| !found.detail.is_empty() && found.paths.len() < 2));
    }
    report
}

/// Peak memory of this process in MiB (proc(5), VmHWM).
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

/// Other kinds of damage: bits, whole blocks of noise or copied from elsewhere, in metadata, in
/// nodes or anywhere.
fn rough(random: &mut Random) -> Edits {
    let mut edits = Edits::default();
    let base = base();
    let groups = [&base.metadata, &base.nodes, &base.main];
    for _ in 0..1 + random.index(4) {
        let group = groups[random.index(3)];
        let (number, other) = (group[random.index(group.len())], group[random.index(group.len())]);
        match random.index(4) {
            0 => {
                let noise: Vec<u8> = (0..BLOCK).map(|_| random.next_u64() as u8).collect();
                *edits.block(number) = noise;
            }
            1 => {
                let bytes = edits.block(other).clone();
                *edits.block(number) = bytes;
            }
            2 => edits.block(number).fill(0),
            _ => edits.block(number)[random.index(BLOCK)] ^= 1 << random.index(8),
        }
    }
    if random.index(2) == 0 {
        edits.sign();
    }
    edits
}

#[test]
fn damaged_volumes_are_checked_in_bounds() {
    // For more rounds: `NANDKIT_ROUNDS=20000 cargo test --release -p nandkit-f2fs --test
    // check_hostile`.
    let mut rounds = Rounds::of(600);
    let sound = checked(&Edits::default()).unwrap();
    assert!(sound.is_clean() && sound.findings.is_empty(), "{:?}", sound.findings.first());
    let before = peak_mib();
    let (mut reports, mut damaged, mut whole) = (0, 0, 0);
    for round in &mut rounds {
        let mut random = Random::new(round, "damage");
        let edits = if round % 2 == 0 { damage(&mut random) } else { rough(&mut random) };
        let Some(report) = checked(&edits) else { continue };
        reports += 1;
        damaged += u64::from(!report.is_clean());
        whole += u64::from(report.count("files") > sound.count("files") / 2);
    }
    let (peak, is_replay, rounds) = (peak_mib(), rounds.is_replay(), rounds.count());
    println!(
        "{rounds} volumes: {reports} reports, {damaged} with faults, {whole} with most files reached; {before} MiB before, {peak} at the peak"
    );
    assert!(
        is_replay || reports > rounds * 9 / 10 && damaged > rounds / 2 && whole > rounds / 3,
        "{reports} {damaged} {whole} of {rounds}"
    );
    assert!(peak < before + 256, "{before} MiB before, {peak} at the peak");
}
