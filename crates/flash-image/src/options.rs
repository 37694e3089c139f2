//! Options for opening an image.

use std::path::PathBuf;

use nandkit_block::Access;

/// Options for [`Image::open`](crate::Image::open).
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// Read-only (several readers may share it; no write permission is needed), or for changes (no
    /// other process may have it open).
    pub access: Access,
    /// Reads the files into memory instead of mapping them: for files that other programs may
    /// change or shorten.
    pub copy: bool,
    /// The file with the OOB, for [`OobPlacement::Separate`](crate::OobPlacement::Separate).
    pub oob_file: Option<PathBuf>,
    /// A file that receives the changes, made if missing; the image itself is only read. Changes
    /// already in it are applied to the image. Not together with `oob_file`.
    pub overlay: Option<PathBuf>,
    /// Most bytes of a mapped file kept in this process's memory; without a limit, or with a
    /// journal or overlay applied, everything that was read. Costs a little time for repeated
    /// reads.
    pub resident_max: Option<u64>,
}

impl DumpOptions {
    /// Read-only, mapped.
    pub const fn read_only() -> Self {
        Self { access: Access::ReadOnly, copy: false, oob_file: None, overlay: None, resident_max: None }
    }

    /// For reading and writing, mapped.
    pub const fn read_write() -> Self {
        Self { access: Access::ReadWrite, copy: false, oob_file: None, overlay: None, resident_max: None }
    }
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self::read_only()
    }
}
