//! Failing devices: a failed data write is reported to its writer and can be retried; a failed
//! metadata write stops the volume, and the device keeps the last checkpoint.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::made::clock;
use crate::writing::oracle::{Image, Model, Oracle, device_of, empty_image, image_of, must_be_possible, page, run};
use crate::writing::trees::Known;
use crate::writing::{findings, unmount};
use nandkit_block::wrap::{DeviceAction, DeviceEvent, DeviceFault, DeviceFaultWhen, FaultDevice, TraceDevice};
use nandkit_block::{Operation, RamDevice};
use nandkit_f2fs::write::PageLimits;
use nandkit_f2fs::write::Reason;
use nandkit_f2fs::{NodeId, WritableVolume, WriteOptions};
use nandkit_units::random::Random;
use nandkit_units::{Area, Cause, Lba, Payload};
use nandkit_vfs::{Changes, ErrorKind, FileSystem, NewNode};

type Failing = FaultDevice<RamDevice>;

fn mount(image: &Image, faults: Vec<DeviceFault>) -> WritableVolume<Failing> {
    let device = FaultDevice::new(device_of(image), faults);
    WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap()
}

fn fault(operation: Operation, nth: u64) -> DeviceFault {
    DeviceFault::new(operation, DeviceFaultWhen::Nth(nth), nandkit_block::ErrorKind::Io)
}

/// Writes and flushes of the checkpoint before the first change of a mount.
const FIRST_WRITES: u64 = 2;
const FIRST_FLUSHES: u64 = 2;

#[test]
fn the_checkpoint_before_the_first_change_stops_the_volume_where_it_fails() {
    for faulty in [fault(Operation::Write, 1), fault(Operation::Write, FIRST_WRITES), fault(Operation::Flush, 1)] {
        let mut volume = mount(&empty_image(""), vec![faulty]);
        let error = volume.create(volume.root(), b"file", &NewNode::FILE).unwrap_err();
        assert_eq!((error.kind, volume.stopped().is_some()), (ErrorKind::Device, true), "{faulty:?}: {error}");
        assert!(volume.lookup(volume.root(), b"file").is_err());
    }
}

#[test]
fn a_failed_write_of_data_is_its_writers_and_may_be_tried_again() {
    let image = empty_image("");
    let mut volume = mount(&image, vec![fault(Operation::Write, 1 + FIRST_WRITES)]);
    let root = volume.root();
    let ino = volume.create(root, b"file", &NewNode::FILE).unwrap();
    let nid = NodeId(ino.0 as u32);
    volume.write(nid, 0, Payload::Bytes(&page(1, 0, 1))).unwrap();
    let error = volume.fsync(nid, false).unwrap_err();
    assert_eq!((error.kind, volume.stopped()), (ErrorKind::Device, None), "{error}");
    assert!(volume.has_unsynced(nid));
    volume.fsync(nid, false).unwrap();
    let device = volume.abandon().remove(0).into_inner();
    let volume = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
    let mut bytes = vec![0; 4096];
    volume.read_at(&volume.inode(ino).unwrap(), 0, &mut bytes).unwrap();
    assert_eq!((volume.recovered().created, bytes), (1, page(1, 0, 1)));
    assert_eq!(findings(unmount(volume)), Vec::<String>::new());
}

#[test]
fn a_failed_checkpoint_stops_the_volume() {
    let image = empty_image("");
    // Writes: node and directory page, or one of the checkpoint's blocks; the flush before its last
    // block.
    let writes = [1, 2, 4].map(|nth| fault(Operation::Write, nth + FIRST_WRITES));
    for faulty in writes.into_iter().chain([fault(Operation::Flush, 1 + FIRST_FLUSHES)]) {
        let mut volume = mount(&image, vec![faulty]);
        let root = volume.root();
        volume.create(root, b"file", &NewNode::FILE).unwrap();
        let error = volume.checkpoint(Reason::Sync).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Device, "{faulty:?}: {error}");
        assert!(volume.stopped().is_some(), "{faulty:?}");
        assert_eq!(volume.create(root, b"other", &NewNode::FILE).unwrap_err().kind, ErrorKind::ReadOnly);
        assert_eq!(volume.sync().unwrap_err().kind, ErrorKind::ReadOnly);
        assert_eq!(
            volume.unmount().map(drop).map_err(|(volume, error)| {
                // Reads still see the state in memory.
                assert!(volume.lookup(root, b"file").is_ok());
                error.kind
            }),
            Err(ErrorKind::ReadOnly)
        );
    }
}

