//! Volumes of UBIFS with anything changed in their nodes: checked, and repaired or refused; what is
//! repaired is sound.
//!
//! An input is a list of changes to a volume that is made here (`ubifs_volume/mod.rs`).

#![no_main]

mod ubifs_volume;

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use nandkit_ubifs::{LebBytes, LebSink, Repaired, Ubifs, repair};
use nandkit_vfs::Result;

struct Sink(LebBytes);

impl LebSink for Sink {
    fn put(&mut self, leb: u32, bytes: &[u8]) -> Result<()> {
        let size = self.0.leb_size as usize;
        let at = leb as usize * size;
        let end = self.0.bytes.len().max(at + size);
        self.0.bytes.resize(end, 0xFF);
        self.0.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let lebs = ubifs_volume::changed(data);
    if let Ok(volume) = Ubifs::mount(Box::new(lebs.clone())) {
        let report = volume.check().unwrap();
        assert!(data.len() >= 5 || report.findings.is_empty(), "the base is sound");
    }
    let mut sink = Sink(LebBytes { bytes: Vec::new(), leb_size: lebs.leb_size });
    let Ok(Repaired { leb_count, .. }) = repair(Arc::new(lebs), &mut sink) else { return };
    sink.0.bytes.resize(leb_count as usize * sink.0.leb_size as usize, 0xFF);
    let report = Ubifs::mount(Box::new(sink.0)).unwrap().check().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
});
