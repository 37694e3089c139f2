//! F2FS on an emulated block device: made on a new device, mounted on one with a volume.

use nandkit_block::{BlockDevice, RemapLimits};
use nandkit_cleaning::gather::GatherCosts;
use nandkit_cleaning::search::AgedGaps;
use nandkit_cleaning::victim::VictimPolicy;
use nandkit_f2fs::F2fs;
use nandkit_f2fs::clean::VictimSearch;
use nandkit_f2fs::clean::mover::RemapMover;
use nandkit_f2fs::clean::policy::{PolicySearch, SearchByKind};
use nandkit_f2fs::clean::section_search::SectionSearch;
use nandkit_f2fs::clean::unified::{UnifiedCollection, UnifiedMover};
use nandkit_f2fs::mkfs::{EmptyTree, Mkfs, MkfsOptions, features_named};
use nandkit_f2fs::write::ActiveLogs;
use nandkit_f2fs::write::Atomicity;
use nandkit_f2fs::write::GatherOptions;
use nandkit_f2fs::write::PageLimits;
use nandkit_f2fs::write::{WritableVolume, WriteOptions};

use super::costs;
use super::costs::Curve;
use super::reuse::{BY_AGE, Reuse};
use super::spec::{F2fsModeName, F2fsSpec, MoverName, RulesName};
use crate::format::Format;
use crate::format::emulate::{FormatSpec, WatchedBlocks, wrong};
use crate::frame::Frame;
use crate::mounted::MountedFileSystem;
use crate::{DeviceSpec, FtlSpec, HostSpec, SpecError, StackError};

/// Size of a block and of a page in memory, in bytes.
const BLOCK_BYTES: u32 = 4096;
/// Bytes at the beginning of a device that hold the superblocks.
const SUPERBLOCK_BYTES: u32 = 8192;

impl FormatSpec for F2fsSpec {
    fn format(&self) -> &'static dyn Format {
        &super::FORMAT
    }

    fn title(&self) -> String {
        F2fsSpec::title(self)
    }

    fn check_device(&self, device: &DeviceSpec, ftl: &FtlSpec) -> Result<(), StackError> {
        let own = match device {
            DeviceSpec::Card { card, .. } => Some(&**card),
            _ => None,
        };
        let reuse = Reuse::parse(&self.reuse).map_err(|detail| StackError::new("stack.fs", detail))?;
        if self.mover != MoverName::Copy && !costs::remaps(device, ftl) {
            let detail = format!(
                "mover is {}, and the device of this stack cannot remap; expected {}, or mover = \"copy\"",
                self.mover.name(),
                costs::CAN_REMAP
            );
            return Err(StackError::new("stack.fs", SpecError::conflict(detail)));
        }
        if self.gather > 0 && !costs::has_times(device) {
            let detail = "gather needs the request times of the device, and this device has none; expected a drive or a card, or gather = 0";
            return Err(StackError::new("stack.fs", SpecError::conflict(detail)));
        }
        reuse.costs(&self.reuse_curve, (device, ftl), None)?;
        reuse.card(&self.reuse_curve, own).map(drop)
    }

    fn mount_on_blocks(
        &self,
        mut device: WatchedBlocks,
        seed: u64,
        frame: &mut Frame,
    ) -> Result<Box<dyn MountedFileSystem>, StackError> {
        let is_there = frame.finds_volume(&device, SUPERBLOCK_BYTES)?;
        if !is_there {
            let options = mkfs_options(self)?;
            let tree = EmptyTree::new(&options);
            let mkfs = Mkfs::new(&tree, options).map_err(wrong)?;
            mkfs.write(&mut device, &frame.clock, &|_| {}).map_err(wrong)?;
        }
        let reuse = Reuse::parse(&self.reuse).map_err(|detail| StackError::new("stack.fs", detail))?;
        let options = write_options(self, &reuse, frame.host.as_ref());
        let limits = device.remap().map(|remap| remap.limits());
        let mut mounted = WritableVolume::mount(vec![device], frame.clock.clone(), options).map_err(wrong)?;
        let mut policies = self.policies().map_err(|detail| StackError::new("stack.fs", detail))?;
        if reuse.way.goes_by_age && policies[1].is_none() {
            policies[1] = BY_AGE.parse().ok();
        }
        if policies != [None; 2] {
            let [foreground, background] = policies.map(|policy| search(&mounted, policy, seed));
            mounted.set_search(Box::new(SearchByKind { foreground, background }));
        }
        if let Some(review) = reuse.review(&self.reuse_curve, frame)? {
            frame.watch("reuse", review.statistics());
            mounted.set_review(Box::new(review));
        }
        self.set_cleaners(&mut mounted, &reuse, limits, frame)?;
        frame.watch("fs", mounted.statistics());
        frame.top(mounted, is_there)
    }
}