/// Any single request may fail once: the volume continues or stops, and nothing durable is lost.
#[test]
fn any_failed_write_or_flush_loses_nothing() {
    let (mut stopped, mut went_on) = (0, 0);
    for (features, seed) in [("", 31), ("extra_attr,inode_checksum,inode_crtime", 32)] {
        let image = empty_image(features);
        for (operation, nths) in [(Operation::Write, 1..90), (Operation::Flush, 1..40)] {
            for nth in nths {
                let context = format!("seed {seed}, {operation:?} {nth}");
                let mut volume = mount(&image, vec![fault(operation, nth)]);
                let (mut model, mut random) = (Model::default(), Random::new(seed, "faults"));
                if run(&mut volume, &mut model, &mut random, 120).is_ok() {
                    continue;
                }
                if volume.stopped().is_some() {
                    stopped += 1;
                    let error = run(&mut volume, &mut model, &mut random, 20).unwrap_err();
                    assert!(matches!(error.kind, ErrorKind::ReadOnly | ErrorKind::NotFound), "{context}: {error}");
                    must_be_possible(&volume, &model, &context);
                } else {
                    // Data of a failed flush may be lost with the device's cache: nothing is
                    // acknowledged after it.
                    assert_eq!(operation, Operation::Write, "{context}");
                    went_on += 1;
                    model.observe(&volume);
                    run(&mut volume, &mut model, &mut random, 40).unwrap();
                    volume.sync().unwrap();
                    must_be_possible(&volume, &model, &context);
                }
                let device = volume.abandon().remove(0).into_inner();
                let volume = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
                must_be_possible(&volume, &model, &context);
                assert_eq!(findings(unmount(volume)), Vec::<String>::new(), "{context}");
            }
        }
    }
    assert!(stopped > 20 && went_on > 20, "{stopped} stopped, {went_on} went on");
}

/// The events of a device, for code that no longer owns it.
type Events = Arc<Mutex<Vec<DeviceEvent>>>;

/// The effect of one failed request.
struct Failed {
    /// The request that failed.
    event: DeviceEvent,
    /// Whether any caller was told before the end.
    told: bool,
    stopped: bool,
}

/// Runs operations until one request has failed, and compares the state with the oracle at once,
/// after more operations, and after a mount. `None` if there were too few requests.
fn fail_once<O: Oracle>(
    image: &Image,
    seed: u64,
    faulty: DeviceFault,
    oracle: impl Fn(&Traced) -> O,
) -> Option<Failed> {
    let events = Events::default();
    let noted = events.clone();
    let sink: Sink = Box::new(move |event| noted.lock().unwrap().push(event));
    let device = TraceDevice::new(FaultDevice::new(device_of(image), vec![faulty]), sink);
    let options = WriteOptions { pages: PageLimits { dirty: 40, clean: 200 }, ..WriteOptions::default() };
    let mut volume = WritableVolume::mount(vec![device], clock(), options).unwrap();
    let (mut oracle, mut random) = (oracle(&volume), Random::new(seed, "classes of faults"));
    let context = format!("seed {seed}, {faulty:?}");
    let told = (0..70).try_for_each(|_| oracle.step(&mut volume, &mut random, &mut |_| ())).is_err();
    let event = *events.lock().unwrap().iter().find(|event| event.result.is_err())?;
    let stopped = volume.stopped().is_some();
    if stopped {
        let error = volume.create(volume.root(), b"refused", &NewNode::FILE).unwrap_err();
        assert_eq!(error.kind, ErrorKind::ReadOnly, "{context}: {error}");
    } else {
        oracle.judge(&volume, &context);
        // Some oracles cannot continue after an operation that was refused half-way; the volume
        // can.
        volume.create(volume.root(), b"goes on", &NewNode::FILE).unwrap();
        volume.remove(volume.root(), b"goes on").unwrap();
        volume.sync().unwrap();
    }
    let device = volume.abandon().remove(0).into_parts().0.into_inner();
    let volume = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
    oracle.judge(&volume, &context);
    assert_eq!(findings(unmount(volume)), Vec::<String>::new(), "{context}");
    Some(Failed { event, told, stopped })
}

type Sink = Box<dyn FnMut(DeviceEvent) + Send>;
type Traced = WritableVolume<TraceDevice<Failing, Sink>>;

