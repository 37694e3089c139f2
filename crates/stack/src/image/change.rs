//! Images that are changed: in a copy in memory, which is brought to its place by whoever opened it, or into an overlay, or where the image is large into the file.

use std::path::{Path, PathBuf};

use nandkit_codec::compression::Compression;
use nandkit_fat::Fat;
use nandkit_flash::Flash;
use nandkit_flash_image::{Access, DumpFlash, DumpOptions, Image, text};
use nandkit_jffs2::layout::ByteOrder as Order;
use nandkit_jffs2::medium::Cleanmarker;
use nandkit_jffs2::write::{CompressionMode, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_units::{Clock, FlashKind, format_bytes};
use nandkit_vfs::check::Finding;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, FsError, Timestamp};

use super::is_chip;
use super::open::{Selected, choose};
use crate::format::f2fs::write as f2fs_write;
use crate::format::fat::repairs;
use crate::format::jffs2::bad_blocks;
use crate::format::recognise::{Format, Found};
use crate::format::sectors::DumpSectors;
use crate::format::{BEGINNING, ByteOrder, OpenOptions, jffs2, sparse, wrong};
use crate::{MountedFileSystem, StackError, chip_file, suggest};
use nandkit_jffs2::probe::{Fit, WriterHabits};

/// How an image is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeOptions {
    /// How new data are compressed in JFFS2: `none`, `zlib`, `lzo`, `rtime`, `priority` (Linux's order) or `size` (the smallest). `None` for zlib, which every kernel with JFFS2 reads unless it was configured not to.
    pub compression: Option<String>,
    /// The present: the time of what is made or changed.
    pub now: Timestamp,
    /// Whether the file is locked and may be replaced; else the changes are only tried.
    pub for_good: bool,
}

/// An image with its file system mounted for changes. They happen to a copy; the file stays as it is, and locked.
pub struct ChangingImage {
    volume: Volume,
    file: PathBuf,
    image: Image,
    /// The format: `jffs2`, `fat`, `f2fs`.
    pub format: &'static str,
    /// What people should know besides: a sentence each.
    pub notes: Vec<String>,
    /// Blocks that are marked bad and hold nodes; what the mount had to take away so that a volume is whole.
    bad: Vec<Finding>,
    overlay: bool,
}

/// The formats that can be changed.
enum Volume {
    F2fs(Box<f2fs_write::Changing>),
    Fat(Box<Fat<DumpSectors>>),
    Jffs2(Box<Jffs2<DumpFlash>>),
}

/// A changed image. The file is locked until this is dropped.
pub struct ChangedImage {
    /// The file, whatever link led to it.
    pub file: PathBuf,
    changed: Image,
    image: Image,
    overlay: bool,
}

impl ChangedImage {
    /// All bytes; those outside the part that was opened are as they were.
    pub fn bytes(&self) -> &[u8] {
        self.changed.bytes()
    }

    /// Whether the file is to be replaced by one of [`Self::bytes`], and nothing is to be kept.
    pub fn is_replacement(&self) -> bool {
        let (bytes, before) = (self.changed.bytes().len(), self.image.bytes().len());
        !self.overlay && (bytes != before || (bytes as u64) < IN_PLACE_FROM)
    }

    /// Brings the changes to their place, all or none: into the overlay where the image was opened with one, else through a journal into the file. Errors: the overlay or the file cannot be written; nothing
    /// was changed then, or the error says what completes the change; an image that is longer than its file.
    pub fn keep(&mut self) -> Result<(), StackError> {
        let kept = match self.overlay {
            true => self.image.keep_in_overlay(&self.changed),
            false => self.image.keep_in_file(&self.changed),
        };
        kept.map_err(|error| wrong(&self.file, error))
    }
}

/// Images from this length on are changed where they are, so that the cost is that of the change and not that of a card; shorter ones, all flash of boards among them, are replaced as a whole, so that nobody
/// ever finds a change half done, whatever program it is and however this one ended.
const IN_PLACE_FROM: u64 = 256 << 20;

/// The longest flash for which an image is made longer: the 4 GiB that JFFS2 can address, with as much OOB.
const SIZE_MAX: u64 = 8 << 30;

/// Every name of a compression of new data.
const COMPRESSIONS: [(&str, CompressionMode); 6] = [
    ("none", CompressionMode::None),
    ("zlib", CompressionMode::Only(Compression::Zlib)),
    ("lzo", CompressionMode::Only(Compression::Lzo)),
    ("rtime", CompressionMode::Only(Compression::Rtime)),
    ("priority", CompressionMode::Priority),
    ("size", CompressionMode::Size),
];

