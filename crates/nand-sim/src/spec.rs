//! The spec of a chip: geometry, rules, times, endurance, faults, and the source of each figure.
//!
//! Specs are read from TOML. Every key is optional; the defaults make a fast, faultless 32 MiB
//! chip. The `[sources]` table names the source of each figure (`"timing.read_ns"`) or of a whole
//! section (`"timing"`), or says that it is an assumption.

use std::collections::BTreeMap;

use nandkit_units::{FlashGeometry, FlashKind};
use serde::{Deserialize, Serialize};

/// A NAND chip, or an array of equal dies that act as one device; or a NOR chip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChipSpec {
    /// Short name, as used for presets.
    pub name: String,
    /// A one-line title for people.
    pub title: String,
    /// Sizes and counts.
    pub geometry: GeometrySpec,
    /// What the chip allows.
    pub rules: RuleSpec,
    /// Duration of each operation.
    pub timing: TimingSpec,
    /// What only a NOR part has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nor: Option<NorSpec>,
    /// How often a block may be erased.
    pub endurance: EnduranceSpec,
    /// The strength of the chip's or controller's ECC.
    pub ecc: EccSpec,
    /// Blocks that are bad from the factory.
    pub bad_blocks: BadBlockSpec,
    /// Failing programs and erases, which make blocks grow bad.
    pub failures: FailureSpec,
    /// Bit errors from wear, retention and read disturb.
    pub bit_errors: BitErrorSpec,
    /// The source of each figure, keyed by figure (`"timing.read_ns"`) or by section (`"timing"`);
    /// the text starts with the word `assumption` if there is no source.
    pub sources: BTreeMap<String, String>,
}

/// NAND or NOR, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChipKind {
    /// Pages with OOB, programmed once or a few times between erases.
    #[default]
    Nand,
    /// Bytes whose bits may be cleared at any time: no OOB, no bad blocks, no order of pages.
    Nor,
}

impl ChipKind {
    /// Whether it is the default, which specs leave out.
    const fn is_nand(&self) -> bool {
        matches!(self, Self::Nand)
    }

    /// What the rest of nandkit calls it.
    const fn build(self) -> FlashKind {
        match self {
            Self::Nand => FlashKind::Nand,
            Self::Nor => FlashKind::Nor,
        }
    }
}

/// What only a NOR part has: times of programs by their length, and a second size of erase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NorSpec {
    /// A program of one byte. One of several bytes takes `next_byte_ns` more for each, and at most
    /// `timing.program_ns`, the time of a whole page.
    pub first_byte_ns: u64,
    /// Each further byte of a program.
    pub next_byte_ns: u64,
    /// Bytes of the part's small erase unit; 0 where it has none. The large one is the block.
    pub sector_size: u32,
    /// Erase of the small unit.
    pub sector_erase_ns: u64,
}

impl Default for NorSpec {
    fn default() -> Self {
        Self { first_byte_ns: 30_000, next_byte_ns: 2500, sector_size: 4096, sector_erase_ns: 45_000_000 }
    }
}

/// Sizes in bytes and counts; see [`FlashGeometry`] for how blocks lie on planes, dies and
/// channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GeometrySpec {
    /// NAND or NOR.
    #[serde(skip_serializing_if = "ChipKind::is_nand")]
    pub kind: ChipKind,
    /// Data bytes of a page; of NOR the largest single program.
    pub page_size: u32,
    /// OOB bytes per page.
    pub oob_size: u32,
    /// The smallest unit of a program; 0 stands for the whole page, on NOR for a byte.
    pub write_unit: u32,
    /// Pages per block.
    pub pages_per_block: u32,
    /// Blocks of the whole device.
    pub blocks: u32,
    /// Planes per die.
    pub planes: u32,
    /// Dies of the whole device.
    pub dies: u32,
    /// Channels of the whole device.
    pub channels: u32,
}

impl Default for GeometrySpec {
    fn default() -> Self {
        let geometry = FlashGeometry::default();
        Self {
            kind: ChipKind::Nand,
            page_size: geometry.page_size,
            oob_size: geometry.oob_size,
            write_unit: 0,
            pages_per_block: geometry.pages_per_block,
            blocks: geometry.blocks,
            planes: geometry.planes,
            dies: geometry.dies,
            channels: geometry.channels,
        }
    }
}

impl GeometrySpec {
    /// The geometry in the form used by the rest of nandkit.
    pub const fn build(&self) -> FlashGeometry {
        FlashGeometry {
            kind: self.kind.build(),
            page_size: self.page_size,
            oob_size: self.oob_size,
            write_unit: match (self.write_unit, self.kind) {
                (0, ChipKind::Nand) => self.page_size,
                (0, ChipKind::Nor) => 1,
                (unit, _) => unit,
            },
            pages_per_block: self.pages_per_block,
            blocks: self.blocks,
            planes: self.planes,
            dies: self.dies,
            channels: self.channels,
        }
    }
}

