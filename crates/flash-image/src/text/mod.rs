//! Text dumps converted back to bytes: the output of `nanddump --prettyprint`, `hexdump`, `xxd` and
//! of U-Boot's commands `md` and `nand dump`, with any console output in between.

mod line;

use std::borrow::Cow;

use crate::error::{ImageError, ImageErrorKind, Result};
use crate::layout::OobPlacement;

use line::{Data, Form, Line};

/// The content of a text dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextDump {
    /// The bytes in binary form: each page's data, followed by its OOB if the text has it.
    pub bytes: Vec<u8>,
    /// The program that prints this form.
    pub kind: &'static str,
    /// Data bytes per page, if OOB lines reveal it.
    pub page_size: Option<u32>,
    /// OOB bytes per page; 0 if the text has none.
    pub oob_size: u32,
    /// The address of the first byte.
    pub start: u64,
    /// Omitted address ranges, from and to: bad blocks, with `--bb=skipbad`. The following bytes
    /// come directly after them.
    pub gaps: Vec<(u64, u64)>,
    /// Address ranges with missing lines, from and to; they are 0xFF in `bytes`.
    pub filled: Vec<(u64, u64)>,
    /// Unreadable data lines: their number, and the line number of the first one.
    pub unreadable: Option<(usize, usize)>,
    /// Lines whose text column contradicts their digits, likewise; the digits are used.
    pub contradictory: Option<(usize, usize)>,
}

impl TextDump {
    /// Where the OOB is in `bytes`.
    pub fn placement(&self) -> OobPlacement {
        if self.oob_size == 0 { OobPlacement::None } else { OobPlacement::AfterPage }
    }

    /// The omitted blocks of this size, counted from `start`, in the form of
    /// [`ImageLayout::missing`](crate::ImageLayout::missing).
    pub fn missing_blocks(&self, block_size: u32) -> Vec<u32> {
        let size = u64::from(block_size.max(1));
        let block = |address: u64| u32::try_from((address - self.start) / size).unwrap_or(u32::MAX);
        self.gaps.iter().flat_map(|&(from, to)| block(from)..block(to)).take(1 << 20).collect()
    }
}

/// Bytes at the beginning that must contain a line of data: a console prints a greeting first.
const HEAD: usize = 16 << 10;
/// Bytes per line that make it credible as data.
const LINE: usize = 16;
/// Most bytes represented by lines of `*` and missing lines.
const FILLED_MAX: u64 = 256 << 20;
/// Smallest page size, if the text does not reveal it.
const PAGE_MIN: u64 = 512;
/// Number of lines examined to determine the byte order of numbers.
const ORDER_LINES: usize = 4096;

/// Whether the bytes look like the beginning of such a text. Cost: examines the first 16 KiB.
pub fn is_text_dump(bytes: &[u8]) -> bool {
    let head = bytes.get(..bytes.len().min(HEAD)).unwrap_or(&[]);
    let strange = head.iter().filter(|byte| !byte.is_ascii() || **byte == 0).count();
    // A console may garble some characters.
    strange * 20 <= head.len() && !head.contains(&0) && lines(head).any(|(_, line)| is_full(&line))
}

