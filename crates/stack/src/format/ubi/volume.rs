//! UBIFS in a volume of UBI: which volume is meant, and its LEBs.

use std::sync::Arc;

use nandkit_flash::Flash;
use nandkit_ubi::{Ubi, Volume};
use nandkit_ubifs::{Lebs, Ubifs, begins_with_superblock, is_superblock_damaged};
use nandkit_units::ReadInto;
use nandkit_vfs::check::Finding;
use nandkit_vfs::{ErrorKind, FileSystem as _, FsError, Result};

use crate::format::ubifs::VolumeView;
use crate::format::{FormatError, OpenOptions};

/// The device, which the volume shares with nobody else.
pub(super) type Device = Ubi<Box<dyn Flash>>;

/// The value of the option `volume` that shows all volumes as files.
const ALL: &str = "all";

/// The kind of findings about a UBIFS that cannot be mounted.
pub(super) const UNREADABLE: &str = "unreadable volume";

/// A volume of a device.
pub(super) struct VolumeLebs {
    device: Arc<Device>,
    /// Its index among the device's volumes.
    index: usize,
}

impl VolumeLebs {
    /// The volume with this index.
    pub const fn new(device: Arc<Device>, index: usize) -> Self {
        Self { device, index }
    }

    fn view(&self) -> VolumeView<'_, Box<dyn Flash>> {
        VolumeView { device: &self.device, volume: self.device.volumes().get(self.index) }
    }
}

impl Lebs for VolumeLebs {
    fn leb_size(&self) -> u32 {
        self.view().leb_size()
    }

    fn leb_count(&self) -> u32 {
        self.view().leb_count()
    }

    fn mapped(&self) -> u32 {
        self.view().mapped()
    }

    fn read(&self, leb: u32, offset: u32, into: &mut [u8]) -> Result<()> {
        self.view().read(leb, offset, into)
    }
}

/// The UBIFS volume that the options mean: the one named, or the only one; `None` for a directory
/// of all volumes. Errors: no such volume, or it holds no UBIFS.
pub(super) fn chosen<F: Flash>(
    device: &Ubi<F>,
    options: &OpenOptions,
) -> std::result::Result<Option<usize>, FormatError> {
    let holds = with_ubifs(device);
    let name_of = |index: &usize| device.volumes().get(*index).map_or("", |volume| volume.file_name.as_str());
    match options.volume.as_deref() {
        Some(ALL) => Ok(None),
        None => Ok(if let [one] = holds.as_slice() { Some(*one) } else { None }),
        Some(name) => {
            if let Some(index) = holds.iter().find(|index| name_of(index) == name) {
                return Ok(Some(*index));
            }
            let names: Vec<&str> = holds.iter().map(name_of).collect();
            let known = device.volumes().iter().any(|volume| volume.file_name == name);
            let what = if known { "holds no UBIFS" } else { "is not there" };
            let expected = match names.is_empty() {
                true => format!("`{ALL}`: no volume holds UBIFS"),
                false => format!("one of {}, or {ALL}", names.join(", ")),
            };
            Err(FormatError::option("volume", format!("the volume '{name}' {what}; expected {expected}")))
        }
    }
}

/// The volumes that hold UBIFS.
fn with_ubifs<F: Flash>(device: &Ubi<F>) -> Vec<usize> {
    (0..device.volumes().len()).filter(|index| holds_ubifs(device, *index)).collect()
}

/// The error if no volume of UBIFS is meant, whose files could be changed.
pub(super) fn none_to_change<F: Flash>(device: &Ubi<F>, options: &OpenOptions) -> FormatError {
    let names: Vec<&str> = with_ubifs(device)
        .into_iter()
        .filter_map(|index| device.volumes().get(index))
        .map(|volume| volume.file_name.as_str())
        .collect();
    let names = names.join(", ");
    match (options.volume.as_deref(), names.is_empty()) {
        (_, true) => FormatError::Unfit(
            "no volume of this UBI device holds UBIFS, whose files can be changed; expected one with it".to_owned(),
        ),
        (Some(all), false) => FormatError::option(
            "volume",
            format!("{all}: the volumes as files can only be read; expected one of those with UBIFS: {names}"),
        ),
        (None, false) => {
            FormatError::Unfit(format!("several volumes hold UBIFS; expected `volume` with one of {names}"))
        }
    }
}

/// The first bytes of a volume, if they can be read.
fn beginning<F: Flash>(device: &Ubi<F>, index: usize) -> Option<Vec<u8>> {
    let volume = device.volumes().get(index)?;
    let inode = device.lookup(device.root(), volume.file_name.as_bytes()).ok()?;
    let mut beginning = vec![0; nandkit_ubifs::PROBE_BYTES];
    device.read(inode, 0, ReadInto::Bytes(&mut beginning)).ok()?;
    Some(beginning)
}

fn holds_ubifs<F: Flash>(device: &Ubi<F>, index: usize) -> bool {
    beginning(device, index).is_some_and(|bytes| begins_with_superblock(&bytes))
}

/// The volumes that begin like UBIFS, with a damaged superblock: they are shown as files.
pub(super) fn damaged(device: &Device) -> Vec<Finding> {
    let is_damaged = |index: &usize| beginning(device, *index).is_some_and(|bytes| is_superblock_damaged(&bytes));
    let volumes = (0..device.volumes().len()).filter(is_damaged).filter_map(|index| device.volumes().get(index));
    volumes
        .map(|Volume { file_name, .. }| {
            let detail =
                format!("the volume '{file_name}' begins with a damaged superblock of UBIFS; it is shown as a file");
            Finding::new(UNREADABLE, detail).in_file(file_name.as_bytes())
        })
        .collect()
}

/// Mounts the UBIFS in a volume.
pub(super) fn mounted(device: Arc<Device>, index: usize) -> std::result::Result<Ubifs, FormatError> {
    let name = device.volumes().get(index).map_or_else(String::new, |volume| volume.file_name.clone());
    Ubifs::mount(Box::new(VolumeLebs { device, index })).map_err(|error| of(&name, error))
}

/// An error of mounting the UBIFS in the volume of this name.
pub(super) fn of(name: &str, error: FsError) -> FormatError {
    match error.kind {
        ErrorKind::Device => error.into(),
        kind => FormatError::Told { kind, detail: format!("the volume '{name}': {}", error.detail) },
    }
}

/// An error of mounting with the other way that there is.
pub(super) fn with_way_out(error: FormatError) -> FormatError {
    match error {
        FormatError::Told { kind, detail } => {
            FormatError::Told { kind, detail: format!("{detail}; `volume` with {ALL} shows it as a file") }
        }
        other => other,
    }
}

/// Says which volume is shown, and which others there are.
pub(super) fn note<F: Flash>(device: &Ubi<F>, index: usize) -> Option<String> {
    let name = &device.volumes().get(index)?.file_name;
    let others = device.volumes().iter().filter(|volume| volume.file_name != *name);
    let others: Vec<&str> = others.map(|volume| volume.file_name.as_str()).collect();
    (!others.is_empty()).then(|| {
        format!("this is the volume '{name}' of UBI; `volume` with {ALL} shows the others too: {}", others.join(", "))
    })
}
