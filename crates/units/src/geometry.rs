//! The geometry of a flash device.

use std::fmt;

use crate::PageAddress;

/// The kind of flash, as far as the rules for writing differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FlashKind {
    /// Pages with OOB, programmed once (or a few times in parts) between erases.
    #[default]
    Nand,
    /// Bytes whose bits may be cleared at any time; "page" is the largest single program, commonly
    /// the whole block.
    Nor,
}

/// The geometry of a flash device. All sizes are in bytes; [`FlashGeometry::check`] has the ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlashGeometry {
    /// NAND or NOR.
    pub kind: FlashKind,
    /// Data bytes per page (NAND: 512 to 65,536). NOR: the largest single program.
    pub page_size: u32,
    /// OOB bytes per page; 0 if there are none.
    pub oob_size: u32,
    /// The smallest unit of a program, and its alignment: the page, a subpage, or 1 for NOR.
    pub write_unit: u32,
    /// Pages per block.
    pub pages_per_block: u32,
    /// Blocks of the whole device, including bad ones.
    pub blocks: u32,
    /// Planes per die; block b lies on plane `b % (planes * dies) % planes`.
    pub planes: u32,
    /// Dies of all channels together; consecutive groups of `planes` blocks lie on consecutive
    /// dies.
    pub dies: u32,
    /// Number of channels; die d is on channel `d % channels`.
    pub channels: u32,
}

/// The error for an impossible geometry: the field, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeometryError {
    /// The field's name.
    pub field: &'static str,
    /// The given value.
    pub value: u64,
    /// What was expected.
    pub expected: &'static str,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "impossible geometry: {} is {}, expected {}", self.field, self.value, self.expected)
    }
}

impl std::error::Error for GeometryError {}

impl FlashGeometry {
    /// A NAND geometry on one plane, die and channel whose write unit is the page.
    pub const fn nand(page_size: u32, oob_size: u32, pages_per_block: u32, blocks: u32) -> Self {
        Self {
            kind: FlashKind::Nand,
            page_size,
            oob_size,
            write_unit: page_size,
            pages_per_block,
            blocks,
            planes: 1,
            dies: 1,
            channels: 1,
        }
    }

    /// Bytes of data in a block.
    #[inline]
    pub const fn block_size(&self) -> u64 {
        self.page_size as u64 * self.pages_per_block as u64
    }

    /// Bytes of data in the whole device.
    #[inline]
    pub const fn capacity(&self) -> u64 {
        self.block_size() * self.blocks as u64
    }

    /// Pages of the whole device.
    #[inline]
    pub const fn pages(&self) -> u64 {
        self.pages_per_block as u64 * self.blocks as u64
    }

    /// Whether the address names a page of the device.
    #[inline]
    pub const fn contains(&self, at: PageAddress) -> bool {
        at.block.0 < self.blocks && at.page < self.pages_per_block
    }

    /// The die that a block lies on.
    #[inline]
    pub const fn die_of(&self, block: crate::BlockIndex) -> u32 {
        block.0 / self.planes % self.dies
    }

    /// The plane within its die that a block lies on.
    #[inline]
    pub const fn plane_of(&self, block: crate::BlockIndex) -> u32 {
        block.0 % self.planes
    }

    /// The channel of a die.
    #[inline]
    pub const fn channel_of(&self, die: u32) -> u32 {
        die % self.channels
    }

    /// Checks every field's range, and that the fields fit together. All users of a geometry may
    /// rely on a checked one.
    pub fn check(&self) -> Result<(), GeometryError> {
        let error = |field, value: u32, expected| Err(GeometryError { field, value: u64::from(value), expected });
        if self.kind == FlashKind::Nand && !(512..=65_536).contains(&self.page_size) {
            return error("page_size", self.page_size, "512 to 65536 bytes for NAND");
        }
        if !self.page_size.is_power_of_two() || self.page_size > 1 << 28 {
            return error("page_size", self.page_size, "a power of two up to 2^28");
        }
        if self.oob_size > self.page_size {
            return error("oob_size", self.oob_size, "at most page_size");
        }
        if self.write_unit == 0 || !self.page_size.is_multiple_of(self.write_unit) {
            return error("write_unit", self.write_unit, "a divisor of page_size");
        }
        if self.pages_per_block == 0 || self.pages_per_block > 65_536 {
            return error("pages_per_block", self.pages_per_block, "1 to 65536");
        }
        if self.blocks == 0 {
            return error("blocks", self.blocks, "at least 1");
        }
        if self.planes == 0 || self.planes > 64 {
            return error("planes", self.planes, "1 to 64");
        }
        if self.dies == 0 || self.dies > 4096 {
            return error("dies", self.dies, "1 to 4096");
        }
        if self.channels == 0 || self.channels > self.dies {
            return error("channels", self.channels, "1 to the number of dies");
        }
        if !self.blocks.is_multiple_of(self.planes * self.dies) {
            return error("blocks", self.blocks, "a multiple of planes * dies");
        }
        if self.block_size().checked_mul(u64::from(self.blocks)).is_none_or(|capacity| capacity > 1 << 50) {
            return error("blocks", self.blocks, "a capacity of at most 2^50 bytes (1 PiB)");
        }
        Ok(())
    }
}

impl Default for FlashGeometry {
    /// 32 MiB: 2 KiB pages with 64 bytes OOB, 128 KiB blocks.
    fn default() -> Self {
        Self::nand(2048, 64, 64, 256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_add_up() {
        let geometry = FlashGeometry::default();
        geometry.check().unwrap();
        assert_eq!(geometry.block_size(), 128 << 10);
        assert_eq!(geometry.capacity(), 32 << 20);
    }

    #[test]
    fn impossible_geometries_are_refused_by_field() {
        let good = FlashGeometry::default();
        let cases = [
            (FlashGeometry { page_size: 0, ..good }, "page_size"),
            (FlashGeometry { page_size: 2112, write_unit: 2112, ..good }, "page_size"),
            (FlashGeometry { oob_size: 4096, ..good }, "oob_size"),
            (FlashGeometry { write_unit: 300, ..good }, "write_unit"),
            (FlashGeometry { pages_per_block: 0, ..good }, "pages_per_block"),
            (FlashGeometry { blocks: 0, ..good }, "blocks"),
            (FlashGeometry { planes: 3, ..good }, "blocks"),
            (FlashGeometry { dies: 0, ..good }, "dies"),
            (FlashGeometry { channels: 2, ..good }, "channels"),
            (
                FlashGeometry {
                    page_size: 65_536,
                    write_unit: 65_536,
                    pages_per_block: 65_536,
                    blocks: u32::MAX,
                    ..good
                },
                "blocks",
            ),
        ];
        for (geometry, field) in cases {
            assert_eq!(geometry.check().unwrap_err().field, field, "{geometry:?}");
        }
    }
}
