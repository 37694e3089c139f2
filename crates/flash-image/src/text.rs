//! The text that `nanddump --prettyprint` and `--canonicalprint` write, turned back into bytes.

use crate::error::{ImageError, ImageErrorKind, Result};
use crate::layout::OobPlacement;

/// What a text dump holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextDump {
    /// The bytes as the binary form has them: each page's data, and behind them its OOB where the text has it.
    pub bytes: Vec<u8>,
    /// Data bytes of a page, where OOB lines tell it.
    pub page_size: Option<u32>,
    /// OOB bytes of a page; 0 where the text has none.
    pub oob_size: u32,
    /// The flash address of the first byte.
    pub start: u64,
    /// Stretches of flash addresses that are left out, from and to: bad blocks, with `--bb=skipbad`.
    pub gaps: Vec<(u64, u64)>,
}

impl TextDump {
    /// Where the OOB is in `bytes`.
    pub fn placement(&self) -> OobPlacement {
        if self.oob_size == 0 { OobPlacement::None } else { OobPlacement::AfterPage }
    }

    /// The blocks of this size that are left out, counted from `start`, as [`ImageLayout::missing`](crate::ImageLayout::missing) takes them.
    pub fn missing_blocks(&self, block_size: u32) -> Vec<u32> {
        let size = u64::from(block_size.max(1));
        let block = |address: u64| u32::try_from((address - self.start) / size).unwrap_or(u32::MAX);
        self.gaps.iter().flat_map(|&(from, to)| block(from)..block(to)).take(1 << 20).collect()
    }
}

/// Whether the bytes begin like such a text. Cost: a look at the first line.
pub fn is_text_dump(bytes: &[u8]) -> bool {
    let head = bytes.get(..bytes.len().min(1024)).unwrap_or(&[]);
    let mut lines = head.split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    head.is_ascii() && lines.any(|line| matches!(parse_line(line), Some(Line::Data(_, bytes)) if bytes.len() == 16))
}

enum Line {
    Data(u64, Vec<u8>),
    Oob(Vec<u8>),
}

/// `0x00000800: de ad ...`, `00000800: de ad ...  |....|`, `  OOB Data: ff ff ...`; anything else is a remark.
fn parse_line(line: &str) -> Option<Line> {
    let (head, rest) = line.split_once(": ")?;
    let hex = rest.split('|').next().unwrap_or("");
    let bytes = hex.split_ascii_whitespace().map(|byte| u8::from_str_radix(byte, 16).ok().filter(|_| byte.len() == 2));
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    if head.trim() == "OOB Data" {
        return Some(Line::Oob(bytes));
    }
    let address = head.strip_prefix("0x").unwrap_or(head);
    (address.len() >= 8 && !bytes.is_empty()).then_some(())?;
    Some(Line::Data(u64::from_str_radix(address, 16).ok()?, bytes))
}

/// Turns a text back into bytes. Remarks between the lines (of the program, of a terminal) are passed over. Errors: `Corrupt` where there is no line of
/// data, addresses go back, or pages have OOB of different lengths, with the number of the line.
pub fn parse_text_dump(text: &[u8]) -> Result<TextDump> {
    let corrupt =
        |line: usize, what: String| ImageError::new(ImageErrorKind::Corrupt, format!("text dump, line {line}: {what}"));
    let mut dump = TextDump { bytes: Vec::new(), page_size: None, oob_size: 0, start: 0, gaps: Vec::new() };
    let mut pages = Pages::default();
    let mut next = None;
    for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        match std::str::from_utf8(line).ok().and_then(parse_line) {
            Some(Line::Data(address, bytes)) => {
                pages.end_oob(&mut dump).map_err(|what| corrupt(number, what))?;
                if next.is_none() {
                    dump.start = address;
                }
                let expected = *next.get_or_insert(address);
                if address < expected {
                    return Err(corrupt(number, format!("address {address:#x}, expected {expected:#x} or more")));
                }
                if address > expected {
                    dump.gaps.push((expected, address));
                }
                next = Some(address.saturating_add(bytes.len() as u64));
                pages.data += bytes.len();
                dump.bytes.extend_from_slice(&bytes);
            }
            Some(Line::Oob(bytes)) => {
                pages.oob += bytes.len();
                dump.bytes.extend_from_slice(&bytes);
            }
            None => {}
        }
    }
    let end = text.split(|&byte| byte == b'\n').count();
    pages.end_oob(&mut dump).map_err(|what| corrupt(end, what))?;
    if dump.bytes.is_empty() {
        return Err(corrupt(1, "no data, expected lines like '0x00000000: 85 19 03 20 ...'".to_owned()));
    }
    if dump.page_size.is_some() && pages.data > 0 {
        return Err(corrupt(end, format!("the last {} bytes have no OOB, unlike the pages before", pages.data)));
    }
    Ok(dump)
}