pub(super) fn compression(options: &ChangeOptions) -> Result<CompressionMode, StackError> {
    let name = options.compression.as_deref().unwrap_or("zlib");
    let found = COMPRESSIONS.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode);
    found.ok_or_else(|| {
        let known: Vec<&str> = COMPRESSIONS.iter().map(|(known, _)| *known).collect();
        StackError::new("image", format!("--compress: {}", suggest::unknown("compression", name, &known)))
    })
}

/// Refuses what only volumes of JFFS2 do.
pub(super) fn refuse_compression(how: &ChangeOptions, found: &Found) -> Result<(), String> {
    match (&how.compression, found.format) {
        (None, _) | (_, Format::Jffs2) => Ok(()),
        (Some(name), other) => {
            let other = other.name();
            Err(format!("--compress {name}: data in {other} are stored as they are; expected JFFS2, or no --compress"))
        }
    }
}

impl ChangingImage {
    /// Opens and locks an image, and mounts a copy of it. Errors: those of [`super::open`]; a file that another process has open; a format or a form of file that cannot be changed.
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
        let failed = |error: nandkit_flash_image::ImageError| wrong(path, error);
        let file =
            std::fs::canonicalize(path).map_err(|error| wrong(path, format!("cannot find the file: {error}")))?;
        let access = if how.for_good { Access::ReadWrite } else { Access::ReadOnly };
        // To try something out no overlay is made.
        let overlay = options.overlay.clone().filter(|overlay| how.for_good || overlay.exists());
        let image = Image::open(&file, &DumpOptions { access, overlay, ..DumpOptions::default() }).map_err(failed)?;
        sparse::refuse_changes(path, &image)?;
        if text::is_text_dump(image.bytes()) {
            return Err(wrong(path, "this is a text dump of nanddump's, which is only read; expected a dump in bytes"));
        }
        let Selected { found, mut notes, .. } = choose(path, &image, options)?;
        refuse_unproven(options, &found).map_err(|what| wrong(path, what))?;
        refuse_compression(how, &found).map_err(|what| wrong(path, what))?;
        let mut copy = image.private_copy(&file).map_err(failed)?;
        if options.size.is_some() && options.region.is_none() && found.format == Format::Jffs2 {
            grow(&mut copy, found.layout.offset, found.layout.size.unwrap_or(0)).map_err(|what| wrong(path, what))?;
        }
        let device = DumpFlash::new(copy, found.layout.clone()).map_err(failed)?;
        let clock = Clock::starting_at(u64::try_from(how.now.0).unwrap_or(0));
        let (volume, bad) = match found.format {
            Format::F2fs => {
                let bad = f2fs_write::damage(&image, &found.layout).map_err(|error| wrong(path, error))?;
                let (volume, told) =
                    f2fs_write::mount(DumpSectors::new(device), clock, options).map_err(|error| wrong(path, error))?;
                notes.extend(told);
                (Volume::F2fs(volume), bad)
            }
            Format::Fat => {
                let mut sectors = DumpSectors::new(device);
                let mut bad = repairs::shared(&mut sectors, &clock);
                let (volume, report) = mount_fat(sectors, clock).map_err(|error| wrong(path, error))?;
                notes.extend(report.as_ref().map(repairs::told));
                bad.extend(report.as_ref().map(repairs::losses).unwrap_or_default());
                (volume, bad)
            }
            Format::Jffs2 => {
                let mut bad = bad_blocks::findings(&device);
                bad.retain(|finding| !finding.is_harmless());
                let volume = mount_jffs2(device, &found, options, compression, clock);
                (Volume::Jffs2(Box::new(volume.map_err(|error| wrong(path, error))?)), bad)
            }
        };
        Ok(Self { volume, file, image, format: found.format.name(), notes, bad, overlay: options.overlay.is_some() })
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
        match &mut self.volume {
            Volume::F2fs(volume) => &mut **volume,
            Volume::Fat(volume) => &mut **volume,
            Volume::Jffs2(volume) => &mut **volume,
        }
    }

    /// Bytes that are free, what older contents still take among them. Cost: of JFFS2 all inodes are read, once.
    pub fn free(&mut self) -> u64 {
        if let Volume::Jffs2(volume) = &mut self.volume {
            // What cannot be read counts as used, and whoever needs it is told.
            let _ = volume.account();
        }
        self.fs().volume().map_or(0, |volume| volume.blocks_free.saturating_mul(volume.block_size.into()))
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

    /// The image as it is now. Errors: `NoSpace`, `Device`.
    pub fn finish(self) -> nandkit_vfs::Result<ChangedImage> {
        let device = match self.volume {
            Volume::F2fs(mut volume) => {
                volume.finish()?;
                let device = volume.abandon().into_iter().next().map(DumpSectors::into_dump);
                device.ok_or_else(|| FsError::new(ErrorKind::Device, "the volume has no device"))?
            }
            Volume::Fat(mut volume) => {
                MountedFileSystem::unmount(&mut *volume)?;
                volume.into_device().into_dump()
            }
            Volume::Jffs2(mut volume) => {
                volume.sync(None)?;
                volume.into_flash()
            }
        };
        let changed = device.into_image();
        if changed.bytes().len() < self.image.bytes().len() {
            return Err(FsError::new(ErrorKind::Device, "the changed image is shorter than it was"));
        }
        Ok(ChangedImage { file: self.file, changed, image: self.image, overlay: self.overlay })
    }
}

