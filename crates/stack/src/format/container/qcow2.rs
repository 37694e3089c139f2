//! qcow2 disks of QEMU.

use std::path::Path;

use nandkit_flash_image::{Image, qcow2};

use super::{Container, Inside};
use crate::StackError;
use crate::format::{OpenOptions, wrong};

/// qcow2 files.
pub(super) struct Qcow2;

impl Container for Qcow2 {
    fn holds(&self, outer: &Image) -> bool {
        qcow2::is_qcow2(outer.bytes())
    }

    fn only_read(&self, path: &Path) -> String {
        let shown = path.display();
        format!(
            "this is a qcow2 disk, which can only be read; expected a raw image, which `qemu-img convert -O raw {shown} IMAGE` writes"
        )
    }

    fn unwrap(&self, path: &Path, outer: &Image, options: &OpenOptions) -> Result<Option<Inside>, StackError> {
        let (image, report) = outer.unpack_qcow2(options.resident_max).map_err(|error| wrong(path, error))?;
        let mut notes = vec![format!("a qcow2 disk of {} bytes", report.bytes)];
        if report.snapshots > 0 {
            notes.push(format!("it holds {} snapshots; the current state of the disk is shown", report.snapshots));
        }
        Ok(Some((image, notes)))
    }
}