/// Data and OOB bytes since the last page was whole.
#[derive(Default)]
struct Pages {
    data: usize,
    oob: usize,
}

impl Pages {
    /// OOB lines, where there were any, are over: the page is whole.
    fn end_oob(&mut self, dump: &mut TextDump) -> std::result::Result<(), String> {
        if self.oob == 0 {
            return Ok(());
        }
        let found = (u32::try_from(self.data).unwrap_or(u32::MAX), u32::try_from(self.oob).unwrap_or(u32::MAX));
        let expected =
            (*dump.page_size.get_or_insert(found.0), if dump.oob_size == 0 { found.1 } else { dump.oob_size });
        if found != expected {
            return Err(format!(
                "the page before has {} bytes and {} OOB bytes, expected {} and {} like the first",
                found.0, found.1, expected.0, expected.1
            ));
        }
        dump.oob_size = found.1;
        *self = Self::default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(head: &str, bytes: impl Iterator<Item = u8>) -> String {
        format!("{head}: {}\n", bytes.map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "))
    }

    /// A dump of pages of 32+8 bytes at these addresses, in one of the two forms.
    fn text(addresses: &[u64], canonical: bool) -> String {
        let mut text = String::from("Block size 64, page size 32, OOB size 8\n");
        for &address in addresses {
            for row in 0..2 {
                let bytes = (0..16).map(|byte| (address as u8).wrapping_add(row * 16 + byte));
                let at = address + u64::from(row) * 16;
                match canonical {
                    true => text += &line(&format!("{at:08x}"), bytes).replace('\n', "  |abc: 00 11 ....|\n"),
                    false => text += &line(&format!("0x{at:08x}"), bytes),
                }
            }
            text += &line("  OOB Data", 0xF0..0xF8);
        }
        text
    }

    #[test]
    fn both_forms_come_back_with_what_was_left_out() {
        for canonical in [false, true] {
            let text = text(&[0x1000, 0x1020, 0x1080, 0x10A0], canonical);
            assert!(is_text_dump(text.as_bytes()));
            let dump = parse_text_dump(text.as_bytes()).unwrap();
            assert_eq!((dump.page_size, dump.oob_size, dump.start), (Some(32), 8, 0x1000));
            assert_eq!(dump.gaps, [(0x1040, 0x1080)]);
            assert_eq!(dump.missing_blocks(64), [1]);
            assert_eq!(dump.bytes.len(), 4 * 40);
            assert_eq!(dump.bytes[..3], [0, 1, 2]);
            assert_eq!(dump.bytes[32..42], [0xF0, 0xF1, 0xF2, 0xF3, 0xF4, 0xF5, 0xF6, 0xF7, 0x20, 0x21]);
        }
    }

    /// Found by the fuzz target flash-image-layout (crash-1b4929da4095fdc3321911cdb000baec989e142d).
    #[test]
    fn lines_without_bytes_are_remarks_and_the_first_with_some_is_the_start() {
        let dump = parse_text_dump(b"0x00000040: \n0x00000100: \n0x00000100: 85 19\n0x00000202: 00\n").unwrap();
        assert_eq!((dump.start, &dump.gaps[..]), (0x100, &[(0x102, 0x202)][..]));
        assert_eq!(dump.missing_blocks(0x80), [0, 1]);
    }

    #[test]
    fn damage_is_told_by_its_line() {
        let good = text(&[0, 32, 64], false);
        let cases = [
            (text(&[32, 0], false), "address 0x0, expected 0x40"),
            (good.replacen("f6 f7\n", "f6\n", 1), "expected 32 and 7"),
            (format!("{good}0x00000060: 00 01\n"), "have no OOB"),
            ("nothing".to_owned(), "no data"),
        ];
        for (text, expected) in cases {
            let error = parse_text_dump(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "'{error}' lacks '{expected}'");
        }
        assert!(!is_text_dump(b"hello: world\n") && !is_text_dump(&[0x85, 0x19]));
    }
}
