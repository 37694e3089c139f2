//! The tree of LEB properties (LPT): its geometry, and the bits of its nodes.
//!
//! Source: Linux `fs/ubifs/lpt.c`; description: `docs/formats/ubifs.md`.

use crate::layout::Master;

/// Children per node, and LEBs per leaf.
pub(crate) const FANOUT: u32 = 4;
/// Bits of the checksum in front of each node.
const CRC_BITS: u32 = 16;
/// Bits of a node's type.
const TYPE_BITS: u32 = 4;

/// Types of nodes.
pub(crate) mod node_type {
    /// Properties of four LEBs.
    pub const LEAF: u32 = 0;
    /// Places of four nodes.
    pub const INNER: u32 = 1;
    /// Free and dirty bytes of the LEBs of the tree itself.
    pub const TABLE: u32 = 2;
    /// LEBs that the next mount looks at first.
    pub const SAVED: u32 = 3;
}

/// The properties of a LEB of the main area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LebProperties {
    /// Bytes behind the last write.
    pub free: u32,
    /// Bytes that no node in use takes.
    pub dirty: u32,
    /// Whether it holds index nodes.
    pub is_index: bool,
}

/// A LEB and an offset in it.
pub(crate) type LptPlace = (u32, u32);

/// Where the parts of the tree stand. LEBs are counted from the first one of the tree, in the
/// master node from that of the volume.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LptPlaces {
    pub root: LptPlace,
    pub head: LptPlace,
    pub table: LptPlace,
    pub saved: LptPlace,
}

impl LptPlaces {
    /// The places with LEBs of the volume, if the tree begins in LEB `first`.
    pub const fn within(self, first: u32, is_big: bool) -> Self {
        const fn moved((leb, offset): LptPlace, first: u32) -> LptPlace {
            (first + leb, offset)
        }
        let Self { root, head, table, saved } = self;
        let saved = if is_big { moved(saved, first) } else { (0, 0) };
        Self { root: moved(root, first), head: moved(head, first), table: moved(table, first), saved }
    }

    /// Tells the master node.
    pub fn enter(&self, master: &mut Master) {
        (master.lpt_leb, master.lpt_offset) = (self.root.0.into(), self.root.1.into());
        (master.lpt_head_leb, master.lpt_head_offset) = (self.head.0.into(), self.head.1.into());
        (master.lpt_table_leb, master.lpt_table_offset) = (self.table.0.into(), self.table.1.into());
        (master.lpt_saved_leb, master.lpt_saved_offset) = (self.saved.0.into(), self.saved.1.into());
    }
}

/// Sizes in the tree, which follow from the volume's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LptGeometry {
    /// LEBs for the tree.
    pub lebs: u32,
    /// Whether the tree is too large to be written as a whole.
    pub is_big: bool,
    /// Levels of inner nodes.
    pub height: u32,
    /// Leaves that are written.
    pub leaves: u32,
    /// Inner nodes that are written.
    pub inner: u32,
    /// Bytes of a leaf.
    pub leaf_size: u32,
    /// Bytes of an inner node.
    pub inner_size: u32,
    /// Bytes of the table.
    pub table_size: u32,
    /// Bytes of the saved LEB numbers; 0 in a small tree.
    pub saved_size: u32,
    /// Bits of a number of bytes, in units of 8.
    pub space_bits: u32,
    /// Bits of a LEB of the tree.
    pub leb_bits: u32,
    /// Bits of an offset in it.
    pub offset_bits: u32,
    /// Bits of a number of bytes in the table.
    pub table_bits: u32,
    /// Bits of a node's number.
    pub number_bits: u32,
    /// Bits of a LEB of the volume.
    pub saved_bits: u32,
}

/// Bits of the numbers 0 to `largest`.
const fn bits_of(largest: u32) -> u32 {
    u32::BITS - largest.leading_zeros()
}

