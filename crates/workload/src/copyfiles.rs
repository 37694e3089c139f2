//! `copyfiles`: files copied one after the other (P3, section 5: sequential copies of 1 MB files).
//!
//! The originals are the fill. A copy reads its original in pieces and writes each; its content is
//! not the original's but a record for each write, so that a lost or exchanged write shows.

use crate::embedded::fits;
use crate::error::{Result, SpecError};
use crate::operation::FileSlot;
use crate::parameters::parameters;
use crate::script::{Script, check_length};
use crate::streams::{StreamFiles, Streams};

parameters! {
    /// Parameters of `copyfiles`. Size: P3's; all else is an assumption.
    pub struct CopyFiles as "copyfiles" {
        /// Bytes of each file.
        size: u64 = 1 << 20, 1..=1 << 30;
        /// Number of originals, which are copied in turn.
        count: u64 = 16, 1..=1_000_000;
        /// Total bytes of all copies, rounded up to whole files.
        bytes: u64 = 64 << 20, 1..=1 << 44;
        /// Number of copies that are kept: the oldest is removed before the next is made; 0: all.
        keep: u64 = 0, 0..=1_000_000;
        /// Bytes of each read and write; the default is what cp of GNU coreutils 8 asks for at
        /// once.
        piece: u64 = 128 << 10, 512..=16 << 20;
        /// Whether each copy is made durable at its end.
        sync: bool = false, ();
    }
}

/// Largest number of copies: each has a number and a name.
const COPIES_MAX: u64 = 100_000_000;

impl CopyFiles {
    fn copies(&self) -> u64 {
        self.bytes.div_ceil(self.size.max(1))
    }

    /// The largest number of copies at one time.
    fn kept(&self) -> u64 {
        if self.keep == 0 { self.copies() } else { self.keep.min(self.copies()) }
    }

    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        if self.copies() > COPIES_MAX {
            let detail = format!("bytes / size are {} copies; expected at most {COPIES_MAX}", self.copies());
            return Err(SpecError::Conflict { workload: "copyfiles", detail });
        }
        check_length("copyfiles", self.size / self.piece.max(1) * 2)
    }

    pub(crate) fn files(&self, seed: u64, free_bytes: u64) -> Result<StreamFiles<Copies>> {
        self.check()?;
        let needed = self.size.saturating_mul(self.count + self.kept());
        fits("copyfiles", needed, free_bytes, "use smaller bytes, a smaller count, or keep")?;
        Ok(StreamFiles::new(Copies { spec: self.clone(), done: 0 }, 1, seed))
    }
}

/// The one stream that copies.
#[derive(Debug)]
pub(crate) struct Copies {
    spec: CopyFiles,
    done: u64,
}

impl Streams for Copies {
    fn fill(&mut self, step: u64, script: &mut Script) -> bool {
        if step == self.spec.count {
            script.sync(None);
            return false;
        }
        let slot = FileSlot(step as u32 + 1);
        script.create(slot, FileSlot::ROOT, format!("file{step:05}.dat"));
        script.write_in_pieces(slot, 0, self.spec.size, self.spec.piece);
        true
    }

    fn turn(&mut self, _: usize, script: &mut Script) -> bool {
        let Self { spec, done } = self;
        if *done == spec.copies() {
            return false;
        }
        let (from, kept) = (FileSlot((*done % spec.count) as u32 + 1), spec.kept().max(1));
        let to = FileSlot((spec.count + *done % kept) as u32 + 1);
        if *done >= kept {
            script.remove(to);
        }
        script.open(from);
        script.create(to, FileSlot::ROOT, format!("copy{done:05}.dat"));
        let mut offset = 0;
        while offset < spec.size {
            let length = spec.piece.min(spec.size - offset);
            script.read(from, offset, length);
            script.write(to, offset, length);
            offset += length;
        }
        if spec.sync {
            script.sync(Some(to));
        }
        *done += 1;
        true
    }

    fn end(&mut self, script: &mut Script) {
        script.sync(None);
    }
}
