//! F2FS on a block device: made on a new one, mounted where it is there already.

use std::sync::Arc;

use nandkit_block::BlockDevice;
use nandkit_block::wrap::StatsDevice;
use nandkit_cleaning::victim::VictimPolicy;
use nandkit_f2fs::F2fs;
use nandkit_f2fs::clean::VictimSearch;
use nandkit_f2fs::clean::linux::LinuxSearch;
use nandkit_f2fs::clean::policy::{PolicySearch, SearchByKind};
use nandkit_f2fs::device::Atomicity;
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::pages::PageLimits;
use nandkit_f2fs::segments::classes::ActiveLogs;
use nandkit_f2fs::write::{Volume, WriteOptions};
use nandkit_units::{Clock, Context, Lba, ReadInto};
use nandkit_vfs::FsError;

use crate::device_handle::DeviceHandle;
use crate::frame::Frame;
use crate::in_directory::for_next_run;
use crate::mounted::MountedFileSystem;
use crate::{F2fsModeName, F2fsSpec, HostSpec, StackError};

/// Bytes of a block, and of a page in memory.
const BLOCK_BYTES: u32 = 4096;

fn wrong(error: FsError) -> StackError {
    StackError::new("stack.fs", error.to_string())
}

/// Mounts F2FS. A further run on a volume works in a directory of its own, since workloads expect an empty one. On a device from a file it is made only where no superblock of anybody's
/// would stand: what is there and is no F2FS may be somebody's data.
pub(crate) fn mount_f2fs(
    device: DeviceHandle,
    spec: &F2fsSpec,
    seed: u64,
    frame: &mut Frame,
) -> Result<Box<dyn MountedFileSystem>, StackError> {
    let at_root = frame.expected.is_some();
    let Frame { clock, watched, keeping, .. } = &mut *frame;
    let mut device = StatsDevice::new(device);
    watched.block = Some(Arc::clone(device.counters()));
    let is_there = keeping.is_some() && !is_blank(&device, clock)?;
    frame.expect(is_there)?;
    if !is_there {
        let options = mkfs_options(spec)?;
        let tree = EmptyTree::new(&options);
        let mkfs = Mkfs::new(&tree, options).map_err(wrong)?;
        mkfs.write(&mut device, &frame.clock, &|_| {}).map_err(wrong)?;
    }
    let mut mounted =
        Volume::mount(vec![device], frame.clock.clone(), write_options(spec, frame.host.as_ref())).map_err(wrong)?;
    let policies = spec.policies().map_err(|detail| StackError::new("stack.fs", detail))?;
    if policies != [None; 2] {
        let [foreground, background] = policies.map(|policy| search(&mounted, policy, seed));
        mounted.set_search(Box::new(SearchByKind { foreground, background }));
    }
    frame.watched.layers.push(("fs".to_string(), mounted.statistics()));
    if is_there && !at_root { for_next_run(mounted).map_err(wrong) } else { Ok(Box::new(mounted)) }
}

/// The search by a policy; without one Linux's.
fn search<D: BlockDevice>(mounted: &Volume<D>, policy: Option<VictimPolicy>, seed: u64) -> Box<dyn VictimSearch> {
    match policy {
        None => Box::new(LinuxSearch::new(mounted.segments(), mounted.elapsed_seconds())),
        Some(policy) => Box::new(PolicySearch::new(policy, seed)),
    }
}

/// Whether the first blocks, where superblocks are, were never written.
fn is_blank<D: BlockDevice>(device: &D, clock: &Clock) -> Result<bool, StackError> {
    let sector_size = device.geometry().sector_size;
    let mut sectors = vec![0; (8192_u32.next_multiple_of(sector_size)) as usize];
    let done = device
        .read(&Context::at(clock.now()), Lba(0), ReadInto::Bytes(&mut sectors))
        .map_err(|error| StackError::new("stack.fs", format!("cannot read the first sectors: {error}")))?;
    clock.advance_to(done.completed);
    Ok(sectors.iter().all(|byte| *byte == 0))
}

fn mkfs_options(spec: &F2fsSpec) -> Result<MkfsOptions, StackError> {
    Ok(MkfsOptions {
        features: features_named(&spec.features).map_err(wrong)?,
        segments_per_section: spec.segments_per_section,
        overprovision_percent: (spec.overprovision > 0.0).then_some(spec.overprovision),
        ..MkfsOptions::default()
    })
}

fn write_options(spec: &F2fsSpec, host: Option<&HostSpec>) -> WriteOptions {
    let pages = match host {
        None => PageLimits { dirty: spec.dirty_pages as usize, clean: spec.clean_pages as usize },
        Some(host) => PageLimits {
            dirty: HostSpec::units(host.dirty, BLOCK_BYTES),
            clean: HostSpec::units(host.cache, BLOCK_BYTES),
        },
    };
    WriteOptions {
        lfs: spec.mode == F2fsModeName::Lfs,
        logs: ActiveLogs::of(spec.active_logs).unwrap_or_default(),
        ipu_policy: u32::try_from(spec.ipu_policy).ok(),
        discard: spec.discard,
        strict_fsync: spec.strict_fsync,
        pages,
        // Sectors may be smaller than blocks, on small pages: a note says so.
        atomicity: Atomicity::Told,
        ..WriteOptions::default()
    }
}

impl<D: BlockDevice> MountedFileSystem for Volume<D> {
    /// A roll-forward loses nothing that was synced.
    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        self.finish()
    }
}

impl<D: BlockDevice> MountedFileSystem for F2fs<D> {
    /// It is only read.
    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        Ok(())
    }
}
