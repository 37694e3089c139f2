//! One line of a text dump.
//!
//! The forms (Debian's mtd-utils 2.1.5, bsdextrautils, xxd; U-Boot `lib/display_options.c` and
//! `cmd/nand.c`):
//!
//! ```text
//! 0x00000800: 85 19 ... 10            nanddump --prettyprint; `  |....|` behind it with -c
//!   OOB Data: ff ff ...               nanddump, behind each page
//! 00000800  85 19 ...  03 20 ...  |....|   hexdump -C
//! 0000800 1985 2003 ...               hexdump: numbers of the host
//! 00000800: 8519 0320 ...  ....       xxd: bytes in their order, two spaces before the text
//! 82000800: 85 19 ...    ....         md.b of U-Boot; md.w and md.l show numbers of the board
//! Page 00000800 dump:                 nand dump of U-Boot; lines of a tab and 16 bytes follow,
//! OOB:                                and the OOB in lines of a tab and 8 bytes
//! ```

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Bytes with their address.
    Data(Data<'a>),
    /// Bytes that belong to the part named last.
    Bare(Vec<u8>),
    Oob(Vec<u8>),
    /// All lines up to the next address repeat the previous one.
    Repeat,
    /// The address after the last line.
    End(u64),
    Page(u64),
    OobHead,
    /// It begins like a line of data, but is malformed.
    Unreadable,
    Remark,
}

/// A line with an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Data<'a> {
    pub address: u64,
    pub form: Form,
    /// The bytes in printed order, and the number per group.
    pub bytes: Vec<u8>,
    pub group: usize,
    /// The text column, if there is one.
    pub text: Option<&'a str>,
}

/// The program that prints such lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    Nanddump,
    Hexdump,
    Xxd,
    UBootMd,
    UBootNand,
}

impl Form {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nanddump => "nanddump",
            Self::Hexdump => "hexdump",
            Self::Xxd => "xxd",
            Self::UBootMd => "md of U-Boot",
            Self::UBootNand => "nand dump of U-Boot",
        }
    }
}

/// Least digits of an address.
const ADDRESS_MIN: usize = 6;
/// Least digits of an address followed by a colon.
const ADDRESS_COLON_MIN: usize = 8;
const ADDRESS_MAX: usize = 16;

impl Data<'_> {
    /// The bytes with each group reversed: for numbers of a little-endian machine.
    pub fn turned(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.chunks_mut(self.group.max(1)).for_each(<[u8]>::reverse);
        bytes
    }

    /// Whether the text column agrees with these bytes; `None` if there is none.
    pub fn agrees(&self, bytes: &[u8]) -> Option<bool> {
        let shown = |byte: &u8| if (0x20..0x7F).contains(byte) { *byte } else { b'.' };
        let text = self.text?.as_bytes().get(..bytes.len())?;
        Some(bytes.iter().map(shown).eq(text.iter().copied()))
    }
}

pub(super) fn parse(line: &str) -> Line<'_> {
    let line = line.trim_end();
    let trimmed = line.trim_start();
    if trimmed == "*" {
        return Line::Repeat;
    }
    if trimmed == "OOB:" {
        return Line::OobHead;
    }
    if let Some(rest) = trimmed.strip_prefix("OOB Data: ") {
        return groups(rest, false).filter(|found| found.1 == 1).map_or(Line::Unreadable, |found| Line::Oob(found.0));
    }
    let page = trimmed.strip_prefix("Page ").and_then(|rest| rest.strip_suffix(" dump:"));
    if let Some(address) = page.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
        return Line::Page(address);
    }
    if line.starts_with('\t') {
        let found = groups(trimmed, true).filter(|found| found.1 == 1 && found.2.is_empty());
        return found.map_or(Line::Remark, |found| Line::Bare(found.0));
    }
    data(line)
}

/// Parses `ADDRESS: BYTES`, `ADDRESS  BYTES`, or an address alone.
fn data(line: &str) -> Line<'_> {
    let (prefixed, rest) = line.strip_prefix("0x").map_or((false, line), |rest| (true, rest));
    let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    let (address, rest) = rest.split_at_checked(digits).unwrap_or((rest, ""));
    let (colon, rest) = rest.strip_prefix(':').map_or((false, rest), |rest| (true, rest));
    let least = if colon { ADDRESS_COLON_MIN } else { ADDRESS_MIN };
    if !(least..=ADDRESS_MAX).contains(&digits) {
        return Line::Remark;
    }
    let Ok(address) = u64::from_str_radix(address, 16) else { return Line::Remark };
    if rest.is_empty() {
        return if colon { Line::Unreadable } else { Line::End(address) };
    }
    if !rest.starts_with(' ') {
        return Line::Remark;
    }
    let Some((bytes, group, behind)) = groups(rest.trim_start(), !colon) else {
        // Words of prose are not lines of a dump.
        return if colon { Line::Unreadable } else { Line::Remark };
    };
    let spaces = behind.bytes().take_while(|byte| *byte == b' ').count();
    let text = behind.get(spaces..).filter(|text| !text.is_empty());
    let barred = text.and_then(|text| text.strip_prefix('|')?.strip_suffix('|'));
    let form = match (prefixed, colon) {
        (true, _) => Form::Nanddump,
        (_, false) => Form::Hexdump,
        (_, true) if barred.is_some() || text.is_none() => Form::Nanddump,
        (_, true) if spaces < 4 => Form::Xxd,
        (_, true) => Form::UBootMd,
    };
    let gap = if form == Form::UBootMd { 4 } else { 2 };
    let text = barred.or_else(|| behind.get(gap..).filter(|text| !text.is_empty()));
    Line::Data(Data { address, form, bytes, group, text })
}