impl F2fsSpec {
    /// Configures how blocks move, and what is gathered.
    fn set_cleaners<D: BlockDevice>(
        &self,
        mounted: &mut WritableVolume<D>,
        reuse: &Reuse,
        limits: Option<RemapLimits>,
        frame: &mut Frame,
    ) -> Result<(), StackError> {
        let (device, ftl) = &frame.parts;
        let request_ns = frame.host.map_or(0, |host| host.request_ns);
        let with_host = |costs: GatherCosts| costs.with_host(request_ns);
        let gather = costs::costs_of(device, ftl, limits, Curve::default()).filter(|_| self.gather > 0).map(with_host);
        let unified = reuse.costs(&self.reuse_curve, (device, ftl), limits)?.map(with_host);
        match self.mover {
            MoverName::Copy => {}
            MoverName::Remap => mounted.set_mover(Box::new(RemapMover::as_they_lie())),
            MoverName::RemapSorted => mounted.set_mover(Box::new(RemapMover::sorted())),
        }
        if let Some(costs) = unified {
            let review = UnifiedCollection::new(costs.clone(), reuse.segments);
            frame.watch("unified", review.statistics());
            mounted.set_review(Box::new(review));
            mounted.set_mover(Box::new(UnifiedMover::new(costs)));
        }
        mounted.set_gather(gather.map(|costs| GatherOptions { costs, budget: self.gather }));
        Ok(())
    }
}

/// The victim search of a policy; Linux's search for `None`.
fn search<D: BlockDevice>(
    mounted: &WritableVolume<D>,
    policy: Option<VictimPolicy>,
    seed: u64,
) -> Box<dyn VictimSearch> {
    match policy {
        None => Box::new(SectionSearch::new(mounted.segments(), mounted.elapsed_seconds())),
        Some(policy) => Box::new(PolicySearch::new(policy, seed)),
    }
}

fn mkfs_options(spec: &F2fsSpec) -> Result<MkfsOptions, StackError> {
    Ok(MkfsOptions {
        features: features_named(&spec.features).map_err(wrong)?,
        segments_per_section: spec.segments_per_section,
        overprovision_percent: (spec.overprovision > 0.0).then_some(spec.overprovision),
        ..MkfsOptions::default()
    })
}

fn write_options(spec: &F2fsSpec, reuse: &Reuse, host: Option<&HostSpec>) -> WriteOptions {
    let pages = match host {
        None => PageLimits { dirty: spec.dirty_pages as usize, clean: spec.clean_pages as usize },
        Some(host) => PageLimits {
            dirty: HostSpec::units(host.dirty, BLOCK_BYTES),
            clean: HostSpec::units(host.cache, BLOCK_BYTES),
        },
    };
    WriteOptions {
        lfs: spec.mode == F2fsModeName::Lfs || reuse.way.never_fills,
        own_gaps: spec.rules == RulesName::Linux38,
        cold_in_place: spec.rules != RulesName::Linux38,
        plugs_holes: reuse.way.plugs_holes,
        aged_gaps: reuse.way.goes_by_age.then_some(AgedGaps::LINUX),
        logs: ActiveLogs::of(spec.active_logs).unwrap_or_default(),
        ipu_policy: u32::try_from(spec.ipu_policy).ok(),
        discard: spec.discard,
        strict_fsync: spec.strict_fsync,
        pages,
        // Sectors may be smaller than blocks on chips with small pages; a note reports it.
        atomicity: Atomicity::Told,
        ..WriteOptions::default()
    }
}

impl<D: BlockDevice> MountedFileSystem for WritableVolume<D> {
    /// Roll-forward recovery loses no synced data.
    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        self.finish()
    }
}

impl<D: BlockDevice> MountedFileSystem for F2fs<D> {
    /// Read-only volumes need no unmounting.
    fn unmount(&mut self) -> nandkit_vfs::Result<()> {
        Ok(())
    }
}
