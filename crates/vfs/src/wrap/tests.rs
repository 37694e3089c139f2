use super::*;
use crate::model::{ModelFileSystem, ModelOptions};
use crate::path::{read_file, write_file};
use crate::{NewNode, path};
use nandkit_units::{Clock, StatisticValue, Statistics};

fn model() -> ModelFileSystem {
    ModelFileSystem::new(ModelOptions::POSIX, Clock::default())
}

#[test]
fn stats_count_calls_and_bytes() {
    let mut fs = Wrapped::new(model(), Stats::default());
    write_file(&mut fs, b"file", &NewNode::FILE, b"content").unwrap();
    assert_eq!(read_file(&fs, b"file").unwrap(), b"content");
    assert!(fs.lookup(fs.root(), b"none").is_err());
    let root = fs.root();
    let inode = fs.lookup(root, b"file").unwrap();
    fs.links().unwrap().link(inode, root, b"second").unwrap();
    fs.xattr_changes().unwrap().set_xattr(inode, b"user.x", b"1").unwrap();
    assert_eq!(fs.xattrs().unwrap().xattr(inode, b"user.x").unwrap(), b"1");
    let stats = fs.hook();
    assert_eq!((stats.calls(Method::Write), stats.bytes_written(), stats.bytes_read()), (1, 7, 7));
    assert_eq!((stats.calls(Method::Link), stats.calls(Method::SetXattr), stats.calls(Method::Xattr)), (1, 1, 1));
    let mut values = Vec::new();
    fs.collect(&mut |name, value| values.push((name, value)));
    assert!(values.contains(&("fs_create_calls", StatisticValue::Count(1))));
    // The two look-ups of names that did not exist.
    assert!(values.contains(&("fs_errors", StatisticValue::Count(2))));
    assert_eq!(values.len(), Method::COUNT + 3);
}

#[test]
fn traces_keep_the_last_calls_in_order() {
    let mut fs = Wrapped::new(model(), Trace::new(3));
    let root = fs.root();
    let inode = fs.create(root, b"file", &NewNode::FILE).unwrap();
    fs.write(inode, 5, Payload::Bytes(b"abc")).unwrap();
    assert!(fs.remove(root, b"none").is_err());
    fs.sync(None).unwrap();
    let records = fs.hook().take();
    let methods: Vec<Method> = records.iter().map(|record| record.method).collect();
    assert_eq!(methods, [Method::Write, Method::Remove, Method::Sync]);
    assert_eq!((records[0].offset, records[0].length, records[0].outcome), (5, 3, Ok(3)));
    assert_eq!((&records[1].name[..], records[1].outcome), (&b"none"[..], Err(ErrorKind::NotFound)));
    assert!(fs.hook().take().is_empty());
}

#[test]
fn faults_hit_the_planned_calls_and_change_nothing() {
    let plan = FaultPlan::once(Method::Create, 1, ErrorKind::NoSpace);
    let mut fs = Wrapped::new(model(), Fault::new(plan));
    let root = fs.root();
    let results: Vec<Option<ErrorKind>> = [&b"a"[..], b"b", b"c"]
        .iter()
        .map(|name| fs.create(root, name, &NewNode::FILE).err().map(|e| e.kind))
        .collect();
    assert_eq!(results, [None, Some(ErrorKind::NoSpace), None]);
    let names: Vec<Vec<u8>> = path::sorted_entries(&fs, root).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, [b"a".to_vec(), b"c".to_vec()]);
    let every_third = FaultPlan { method: None, first: 2, every: 3, count_max: 2, kind: ErrorKind::Device };
    let fs = Wrapped::new(model(), Fault::new(every_third));
    let failed: Vec<usize> = (0..12).filter(|_| fs.stat(fs.root()).is_err()).collect();
    assert_eq!(failed, [2, 5]);
    let fs = Wrapped::new(model(), Fault::new(FaultPlan::from(1, ErrorKind::Device)));
    assert_eq!((0..4).filter(|_| fs.stat(fs.root()).is_err()).count(), 3);
}

#[test]
fn a_read_only_view_offers_no_changes() {
    let mut inner = model();
    write_file(&mut inner, b"file", &NewNode::FILE, b"content").unwrap();
    let mut fs = Wrapped::new(ReadOnly(inner), Stats::default());
    assert!(fs.changes().is_none());
    assert_eq!(read_file(&fs, b"file").unwrap(), b"content");
    assert_eq!(fs.sync(None).unwrap_err().kind, ErrorKind::ReadOnly);
}
