//! `mtdparts=` texts, in U-Boot environments and elsewhere. Sources: Linux
//! `drivers/mtd/parsers/cmdlinepart.c` (the grammar, in its heading), U-Boot
//! `include/env_internal.h` (the environment: CRC-32, a flag byte where there are two copies, then
//! `name=value` strings, each ended by a zero byte, and one more at the end).

use nandkit_flash::Look as _;

use super::{Region, RegionSource, data_bytes, scan};
use crate::dump::DumpFlash;

/// One partition of an `mtdparts` text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MtdPartition {
    /// The flash that the text names before the colon.
    pub mtd_id: String,
    /// Offset in data bytes.
    pub offset: u64,
    /// Size in data bytes; `None` for `-`, the rest of the flash.
    pub size: Option<u64>,
    /// Its name; empty if the text has none.
    pub name: String,
    /// Whether it is marked `ro`.
    pub read_only: bool,
}

/// Longest accepted text: a kernel command line is shorter.
const TEXT_MAX: usize = 4096;
/// Most partitions: more than any flash has.
const PARTITIONS_MAX: usize = 256;
/// Most texts: more than the dump of one device has; further ones are ignored.
const TEXTS_MAX: usize = 64;

/// Parses a text `<mtd-id>:<part>[,<part>][;<mtd-id>:...]`, optionally after `mtdparts=` (once or
/// twice); each part is `<size>[@<offset>][(<name>)][ro][lk][slc]`. Sizes are numbers as in C with
/// an optional suffix K, M or G; `-` is the rest. A part without offset follows the previous one.
///
/// Ends at a blank, a zero byte or a quote. `None` if the text does not follow the grammar.
pub fn parse_mtdparts(text: &str) -> Option<Vec<MtdPartition>> {
    // In U-Boot's environment, the value of the variable `mtdparts` begins with the same word.
    let text = text.trim_start_matches("mtdparts=");
    let end = text.find(|c: char| c.is_whitespace() || matches!(c, '\0' | '"' | '\'')).unwrap_or(text.len());
    let mut found = Vec::new();
    for flash in text.get(..end)?.split(';').filter(|flash| !flash.is_empty()) {
        // An mtd-id may contain colons: the parts begin after the last colon followed by a size.
        let (mtd_id, mut rest) = split_id(flash)?;
        let mut next = 0u64;
        loop {
            let (partition, behind) = part(mtd_id, rest, next)?;
            next = partition.offset.checked_add(partition.size.unwrap_or(0))?;
            let is_rest = partition.size.is_none();
            found.push(partition);
            match behind.strip_prefix(',') {
                Some(more) if !is_rest && found.len() < PARTITIONS_MAX => rest = more,
                _ if behind.is_empty() => break,
                _ => return None,
            }
        }
    }
    (!found.is_empty()).then_some(found)
}

fn split_id(flash: &str) -> Option<(&str, &str)> {
    let named = flash.find('(').unwrap_or(flash.len());
    let colon = flash.get(..named)?.rfind(':')?;
    let (mtd_id, parts) = (flash.get(..colon)?, flash.get(colon + 1..)?);
    (!mtd_id.is_empty()).then_some((mtd_id, parts))
}

/// Parses one part; returns it with the text after it.
fn part<'a>(mtd_id: &str, text: &'a str, next: u64) -> Option<(MtdPartition, &'a str)> {
    let (size, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (None, rest),
        None => {
            let (size, rest) = number(text)?;
            (Some(size).filter(|&size| size > 0).map(Some)?, rest)
        }
    };
    let mut offset = next;
    if let Some(behind) = rest.strip_prefix('@') {
        (offset, rest) = number(behind)?;
    }
    let mut name = "";
    if let Some(behind) = rest.strip_prefix('(') {
        let end = behind.find(')')?;
        name = behind.get(..end)?;
        rest = behind.get(end + 1..)?;
    }
    let mut read_only = false;
    for flag in ["ro", "lk", "slc"] {
        if let Some(behind) = rest.strip_prefix(flag) {
            read_only |= flag == "ro";
            rest = behind;
        }
    }
    Some((MtdPartition { mtd_id: mtd_id.to_owned(), offset, size, name: name.to_owned(), read_only }, rest))
}

/// Parses a number as in C (0x, leading 0 for octal), with an optional suffix K, M or G.
fn number(text: &str) -> Option<(u64, &str)> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let value = u64::from_str_radix(digits.get(..end)?, radix).ok()?;
    let rest = digits.get(end..)?;
    let shift = match rest.chars().next() {
        Some('k' | 'K') => 10,
        Some('m' | 'M') => 20,
        Some('g' | 'G') => 30,
        _ => return Some((value, rest)),
    };
    Some((value.checked_mul(1 << shift)?, rest.get(1..)?))
}

