//! Changes of files of UBIFS volumes in images.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nandkit_codec::compression::Compression;
use nandkit_flash_image::{DumpFlash, Image};
use nandkit_ubifs::{Lebs, Ubifs, WriteOptions};
use nandkit_units::Clock;
use nandkit_vfs::check::Finding;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, FsError, InodeNumber, Result};

use super::build::COMPRESSIONS;
use super::lebs::DumpLebs;
use super::{UbifsFormat, notes};
use crate::format::detected::DetectedFormat;
use crate::format::held_dump::HeldDump;
use crate::format::{ChangeFormat, Changing, ChangingVolume, FormatError, OpenVolume, OpenedForChanges};
use crate::suggest;

/// The compression of new data by its name; `None` for the volume's own.
pub(in crate::format) fn compression(name: Option<&str>) -> std::result::Result<Option<Compression>, FormatError> {
    let Some(name) = name else { return Ok(None) };
    let found = COMPRESSIONS.iter().find(|(known, _)| *known == name).map(|(_, compression)| Some(*compression));
    found.ok_or_else(|| {
        FormatError::option("compression", suggest::unknown("compression", name, &COMPRESSIONS.map(|(known, _)| known)))
    })
}

impl ChangeFormat for UbifsFormat {
    fn compresses(&self) -> bool {
        true
    }

    fn fills_up(&self) -> bool {
        true
    }

    fn open(
        &self,
        image: Image,
        found: &DetectedFormat,
        how: &Changing<'_>,
    ) -> std::result::Result<OpenedForChanges, FormatError> {
        let compression = compression(how.compression)?;
        let mut layout = found.layout.clone();
        // Of a size that is no whole number of LEBs, the rest cannot be written.
        layout.size = layout.size.map(|size| size - size % layout.stored_block().max(1));
        let held = Arc::new(AtomicBool::new(how.in_place));
        let dump = HeldDump::new(DumpFlash::new(image, layout)?, &held, how.in_place);
        let opened = changing(Box::new(DumpLebs::new(dump)), dump_of, compression, &how.clock)?;
        Ok(OpenedForChanges { held, ..opened })
    }
}

/// Ends the changes of LEBs and returns the dump of which they are made; `None` if they are others.
pub(in crate::format) type IntoDump = fn(Box<dyn Lebs>) -> Option<Result<DumpFlash>>;

fn dump_of(lebs: Box<dyn Lebs>) -> Option<Result<DumpFlash>> {
    lebs.downcast().map(|lebs: Box<DumpLebs>| Ok(lebs.into_dump()))
}

/// A volume that is changed.
struct ChangingUbifs {
    volume: Ubifs,
    into_dump: IntoDump,
}

/// Mounts a volume for changes. A damaged one is mounted for reading, so that its damage is told:
/// it refuses changes.
pub(in crate::format) fn changing(
    lebs: Box<dyn Lebs>,
    into_dump: IntoDump,
    compression: Option<Compression>,
    clock: &Clock,
) -> Result<OpenedForChanges> {
    let seen = Ubifs::mount(lebs)?;
    let mut notes = notes(&seen);
    let facts = seen.facts();
    if facts.is_dirty {
        let what = "the volume was not unmounted: what was written since its last commit is recovered";
        notes.push(format!("{what} ({} nodes)", facts.replayed));
    }
    let is_sound = seen.damage().iter().all(Finding::is_harmless);
    let volume = match is_sound {
        true => {
            let options = WriteOptions { compression, ..WriteOptions::default() };
            Ubifs::mount_for_writing(seen.into_lebs(), clock.clone(), options)?
        }
        false => seen,
    };
    let volume = Box::new(ChangingUbifs { volume, into_dump });
    Ok(OpenedForChanges { volume, notes, bad: Vec::new(), held: Arc::default() })
}

impl OpenVolume for ChangingUbifs {
    fn fs(&self) -> &dyn FileSystem {
        &self.volume
    }

    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        OpenVolume::damage(&self.volume)
    }
}

impl ChangingVolume for ChangingUbifs {
    fn changes(&mut self) -> &mut dyn Changes {
        &mut self.volume
    }

    fn unmount(&mut self) -> Result<()> {
        self.volume.unmount()
    }

    fn finish(mut self: Box<Self>) -> Result<DumpFlash> {
        self.volume.unmount()?;
        let Self { volume, into_dump } = *self;
        let others = || FsError::new(ErrorKind::Device, "the volume stands on LEBs of no dump");
        into_dump(volume.into_lebs()).ok_or_else(others)?
    }
}
