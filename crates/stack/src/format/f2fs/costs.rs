//! Costs of writes, remaps and reads on a stack's device, computed from the figures of its parts.

use nandkit_block::card::{CardSpec, Pattern};
use nandkit_block::{HostLinkSpec, RemapLimits};
use nandkit_cleaning::gather::{GatherCosts, ReadCosts};
use nandkit_cleaning::partial::RequestTimes;
use nandkit_cleaning::unified::RemapCost;
use nandkit_nand_sim::ChipSpec;

use crate::{DeviceSpec, FtlSpec};

/// Blocks per segment, which is the largest request.
pub(super) const MOST: u32 = 512;
/// Bytes of a block.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// Blocks of the largest read of a program: Linux reads ahead 128 KiB (`read_ahead_kb`,
/// mm/readahead.c).
const READ_AHEAD: u32 = 32;

/// Which write times of a card to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Curve {
    /// Writes at random offsets of the whole card, with the merges they cause, as in a random-write
    /// benchmark (P1's figure 5).
    #[default]
    Spread,
    /// Writes at random offsets within an open unit.
    Unit,
    /// Times measured from the volume's own requests.
    Learned,
}

/// P1's curves of a card: reads and writes at random offsets.
pub(super) fn times_of(card: &CardSpec, curve: Curve) -> RequestTimes {
    RequestTimes::new(
        MOST,
        |blocks| card.read_time(Pattern::Random, u64::from(blocks) * BLOCK_BYTES).0,
        |blocks| {
            let bytes = u64::from(blocks) * BLOCK_BYTES;
            match curve {
                Curve::Spread | Curve::Learned => card.spread_write_time(bytes).0,
                Curve::Unit => card.write_time(Pattern::Random, bytes).0,
            }
        },
    )
}

/// The devices that can remap, as messages name them.
pub(super) const CAN_REMAP: &str =
    "the page-mapped layer with journal = true, as in p3-ssd, nvme-tlc, sata-tlc and dramless-tlc";

/// Whether the layer of a stack can remap.
pub fn remaps(device: &DeviceSpec, ftl: &FtlSpec) -> bool {
    let on_flash = matches!(device, DeviceSpec::Chip { .. } | DeviceSpec::Kept { .. });
    matches!(ftl, FtlSpec::PageMap(spec) if spec.journal) && on_flash
}

/// Whether the device has figures for request times.
pub const fn has_times(device: &DeviceSpec) -> bool {
    matches!(device, DeviceSpec::Chip { .. } | DeviceSpec::Card { .. })
}

/// The costs of a device; `limits` are the device's limits for remaps. `None` if it has no figures.
pub fn costs_of(device: &DeviceSpec, ftl: &FtlSpec, limits: Option<RemapLimits>, curve: Curve) -> Option<GatherCosts> {
    match device {
        DeviceSpec::Card { card, .. } => Some(of_card(card, curve)),
        DeviceSpec::Chip { chip, interface, .. } => {
            let buffer = if let FtlSpec::PageMap(spec) = ftl { spec.write_buffer } else { 0 };
            let parts = Parts::new(chip, interface.as_ref(), buffer);
            Some(parts.costs(limits))
        }
        DeviceSpec::Kept { .. } | DeviceSpec::Ram { .. } => None,
    }
}

/// The costs of a card, from its curves. It does not reveal where pages are stored.
pub(super) fn of_card(card: &CardSpec, curve: Curve) -> GatherCosts {
    let reads = ReadCosts { times: times_of(card, curve), page_ns: 0.0, request_ns: 0.0, request_max: READ_AHEAD };
    GatherCosts { reads, remap: None, flush_ns: 0.0 }
}

/// Figures of a chip array and its interface.
struct Parts {
    command_ns: u64,
    read_latency_ns: u64,
    write_latency_ns: u64,
    /// Transfer time of a block over the link or all channels, whichever is slower.
    transfer_ns: u64,
    read_ns: u64,
    program_ns: u64,
    blocks_per_page: u32,
    dies: u32,
    /// Blocks held in the device until they fill pages on all dies.
    buffer: u64,
}

impl Parts {
    fn new(chip: &ChipSpec, interface: Option<&HostLinkSpec>, buffer: u64) -> Self {
        let plain = HostLinkSpec::default();
        let link = interface.unwrap_or(&plain);
        let geometry = chip.geometry.build();
        let mean = |times: &[u64]| times.iter().sum::<u64>() / (times.len() as u64).max(1);
        let bus = chip.timing.bus_ps_per_byte / u64::from(geometry.channels.max(1));
        let dies = if chip.timing.overlap { geometry.dies.max(1) } else { 1 };
        Self {
            command_ns: link.command_ns,
            read_latency_ns: link.read_latency_ns,
            write_latency_ns: link.write_latency_ns,
            transfer_ns: BLOCK_BYTES * link.link_ps_per_byte.max(bus) / 1000,
            read_ns: mean(chip.timing.read_ns.as_slice()) + chip.timing.command_ns,
            program_ns: mean(chip.timing.program_ns.as_slice()) + chip.timing.command_ns,
            blocks_per_page: (geometry.page_size / BLOCK_BYTES as u32).max(1),
            dies,
            buffer: buffer / BLOCK_BYTES,
        }
    }

    /// The time of a read: it waits for its pages, those of different dies in parallel.
    fn read(&self, blocks: u32) -> u64 {
        let rounds = blocks.div_ceil(self.blocks_per_page).div_ceil(self.dies);
        let fixed = self.command_ns + self.read_latency_ns;
        fixed + u64::from(rounds) * self.read_ns + u64::from(blocks) * self.transfer_ns
    }

    /// The time of a buffered write: its share of programming pages on all dies.
    fn write(&self, blocks: u32) -> u64 {
        let fixed = self.command_ns + self.write_latency_ns + u64::from(blocks) * self.transfer_ns;
        match self.buffer > 0 {
            true => fixed + self.program_all(blocks.into()),
            false => {
                let rounds = blocks.div_ceil(self.blocks_per_page).div_ceil(self.dies);
                fixed + u64::from(rounds) * self.program_ns
            }
        }
    }

    /// The time to program `blocks` on all dies in parallel.
    fn program_all(&self, blocks: u64) -> u64 {
        let at_once = u64::from(self.blocks_per_page) * u64::from(self.dies);
        blocks * self.program_ns / at_once.max(1)
    }

    fn costs(&self, limits: Option<RemapLimits>) -> GatherCosts {
        let times = RequestTimes::new(MOST, |blocks| self.read(blocks), |blocks| self.write(blocks));
        let page_ns = self.read_ns as f64 / f64::from(self.blocks_per_page);
        let reads = ReadCosts { times, page_ns, request_ns: 0.0, request_max: READ_AHEAD };
        // A command writes a journal page; the later cost of cleaning the log is learned from the
        // commands.
        let command_ns = (self.command_ns + self.program_ns) as f64;
        let remap = limits.map(|RemapLimits { unit, pairs_max }| RemapCost {
            command_ns,
            pair_ns: 0.0,
            pairs_max,
            unit: unit / BLOCK_BYTES as u32,
        });
        // The older half of the buffer is already being written.
        let flush_ns = self.program_all(self.buffer / 2) as f64;
        GatherCosts { reads, remap: remap.filter(|remap| remap.unit > 0), flush_ns }
    }
}