/// The order in which the pages of a block must be programmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageOrder {
    /// Any order (old SLC parts).
    Any,
    /// Each page after those already programmed; pages may be skipped.
    Ascending,
    /// Each page directly after the previous one (MLC, TLC).
    #[default]
    Consecutive,
}

/// The reach of the chip's copyback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CopybackReach {
    /// There is no copyback.
    None,
    /// Within one plane of one die: the page register belongs to the plane.
    #[default]
    Plane,
    /// Within one die.
    Die,
    /// Anywhere in the device, for devices whose controller copies.
    Device,
}

/// The multi-plane commands of a die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaneRule {
    /// There are no multi-plane commands.
    #[default]
    None,
    /// Pages of one number in all planes.
    SamePage,
    /// Any page of each plane.
    AnyPage,
}

/// What the chip allows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSpec {
    /// The required order of programs in a block.
    pub order: PageOrder,
    /// Most programs of one page between two erases, to disjoint parts of it (NOP in data sheets):
    /// 1 to 255.
    pub partial_programs: u32,
    /// The reach of copyback.
    pub copyback: CopybackReach,
    /// Whether copyback corrects the data (ECC on the die). Otherwise bit errors are carried over.
    pub copyback_corrects: bool,
    /// The chip's multi-plane commands; no layer uses them, and the emulated chip offers none.
    pub multi_plane: PlaneRule,
}

impl Default for RuleSpec {
    fn default() -> Self {
        Self {
            order: PageOrder::default(),
            partial_programs: 1,
            copyback: CopybackReach::default(),
            copyback_corrects: false,
            multi_plane: PlaneRule::default(),
        }
    }
}

/// One time for all pages, or one for each page type (lower, middle, upper): page p has type `p %
/// types`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a whole number of nanoseconds, or a list of them by page type")]
pub enum PageTimes {
    /// One time for all pages.
    All(u64),
    /// A time for each page type.
    ByType(Vec<u64>),
}

impl PageTimes {
    /// The times as a list; empty only if the spec's list is empty.
    pub fn as_slice(&self) -> &[u64] {
        match self {
            Self::All(time) => std::slice::from_ref(time),
            Self::ByType(times) => times,
        }
    }
}

/// Which of its pending operations a die starts next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DieOrder {
    /// In request order, even if an earlier request can only start later. The same for channels.
    /// Fastest to simulate.
    #[default]
    Asked,
    /// Reads in the order of their times; programs and erases in request order. Transfers take the
    /// first gap on their channel.
    ByTime,
    /// Reads with a waiting requester go before programs and erases that have not started, and
    /// before cleaning's reads.
    ReadsFirst,
}

impl DieOrder {
    /// Whether it is the default, which specs omit: it is no figure of a chip, but the detail in
    /// which its controller is simulated.
    const fn is_asked(&self) -> bool {
        matches!(self, Self::Asked)
    }
}

/// Times as in data sheets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimingSpec {
    /// Reading the array into the page register (tR).
    pub read_ns: PageTimes,
    /// Programming the page register into the array (tPROG).
    pub program_ns: PageTimes,
    /// Block erase (tBERS).
    pub erase_ns: u64,
    /// A whole copyback; 0 means the sum of read and program.
    pub copy_ns: u64,
    /// Bus transfer time per byte, in picoseconds; 0 if the other figures include it.
    pub bus_ps_per_byte: u64,
    /// Time that every operation first occupies the die: command and address cycles, firmware.
    pub command_ns: u64,
    /// Whether dies and channels work in parallel; otherwise the device does one thing at a time.
    pub overlap: bool,
    /// Which of its pending operations a die starts next.
    #[serde(skip_serializing_if = "DieOrder::is_asked")]
    pub order: DieOrder,
    /// Time in nanoseconds that an erase takes to release its die for a read, after which it
    /// continues. Needs `order = "reads-first"`. Without it erases are not interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erase_suspend_ns: Option<u64>,
    /// Time in nanoseconds that a program takes to release its die for a read, as for erases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_suspend_ns: Option<u64>,
}

impl Default for TimingSpec {
    fn default() -> Self {
        Self {
            read_ns: PageTimes::All(25_000),
            program_ns: PageTimes::All(200_000),
            erase_ns: 1_500_000,
            copy_ns: 0,
            bus_ps_per_byte: 25_000,
            command_ns: 0,
            overlap: true,
            order: DieOrder::default(),
            erase_suspend_ns: None,
            program_suspend_ns: None,
        }
    }
}