fn is_full(line: &str) -> bool {
    match line::parse(line) {
        Line::Data(data) => data.bytes.len() >= LINE,
        Line::Page(_) => true,
        _ => false,
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
    (1..).zip(text.split(|&byte| byte == b'\n').map(String::from_utf8_lossy))
}

/// Whether groups of bytes are numbers of a little-endian machine, according to the text column;
/// without one, according to the program's default.
fn turns(text: &[u8]) -> bool {
    let (mut shown, mut turned, mut form) = (0_usize, 0_usize, None);
    for (_, line) in lines(text).take(ORDER_LINES) {
        if let Line::Data(data) = line::parse(&line)
            && data.group > 1
        {
            form = form.or(Some(data.form));
            shown += usize::from(data.agrees(&data.bytes) == Some(true));
            turned += usize::from(data.agrees(&data.turned()) == Some(true));
        }
    }
    match shown == turned {
        true => matches!(form, Some(Form::Hexdump | Form::UBootMd)),
        false => turned > shown,
    }
}

/// Converts a text to bytes. Remarks between the lines (of the program or of a terminal) are
/// skipped. Errors: `Corrupt` with the line number if there is no line of data, addresses go back,
/// pages have different OOB lengths, or more than 256 MiB are missing.
pub fn parse_text_dump(text: &[u8]) -> Result<TextDump> {
    let mut reader = Reader::new(turns(text));
    let mut end = 0;
    for (number, line) in lines(text) {
        end = number;
        reader.line(number, line::parse(&line)).map_err(|what| corrupt(number, what))?;
    }
    reader.finish().map_err(|what| corrupt(end, what))
}

fn corrupt(line: usize, what: String) -> ImageError {
    ImageError::new(ImageErrorKind::Corrupt, format!("text dump, line {line}: {what}"))
}

/// Counts a line.
fn count(lines: &mut Option<(usize, usize)>, number: usize) {
    lines.get_or_insert((0, number)).0 += 1;
}

struct Reader {
    dump: TextDump,
    form: Option<Form>,
    turns: bool,
    pages: Pages,
    /// The expected address.
    next: Option<u64>,
    /// The previous line, which lines of `*` repeat.
    last: Vec<u8>,
    repeats: bool,
    /// Whether lines without an address belong to the OOB.
    in_oob: bool,
    filled: u64,
}

impl Reader {
    fn new(turns: bool) -> Self {
        let dump = TextDump {
            bytes: Vec::new(),
            kind: Form::Nanddump.name(),
            page_size: None,
            oob_size: 0,
            start: 0,
            gaps: Vec::new(),
            filled: Vec::new(),
            unreadable: None,
            contradictory: None,
        };
        let (pages, last) = (Pages::default(), Vec::new());
        Self { dump, form: None, turns, pages, next: None, last, repeats: false, in_oob: false, filled: 0 }
    }

    fn line(&mut self, number: usize, line: Line<'_>) -> std::result::Result<(), String> {
        match line {
            Line::Data(data) => return self.data(number, &data),
            Line::Page(address) => {
                self.form.get_or_insert(Form::UBootNand);
                self.in_oob = false;
                return self.go_to(address);
            }
            Line::OobHead => self.in_oob = true,
            Line::Bare(bytes) if self.form == Some(Form::UBootNand) && !self.in_oob => self.take(&bytes),
            Line::Bare(bytes) if self.form == Some(Form::UBootNand) => self.oob(&bytes),
            Line::Oob(bytes) => self.oob(&bytes),
            Line::Repeat if !self.last.is_empty() => self.repeats = true,
            Line::End(address) if self.next.is_some_and(|next| address > next) && self.repeats => {
                return self.go_to(address);
            }
            Line::Unreadable => count(&mut self.dump.unreadable, number),
            Line::Bare(_) | Line::Repeat | Line::End(_) | Line::Remark => {}
        }
        Ok(())
    }

    fn data(&mut self, number: usize, data: &Data<'_>) -> std::result::Result<(), String> {
        self.form.get_or_insert(data.form);
        self.go_to(data.address)?;
        let turned = (self.turns && data.group > 1).then(|| data.turned());
        let bytes = turned.as_deref().unwrap_or(&data.bytes);
        if data.agrees(bytes) == Some(false) {
            count(&mut self.dump.contradictory, number);
        }
        self.take(bytes);
        self.last.clear();
        self.last.extend_from_slice(bytes);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) {
        self.next = self.next.map(|next| next.saturating_add(bytes.len() as u64));
        self.pages.data += bytes.len();
        self.dump.bytes.extend_from_slice(bytes);
    }

    fn oob(&mut self, bytes: &[u8]) {
        self.pages.oob += bytes.len();
        self.dump.bytes.extend_from_slice(bytes);
    }

    /// Moves to this address: missing bytes before it are repeated, filled or omitted.
    fn go_to(&mut self, address: u64) -> std::result::Result<(), String> {
        if self.next.is_none() {
            self.dump.start = address;
        }
        let expected = *self.next.get_or_insert(address);
        if address < expected {
            return Err(format!(
                "address {address:#x}, expected {expected:#x} or more: a text holds one dump, and what is read in several goes into a file each"
            ));
        }
        let (missing, repeats) = (address - expected, std::mem::take(&mut self.repeats));
        let page = match (self.dump.page_size, self.pages.oob) {
            (Some(page), _) => u64::from(page).max(1),
            (None, 0) => PAGE_MIN,
            (None, _) => self.pages.data.max(1) as u64,
        };
        // Omitted blocks are whole pages; a console loses single lines.
        let is_lost = !missing.is_multiple_of(page) || !(expected - self.dump.start).is_multiple_of(page);
        if missing > 0 && !repeats && !is_lost && matches!(self.form, Some(Form::Nanddump | Form::UBootNand)) {
            self.pages.end_oob(&mut self.dump)?;
            self.dump.gaps.push((expected, address));
            self.next = Some(address);
            return Ok(());
        }
        self.filled = self.filled.saturating_add(missing);
        if self.filled > FILLED_MAX {
            return Err(format!(
                "{missing} bytes are missing before address {address:#x}; at most {FILLED_MAX} in all are filled"
            ));
        }
        if missing > 0 && !repeats {
            // A page whose first lines are missing begins here.
            if self.pages.oob > 0 {
                self.pages.end_oob(&mut self.dump)?;
            }
            self.dump.filled.push((expected, address));
            self.last.clear();
            self.last.push(0xFF);
        }
        if missing > 0 {
            let line = std::mem::take(&mut self.last);
            let fill: Vec<u8> = line.iter().copied().cycle().take(missing as usize).collect();
            self.take(&fill);
            self.last = line;
        }
        self.pages.end_oob(&mut self.dump)
    }

    fn finish(mut self) -> std::result::Result<TextDump, String> {
        self.pages.end_oob(&mut self.dump)?;
        if self.dump.bytes.is_empty() {
            return Err("no data, expected lines like '0x00000000: 85 19 03 20 ...'".to_owned());
        }
        if self.dump.page_size.is_some() && self.pages.data > 0 {
            let bytes = self.pages.data;
            return Err(format!("the last {bytes} bytes have no OOB, unlike the pages before"));
        }
        self.dump.kind = self.form.unwrap_or(Form::Nanddump).name();
        Ok(self.dump)
    }
}

/// Data and OOB bytes since the last complete page.
#[derive(Default)]
struct Pages {
    data: usize,
    oob: usize,
}

impl Pages {
    /// The end of OOB lines, if there were any: the page is complete.
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

    /// Found by the fuzz target flash-image-layout
    /// (crash-1b4929da4095fdc3321911cdb000baec989e142d).
    #[test]
    fn lines_without_bytes_are_remarks_and_the_first_with_some_is_the_start() {
        let dump = parse_text_dump(b"0x00000040: \n0x00000100: \n0x00000100: 85 19\n0x00000202: 00\n").unwrap();
        assert_eq!((dump.start, &dump.filled[..]), (0x100, &[(0x102, 0x202)][..]));
        assert!(dump.gaps.is_empty() && dump.bytes.len() == 0x103 && dump.bytes[2..0x102] == [0xFF; 0x100]);
    }

    #[test]
    fn damage_is_told_by_its_line() {
        let good = text(&[0, 32, 64], false);
        let cases = [
            (text(&[32, 0], false), "address 0x0, expected 0x40"),
            (good.replacen("f6 f7\n", "f6\n", 1), "expected 32 and 7"),
            (format!("{good}0x00000060: 00 01\n"), "have no OOB"),
            ("nothing".to_owned(), "no data"),
            (format!("{}0xffffffffff: 00 01\n", text(&[0], false).replace("OOB Data", "no data")), "268435456 in all"),
        ];
        for (text, expected) in cases {
            let error = parse_text_dump(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "'{error}' lacks '{expected}'");
        }
        assert!(!is_text_dump(b"hello: world\n") && !is_text_dump(&[0x85, 0x19]));
    }
}
