//! Changes of JFFS2 volumes in images.

use std::sync::{Arc, PoisonError, RwLock};

use nandkit_codec::compression::Compression;
use nandkit_flash::Flash;
use nandkit_flash_image::{DumpFlash, Image};
use nandkit_jffs2::layout::ByteOrder as Order;
use nandkit_jffs2::medium::Cleanmarker;
use nandkit_jffs2::probe::WriterHabits;
use nandkit_jffs2::write::{CompressionMode, WriteOptions};
use nandkit_jffs2::{Jffs2, MountOptions};
use nandkit_units::FlashKind;
use nandkit_vfs::check::Finding;
use nandkit_vfs::{Changes, ErrorKind, FileSystem, FsError, InodeNumber, Result};

use super::dump_handle::DumpHandle;
use super::{Jffs2Format, bad_blocks, cleanmarker_on_nand, refuse_mixed, refuse_old_magic};
use crate::format::detected::DetectedFormat;
use crate::format::{ByteOrder, ChangeFormat, Changing, ChangingVolume, FormatError, OpenVolume, OpenedForChanges};
use crate::{MountedFileSystem, suggest};

/// Largest amount of changes held between two syncs, in bytes. Writing some earlier is safe: a
/// power cut may also leave any number of nodes.
const HELD_MAX: u64 = 64 << 20;

/// The compressions of new data, by name.
const COMPRESSIONS: [(&str, CompressionMode); 6] = [
    ("none", CompressionMode::None),
    ("zlib", CompressionMode::Only(Compression::Zlib)),
    ("lzo", CompressionMode::Only(Compression::Lzo)),
    ("rtime", CompressionMode::Only(Compression::Rtime)),
    ("priority", CompressionMode::Priority),
    ("size", CompressionMode::Size),
];

fn compression(name: &str) -> std::result::Result<CompressionMode, FormatError> {
    let found = COMPRESSIONS.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode);
    found.ok_or_else(|| {
        let known: Vec<&str> = COMPRESSIONS.iter().map(|(known, _)| *known).collect();
        FormatError::option("compression", suggest::unknown("compression", name, &known))
    })
}

impl ChangeFormat for Jffs2Format {
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
        let compression = compression(how.compression.unwrap_or("zlib"))?;
        let (device, bad) = bad_blocks::weighed(DumpFlash::new(image, found.layout.clone())?);
        let mut bad = bad_blocks::findings(bad);
        bad.retain(|finding| !finding.is_harmless());
        let device = if how.in_place { device.with_commit_limit(HELD_MAX) } else { device };
        let volume = mount(device, found, how, compression)?;
        Ok(OpenedForChanges { volume: Box::new(volume), notes: Vec::new(), bad, held: Arc::default() })
    }
}

/// A volume, and the dump that it works on, which is returned at the end.
struct OnDump {
    volume: Jffs2<Box<dyn Flash>>,
    dump: Arc<RwLock<DumpFlash>>,
}

impl OpenVolume for OnDump {
    fn fs(&self) -> &dyn FileSystem {
        &self.volume
    }

    fn damage(&self) -> Vec<(Option<InodeNumber>, Finding)> {
        OpenVolume::damage(&self.volume)
    }
}

impl ChangingVolume for OnDump {
    fn changes(&mut self) -> &mut dyn Changes {
        &mut self.volume
    }

    fn count_free(&mut self) {
        // Unreadable data count as used; who reads them gets the error.
        let _ = self.volume.account();
    }

    fn unmount(&mut self) -> Result<()> {
        MountedFileSystem::unmount(&mut self.volume)
    }

    fn finish(mut self: Box<Self>) -> Result<DumpFlash> {
        self.volume.sync(None)?;
        let Self { volume, dump } = *self;
        drop(volume);
        let dump = Arc::into_inner(dump).map(|dump| dump.into_inner().unwrap_or_else(PoisonError::into_inner));
        dump.ok_or_else(|| FsError::new(ErrorKind::Device, "the volume is still in use"))
    }
}

/// Mounts for changes in the style of the image's writer: with cleanmarkers and summaries if the
/// image has them.
fn mount(
    device: DumpFlash,
    found: &DetectedFormat,
    how: &Changing<'_>,
    compression: CompressionMode,
) -> std::result::Result<OnDump, FormatError> {
    let options = how.options;
    if options.byte_order.is_none() {
        refuse_mixed(&device)?;
    }
    refuse_old_magic(&device)?;
    let order = match options.byte_order.or(found.detection.byte_order) {
        Some(ByteOrder::Big) => Order::Big,
        _ => Order::Little,
    };
    let habits = WriterHabits::of(&device, order);
    // A dump without OOB and pages may come from NAND, which has no cleanmarkers in its blocks.
    let cleanmarker = match (device.geometry().kind, habits.cleanmarkers) {
        (FlashKind::Nand, _) => cleanmarker_on_nand(&device),
        (FlashKind::Nor, true) => Some(Cleanmarker::Inline),
        (FlashKind::Nor, false) => Some(Cleanmarker::None),
    };
    // No power cut can tear a page here, so that writing continues in the open block and small
    // changes take little space.
    let write = WriteOptions { compression, summaries: habits.summaries, reopen: true, ..WriteOptions::default() };
    let mount = MountOptions {
        order: Some(order),
        use_summaries: !options.no_summaries,
        cleanmarker,
        parallel: true,
        write,
        ..MountOptions::default()
    };
    let dump = Arc::new(RwLock::new(device));
    let handle: Box<dyn Flash> = Box::new(DumpHandle::new(Arc::clone(&dump)));
    let volume = Jffs2::mount(handle, how.clock.clone(), mount)?;
    volume.witness_contradictions()?;
    Ok(OnDump { volume, dump })
}
