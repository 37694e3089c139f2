//! Deriving the erase size from a survey: which sizes fit, and whether one is proven.

use std::collections::BTreeMap;

use nandkit_vfs::probe::Fit;

use super::ERASE_SIZE_MIN;
use super::survey::{Against, Survey};

/// The largest erase size that needs no proof of its own.
const USUAL_MAX: u32 = 1 << 20;

/// Evidence that is at least this improbable, in bits, is no accident: about one in ten thousand.
const BITS_MIN: u32 = 13;

/// The conclusions about an image's erase size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The proven size with its proof, if there is one.
    pub(super) proven: Option<(u32, String)>,
    /// All fitting sizes, the likeliest first; only the proven one if there is one.
    pub(super) fitting: Vec<u32>,
    /// The largest weight of counter-evidence for a size that still fits.
    tolerated: u64,
}

impl Verdict {
    /// Judges the sizes that are a multiple of `page` bytes.
    pub(super) fn of(survey: &Survey, page: u32) -> Self {
        let weight = |size: u32| weight(survey, size);
        let possible = |size: &u32| *size <= USUAL_MAX.max(page) && size.is_multiple_of(page.max(1));
        let usual: Vec<u32> = survey.sizes.iter().map(|(size, _)| *size).filter(possible).collect();
        let least = usual.iter().map(|size| weight(*size)).min().unwrap_or(0);
        // A single gap refutes nothing; with damage, allow slightly more counter-evidence than the
        // best size has.
        let tolerated = least + 1 + least / 2;
        let mut fitting: Vec<u32> = usual.into_iter().filter(|size| weight(*size) <= tolerated).collect();
        let broken = |size: u32| !survey.length.is_multiple_of(u64::from(size.max(1)));
        fitting.sort_by_key(|size| (weight(*size), broken(*size), *size));
        let verdict = Self { proven: None, fitting, tolerated };
        let by_content = [by_summaries(survey), by_markers(survey)].into_iter().flatten();
        // A size proven by one fact but refuted by others is not proven.
        let by_content = by_content.filter(|(size, _)| size.is_multiple_of(page.max(1)));
        let proven = by_content.filter(|(size, _)| weight(*size) <= tolerated).min_by_key(|(size, _)| weight(*size));
        let proven = proven.or_else(|| match verdict.fitting.as_slice() {
            [only] => Some((*only, format!("nodes and free flash fit no other size than {only} bytes"))),
            several => by_seams(survey, several.iter().copied().min()?),
        });
        match proven {
            Some((size, why)) => verdict.proven_by(size, why),
            None => verdict,
        }
    }

    /// Replaces the conclusion by a known size.
    pub(super) fn proven_by(self, size: u32, why: String) -> Self {
        Self { proven: Some((size, why)), fitting: vec![size], ..self }
    }

    /// How well a size known to the survey fits.
    pub(super) fn fit(&self, survey: &Survey, size: u32) -> Fit {
        match &self.proven {
            Some((proven, _)) if *proven == size => Fit::Proven,
            _ if weight(survey, size) > self.tolerated => Fit::Refuted,
            // If one size is proven, the slightest counter-evidence against another one is enough.
            Some(_) if weight(survey, size) > 0 => Fit::Refuted,
            Some(_) => Fit::Unlikely,
            None => Fit::Fits,
        }
    }
}

fn weight(survey: &Survey, size: u32) -> u64 {
    survey.sizes.iter().find(|(known, _)| *known == size).map_or(0, |(_, against)| against.weight())
}

/// The size that most summaries imply.
fn by_summaries(survey: &Survey) -> Option<(u32, String)> {
    let mut told: BTreeMap<u32, usize> = BTreeMap::new();
    for size in &survey.told {
        *told.entry(*size).or_default() += 1;
    }
    let (size, count) = told.into_iter().max_by_key(|(_, count)| *count)?;
    (2 * count > survey.told.len())
        .then(|| (size, format!("{count} summaries end blocks of {size} bytes, as they tell themselves")))
}

/// The distance of cleanmarkers, if every block in use has one.
fn by_markers(survey: &Survey) -> Option<(u32, String)> {
    let (places, what) = match (survey.markers.as_slice(), survey.oob_markers.as_slice()) {
        ([], []) => return None,
        ([], in_oob) => (in_oob, "cleanmarkers in the OOB"),
        (inline, _) => (inline, "cleanmarkers"),
    };
    let count = places.len();
    // A single marker has no distance to another, wherever it is.
    let several = places.iter().filter(|_| count > 1);
    let mut distance = several.fold(0, |common, place| greatest_common_divisor(common, *place));
    let one = count == 1 && places.first() == Some(&0) && survey.markers.is_empty() && survey.whole;
    if one && survey.length <= USUAL_MAX.into() && survey.length.is_power_of_two() {
        // A dump with OOB consists of whole blocks: with one cleanmarker it is one block.
        distance = survey.length;
    }
    let size = u32::try_from(distance).ok().filter(|size| (ERASE_SIZE_MIN..=1 << 26).contains(size))?;
    survey.all_begin_at(places, size).then(|| {
        (size, format!("{count} {what} stand at multiples of {size} bytes, one at the beginning of each block in use"))
    })
}

/// The smallest fitting size, if nodes repeatedly end at its multiples: in larger blocks, some
/// nodes would cross these positions.
fn by_seams(survey: &Survey, size: u32) -> Option<(u32, String)> {
    let (_, Against { seams, seam_bits, .. }) = survey.sizes.iter().find(|(known, _)| *known == size)?;
    (weight(survey, size) == 0 && *seam_bits >= BITS_MIN).then(|| {
        (size, format!("no node crosses a multiple of {size} bytes, and at {seams} of the odd ones a node begins"))
    })
}

pub(super) fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
