//! How an image is opened.

use std::path::PathBuf;

use nandkit_block::Access;

/// Options for [`Image::open`](crate::Image::open).
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// For reading (several readers may have it open; no permission to write is needed), or for
    /// changes (nobody else may have it open).
    pub access: Access,
    /// Reads the files into memory instead of mapping them: for files that other programs may
    /// change or shorten meanwhile.
    pub copy: bool,
    /// The file with the OOB, for [`OobPlacement::Separate`](crate::OobPlacement::Separate).
    pub oob_file: Option<PathBuf>,
    /// A file that takes the changes, and is made where it is not there; the image itself is only
    /// read. It holds those of earlier times, which are laid over the image. Not with `oob_file`.
    pub overlay: Option<PathBuf>,
    /// So many bytes of a mapped file stay in this process's memory at the most; without it, and
    /// where a journal or an overlay is laid over the file, as many as were read. Costs a little
    /// time for what is read again.
    pub resident_max: Option<u64>,
}

impl DumpOptions {
    /// For reading, mapped.
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