/// A volume of FAT, with what its mount had to repair. The changes stay in memory, so that no order has to be kept among them.
fn mount_fat(device: DumpSectors, clock: Clock) -> Result<(Volume, Option<nandkit_fat::RecoveryReport>), String> {
    let options = nandkit_fat::MountOptions { barriers: false, ..nandkit_fat::MountOptions::default() };
    let fat = Fat::mount(device, clock, options).map_err(|error| error.to_string())?;
    let report = fat.recovery().cloned();
    Ok((Volume::Fat(Box::new(fat)), report))
}

/// Refuses an image that does not tell its erase size: by a wrong one it can be read, but what is written by it does not fit the flash.
pub(super) fn refuse_unproven(options: &OpenOptions, found: &Found) -> Result<(), String> {
    if options.erase_size.is_some() || found.fit == Fit::Proven {
        return Ok(());
    }
    let sizes: Vec<String> = found.detection.erase_sizes.iter().map(|size| format_bytes((*size).into())).collect();
    Err(format!(
        "nothing in the image proves its erase size: blocks of {} fit. What is written by a wrong one does not fit the flash, so nothing was changed; expected --erase-size",
        sizes.join(", ")
    ))
}

/// Makes an image as long as the flash that it is a part of, by erased bytes.
fn grow(image: &mut Image, offset: u64, size: u64) -> Result<(), String> {
    if size > SIZE_MAX {
        return Err(format!("--size: {size} bytes with their OOB; expected at most {SIZE_MAX}"));
    }
    image.lengthen(offset.saturating_add(size));
    Ok(())
}

/// Mounts for changes that leave an image as its writer would: cleanmarkers and summaries where there were some.
pub(super) fn mount_jffs2(
    device: DumpFlash,
    found: &Found,
    options: &OpenOptions,
    compression: CompressionMode,
    clock: Clock,
) -> Result<Jffs2<DumpFlash>, String> {
    if options.byte_order.is_none() {
        jffs2::refuse_mixed(&device)?;
    }
    let order = match options.byte_order.or(found.detection.byte_order) {
        Some(ByteOrder::Big) => Order::Big,
        _ => Order::Little,
    };
    let habits = WriterHabits::of(&device, order);
    // A dump without OOB and pages may be one of NAND as well, which has no cleanmarkers in its blocks.
    let cleanmarker = match (device.geometry().kind, habits.cleanmarkers) {
        (FlashKind::Nand, _) => None,
        (FlashKind::Nor, true) => Some(Cleanmarker::Inline),
        (FlashKind::Nor, false) => Some(Cleanmarker::None),
    };
    // No power fails in the middle of a page here: the open block is gone on with, so that small changes take little room.
    let write = WriteOptions { compression, summaries: habits.summaries, reopen: true, ..WriteOptions::default() };
    let mount = MountOptions {
        order: Some(order),
        use_summaries: !options.no_summaries,
        cleanmarker,
        parallel: true,
        write,
        ..MountOptions::default()
    };
    let volume = Jffs2::mount(device, clock, mount).map_err(|error| error.to_string())?;
    volume.witness_contradictions().map_err(|error| error.to_string())?;
    Ok(volume)
}