impl LptGeometry {
    /// The geometry of a tree of so many LEBs, for a volume with `main_lebs` LEBs in its main area
    /// that may grow from `leb_count` to `leb_count_max` LEBs of `leb_size` bytes.
    pub fn new(
        lebs: u32,
        is_big: bool,
        leb_size: u32,
        main_lebs: u32,
        grows: u32,
        leb_count_max: u32,
        saved: u32,
    ) -> Self {
        let leaves_max = (main_lebs + grows).div_ceil(FANOUT);
        let (mut height, mut covered) = (1, FANOUT);
        while covered < leaves_max {
            height += 1;
            covered = covered.saturating_mul(FANOUT);
        }
        let leaves = main_lebs.div_ceil(FANOUT);
        let mut level = leaves;
        let inner = (0..height).map(|_| {
            level = level.div_ceil(FANOUT);
            level
        });
        let inner = inner.sum();
        let space_bits = bits_of(leb_size) - 3;
        let (leb_bits, offset_bits, table_bits) = (bits_of(lebs), bits_of(leb_size - 1), bits_of(leb_size));
        let number_bits = bits_of(leb_count_max.div_ceil(FANOUT).saturating_sub(1));
        let saved_bits = bits_of(leb_count_max.saturating_sub(1));
        let bytes = |bits: u32| (CRC_BITS + TYPE_BITS + bits).div_ceil(8);
        let number = if is_big { number_bits } else { 0 };
        Self {
            lebs,
            is_big,
            height,
            leaves,
            inner,
            leaf_size: bytes(number + (2 * space_bits + 1) * FANOUT),
            inner_size: bytes(number + (leb_bits + offset_bits) * FANOUT),
            table_size: bytes(lebs * table_bits * 2),
            saved_size: if is_big { bytes(saved_bits * saved) } else { 0 },
            space_bits,
            leb_bits,
            offset_bits,
            table_bits,
            number_bits,
            saved_bits,
        }
    }

    /// Bytes of the whole tree without what is lost at the ends of LEBs.
    pub fn bytes(&self) -> u64 {
        u64::from(self.leaves) * u64::from(self.leaf_size)
            + u64::from(self.inner) * u64::from(self.inner_size)
            + u64::from(self.table_size)
            + u64::from(self.saved_size)
    }
}

impl LptGeometry {
    /// Bytes that the whole tree takes on flash: with what is lost at the ends of LEBs, and the
    /// padding to a unit of output (Linux `lpt.c`, `do_calc_lpt_geom`).
    pub fn written_bytes(&self, leb_size: u32, unit: u32) -> u64 {
        let lost = u64::from(self.leaf_size.max(self.inner_size).max(self.table_size).max(self.saved_size));
        let room = u64::from(leb_size).saturating_sub(lost).max(1);
        (self.bytes() + self.bytes().div_ceil(room) * lost).next_multiple_of(u64::from(unit.max(1)))
    }
}

/// Bits, the lowest of each byte first.
#[derive(Debug, Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn push(&mut self, value: u32, bits: u32) {
        for bit in 0..bits {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= ((value >> bit & 1) as u8) << (self.used % 8);
            }
            self.used += 1;
        }
    }
}

/// Takes bits out again.
struct BitReader<'a> {
    bytes: &'a [u8],
    used: u32,
}

impl BitReader<'_> {
    /// The next bits; zeroes behind the end.
    fn take(&mut self, bits: u32) -> u32 {
        (0..bits).fold(0, |value, bit| {
            let byte = self.bytes.get(self.used as usize / 8).copied().unwrap_or(0);
            let taken = u32::from(byte >> (self.used % 8) & 1);
            self.used += 1;
            value | taken << bit
        })
    }
}

/// CRC-16 of the polynomial 0x8005, reflected, from 0xFFFF (Linux `lib/crc16.c`).
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xFFFF, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xA001 } else { crc >> 1 })
    })
}

/// A node: its type, its number in a big tree, and values with their bits.
fn node(node_type: u32, number: Option<(u32, u32)>, values: impl Iterator<Item = (u32, u32)>, size: u32) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.push(0, CRC_BITS);
    bits.push(node_type, TYPE_BITS);
    number.into_iter().chain(values).for_each(|(value, count)| bits.push(value, count));
    let mut bytes = bits.bytes;
    bytes.resize(size as usize, 0);
    let sum = checksum(bytes.get(2..).unwrap_or_default()).to_le_bytes();
    bytes.iter_mut().zip(sum).for_each(|(to, from)| *to = from);
    bytes
}

impl LptGeometry {
    fn number(&self, number: u32) -> Option<(u32, u32)> {
        self.is_big.then_some((number, self.number_bits))
    }

