//! Recordings of any content are replayed on a small volume to their end or refused, and time does
//! not leave its range.

#![no_main]

use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use nandkit_units::{Clock, Nanos};
use nandkit_vfs::model::{ModelFileSystem, ModelOptions};
use nandkit_workload::calls::CallReplay;
use nandkit_workload::trace::Trace;
use nandkit_workload::tree::source::TreeSource;
use nandkit_workload::{Inputs, NoInputs};

/// A mebibyte or so: what a call asks for beyond it is refused.
const BLOCKS: u64 = 256;

fuzz_target!(|data: &[u8]| {
    // Most of what is tried has a first line that fits.
    for head in [&b""[..], b"{\"nandkit_calls\":1,\"root\":1}\n"] {
        let inputs = Bytes([head, data].concat());
        let spec = Trace { file: "fuzz".to_string(), ..Trace::default() };
        let Ok(Some(mut replay)) = CallReplay::open(&spec, &inputs) else { continue };
        let clock = Clock::default();
        let mut fs = ModelFileSystem::new(ModelOptions::POSIX.with_capacity(BLOCKS), clock.clone());
        let _ = replay.run(&mut fs, &clock, &mut |_| ControlFlow::Continue(()));
        assert!(clock.now() < Nanos(u64::MAX / 2), "time goes on");
    }
});

/// The input as the one trace that there is.
struct Bytes(Vec<u8>);

impl Inputs for Bytes {
    fn open(&self, _: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(Cursor::new(self.0.clone())))
    }

    fn tree(&self, path: &str) -> nandkit_workload::Result<Box<dyn TreeSource>> {
        NoInputs.tree(path)
    }
}
