//! What is done with a used segment before its gaps are filled, by name: `pgc:segments=2`.

use std::path::Path;

use nandkit_block::card::{CardSpec, Pattern};
use nandkit_cleaning::partial::{Method, RequestTimes};
use nandkit_f2fs::clean::partial::PartialCollection;

use crate::frame::Frame;
use crate::{SpecError, StackError, suggest};

/// Blocks of a segment, the largest request that is asked about.
const MOST: u32 = 512;
/// Bytes of a block.
const BLOCK_BYTES: u64 = 4096;
/// The most segments that are treated for one checkpoint.
const SEGMENTS_MOST: u32 = 8;

/// What the key `reuse` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reuse {
    /// `None`: gaps are filled as they are.
    pub method: Option<Method>,
    /// Segments treated for one checkpoint.
    pub segments: u32,
    /// Whether blocks that are moved always fill gaps.
    pub plugs_holes: bool,
    /// Which times of random writes a card's curve is.
    pub curve: Curve,
}

/// Times of random writes, which differ where a card merges what it closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Curve {
    /// Over the whole card, with the merges that each causes: what a benchmark of random writes
    /// shows (P1's figure 5).
    #[default]
    Spread,
    /// Within an open unit.
    Unit,
}

/// The names, with what each does before gaps are filled.
const NAMES: [(&str, Option<Method>, bool); 5] = [
    ("ssr", None, false),
    ("pgc", Some(Method::RunByRun), false),
    ("pgc-optimal", Some(Method::Optimal), false),
    ("gc", Some(Method::Everything), false),
    ("hole-plugging", Some(Method::Everything), true),
];

impl Reuse {
    /// From the text of a spec. Errors say what is known.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let known: Vec<&str> = NAMES.iter().map(|(name, ..)| *name).collect();
        let found = NAMES.iter().find(|(known, ..)| *known == name);
        let Some((_, method, plugs_holes)) = found.copied() else {
            return Err(SpecError::unknown(format!("reuse: {}", suggest::unknown("way", name, &known))));
        };
        let mut reuse = Self { method, segments: 1, plugs_holes, curve: Curve::Spread };
        for option in options.split(',').filter(|option| !option.is_empty()) {
            if method.is_none() {
                return Err(SpecError::form(format!("reuse: {option:?} of {name}; it has no options")));
            }
            reuse.set(option)?;
        }
        Ok(reuse)
    }

    fn set(&mut self, option: &str) -> Result<(), SpecError> {
        match option.split_once('=') {
            Some(("segments", count)) => {
                let found = count.parse().ok().filter(|count| (1..=SEGMENTS_MOST).contains(count));
                self.segments = found.ok_or_else(|| {
                    SpecError::range(format!("reuse: segments is {count}; expected 1 to {SEGMENTS_MOST}"))
                })?;
            }
            Some(("curve", "spread")) => self.curve = Curve::Spread,
            Some(("curve", "unit")) => self.curve = Curve::Unit,
            _ => {
                let detail = format!("reuse: {option:?}; expected segments=N, curve=spread or curve=unit");
                return Err(SpecError::form(detail));
            }
        }
        Ok(())
    }

    /// The look at segments, by the curve of a card file or of the card that the stack stands on;
    /// `None` where gaps are filled as they are. Errors: no curve, a card file that cannot be read.
    pub fn review(&self, curve: &str, frame: &Frame) -> Result<Option<PartialCollection>, StackError> {
        let Some(method) = self.method else { return Ok(None) };
        let card = match curve {
            "" => frame.card.as_deref().cloned().ok_or_else(|| {
                let detail = "reuse: moving runs needs the device's times by request size, which only cards tell; expected \
                              a card as device, or reuse_curve = 'FILE.toml' as `nandkit calibrate` writes it";
                StackError::new("stack.fs", SpecError::form(detail))
            })?,
            file => card_of(Path::new(file))?,
        };
        Ok(Some(PartialCollection::new(times_of(&card, self.curve), method, self.segments)))
    }
}

fn card_of(path: &Path) -> Result<CardSpec, StackError> {
    let wrong = |detail: String| StackError::new("stack.fs.reuse_curve", format!("{}: {detail}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot read: {error}")))?;
    CardSpec::from_toml(&text).map_err(|error| wrong(error.to_string()))
}

/// P1's curves of a card: reads and writes at random places.
fn times_of(card: &CardSpec, curve: Curve) -> RequestTimes {
    RequestTimes::new(
        MOST,
        |blocks| card.read_time(Pattern::Random, u64::from(blocks) * BLOCK_BYTES).0,
        |blocks| {
            let bytes = u64::from(blocks) * BLOCK_BYTES;
            match curve {
                Curve::Spread => card.spread_write_time(bytes).0,
                Curve::Unit => card.write_time(Pattern::Random, bytes).0,
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_options() {
        assert_eq!(Reuse::parse("ssr").unwrap().method, None);
        let gc = Reuse { method: Some(Method::Everything), segments: 3, plugs_holes: false, curve: Curve::Unit };
        assert_eq!(Reuse::parse("gc:segments=3,curve=unit").unwrap(), gc);
        assert!(Reuse::parse("hole-plugging").unwrap().plugs_holes);
        for (text, part) in
            [("pcg", "pgc"), ("pgc:segments=9", "1 to 8"), ("pgc:x=1", "segments=N"), ("ssr:segments=2", "no options")]
        {
            let error = Reuse::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