/// Every valid text in the dump; a repeated text (two copies of an environment) counts once,
/// preferably the one in an environment.
pub fn find(device: &DumpFlash) -> Vec<Region> {
    let mut texts = Vec::new();
    scan(device, TEXT_MAX, |at, piece, new| {
        for place in memchr::memmem::find_iter(piece, b"mtdparts=").take_while(|&place| place < new) {
            let text: String = piece
                .get(place..)
                .unwrap_or(&[])
                .iter()
                .take(TEXT_MAX)
                .take_while(|&&byte| byte.is_ascii_graphic())
                .map(|&byte| char::from(byte))
                .collect();
            if let Some(partitions) = parse_mtdparts(&text)
                && texts.len() < TEXTS_MAX
            {
                texts.push((at + place as u64, partitions));
            }
        }
    });
    let mut texts: Vec<_> =
        texts.into_iter().map(|(at, partitions)| (!in_environment(device, at), at, partitions)).collect();
    texts.sort_by_key(|&(elsewhere, at, _)| (elsewhere, at));
    let mut found = Vec::new();
    let mut seen: Vec<Vec<MtdPartition>> = Vec::new();
    for (elsewhere, at, partitions) in texts {
        if !seen.contains(&partitions) {
            found.extend(partitions.iter().enumerate().filter_map(|part| to_region(device, part, at, !elsewhere)));
            seen.push(partitions);
        }
    }
    // Partitions from environments come first; the dump of one device has no more partitions than
    // this.
    found.truncate(PARTITIONS_MAX);
    found
}

fn to_region(
    device: &DumpFlash,
    (index, partition): (usize, &MtdPartition),
    at: u64,
    in_environment: bool,
) -> Option<Region> {
    let left = data_bytes(device).checked_sub(partition.offset).filter(|&left| left > 0)?;
    let size = partition.size.unwrap_or(left);
    let mut notes = Vec::new();
    if size > left {
        notes.push(format!("the text says {size} bytes, the dump ends after {left}"));
    }
    let name = if partition.name.is_empty() { format!("mtd{index}") } else { partition.name.clone() };
    let kind = if partition.read_only { "MTD partition, read-only" } else { "MTD partition" };
    let source = RegionSource::MtdParts { mtd_id: partition.mtd_id.clone(), at, in_environment };
    Some(Region {
        offset: partition.offset,
        size: size.min(left),
        name,
        kind: kind.to_owned(),
        source,
        notes,
        doubts: Vec::new(),
    })
}

/// Environment sizes in use: U-Boot's board configurations have 4 to 256 KiB, some 512 bytes or 1
/// or 2 KiB.
const ENVIRONMENT_SIZES: [usize; 10] =
    [0x1000, 0x2000, 0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x200, 0x400, 0x800];

/// Positions before a text that are tried as the beginning of its environment, nearest first; a
/// hostile dump offers one in every sector.
const STARTS_MAX: usize = 16;

/// Whether the byte at `at` is inside an environment with a valid checksum. Environments begin at
/// multiples of 512 bytes; the checksum is in the processor's byte order.
fn in_environment(device: &DumpFlash, at: u64) -> bool {
    const LARGEST: u64 = 0x4_0000;
    let from = at.saturating_sub(LARGEST) / 512 * 512;
    let mut bytes = vec![0; (2 * LARGEST) as usize];
    device.look_at(from, &mut bytes);
    let text = (at - from) as usize;
    let starts = (0..=text / 512).rev().flat_map(|sector| [(sector * 512, 4), (sector * 512, 5)]);
    let plausible = starts.filter(|(start, skip)| is_assignment(bytes.get(start + skip..))).take(STARTS_MAX);
    plausible.into_iter().any(|(start, skip)| {
        let stored = bytes.get(start..start + 4).unwrap_or(&[]);
        ENVIRONMENT_SIZES.into_iter().filter(|size| start + size > text).any(|size| {
            let crc = bytes.get(start + skip..start + size).map(crc32fast::hash);
            crc.is_some_and(|crc| crc.to_le_bytes() == stored || crc.to_be_bytes() == stored)
        })
    })
}

/// Whether the bytes begin with `name=`.
fn is_assignment(bytes: Option<&[u8]>) -> bool {
    let bytes = bytes.unwrap_or(&[]);
    let name = bytes.iter().take(64).take_while(|byte| byte.is_ascii_alphanumeric() || b"_-.:#".contains(byte)).count();
    name > 0 && bytes.get(name) == Some(&b'=')
}