/// Each request of a run fails once; its cause decides whether the volume stops.
#[test]
fn what_a_failed_request_was_for_says_whether_the_volume_stops() {
    let image = empty_image("");
    let mut counts: BTreeMap<(&str, bool, bool), u32> = BTreeMap::new();
    for operation in [Operation::Write, Operation::Flush] {
        for seed in [51, 52] {
            let every = |nth| match seed {
                51 => fail_once(&image, seed, fault(operation, nth), |_| Model::default()),
                _ => fail_once(&image, seed, fault(operation, nth), Known::of),
            };
            for Failed { event, told, stopped } in (1..).map_while(every) {
                let class = match (event.action, event.context.cause, event.context.area) {
                    (DeviceAction::Flush, Cause::UserData, _) => "flush of an fsync",
                    (DeviceAction::Flush, ..) => "flush of a checkpoint",
                    (_, Cause::UserData, Area::Main) => "data",
                    (_, Cause::Cleaning, _) => "moved blocks",
                    (_, _, Area::Main) => "nodes and directories",
                    (_, _, Area::Metadata) => "tables and packs",
                };
                *counts.entry((class, told, stopped)).or_default() += 1;
            }
        }
    }
    println!("(class, told, stopped): {counts:?}");
    for (class, told, stops) in [
        ("data", true, false),
        ("flush of an fsync", true, true),
        ("flush of a checkpoint", true, true),
        ("nodes and directories", true, true),
        ("tables and packs", true, true),
    ] {
        let of =
            |wanted| counts.iter().filter(|((found, ..), _)| *found == class).any(|((_, t, s), _)| (*t, *s) == wanted);
        assert!(of((told, stops)), "{class}: {counts:?}");
        assert!(!of((told, !stops)) && !of((!told, stops)) && !of((!told, !stops)), "{class}: {counts:?}");
    }
}

#[test]
fn a_device_that_refuses_discards_is_told_no_more() {
    let image = empty_image("");
    let refused = DeviceFault::new(Operation::Trim, DeviceFaultWhen::Always, nandkit_block::ErrorKind::Io);
    let mut volume = mount(&image, vec![refused]);
    let root = volume.root();
    let ino = volume.create(root, b"file", &NewNode::FILE).unwrap();
    for round in 0..3 {
        volume.write(NodeId(ino.0 as u32), 0, Payload::Bytes(&vec![round; 1 << 20])).unwrap();
        volume.sync().unwrap();
        volume.truncate(NodeId(ino.0 as u32), 0).unwrap();
        volume.checkpoint(Reason::Sync).unwrap();
    }
    assert_eq!(volume.notes().iter().filter(|note| note.detail.contains("discard")).count(), 1);
    assert_eq!(findings(unmount(volume).into_inner()), Vec::<String>::new());
}

/// The sector of a data block that is identified by its content.
fn sector_of(image: &Image, content: &[u8]) -> Lba {
    Lba(image.iter().find(|(_, bytes)| bytes == content).expect("the block").0)
}

/// A block that can never be written affects neither its own file, whose page goes elsewhere, nor
/// others.
#[test]
fn a_block_that_is_never_written_keeps_nothing_else_from_being_durable() {
    let mut volume = mount(&empty_image(""), Vec::new());
    let root = volume.root();
    let ino = volume.create(root, b"file", &NewNode::FILE).unwrap();
    let nid = NodeId(ino.0 as u32);
    volume.write(nid, 0, Payload::Bytes(&page(1, 0, 1))).unwrap();
    volume.sync().unwrap();
    let image = image_of(&unmount(volume).into_inner());
    let bad = DeviceFaultWhen::Sector(sector_of(&image, &page(1, 0, 1)));
    let mut volume = mount(&image, vec![DeviceFault::new(Operation::Write, bad, nandkit_block::ErrorKind::Io)]);
    volume.write(nid, 0, Payload::Bytes(&page(1, 0, 2))).unwrap();
    let other = volume.create(root, b"other", &NewNode::FILE).unwrap();
    volume.write(NodeId(other.0 as u32), 0, Payload::Bytes(&page(2, 0, 1))).unwrap();
    let error = volume.sync().unwrap_err();
    assert_eq!((error.kind, volume.stopped()), (ErrorKind::Device, None), "{error}");
    // The retry writes the page elsewhere; it is no checkpoint, and the other file is durable
    // without it.
    volume.fsync(nid, false).unwrap();
    let device = volume.abandon().remove(0).into_inner();
    let left = WritableVolume::mount(vec![device], clock(), WriteOptions::default()).unwrap();
    let mut bytes = vec![0; 4096];
    for (inode, expected) in [(other, page(2, 0, 1)), (ino, page(1, 0, 2))] {
        left.read_at(&left.inode(inode).unwrap(), 0, &mut bytes).unwrap();
        assert!(bytes == expected);
    }
    assert_eq!((left.recovered().files, left.recovered().created), (1, 0));
    assert_eq!(findings(unmount(left)), Vec::<String>::new());
}
