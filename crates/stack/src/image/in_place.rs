//! Images that are changed where they are, or beside them in an overlay: the file always holds what a power cut could leave.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nandkit_fat::{Fat, MountOptions};
use nandkit_flash_image::{DumpFlash, DumpOptions, Image, ImageError, text};
use nandkit_jffs2::Jffs2;
use nandkit_units::Clock;
use nandkit_vfs::check::Finding;
use nandkit_vfs::{Changes, FileSystem};

use super::change::{compression, mount_jffs2, refuse_compression, refuse_unproven};
use super::open::{Selected, choose};
use super::{ChangeOptions, is_chip};
use crate::format::f2fs::write as f2fs_write;
use crate::format::fat::repairs;
use crate::format::jffs2::bad_blocks;
use crate::format::recognise::Format;
use crate::format::sectors::DumpSectors;
use crate::format::{BEGINNING, OpenOptions, jffs2, sparse, wrong};
use crate::{MountedFileSystem, StackError, chip_file};

/// More bytes of changes are not held between two syncs: a node more or less on the flash is what a power cut leaves, too.
const HELD_MAX: u64 = 64 << 20;

/// An image with its file system mounted for changes in the file itself, which is locked. Changes stay in memory up to [`Changes::sync`], which brings them to the file through a
/// journal: whatever happens to this process or to the host, the image is as it was after one of the syncs.
pub struct ImageInPlace {
    volume: Volume,
    /// The clock from which time stamps come.
    pub clock: Clock,
    /// The format: `fat`.
    pub format: &'static str,
    /// What people should know besides: a sentence each.
    pub notes: Vec<String>,
    /// Blocks that are marked bad and hold nodes; what the mount has to take away so that a volume is whole.
    bad: Vec<Finding>,
    /// Set until the first change is asked for: repairs of the mount do not reach the file before.
    held: Arc<AtomicBool>,
}

/// The formats that can be changed.
enum Volume {
    F2fs(Box<f2fs_write::Changing>),
    Fat(Box<Fat<DumpSectors>>),
    Jffs2(Box<Jffs2<DumpFlash>>),
}

impl ImageInPlace {
    /// Opens and locks an image. Errors: those of [`super::open`]; a file that another process has open; what is no plain file, or lies where no journal can be made; a form of file that cannot be changed.
    pub fn open(path: &Path, options: &OpenOptions, how: &ChangeOptions) -> Result<Self, StackError> {
        let compression = compression(how)?;
        if is_chip(path, options)? {
            return Err(wrong(
                path,
                "the file holds a chip, which runs change; expected an image of JFFS2, FAT or F2FS",
            ));
        }
        if chip_file::beginning(path, BEGINNING)?.is_empty() {
            return Err(wrong(path, "the file is empty; expected an image"));
        }
        let failed = |error: ImageError| wrong(path, error);
        let overlay = options.overlay.clone();
        let in_place = overlay.is_none();
        let resident_max = options.resident_max;
        let how_opened = DumpOptions { overlay, resident_max, ..DumpOptions::read_write() };
        let image = Image::open(path, &how_opened);
        let image = image.map_err(failed)?;
        if in_place {
            image.check_journal().map_err(failed)?;
        }
        sparse::refuse_changes(path, &image)?;
        if text::is_text_dump(image.bytes()) {
            return Err(wrong(path, "this is a text dump of nanddump's, which is only read; expected a dump in bytes"));
        }
        let Selected { found, mut notes, .. } = choose(path, &image, options)?;
        refuse_unproven(options, &found).map_err(|what| wrong(path, what))?;
        refuse_compression(how, &found).map_err(|what| wrong(path, what))?;
        let mut bad = Vec::new();
        if found.format == Format::F2fs {
            bad = f2fs_write::damage(&image, &found.layout).map_err(|error| wrong(path, error))?;
        }
        let device = DumpFlash::new(image, found.layout.clone()).map_err(failed)?;
        if found.format == Format::Jffs2 {
            bad = bad_blocks::findings(&device);
            bad.retain(|finding| !finding.is_harmless());
        }
        let clock = Clock::starting_at(u64::try_from(how.now.0).unwrap_or(0));
        let mut held = Arc::default();
        let volume = match found.format {
            Format::F2fs => {
                let mut sectors = DumpSectors::new(device);
                held = sectors.hold();
                let (volume, told) =
                    f2fs_write::mount(sectors, clock.clone(), options).map_err(|error| wrong(path, error))?;
                notes.extend(told);
                Volume::F2fs(volume)
            }
            Format::Fat => {
                // A sync is all or nothing, whatever was written before it: the order inside it needs no barriers.
                let mount = MountOptions { barriers: false, ..MountOptions::default() };
                let mut sectors = DumpSectors::new(device);
                bad.extend(repairs::shared(&mut sectors, &clock));
                held = sectors.hold();
                let fat = Fat::mount(sectors, clock.clone(), mount);
                let fat = fat.map_err(|error| wrong(path, error))?;
                if let Some(report) = fat.recovery() {
                    notes.push(repairs::told(report));
                    bad.extend(repairs::losses(report));
                }
                Volume::Fat(Box::new(fat))
            }
            Format::Jffs2 => {
                let volume =
                    mount_jffs2(device.with_commit_limit(HELD_MAX), &found, options, compression, clock.clone());
                Volume::Jffs2(Box::new(volume.map_err(|error| wrong(path, error))?))
            }
        };
        Ok(Self { volume, clock, format: found.format.name(), notes, bad, held })
    }

    /// The file system.
    pub fn fs(&self) -> &dyn FileSystem {
        match &self.volume {
            Volume::F2fs(volume) => &**volume,
            Volume::Fat(volume) => &**volume,
            Volume::Jffs2(volume) => &**volume,
        }
    }

    /// The file system's writing side.
    pub fn changes(&mut self) -> &mut dyn Changes {
        self.held.store(false, Ordering::Release);
        match &mut self.volume {
            Volume::F2fs(volume) => &mut **volume,
            Volume::Fat(volume) => &mut **volume,
            Volume::Jffs2(volume) => &mut **volume,
        }
    }

    /// What mounting and reading found damaged until now, without what is harmless.
    pub fn damage(&self) -> Vec<Finding> {
        let mut damage = self.bad.clone();
        if let Volume::Jffs2(volume) = &self.volume {
            let findings = jffs2::damage(volume).into_iter().map(|(_, finding)| finding);
            damage.extend(findings.filter(|finding| !finding.is_harmless()));
        }
        damage
    }

    /// Makes everything durable, and leaves the volume as one that needs no repair. Errors: `NoSpace`, `Device`.
    pub fn close(&mut self) -> nandkit_vfs::Result<()> {
        if self.held.load(Ordering::Acquire) {
            return Ok(());
        }
        match &mut self.volume {
            Volume::F2fs(volume) => MountedFileSystem::unmount(&mut **volume),
            Volume::Fat(volume) => MountedFileSystem::unmount(&mut **volume),
            Volume::Jffs2(volume) => MountedFileSystem::unmount(&mut **volume),
        }
    }
}
