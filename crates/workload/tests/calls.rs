//! Recorded calls on the model file system: what was asked leaves the same tree elsewhere.

use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use nandkit_units::{Clock, Nanos, Payload, ReadInto};
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};
use nandkit_vfs::wrap::Wrapped;
use nandkit_vfs::{AttributeChange, Changes, FileKind, FileSystem, InodeNumber, NewNode, RenameFlags};
use nandkit_workload::calls::{CallRecorder, CallReplay};
use nandkit_workload::trace::Trace;
use nandkit_workload::tree::source::TreeSource;
use nandkit_workload::{Inputs, OperationKind};

/// A file in memory.
#[derive(Clone, Default)]
struct MemoryFile(Arc<Mutex<Vec<u8>>>);

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Inputs for MemoryFile {
    fn open(&self, _: &str) -> std::io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(std::io::Cursor::new(self.0.lock().unwrap().clone())))
    }

    fn tree(&self, _: &str) -> nandkit_workload::Result<Box<dyn TreeSource>> {
        unreachable!("no tree is asked for")
    }
}

fn model_on(clock: Clock) -> ModelFileSystem {
    ModelFileSystem::new(ModelOptions::POSIX, clock)
}

fn names(fs: &dyn FileSystem, directory: InodeNumber) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let listed = fs.read_dir(directory, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        ControlFlow::Continue(())
    });
    listed.unwrap();
    names
}

/// Some of everything, also what fails.
fn work(fs: &mut dyn Changes, clock: &Clock, arrived: &dyn Fn(Nanos)) {
    let root = fs.root();
    let directory = fs.create(root, b"dir", &NewNode::DIRECTORY).unwrap();
    for number in 0..9u64 {
        let instant = Nanos(1000 + number * 10);
        clock.advance_to(instant);
        arrived(instant);
        let file = fs.create(directory, format!("f%{number}\u{E9}\n").as_bytes(), &NewNode::FILE).unwrap();
        fs.write(file, number, Payload::Bytes(&[0, 1, 255, b'%', number as u8])).unwrap();
    }
    // A listing in parts goes on where it was.
    let (mut cookie, mut count) = (0, 0);
    loop {
        let before = count;
        let mut last = cookie;
        let listed = fs.read_dir(directory, cookie, &mut |entry| {
            // The fourth is one too many, as in a kernel's buffer.
            if count - before == 3 {
                return ControlFlow::Break(());
            }
            (count, last) = (count + 1, entry.cookie);
            ControlFlow::Continue(())
        });
        listed.unwrap();
        cookie = last;
        if count == before {
            break;
        }
    }
    assert_eq!(count, 9);
    let file = fs.lookup(directory, "f%3\u{E9}\n".as_bytes()).unwrap();
    assert!(fs.lookup(root, b"none").is_err());
    fs.set_attributes(file, &AttributeChange { size: Some(4), mode: Some(0o600), ..AttributeChange::default() })
        .unwrap();
    fs.rename((directory, "f%3\u{E9}\n".as_bytes()), (root, b"moved"), RenameFlags::NoReplace).unwrap();
    fs.links().unwrap().link(file, root, b"linked").unwrap();
    let link = NewNode { kind: FileKind::Symlink, target: b"moved", ..NewNode::FILE };
    fs.create(root, b"link", &link).unwrap();
    fs.xattr_changes().unwrap().set_xattr(file, b"user.a", b"\0v").unwrap();
    let mut bytes = [0; 100];
    assert_eq!(fs.read(file, 0, ReadInto::Bytes(&mut bytes)).unwrap(), 4);
    fs.open_files().unwrap().retain(file).unwrap();
    fs.remove(root, b"moved").unwrap();
    fs.remove(root, b"linked").unwrap();
    fs.open_files().unwrap().release(file).unwrap();
    assert!(fs.remove(root, b"dir").is_err(), "it is not empty");
    fs.sync(None).unwrap();
}

#[test]
fn what_was_recorded_leaves_the_same_tree_and_counts() {
    let (clock, file) = (Clock::default(), MemoryFile::default());
    let model = model_on(Clock::default());
    let root = model.root();
    let recorder = Arc::new(CallRecorder::begin(Box::new(file.clone()), clock.clone(), Nanos::ZERO, root).unwrap());
    let mut recorded = Wrapped::new(model, Arc::clone(&recorder));
    work(recorded.changes().unwrap(), &clock, &|instant| recorder.arrived(instant));
    let calls = recorder.finish().unwrap();

    let spec = Trace { file: "calls".to_owned(), ..Trace::default() };
    let mut replay = CallReplay::open(&spec, &file).unwrap().expect("a recording");
    // Another model, whose inodes have other numbers.
    let mut other = model_on(Clock::default());
    let changes = other.changes().unwrap();
    let root = changes.root();
    changes.create(root, b"before", &NewNode::FILE).unwrap();
    let now = Clock::default();
    let report = replay.run(&mut other, &now, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((replay.skipped(), now.now()), (0, Nanos(1080)));
    assert_eq!((report.user_bytes_written, report.user_bytes_read), (45, 4));
    assert_eq!((report.operations(OperationKind::Create), report.operations(OperationKind::MakeDirectory)), (10, 1));
    assert!(calls > 30, "{calls}");
    let model = recorded.into_inner();
    let (ours, theirs) = (names(&model, model.root()), names(&other, other.root()));
    assert_eq!([ours, vec![b"before".to_vec()]].concat().len(), theirs.len());
    let inside = |fs: &ModelFileSystem| names(fs, fs.lookup(fs.root(), b"dir").unwrap());
    assert_eq!(inside(&model), inside(&other));
    for name in inside(&model) {
        let bytes = |fs: &ModelFileSystem| {
            let file = fs.lookup(fs.lookup(fs.root(), b"dir").unwrap(), &name).unwrap();
            let mut bytes = [0; 64];
            let count = fs.read(file, 0, ReadInto::Bytes(&mut bytes)).unwrap();
            bytes[..count].to_vec()
        };
        assert_eq!(bytes(&model), bytes(&other));
    }
}

#[test]
fn another_answer_than_recorded_ends_the_replay() {
    let (clock, file) = (Clock::default(), MemoryFile::default());
    let model = model_on(Clock::default());
    let root = model.root();
    let recorder = Arc::new(CallRecorder::begin(Box::new(file.clone()), clock, Nanos::ZERO, root).unwrap());
    let mut recorded = Wrapped::new(model, Arc::clone(&recorder));
    let changes = recorded.changes().unwrap();
    let made = changes.create(root, b"f", &NewNode::FILE).unwrap();
    changes.write(made, 0, Payload::Bytes(b"abc")).unwrap();
    recorder.finish().unwrap();
    let spec = Trace { file: "calls".to_owned(), ..Trace::default() };
    let mut replay = CallReplay::open(&spec, &file).unwrap().expect("a recording");
    let mut other = model_on(Clock::default());
    let changes = other.changes().unwrap();
    let root = changes.root();
    changes.create(root, b"f", &NewNode::FILE).unwrap();
    let error = replay.run(&mut other, &Clock::default(), &mut |_| ControlFlow::Continue(())).unwrap_err();
    let told = error.to_string();
    assert!(told.contains("create of calls, line 2"), "{told}");
}
