//! `interleaved`: writers that append pieces in turn, so that fragments form, and the files read in
//! order (P3, section 5).
//!
//! The writers come strictly by turns: piece k of all of them, then piece k + 1. A log-structured
//! file system puts the pieces one behind the other in the order in which they come.

use crate::embedded::fits;
use crate::error::{Result, SpecError};
use crate::operation::FileSlot;
use crate::parameters::{choices, parameters};
use crate::script::Script;
use crate::streams::{StreamFiles, Streams};

choices! {
    /// What of it is measured.
    pub enum Measured {
        /// Writing and reading.
        Both = "both",
        /// Reading; the writing is the fill.
        Read = "read",
        /// Writing; nothing is read.
        Write = "write",
    }
}

parameters! {
    /// Parameters of `interleaved`. Piece: P3's; all else is an assumption.
    pub struct Interleaved as "interleaved" {
        /// Writers, each with a file of its own.
        writers: u64 = 4, 1..=100_000;
        /// Bytes of each file.
        size: u64 = 4 << 20, 1..=1 << 40;
        /// Bytes of each append.
        piece: u64 = 4096, 1..=16 << 20;
        /// Appends of all writers between two syncs of the volume; 0: one sync at the end of the
        /// writing.
        sync_every: u64 = 0, 0..=1 << 40;
        /// both, read (the writing is the fill), or write.
        measure: Measured = Measured::Both, ();
        /// Bytes of each read; the default is what Linux reads ahead.
        read_size: u64 = 128 << 10, 512..=16 << 20;
        /// How often all files are read, one after the other.
        reads: u64 = 1, 0..=1 << 20;
    }
}

impl Interleaved {
    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        if self.measure == Measured::Read && self.reads == 0 {
            let detail = "measure is read and reads is 0; expected reads to be 1 or more".to_string();
            return Err(SpecError::Conflict { workload: "interleaved", detail });
        }
        Ok(())
    }

    pub(crate) fn files(&self, seed: u64, free_bytes: u64) -> Result<StreamFiles<Writers>> {
        self.check()?;
        let needed = self.size.saturating_mul(self.writers);
        fits("interleaved", needed, free_bytes, "use a smaller size or fewer writers")?;
        Ok(StreamFiles::new(Writers { spec: self.clone(), written: 0, read: 0 }, 1, seed))
    }
}

/// The writers, and who reads their files.
#[derive(Debug)]
pub(crate) struct Writers {
    spec: Interleaved,
    /// Steps of the writing: creates, appends, a sync.
    written: u64,
    /// Reads done.
    read: u64,
}

impl Writers {
    /// One step of the writing; false where all is written.
    fn write(&mut self, script: &mut Script) -> bool {
        let Interleaved { writers, size, piece, sync_every, .. } = self.spec;
        let step = self.written;
        let slot = |number: u64| FileSlot((number % writers) as u32 + 1);
        let appends = size.div_ceil(piece) * writers;
        self.written += 1;
        match step.checked_sub(writers) {
            None => script.create(slot(step), FileSlot::ROOT, format!("inter{step:05}.dat")),
            Some(append) if append < appends => {
                let offset = append / writers * piece;
                script.write(slot(append), offset, piece.min(size - offset));
                if sync_every > 0 && (append + 1).is_multiple_of(sync_every) {
                    script.sync(None);
                }
            }
            Some(append) if append == appends => script.sync(None),
            Some(_) => return false,
        }
        true
    }

    fn read(&mut self, script: &mut Script) -> bool {
        let Interleaved { writers, size, read_size, reads, .. } = self.spec;
        let per_file = size.div_ceil(read_size);
        let file = self.read / per_file;
        if self.spec.measure == Measured::Write || file >= writers.saturating_mul(reads) {
            return false;
        }
        let slot = FileSlot((file % writers) as u32 + 1);
        let offset = self.read % per_file * read_size;
        if offset == 0 {
            script.open(slot);
        }
        script.read(slot, offset, read_size.min(size - offset));
        self.read += 1;
        true
    }
}

impl Streams for Writers {
    fn fill(&mut self, _: u64, script: &mut Script) -> bool {
        self.spec.measure == Measured::Read && self.write(script)
    }

    fn turn(&mut self, _: usize, script: &mut Script) -> bool {
        (self.spec.measure != Measured::Read && self.write(script)) || self.read(script)
    }
}
