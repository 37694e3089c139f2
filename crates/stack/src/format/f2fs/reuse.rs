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
        let segments = match options.split_once('=') {
            None if options.is_empty() => 1,
            Some(("segments", count)) if method.is_some() => {
                count.parse().ok().filter(|count| (1..=SEGMENTS_MOST).contains(count)).ok_or_else(|| {
                    SpecError::range(format!("reuse: segments is {count}; expected 1 to {SEGMENTS_MOST}"))
                })?
            }
            _ if method.is_some() => {
                return Err(SpecError::form(format!("reuse: {options:?} of {name}; expected segments=N")));
            }
            _ => return Err(SpecError::form(format!("reuse: {options:?} of {name}; it has no options"))),
        };
        Ok(Self { method, segments, plugs_holes })
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
        Ok(Some(PartialCollection::new(times_of(&card), method, self.segments)))
    }
}

fn card_of(path: &Path) -> Result<CardSpec, StackError> {
    let wrong = |detail: String| StackError::new("stack.fs.reuse_curve", format!("{}: {detail}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot read: {error}")))?;
    CardSpec::from_toml(&text).map_err(|error| wrong(error.to_string()))
}

/// P1's curves of a card: reads and writes at random places.
fn times_of(card: &CardSpec) -> RequestTimes {
    RequestTimes::new(
        MOST,
        |blocks| card.read_time(Pattern::Random, u64::from(blocks) * BLOCK_BYTES).0,
        |blocks| card.spread_write_time(u64::from(blocks) * BLOCK_BYTES).0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_options() {
        assert_eq!(Reuse::parse("ssr").unwrap().method, None);
        let gc = Reuse { method: Some(Method::Everything), segments: 3, plugs_holes: false };
        assert_eq!(Reuse::parse("gc:segments=3").unwrap(), gc);
        assert!(Reuse::parse("hole-plugging").unwrap().plugs_holes);
        for (text, part) in
            [("pcg", "pgc"), ("pgc:segments=9", "1 to 8"), ("pgc:x=1", "segments=N"), ("ssr:segments=2", "no options")]
        {
            let error = Reuse::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
