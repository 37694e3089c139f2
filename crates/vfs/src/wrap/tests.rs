use std::sync::Mutex;

use super::*;
use crate::NewNode;
use crate::model::{ModelFileSystem, ModelOptions};
use nandkit_units::Clock;

/// Method, offset, length, and the number of bytes moved.
type ObservedCall = (Method, u64, u64, std::result::Result<u64, ErrorKind>);

/// Records the result of each call, and refuses removals.
#[derive(Default)]
struct Watch(Mutex<Vec<ObservedCall>>);

impl Hook for Watch {
    fn before(&self, call: &Call<'_>) -> Result<()> {
        match call.method {
            Method::Remove => Err(FsError::new(ErrorKind::NoSpace, "planned")),
            _ => Ok(()),
        }
    }

    fn after(&self, call: &Call<'_>, outcome: std::result::Result<CallOutput, ErrorKind>) {
        self.0.lock().unwrap().push((call.method, call.offset, call.length, outcome.map(|done| done.bytes)));
    }
}

#[test]
fn a_hook_sees_each_call_and_may_refuse_it() {
    let mut fs = Wrapped::new(ModelFileSystem::new(ModelOptions::POSIX, Clock::default()), Watch::default());
    let root = fs.root();
    let inode = fs.create(root, b"file", &NewNode::FILE).unwrap();
    fs.write(inode, 5, Payload::Bytes(b"abc")).unwrap();
    assert_eq!(fs.remove(root, b"file").unwrap_err().kind, ErrorKind::NoSpace);
    assert_eq!(fs.lookup(root, b"file").unwrap(), inode, "what the hook refuses is not done");
    fs.links().unwrap().link(inode, root, b"second").unwrap();
    fs.xattr_changes().unwrap().set_xattr(inode, b"user.x", b"1").unwrap();
    assert_eq!(fs.xattrs().unwrap().xattr(inode, b"user.x").unwrap(), b"1");
    let calls = fs.hook().0.lock().unwrap();
    assert_eq!(calls[1..3], [(Method::Write, 5, 3, Ok(3)), (Method::Remove, 0, 0, Err(ErrorKind::NoSpace))]);
    let methods: Vec<Method> = calls[3..].iter().map(|call| call.0).collect();
    assert_eq!(methods, [Method::Lookup, Method::Link, Method::SetXattr, Method::Xattr]);
}
