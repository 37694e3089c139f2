//! Crashes at every change of the file, with every kind of leftover.

use std::io;
use std::sync::{Arc, Mutex};

use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};

use super::*;

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

/// A file in memory that records every change, so that crashes can be constructed afterwards; fails
/// from the given change on.
#[derive(Clone, Debug, Default)]
struct Recorder {
    bytes: Vec<u8>,
    changes: Arc<Mutex<Vec<Change>>>,
    fail_from: Option<usize>,
}

fn change(bytes: &mut Vec<u8>, change: &Change, keep: usize) {
    match change {
        Change::Write(offset, data) => {
            let (offset, data) = (*offset as usize, &data[..keep.min(data.len())]);
            bytes.resize(bytes.len().max(offset + data.len()), 0);
            bytes[offset..offset + data.len()].copy_from_slice(data);
        }
        Change::SetLen(length) => bytes.resize(*length as usize, 0),
        Change::Sync => {}
    }
}

impl Recorder {
    fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::default() }
    }

    fn note(&mut self, next: Change) -> io::Result<()> {
        let mut changes = self.changes.lock().unwrap();
        if self.fail_from.is_some_and(|from| changes.len() >= from) {
            return Err(io::Error::other("the disk is gone"));
        }
        change(&mut self.bytes, &next, usize::MAX);
        changes.push(next);
        Ok(())
    }
}

impl Medium for Recorder {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let end = offset as usize + into.len();
        let held = self.bytes.get(offset as usize..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(held);
        Ok(())
    }
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.note(Change::Write(offset, bytes.to_vec()))
    }
    fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.note(Change::SetLen(length))
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
    fn sync(&mut self) -> io::Result<()> {
        self.note(Change::Sync)
    }
}

const SECTORS: u64 = 24;

fn geometry() -> BlockGeometry {
    BlockGeometry { sector_size: 512, sectors: SECTORS, preferred_size: 512, recycling_size: 0 }
}

fn content(device: &impl BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; 512 * SECTORS as usize];
    device.read(&Context::default(), Lba(0), ReadInto::Bytes(&mut bytes)).unwrap();
    bytes
}

/// Runs random writes, trims and flushes. Returns the file's changes, and for each flush the number
/// of changes until its end and the content.
fn run(seed: u64, buffer_limit: usize) -> (Vec<Change>, Vec<(usize, Vec<u8>)>) {
    let recorder = Recorder::default();
    let changes = recorder.changes.clone();
    let mut device = JournalledFile::create_on(recorder, geometry()).unwrap().with_buffer_limit(buffer_limit);
    let mut random = Random::new(seed, "journalled");
    let context = Context::default();
    let mut flushed = vec![(changes.lock().unwrap().len(), content(&device))];
    for round in 0..40 {
        let at = random.below(SECTORS);
        let sectors = random.between(1, (SECTORS - at).min(6));
        if random.chance(0.2) {
            Trim::trim(&mut device, &context, Lba(at), sectors).unwrap();
        } else {
            let mut bytes = vec![0; 512 * sectors as usize];
            random.fill(&mut bytes);
            device.write(&context, Lba(at), Payload::Bytes(&bytes)).unwrap();
        }
        if round % 5 == 4 {
            device.flush(&context).unwrap();
            flushed.push((changes.lock().unwrap().len(), content(&device)));
        }
    }
    let changes = changes.lock().unwrap().clone();
    (changes, flushed)
}

/// The file after a crash following `count` changes: everything synced, and a random part of the
/// rest; one write may be torn.
fn crashed(changes: &[Change], count: usize, random: &mut Random, all: bool) -> Vec<u8> {
    let durable = changes[..count].iter().rposition(|change| matches!(change, Change::Sync)).map_or(0, |sync| sync + 1);
    let mut bytes = Vec::new();
    for (index, next) in changes[..count].iter().enumerate() {
        if index < durable || all {
            change(&mut bytes, next, usize::MAX);
        } else if random.chance(0.6) {
            let keep = if random.chance(0.3) { random.below(700) as usize } else { usize::MAX };
            change(&mut bytes, next, keep);
        }
    }
    bytes
}

