//! Surveying a dump, and judging how surely it is JFFS2 with a given block size.

use std::ops::Range;

use nandkit_flash::Look;
use nandkit_units::{ByteOrder, format_bytes};
use nandkit_vfs::probe::{Depth, Fit, Layout, Likeness};

use super::erase_size::Verdict;
use super::survey::Survey;

/// Points subtracted if the erase size fits but is not proven; each further fitting size loses one
/// more.
const UNPROVEN: u32 = 12;
/// Points subtracted for a size that would fit if no other one were proven.
const UNLIKELY: u32 = 200;

/// The survey of a dump that contains nodes, for one page size.
#[derive(Debug)]
pub struct Probe {
    survey: Survey,
    verdict: Verdict,
}

/// Facts about a dump known before the survey.
#[derive(Clone, Copy, Debug)]
pub struct Assumptions<'a> {
    /// Erase blocks are a multiple of this many bytes.
    pub page_size: u32,
    /// Erase sizes to judge in addition to the powers of two.
    pub erase_sizes: &'a [u32],
    /// The erase size, if the OOB layout of the dump implies it.
    pub block_with_oob: Option<u32>,
}

/// Surveys a dump; `None` if it shows no sign of JFFS2. The device's own erase size does not
/// matter.
pub fn probe(device: &dyn Look, depth: Depth, known: &Assumptions<'_>) -> Option<Probe> {
    probe_parts(device, std::slice::from_ref(&(0..device.geometry().capacity())), depth, known)
}

/// Surveys parts of a dump in ascending order: blocks begin at multiples of their size from the
/// dump's beginning.
pub fn probe_parts(device: &dyn Look, parts: &[Range<u64>], depth: Depth, known: &Assumptions<'_>) -> Option<Probe> {
    let mut sizes = known.erase_sizes.to_vec();
    sizes.extend(known.block_with_oob);
    let mut survey = Survey::of(device, parts, depth, &sizes);
    let mut verdict = Verdict::of(&survey, known.page_size);
    if let Some((size, _)) = verdict.proven.clone()
        && !survey.sizes.iter().any(|(judged, _)| *judged == size)
    {
        // A size that is no power of two is judged separately.
        sizes.push(size);
        survey = Survey::of(device, parts, depth, &sizes);
        verdict = Verdict::of(&survey, known.page_size);
    }
    if let Some(size) = known.block_with_oob {
        let why = format!("the OOB stands behind every {size} bytes of data");
        verdict = verdict.proven_by(size, why);
    }
    (survey.quality() > 0).then_some(Probe { survey, verdict })
}

impl Probe {
    /// Whether all of the dump was read, and consists only of valid nodes and free flash.
    pub fn is_clean(&self) -> bool {
        self.survey.breaks == 0 && self.survey.unsound == 0 && self.survey.whole
    }

    /// The share of consecutive nodes in everything that is not free: 1 to 1000.
    pub fn quality(&self) -> u32 {
        self.survey.quality()
    }

    /// Total length of the nodes found, in bytes.
    pub fn node_bytes(&self) -> u64 {
        self.survey.node_bytes
    }

    /// Number of summaries.
    pub fn summaries(&self) -> u32 {
        self.survey.summaries
    }

    /// Whether cleanmarkers are in the data, which only happens on flash without OOB: mostly NOR.
    pub fn has_markers_in_data(&self) -> bool {
        !self.survey.markers.is_empty()
    }

    /// Number of cleanmarkers in the OOB, up to 65,536.
    pub fn oob_markers(&self) -> usize {
        self.survey.oob_markers.len()
    }

    /// Fitting erase sizes, the likeliest first; only the proven one if there is one.
    pub fn erase_sizes(&self) -> &[u32] {
        &self.verdict.fitting
    }

    /// The erase size proven by the content, if any.
    pub fn proven_erase_size(&self) -> Option<u32> {
        self.verdict.proven.as_ref().map(|(size, _)| *size)
    }

    /// How well an erase size fits.
    pub fn fit(&self, size: u32) -> Fit {
        self.verdict.fit(&self.survey, size)
    }

    /// How surely this is JFFS2 with blocks of `size` bytes, which has rank `rank` among the
    /// fitting sizes.
    pub fn likeness(&self, size: u32, rank: u32) -> Likeness {
        likeness(&self.survey, &self.verdict, size, rank)
    }
}

fn likeness(survey: &Survey, verdict: &Verdict, size: u32, rank: u32) -> Likeness {
    let fit = verdict.fit(survey, size);
    let less = match fit {
        Fit::Proven => 0,
        Fit::Fits => UNPROVEN + rank,
        Fit::Unlikely => UNLIKELY,
        Fit::Refuted => survey.quality() / 2,
    };
    let mut evidence = vec![of_nodes(survey)];
    evidence.extend(of_size(verdict, fit));
    let order = match survey.nodes {
        [little, big] if big > little => ByteOrder::Big,
        _ => ByteOrder::Little,
    };
    Likeness {
        points: survey.quality().saturating_sub(less),
        evidence,
        layout: Layout {
            erase_size: size,
            erase_sizes: verdict.fitting.clone(),
            erase_size_fit: fit,
            byte_order: Some(order),
            ..Layout::default()
        },
        extent: None,
    }
}

/// The evidence for or against an erase size.
fn of_size(verdict: &Verdict, fit: Fit) -> Option<String> {
    match (&verdict.proven, fit) {
        (Some((_, proof)), Fit::Proven) => Some(proof.clone()),
        (Some((_, proof)), _) => Some(format!("against it: {proof}")),
        (None, _) if verdict.fitting.len() > 1 => {
            let sizes: Vec<String> = verdict.fitting.iter().map(|size| format_bytes((*size).into())).collect();
            Some(format!("nothing proves the erase size: blocks of {} fit", sizes.join(", ")))
        }
        _ => None,
    }
}

fn of_nodes(survey: &Survey) -> String {
    let nodes: u32 = survey.nodes.iter().sum();
    let looked = if survey.whole { "" } else { " where it was looked at" };
    match survey.breaks {
        0 => format!("{nodes} nodes with right checksums follow one another without a gap{looked}"),
        breaks => format!(
            "{nodes} nodes with right checksums; against it: at {breaks} places something else stands, {} bytes{looked}",
            survey.junk_bytes
        ),
    }
}
