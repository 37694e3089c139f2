//! Lines of a fixed number of fields: splitting, and values with the column where one is wrong.

use nandkit_units::Nanos;

use super::grammar::{Malformed, checked_range, shortened};
use crate::operation::BlockOperationKind;

/// Bytes of a sector, in every format that counts in sectors.
pub(super) const SECTOR: u64 = 512;

/// Most sectors that an offset or a length may have: their bytes are below 2^62.
const SECTORS_MAX: u64 = 1 << 53;

/// What separates fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    Comma,
    Blanks,
}

/// What a line of a format consists of.
#[derive(Debug)]
pub(super) struct Grammar<const N: usize> {
    pub separator: Separator,
    /// The fields' names, for messages.
    pub fields: [&'static str; N],
    /// Whether fields that are not used may follow.
    pub open: bool,
    /// A line of headings, which is skipped wherever it is; an empty text for formats without one.
    pub heading: &'static str,
    /// What a right line looks like, for messages.
    pub expected: &'static str,
}

/// A field of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub text: &'a str,
    name: &'static str,
    line: &'a str,
    /// Bytes of the line before it.
    start: usize,
    expected: &'static str,
}

fn pieces(line: &str, separator: Separator) -> impl Iterator<Item = (usize, &str)> {
    let separates = move |character: char| match separator {
        Separator::Comma => character == ',',
        Separator::Blanks => character.is_ascii_whitespace(),
    };
    let mut next = 0;
    line.split(separates).filter_map(move |piece| {
        let start = next + piece.len() - piece.trim_start().len();
        // Every separator is one byte.
        next += piece.len() + 1;
        (separator == Separator::Comma || !piece.is_empty()).then_some((start, piece.trim()))
    })
}

fn column(line: &str, start: usize) -> usize {
    line.get(..start).unwrap_or(line).chars().count() + 1
}

impl<const N: usize> Grammar<N> {
    /// Whether the line is one of headings.
    pub fn is_heading(&self, line: &str) -> bool {
        !self.heading.is_empty() && line.eq_ignore_ascii_case(self.heading)
    }

    /// Whether a line has the number of fields, most of them numbers, and `fits` takes them.
    pub fn resembles(&self, line: &str, fits: fn(&[&str; N]) -> bool) -> bool {
        let mut pieces = pieces(line, self.separator).map(|(_, text)| text);
        let fields: Vec<&str> = pieces.by_ref().take(N).collect();
        let Ok(fields) = <[&str; N]>::try_from(fields) else { return false };
        let numbers = fields.iter().filter(|text| begins_number(text)).count();
        let is_whole = self.open || pieces.next().is_none();
        self.is_heading(line) || (is_whole && numbers * 2 > N && fits(&fields))
    }

    /// The line's fields.
    pub fn split<'a>(&self, line: &'a str) -> Result<[Field<'a>; N], Malformed> {
        let mut pieces = pieces(line, self.separator);
        // The names come first: `zip` would take one piece too many from the iterator that it asks
        // first.
        let named = self.fields.into_iter().zip(pieces.by_ref());
        let expected = self.expected;
        let fields: Vec<Field<'a>> =
            named.map(|(name, (start, text))| Field { text, name, line, start, expected }).collect();
        let count = fields.len();
        let Ok(fields) = fields.try_into() else {
            let missing = self.fields.get(count).unwrap_or(&"end");
            let found = format!("\"{}\" ends before the {missing}", shortened(line));
            return Err(Malformed { column: Some(column(line, line.len())), found, expected });
        };
        if !self.open
            && let Some((start, text)) = pieces.next()
        {
            let last = self.fields.last().unwrap_or(&"end");
            let found = format!("\"{}\" follows the {last}, the last field", shortened(text));
            return Err(Malformed { column: Some(column(line, start)), found, expected });
        }
        Ok(fields)
    }
}

/// Whether a text begins as a number does.
pub(super) fn begins_number(text: &str) -> bool {
    text.starts_with(|character: char| character.is_ascii_digit())
}

/// Whether a text is a word.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic())
}

fn digits(text: &str) -> Option<u64> {
    // `parse` would take a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

impl Field<'_> {
    /// The error that this field is wrong.
    pub fn wrong(&self, what: &str) -> Malformed {
        let found = format!("the {} \"{}\" {what}", self.name, shortened(self.text));
        Malformed { column: Some(column(self.line, self.start)), found, expected: self.expected }
    }

    /// A number of up to 64 bits.
    pub fn number(&self) -> Result<u64, Malformed> {
        digits(self.text).ok_or_else(|| self.wrong("is no whole number"))
    }

    /// An instant or span in seconds, with or without a fraction; digits below a nanosecond are
    /// dropped.
    pub fn seconds(&self) -> Result<Nanos, Malformed> {
        let (seconds, fraction) = self.text.split_once('.').unwrap_or((self.text, "0"));
        let nanos = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
        let nanos = nanos.fold(0u64, |sum, digit| sum * 10 + u64::from(digit.saturating_sub(b'0')));
        let seconds = digits(seconds).and_then(|seconds| seconds.checked_mul(1_000_000_000));
        match seconds.and_then(|seconds| seconds.checked_add(nanos)) {
            Some(whole) if fraction.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Nanos(whole)),
            _ => Err(self.wrong("is no time in seconds")),
        }
    }

    /// Read or write, by the texts that stand for them in either case.
    pub fn kind(&self, read: &str, write: &str) -> Result<BlockOperationKind, Malformed> {
        if self.text.eq_ignore_ascii_case(read) {
            Ok(BlockOperationKind::Read)
        } else if self.text.eq_ignore_ascii_case(write) {
            Ok(BlockOperationKind::Write)
        } else {
            Err(self.wrong(&format!("is neither {read} (read) nor {write} (write)")))
        }
    }

    /// A number of units as bytes.
    pub fn bytes(&self, unit: u64) -> Result<u64, Malformed> {
        let number = self.number()?;
        if unit > 1 && number > SECTORS_MAX {
            return Err(self.wrong("is too large"));
        }
        Ok(number.saturating_mul(unit))
    }
}

/// Offset and length in bytes, from two fields and the bytes of their units.
pub(super) fn range(offset: (&Field<'_>, u64), length: (&Field<'_>, u64)) -> Result<(u64, u64), Malformed> {
    let (from, bytes) = (offset.0.bytes(offset.1)?, length.0.bytes(length.1)?);
    let at = column(offset.0.line, offset.0.start);
    checked_range(from, bytes, offset.0.expected).map_err(|error| Malformed { column: Some(at), ..error })?;
    Ok((from, bytes))
}

/// Time stamps counted from the first.
#[derive(Debug, Default)]
pub(super) struct SinceFirst(Option<u64>);

impl SinceFirst {
    /// No stamp yet.
    pub const fn new() -> Self {
        Self(None)
    }

    /// The stamp counted from the first, in its own unit; zero for one before the first.
    pub fn since(&mut self, stamp: u64) -> u64 {
        stamp.saturating_sub(*self.0.get_or_insert(stamp))
    }
}
