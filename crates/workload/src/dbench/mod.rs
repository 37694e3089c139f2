//! `dbench`: clients that do what a load file of dbench says (A. Tridgell's dbench 4,
//! `client.txt`).
//!
//! Each client goes through the load file in a directory of its own: `client1` in a path becomes
//! `client2` and so on, as dbench has it. The load file is read as a whole and tried once with one
//! client before anything runs. Its operations become those of a file system as follows:
//!
//! | load file | what the file system is asked |
//! | --- | --- |
//! | NTCreateX | open; with dispositions 0, 2, 3, 5 create where it is missing; with 0, 4, 5 truncate |
//! | ReadX, WriteX, Flush, Rename, Unlink, Mkdir, Rmdir | the same (Flush: sync of the file) |
//! | Deltree | remove, of everything beneath |
//! | QUERY_PATH_INFORMATION, FIND_FIRST | the path, or that of the directory, is looked up |
//! | what must fail | the path is looked up as far as it leads |
//! | Close, QUERY_FILE_, QUERY_FS_, SET_FILE_INFORMATION, LockX, UnlockX, Sleep | nothing |
//!
//! The instants at the beginning of lines are not waited for. Where no file is given, a generator
//! draws sessions with the proportions of the shipped file.

mod client;
mod generator;
mod grammar;
mod names;

use client::{Clients, Trial};
use grammar::Load;

use crate::embedded::fits;
use crate::error::{Result, SpecError};
use crate::inputs::Inputs;
use crate::parameters::parameters;
use crate::streams::StreamFiles;

/// What `load` is where the operations are generated.
pub const GENERATED: &str = "none";

/// Operations of a generated load where the spec says nothing.
const GENERATED_OPERATIONS: u64 = 10_000;

parameters! {
    /// Parameters of `dbench`. Clients: P3's.
    pub struct Dbench as "dbench" {
        /// A load file of dbench, for example /usr/share/dbench/client.txt of Debian; none:
        /// generated operations with its proportions.
        load: String = GENERATED.to_string(), "a path, or none";
        /// Clients, each in a directory of its own.
        clients: u64 = 8, 1..=1024;
        /// Operations of each client at most; 0: the load file to its end, or 10000 generated ones.
        operations: u64 = 0, 0..=1 << 32;
        /// How often each client goes through the load file.
        loops: u64 = 1, 1..=1 << 20;
        /// Generated: bytes of the files of 1 MiB that each client has at first (the shipped file
        /// makes 20).
        data: u64 = 20 << 20, 1 << 20..=1 << 40;
    }
}

impl Dbench {
    /// The load file, where there is one.
    pub(crate) fn file(&self) -> Option<&str> {
        (self.load != GENERATED).then_some(self.load.as_str())
    }

    pub(crate) fn check(&self) -> std::result::Result<(), SpecError> {
        if self.file().is_none() && self.operations > grammar::OPERATIONS_MAX {
            let (found, most) = (self.operations, grammar::OPERATIONS_MAX);
            let detail = format!("operations is {found}; expected at most {most} generated ones, and loops for more");
            return Err(SpecError::Conflict { workload: "dbench", detail });
        }
        Ok(())
    }

    pub(crate) fn files(&self, seed: u64, free_bytes: u64, inputs: &dyn Inputs) -> Result<StreamFiles<Clients>> {
        self.check()?;
        let load = match self.file() {
            Some(path) => Load::read(path, inputs)?,
            None => {
                let operations = if self.operations == 0 { GENERATED_OPERATIONS } else { self.operations };
                generator::generate(seed, operations, self.data)
            }
        };
        let most = Trial::new(&load, seed).run(self.file().unwrap_or("the generated load"), self.operations, inputs)?;
        let needed = most.saturating_mul(self.clients);
        fits("dbench", needed, free_bytes, "use fewer clients, or fewer operations")?;
        Ok(StreamFiles::new(Clients::new(load, self, seed), self.clients, seed))
    }
}
