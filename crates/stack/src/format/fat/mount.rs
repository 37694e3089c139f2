//! FAT on an emulated block device: made on a new device, mounted on one with a volume.

use nandkit_block::BlockDevice;
use nandkit_fat::{self as fat, Alignment, Cache, Fat, FatKind, FileSync, FormatOptions, MountOptions, WriteBack};
use nandkit_units::Nanos;

use super::spec::{AlignmentName, FatSpec, FatTypeName, WriteBackName};
use crate::format::Format;
use crate::format::emulate::{FormatSpec, WatchedBlocks, wrong};
use crate::frame::Frame;
use crate::mounted::MountedFileSystem;
use crate::{HostSpec, StackError};

impl FormatSpec for FatSpec {
    fn format(&self) -> &'static dyn Format {
        &super::FORMAT
    }

    fn title(&self) -> String {
        FatSpec::title(self)
    }

    fn mount_on_blocks(
        &self,
        mut device: WatchedBlocks,
        _seed: u64,
        frame: &mut Frame,
    ) -> Result<Box<dyn MountedFileSystem>, StackError> {
        let sector_size = device.geometry().sector_size;
        let is_there = frame.finds_volume(&device, sector_size)?;
        if !is_there {
            let options = format_options(self);
            if self.formatted_before {
                let whole = FormatOptions { write_padding: true, ..options.clone() };
                fat::format(&mut device, &frame.clock, &whole).map_err(wrong)?;
            }
            fat::format(&mut device, &frame.clock, &options).map_err(wrong)?;
        }
        let cache = match &frame.host {
            None => fat_cache(self),
            Some(host) => host_cache(host, sector_size),
        };
        let file_sync = if frame.host.is_some() { FileSync::OwnData } else { FileSync::Everything };
        let options = MountOptions { cache, barriers: self.barriers, file_sync, ..MountOptions::default() };
        let mounted = Fat::mount(device, frame.clock.clone(), options).map_err(wrong)?;
        if is_there {
            check_same(&mounted, self)?;
        }
        frame.top(mounted, is_there)
    }
}

/// Refuses a volume that differs from the requested one.
fn check_same<D: BlockDevice>(mounted: &Fat<D>, spec: &FatSpec) -> Result<(), StackError> {
    let geometry = mounted.geometry();
    if let Some(kind) = kind_of(spec.fat_type).filter(|kind| *kind != geometry.kind) {
        let detail =
            format!("the volume on the device is {}, but the spec asks for {}", geometry.kind.name(), kind.name());
        return Err(StackError::new("stack.fs.fat_type", detail));
    }
    if spec.cluster_size > 0 && spec.cluster_size != geometry.cluster_size() {
        let (found, asked) = (geometry.cluster_size(), spec.cluster_size);
        let detail = format!("the volume on the device has clusters of {found} bytes, but the spec asks for {asked}");
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

pub(super) fn format_options(spec: &FatSpec) -> FormatOptions {
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
        write_padding: spec.write_padding,
        ..FormatOptions::default()
    }
}

/// The host's cache in sectors. The driver handles the periodic sync.
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
    /// Removed entries may belong to an unfinished rename; shortened files are losses.
    fn losses(&self) -> Vec<String> {
        let shortened = self.recovery().map_or(0, |report| report.shortened);
        let told = || format!("{shortened} files had fewer clusters than their size needs, and were shortened");
        (shortened > 0).then(told).into_iter().collect()
    }

    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        Fat::unmount(self)
    }
}
