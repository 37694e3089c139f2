//! FAT on a block device: made on a new one, mounted where it is there already.

use std::sync::Arc;

use nandkit_block::BlockDevice;
use nandkit_block::wrap::StatsDevice;
use nandkit_fat::{self as fat, Alignment, Cache, Fat, FatKind, FormatOptions, MountOptions, WriteBack};
use nandkit_units::{Clock, Context, Lba, Nanos, ReadInto};
use nandkit_vfs::FsError;

use crate::device_handle::DeviceHandle;
use crate::frame::Frame;
use crate::in_directory::for_next_run;
use crate::mounted::MountedFileSystem;
use crate::{AlignmentName, FatSpec, FatTypeName, HostSpec, StackError, WriteBackName};

fn wrong(error: FsError) -> StackError {
    StackError::new("stack.fs", error.to_string())
}

/// Mounts FAT. A further run on a volume works in a directory of its own, since workloads expect an empty one. On a device from a file it is made only if the device's first sector is empty: what is there and is no FAT may be somebody's data.
pub(crate) fn mount_fat(
    device: DeviceHandle,
    spec: &FatSpec,
    frame: &mut Frame,
) -> Result<Box<dyn MountedFileSystem>, StackError> {
    let at_root = frame.expected.is_some();
    let Frame { clock, watched, keeping, .. } = &mut *frame;
    let mut device = StatsDevice::new(device);
    watched.block = Some(Arc::clone(device.counters()));
    let is_there = keeping.is_some() && !is_blank(&device, clock)?;
    frame.expect(is_there)?;
    let clock = &frame.clock;
    if !is_there {
        fat::format(&mut device, clock, &format_options(spec)).map_err(wrong)?;
    }
    let cache = match &frame.host {
        None => fat_cache(spec),
        Some(host) => host_cache(host, device.geometry().sector_size),
    };
    let options = MountOptions { cache, barriers: spec.barriers, read_only: false };
    let mounted = Fat::mount(device, clock.clone(), options).map_err(wrong)?;
    if !is_there {
        return Ok(Box::new(mounted));
    }
    check_same(&mounted, spec)?;
    if at_root {
        return Ok(Box::new(mounted));
    }
    for_next_run(mounted).map_err(wrong)
}

/// Whether the first sector was never written.
fn is_blank<D: BlockDevice>(device: &D, clock: &Clock) -> Result<bool, StackError> {
    let mut sector = vec![0; device.geometry().sector_size as usize];
    let done = device
        .read(&Context::at(clock.now()), Lba(0), ReadInto::Bytes(&mut sector))
        .map_err(|error| StackError::new("stack.fs", format!("cannot read the first sector: {error}")))?;
    clock.advance_to(done.completed);
    Ok(sector.iter().all(|byte| *byte == 0))
}

/// Refuses a volume that is another than the one asked for.
fn check_same<D: BlockDevice>(mounted: &Fat<D>, spec: &FatSpec) -> Result<(), StackError> {
    let geometry = mounted.geometry();
    if let Some(kind) = kind_of(spec.fat_type).filter(|kind| *kind != geometry.kind) {
        let detail = format!("the volume on the device is {}, asked for {}", geometry.kind.name(), kind.name());
        return Err(StackError::new("stack.fs.fat_type", detail));
    }
    if spec.cluster_size > 0 && spec.cluster_size != geometry.cluster_size() {
        let (found, asked) = (geometry.cluster_size(), spec.cluster_size);
        let detail = format!("the volume on the device has clusters of {found} bytes, asked for {asked}");
        return Err(StackError::new("stack.fs.cluster_size", detail));
    }
    Ok(())
}

const fn kind_of(name: FatTypeName) -> Option<FatKind> {
    match name {
        FatTypeName::Auto => None,
        FatTypeName::Fat12 => Some(FatKind::Fat12),
        FatTypeName::Fat16 => Some(FatKind::Fat16),
        FatTypeName::Fat32 => Some(FatKind::Fat32),
    }
}

fn format_options(spec: &FatSpec) -> FormatOptions {
    FormatOptions {
        kind: kind_of(spec.fat_type),
        cluster_size: (spec.cluster_size > 0).then_some(spec.cluster_size),
        root_entries: spec.root_entries,
        label: (!spec.label.is_empty()).then(|| spec.label.clone()),
        alignment: match spec.alignment {
            AlignmentName::None => Alignment::None,
            AlignmentName::Cluster => Alignment::Cluster,
            AlignmentName::EraseBlock => Alignment::RecyclingUnit,
        },
        ..FormatOptions::default()
    }
}

/// The host's memory in sectors. Its rule of time is the driver's.
fn host_cache(host: &HostSpec, sector_size: u32) -> Cache {
    let dirty_limit = HostSpec::units(host.dirty, sector_size);
    Cache::Sectors {
        sectors: HostSpec::units(host.cache, sector_size),
        write_back: WriteBack::Back { dirty_limit, age_limit: Nanos(u64::MAX) },
        data: true,
    }
}

fn fat_cache(spec: &FatSpec) -> Cache {
    let sectors = spec.cache_sectors as usize;
    if sectors == 0 {
        return Cache::None;
    }
    let dirty = if spec.dirty_sectors > 0 { spec.dirty_sectors } else { spec.cache_sectors / 2 };
    Cache::Sectors {
        sectors,
        write_back: match spec.write_back {
            WriteBackName::Through => WriteBack::Through,
            WriteBackName::Back => {
                WriteBack::Back { dirty_limit: dirty as usize, age_limit: Nanos::from_millis(spec.age_ms) }
            }
        },
        data: spec.cache_data,
    }
}

impl<D: BlockDevice> MountedFileSystem for Fat<D> {
    /// Entries that go may be those of a rename that was not finished; files that are shorter are none's.
    fn losses(&self) -> Vec<String> {
        let shortened = self.recovery().map_or(0, |report| report.shortened);
        let told = || format!("{shortened} files had fewer clusters than bytes, and are shorter now");
        (shortened > 0).then(told).into_iter().collect()
    }

    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        Fat::unmount(self)
    }
}