#[test]
fn a_crash_anywhere_leaves_the_state_of_a_flush_and_none_older_than_the_last() {
    let mut completed = 0;
    for (seed, limit) in [(1, usize::MAX), (2, 2000), (3, 0)] {
        let (changes, flushed) = run(seed, limit);
        let mut random = Random::new(seed, "crash");
        for count in flushed[0].0..=changes.len() {
            let last = flushed.iter().rposition(|(end, _)| *end <= count).unwrap();
            for variant in 0..6 {
                let bytes = crashed(&changes, count, &mut random, variant == 0);
                let what = format!("seed {seed}, crash behind change {count}, variant {variant}");
                let read_only = JournalledFile::open_on(Recorder::from_bytes(bytes.clone()), Access::ReadOnly).unwrap();
                let mut device = JournalledFile::open_on(Recorder::from_bytes(bytes), Access::ReadWrite).unwrap();
                let found = content(&device);
                assert_eq!(found, content(&read_only), "{what}: read-only differs");
                let next = flushed.get(last + 1).is_some_and(|(_, content)| *content == found);
                assert!(next || found == flushed[last].1, "{what}: neither the last flush nor the next");
                completed += usize::from(next && found != flushed[last].1);
                // The device continues, and keeps what it flushes from now on.
                device.write(&Context::default(), Lba(3), Payload::Bytes(&[0x3C; 512])).unwrap();
                device.flush(&Context::default()).unwrap();
                let held = content(&device);
                let device = JournalledFile::open_on(device.into_medium(), Access::ReadWrite).unwrap();
                assert!(content(&device) == held && held[3 * 512] == 0x3C, "{what}: lost after recovery");
            }
        }
    }
    assert!(completed > 20, "only {completed} crashes fell between commit and the end of a flush");
}

#[test]
fn a_crash_during_recovery_is_recovered_too() {
    let (changes, flushed) = run(5, 3000);
    let mut random = Random::new(5, "second crash");
    for count in (flushed[1].0..changes.len()).step_by(3) {
        let first = crashed(&changes, count, &mut random, true);
        let expected =
            content(&JournalledFile::open_on(Recorder::from_bytes(first.clone()), Access::ReadOnly).unwrap());
        let recorder = Recorder::from_bytes(first.clone());
        let recovery = recorder.changes.clone();
        let mut device = JournalledFile::open_on(recorder, Access::ReadWrite).unwrap();
        assert!(recovery.lock().unwrap().is_empty(), "opening alone changes nothing");
        device.flush(&Context::default()).unwrap();
        let recovery = recovery.lock().unwrap().clone();
        for cut in 0..=recovery.len() {
            let mut bytes = first.clone();
            let durable =
                recovery[..cut].iter().rposition(|change| matches!(change, Change::Sync)).map_or(0, |sync| sync + 1);
            for (index, next) in recovery[..cut].iter().enumerate() {
                if index < durable || random.chance(0.5) {
                    change(&mut bytes, next, usize::MAX);
                }
            }
            let device = JournalledFile::open_on(Recorder::from_bytes(bytes), Access::ReadWrite).unwrap();
            assert_eq!(content(&device), expected, "crash behind {count}, then behind {cut} of the recovery");
        }
    }
}

/// Foreign bytes after the sectors are removed by the first change, not by opening the file.
#[test]
fn bytes_behind_the_sectors_stay_until_the_first_change() {
    let recorder = JournalledFile::create_on(Recorder::default(), geometry()).unwrap().into_medium();
    let long = [recorder.bytes.as_slice(), &[0xA5; 700]].concat();
    let device = JournalledFile::open_on(Recorder::from_bytes(long.clone()), Access::ReadWrite).unwrap();
    assert!(device.into_medium().bytes == long);
    let mut device = JournalledFile::open_on(Recorder::from_bytes(long), Access::ReadWrite).unwrap();
    device.write(&Context::default(), Lba(1), Payload::Bytes(&[7; 512])).unwrap();
    device.flush(&Context::default()).unwrap();
    let (held, medium) = (content(&device), device.into_medium());
    assert_eq!((medium.bytes.len(), held[512]), (recorder.bytes.len(), 7));
}