/// Parses groups of hexadecimal digits separated by single spaces; returns their bytes, the number
/// per group, and the rest after the first gap of two spaces. One such gap is allowed after eight
/// groups.
fn groups(text: &str, gap_inside: bool) -> Option<(Vec<u8>, usize, &str)> {
    let (mut bytes, mut group, mut rest, mut count) = (Vec::new(), 0, text, 0);
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let (shown, behind) = rest.split_at_checked(digits)?;
        let is_group = digits > 0 && digits.is_multiple_of(2) && digits <= 16;
        // The last group of xxd may be short.
        if !is_group || group > 0 && digits / 2 > group || !(behind.is_empty() || behind.starts_with(' ')) {
            return None;
        }
        group = group.max(digits / 2);
        for at in (0..digits).step_by(2) {
            bytes.push(u8::from_str_radix(shown.get(at..at + 2)?, 16).ok()?);
        }
        count += 1;
        let spaces = behind.bytes().take_while(|byte| *byte == b' ').count();
        let next = behind.get(spaces..)?;
        let goes_on = match spaces {
            0 => false,
            1 => !next.starts_with('|') && !next.starts_with('>'),
            2 => gap_inside && count == 8 && next.bytes().next().is_some_and(|byte| byte.is_ascii_hexdigit()),
            _ => false,
        };
        if !goes_on || digits / 2 < group {
            return Some((bytes, group, behind));
        }
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (Form, Vec<u8>, usize, Option<String>) {
        match parse(line) {
            Line::Data(data) => (data.form, data.bytes, data.group, data.text.map(str::to_owned)),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn every_form_is_known() {
        let text = |text: &str| Some(text.to_owned());
        let eight = vec![0x85, 0x19, 3, 0x20, 0x0C, 0, 0, 0];
        let cases = [
            ("0x00000800: 85 19 03 20 0c 00 00 00", Form::Nanddump, 1, None),
            ("0x00000800: 85 19 03 20 0c 00 00 00  |... ....|", Form::Nanddump, 1, text("... ....")),
            (
                "00000800  85 19 03 20 0c 00 00 00                           |... ....|",
                Form::Hexdump,
                1,
                text("... ...."),
            ),
            ("0000800 8519 0320 0c00 0000", Form::Hexdump, 2, None),
            ("00000800: 8519 0320 0c00 0000  ... ....", Form::Xxd, 2, text("... ....")),
            ("82000800: 85 19 03 20 0c 00 00 00    ...|....", Form::UBootMd, 1, text("...|....")),
            ("82000800: 85190320 0c000000    ... ....", Form::UBootMd, 4, text("... ....")),
        ];
        for (line, form, group, text) in cases {
            assert_eq!(read(line), (form, eight.clone(), group, text), "{line}");
        }
        let sixteen = read("00000800  00 01 02 03 04 05 06 07  08 09 0a 0b 0c 0d 0e 0f  |................|");
        assert_eq!(sixteen.1, (0..16).collect::<Vec<u8>>());
        assert_eq!(parse("Page 00000800 dump:"), Line::Page(0x800));
        assert_eq!(parse("\tff ff ff ff ff ff ff ff"), Line::Bare(vec![0xFF; 8]));
        assert_eq!((parse("  OOB Data: ff 00"), parse("OOB:")), (Line::Oob(vec![0xFF, 0]), Line::OobHead));
        assert_eq!((parse("*"), parse("00002000")), (Line::Repeat, Line::End(0x2000)));
    }

    #[test]
    fn what_is_damaged_is_no_data() {
        for line in ["82000800: 85 1? 03 20", "82000800: 85 1", "00000800: zz", "00000800:"] {
            assert_eq!(parse(line), Line::Unreadable, "{line}");
        }
        for line in ["=> md.b 0x82000000 0x2000", "hello: world", "U-Boot 2022.01", "", "facade of the house"] {
            assert_eq!(parse(line), Line::Remark, "{line}");
        }
    }
}