    /// The leaf of this number with the properties of up to four LEBs; those that are missing are
    /// empty.
    pub fn leaf(&self, number: u32, lebs: &[LebProperties], leb_size: u32) -> Vec<u8> {
        let empty = LebProperties { free: leb_size, dirty: 0, is_index: false };
        let all = lebs.iter().copied().chain(std::iter::repeat(empty)).take(FANOUT as usize);
        let values = all.flat_map(|of| {
            [(of.free >> 3, self.space_bits), (of.dirty >> 3, self.space_bits), (u32::from(of.is_index), 1)]
        });
        node(node_type::LEAF, self.number(number), values, self.leaf_size)
    }

    /// The inner node of this number: LEB (counted from the first one of the tree) and offset of up
    /// to four children; those that are missing are not written, so that all is empty below them.
    pub fn inner(&self, number: u32, children: &[(u32, u32)]) -> Vec<u8> {
        let all = children.iter().copied().chain(std::iter::repeat((self.lebs, 0))).take(FANOUT as usize);
        let values = all.flat_map(|(leb, offset)| [(leb, self.leb_bits), (offset, self.offset_bits)]);
        node(node_type::INNER, self.number(number), values, self.inner_size)
    }

    /// The table with free and dirty bytes of each LEB of the tree.
    pub fn table(&self, lebs: &[(u32, u32)]) -> Vec<u8> {
        let values = lebs.iter().flat_map(|(free, dirty)| [(*free, self.table_bits), (*dirty, self.table_bits)]);
        node(node_type::TABLE, None, values, self.table_size)
    }

    /// The saved LEB numbers.
    pub fn saved(&self, lebs: impl Iterator<Item = u32>) -> Vec<u8> {
        node(node_type::SAVED, None, lebs.map(|leb| (leb, self.saved_bits)), self.saved_size)
    }

    /// The values of a node; `None` if the bytes are no node of this type and number.
    fn values<'a>(&self, bytes: &'a [u8], node_type: u32, number: u32) -> Option<BitReader<'a>> {
        let (sum, summed) = bytes.split_first_chunk()?;
        let mut values = BitReader { bytes, used: CRC_BITS };
        let is_right = checksum(summed) == u16::from_le_bytes(*sum)
            && values.take(TYPE_BITS) == node_type
            && (!self.is_big || values.take(self.number_bits) == number);
        is_right.then_some(values)
    }

    /// The properties in a leaf; `None` if the bytes are not the leaf of this number.
    pub fn read_leaf(&self, bytes: &[u8], number: u32) -> Option<Vec<LebProperties>> {
        let mut values = self.values(bytes, node_type::LEAF, number)?;
        let lebs = (0..FANOUT).map(|_| LebProperties {
            free: values.take(self.space_bits) << 3,
            dirty: values.take(self.space_bits) << 3,
            is_index: values.take(1) == 1,
        });
        Some(lebs.collect())
    }

    /// The places of an inner node's children, LEBs counted from the first one of the tree; those
    /// that were never written are `None`. `None` if the bytes are not the node of this number.
    pub fn read_inner(&self, bytes: &[u8], number: u32) -> Option<Vec<Option<(u32, u32)>>> {
        let mut values = self.values(bytes, node_type::INNER, number)?;
        let child = |values: &mut BitReader<'_>| {
            let (leb, offset) = (values.take(self.leb_bits), values.take(self.offset_bits));
            (leb != self.lebs).then_some((leb, offset))
        };
        Some((0..FANOUT).map(|_| child(&mut values)).collect())
    }

    /// Free and dirty bytes of each LEB of the tree, from the table; `None` if the bytes are none.
    pub fn read_table(&self, bytes: &[u8]) -> Option<Vec<(u32, u32)>> {
        let unnumbered = Self { is_big: false, ..*self };
        let mut values = unnumbered.values(bytes, node_type::TABLE, 0)?;
        Some((0..self.lebs).map(|_| (values.take(self.table_bits), values.take(self.table_bits))).collect())
    }

    /// The number of the inner node at this place of a level; level 0 is the root.
    pub fn inner_number(level: u32, place: u32) -> u32 {
        let digits = (0..level).scan(place, |rest, _| {
            let digit = *rest % FANOUT;
            *rest /= FANOUT;
            Some(digit)
        });
        digits.fold(1, |number, digit| number << 2 | digit)
    }
}