#[test]
fn a_failing_medium_stops_all_changes_and_loses_no_flush() {
    let (changes, _) = run(1, 2000);
    for fail_from in 4..changes.len().min(60) {
        let recorder = Recorder { fail_from: Some(fail_from), ..Recorder::default() };
        let mut device = JournalledFile::create_on(recorder, geometry()).unwrap().with_buffer_limit(2000);
        let context = Context::default();
        let mut last = content(&device);
        let mut pending = last.clone();
        let mut failed = false;
        for round in 0..200u64 {
            let byte = round as u8 + 1;
            let at = (round % SECTORS) as usize * 512;
            if device.write(&context, Lba(round % SECTORS), Payload::Bytes(&[byte; 512])).is_err() {
                failed = true;
                break;
            }
            pending[at..at + 512].fill(byte);
            if round % 4 == 3 {
                if device.flush(&context).is_err() {
                    failed = true;
                    break;
                }
                last.clone_from(&pending);
            }
        }
        assert!(failed);
        let refused = device.write(&context, Lba(0), Payload::Bytes(&[9; 512])).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Io);
        assert!(device.flush(&context).is_err());
        let medium = Recorder::from_bytes(device.into_medium().bytes);
        let found = content(&JournalledFile::open_on(medium, Access::ReadWrite).unwrap());
        assert!(found == last || found == pending, "failing from change {fail_from}");
    }
}

#[test]
fn other_versions_and_damage_are_refused_with_found_and_expected() {
    let device = JournalledFile::create_on(Recorder::default(), geometry()).unwrap();
    let good = device.into_medium().bytes;
    let refused = |damage: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        damage(&mut bytes);
        let error = JournalledFile::open_on(Recorder::from_bytes(bytes), Access::ReadWrite).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Corrupt);
        error.detail
    };
    let version = refused(&|bytes| bytes[8] = 7);
    assert!(version.contains("version 7") && version.contains("expected version 1"), "{version}");
    assert!(refused(&|bytes| bytes[0] = b'X').contains("NANDKJRN"));
    assert!(refused(&|bytes| bytes[16] ^= 1).contains("checksum"));
    assert!(refused(&|bytes| bytes.truncate(9000)).contains("expected at least"));
    assert!(refused(&|bytes| bytes.truncate(10)).contains("NANDKJRN"));
    assert!(refused(&|bytes| bytes.clear()).contains("NANDKJRN"));
    let hostile = BlockGeometry { sectors: u64::MAX, ..geometry() };
    let detail = refused(&|bytes| bytes[..4096].copy_from_slice(&layout::encode_header(&hostile)));
    assert!(detail.contains("2^50"), "{detail}");
}

#[test]
fn a_flush_costs_what_changed() {
    let big = BlockGeometry { sectors: 4096, ..geometry() };
    let mut device = JournalledFile::create_on(Recorder::default(), big).unwrap();
    let context = Context::default();
    device.write(&context, Lba(7), Payload::Bytes(&[1; 1024])).unwrap();
    device.medium.changes.lock().unwrap().clear();
    device.flush(&context).unwrap();
    let written: usize = device
        .medium
        .changes
        .lock()
        .unwrap()
        .iter()
        .map(|change| match change {
            Change::Write(_, bytes) => bytes.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(written, 2 * 1024 + 2 * FRAME_SIZE);
    device.medium.changes.lock().unwrap().clear();
    device.flush(&context).unwrap();
    assert!(device.medium.changes.lock().unwrap().is_empty(), "a flush without changes touches the file");
}
