//! Symbolic links, devices, fifos and sockets.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use nandkit_vfs::FileKind;
use nandkit_vfs::source::SourceNode;
use rustix::fs::{FileType, Mode};

use super::Work;
use super::names::Failure;
use crate::error::escaped;
use crate::inward::leads_out;

impl Work<'_> {
    /// Makes a symbolic link with any target; the extraction never follows it.
    pub fn make_symlink(&self, parent: BorrowedFd<'_>, index: usize, node: &SourceNode) -> Result<bool, Failure> {
        if node.target.is_empty() || node.target.contains(&0) {
            let reason = format!("\"{}\" is no target of a symbolic link", escaped(&node.target));
            return Err(Failure::Refused(reason));
        }
        let levels = self.path(index).iter().filter(|byte| **byte == b'/').count();
        if self.options.inward_links_only && leads_out(&node.target, levels) {
            return Err(Failure::Refused(format!(
                "the link leads out of the target, to \"{}\"",
                escaped(&node.target)
            )));
        }
        self.target.make(parent, &node.name, "making the symbolic link", |name| {
            rustix::fs::symlinkat(OsStr::from_bytes(&node.target), parent, name)
        })?;
        self.report(|report| report.symlinks += 1);
        self.set_attributes_of_name(parent, index, node)?;
        Ok(true)
    }

    /// Makes a device, a fifo or a socket.
    pub fn make_special(&self, parent: BorrowedFd<'_>, index: usize, node: &SourceNode) -> Result<bool, Failure> {
        let doing = match node.kind {
            FileKind::BlockDevice => "making the block device",
            FileKind::CharacterDevice => "making the character device",
            FileKind::Fifo => "making the fifo",
            FileKind::Socket => "making the socket",
            FileKind::Regular | FileKind::Directory | FileKind::Symlink => return Ok(false),
        };
        let kind = FileType::from_raw_mode(node.kind.mode());
        let (major, minor) = ((node.device >> 32) as u32, node.device as u32);
        let device = rustix::fs::makedev(major, minor);
        self.target.make(parent, &node.name, doing, |name| {
            rustix::fs::mknodat(parent, name, kind, Mode::RUSR | Mode::WUSR, device)
        })?;
        self.report(|report| report.specials += 1);
        self.set_attributes_of_name(parent, index, node)?;
        Ok(true)
    }
}