/// The rated endurance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnduranceSpec {
    /// Rated program/erase cycles.
    pub cycles: u32,
}

impl Default for EnduranceSpec {
    fn default() -> Self {
        Self { cycles: 100_000 }
    }
}

/// The ECC that protects a page; the OOB bytes are divided evenly among the code words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EccSpec {
    /// Data bytes per code word; 0 without ECC, when damaged bytes are delivered unnoticed.
    pub code_word_bytes: u32,
    /// Correctable bit errors per code word.
    pub correctable_bits: u32,
}

impl Default for EccSpec {
    fn default() -> Self {
        Self { code_word_bytes: 512, correctable_bits: 1 }
    }
}

/// Which pages of a bad block carry its mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkerPages {
    /// The first page.
    First,
    /// The first or the second page, depending on the seed: drivers must check both.
    #[default]
    FirstOrSecond,
    /// The last page.
    Last,
    /// The first page and the last.
    FirstAndLast,
}

/// Blocks that are bad from the factory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BadBlockSpec {
    /// Whether there are any; the seed determines which.
    pub enabled: bool,
    /// The manufacturer's limit. The actual number is drawn by the seed from 0 to this.
    pub factory_max: u32,
    /// Number of blocks, from block 0 on, that are good at delivery.
    pub good_at_start: u32,
    /// Which pages carry the mark.
    pub marker: MarkerPages,
    /// Offset of the mark in the OOB: 0, or 5 on parts with 512-byte pages.
    pub marker_offset: u32,
}

impl Default for BadBlockSpec {
    fn default() -> Self {
        Self { enabled: false, factory_max: 0, good_at_start: 1, marker: MarkerPages::default(), marker_offset: 0 }
    }
}

/// Programs and erases that fail. After one failure, every later program and erase of the block
/// fails.
///
/// After `n` erases of `cycles` rated ones an erase fails with probability
/// `erase_probability + wear_probability * exp(wear_growth * (n / cycles - 1))`; some program of
/// that erase cycle fails with `program_probability` per page and the same wear term per block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FailureSpec {
    /// Whether random failures are simulated.
    pub enabled: bool,
    /// Probability per program, at any age. A block sees one failure: after it all its programs
    /// fail.
    pub program_probability: f64,
    /// Probability per erase, at any age.
    pub erase_probability: f64,
    /// Probability per erase cycle at exactly the rated number of cycles.
    pub wear_probability: f64,
    /// Growth of that probability: factor e per `cycles / wear_growth` further erases.
    pub wear_growth: f64,
}

impl Default for FailureSpec {
    fn default() -> Self {
        Self {
            enabled: false,
            program_probability: 0.0,
            erase_probability: 0.0,
            wear_probability: 1e-6,
            wear_growth: 8.0,
        }
    }
}

/// The raw bit error rate of a page.
///
/// ```text
/// base + wear * N^wear_exponent
///      + retention * N^retention_wear_exponent * days^retention_exponent
///      + disturb * N^disturb_exponent * reads
/// ```
///
/// `N` is the number of erases of the block, at least 1. `days` counts from the block's first
/// program after its erase, `reads` are the reads of the block since then. The form is that of Kim,
/// Choi and Min (FAST 2019) with a linear read term (Cai et al., DSN 2015).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BitErrorSpec {
    /// Whether bit errors are simulated.
    pub enabled: bool,
    /// Base rate at any age.
    pub base: f64,
    /// Factor of the wear term.
    pub wear: f64,
    /// Exponent of the erases in the wear term.
    pub wear_exponent: f64,
    /// Factor of the retention term.
    pub retention: f64,
    /// Exponent of the erases in the retention term.
    pub retention_wear_exponent: f64,
    /// Exponent of the days in the retention term.
    pub retention_exponent: f64,
    /// Factor of the read-disturb term.
    pub disturb: f64,
    /// Exponent of the erases in the read-disturb term.
    pub disturb_exponent: f64,
    /// How equal the code words are: the rate of each is scaled by a gamma variable with mean 1 and
    /// this shape (larger means more equal); 0 makes all equal. Errors per frame are
    /// over-dispersed: Taranalli et al. 2016.
    pub shape: u32,
}

impl Default for BitErrorSpec {
    fn default() -> Self {
        Self {
            enabled: false,
            base: 1e-8,
            wear: 2e-13,
            wear_exponent: 1.5,
            retention: 3e-10,
            retention_wear_exponent: 0.7,
            retention_exponent: 0.5,
            disturb: 1e-14,
            disturb_exponent: 0.3,
            shape: 5,
        }
    }
}
