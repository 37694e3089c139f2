//! Each claim in one line, for tables: what it says, the paper's figure, and which of ours stands
//! beside it.

use nandkit_record::ClaimLine;

use super::Claim;

/// A claim in one line.
struct Headline {
    /// The claim's id.
    id: &'static str,
    /// What it says, in at most 34 characters.
    words: &'static str,
    /// The paper's figure; empty where it gives none.
    paper: &'static str,
    /// A part of the name of the checks whose figure stands beside the paper's.
    check: &'static str,
}

/// The longest line, so that a table of claims fits into 80 columns.
#[cfg(test)]
const WORDS_MAX: usize = 34;

const fn line(id: &'static str, words: &'static str, paper: &'static str, check: &'static str) -> Headline {
    Headline { id, words, paper, check }
}

/// All claims of the papers.
const HEADLINES: [Headline; 30] = [
    line("P1.1", "PGC is no slower than SSR and GC", ">= 1", "PGC by the better"),
    line("P1.2", "at best PGC doubles SSR's speed", "> 2", "PGC's best by SSR"),
    line("P1.3", "the gain grows from card A to C", "> 1", "mean gain of C"),
    line("P1.4", "free cold segments: GC is steady", "1", "GC, fastest by slowest"),
    line("P1.5", "dirty cold segments: mostly Intra", "~ 1", "Intra-GC of what moved"),
    line("P1.6", "card A, warm 30 %: SSR alone", "1", "runs left"),
    line("P1.7", "card A: SSR is twice as fast as GC", "> 2", "SSR by GC"),
    line("P1.8", "random users cost what ordered do", "1", "random by sequential"),
    line("P1.F", "beyond: error of PGC's own model", "< 0.05", "model's error"),
    line("P2.1", "CAT is thrice as fast as JFFS2", "3", "as fast as baseline"),
    line("P2.2", "DAC loses a little on 640-116", "< 1", "loses a little"),
    line("P2.3", "random writes: DAC has no effect", "1", "DAC has no effect"),
    line("P2.4", "sequential: one region is fastest", "< 1", "R=1 is at least"),
    line("P2.5", "open clean list: DAC would gain", "", "clean list open: DAC"),
    line("P2.6", "640-116 is as bad as random", ">= 1", "amplifies writes"),
    line("P2.F", "beyond: JFFS2 beside FAT on an FTL", "", "JFFS2 with CAT"),
    line("P3.1", "qtar beats tar on small files", "3.4", "4 KiB: qtar by tar"),
    line("P3.2", "qtar on the Linux tree", "2.4", "a tree of Linux's shape"),
    line("P3.3", "remap doubles writes in cleaning", "2.2", "copyfiles: remap by copy"),
    line("P3.4", "cleaning mends fragments", "0.016", "fragments at the end"),
    line("P3.5", "reads follow the fragments' size", "1", "4 times as many pieces"),
    line("P3.6", "remap programs fewer pages", "< 1", "programmed per user byte"),
    line("P3.F", "beyond: whole files are gathered", "", "fragments behind gathering"),
    line("P3.M", "beyond: unified is never slower", "0", "more than 3 % slower"),
    line("P4.1", "limit gains on small PostMark", "+0.26", "limit on postmark-small"),
    line("P4.2", "large PostMark gains less", "< 1", "limit: gain on large"),
    line("P4.3", "macroscopic gains on a phone", "+0.22", "macroscopic on phone"),
    line("P4.4", "p grows linearly, alpha about 0.1", "0.1", "alpha"),
    line("P4.5", "fewer than 8 log blocks hurt", "8", "from 8 log blocks on"),
    line("P4.6", "best migrations by the formulas", "49", "best whole number"),
];

/// The line of a claim. Our figure in it is that of the first of its checks that fails, else of the
/// first.
pub(super) fn line_of(claim: &Claim) -> Option<ClaimLine> {
    let headline = HEADLINES.iter().find(|headline| headline.id == claim.claim)?;
    let of_headline = |(name, _): &&(String, Option<f64>)| name.contains(headline.check);
    let fails = |(name, _): &&(String, Option<f64>)| claim.checks.get(name) == Some(&false);
    let figures = || claim.figures.iter().filter(of_headline);
    let ours = figures().find(fails).or_else(|| figures().next()).and_then(|(_, figure)| *figure);
    Some(ClaimLine { words: headline.words.to_string(), paper: headline.paper.to_string(), ours })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{papers, shipped_baseline};

    #[test]
    fn every_claim_has_a_line_that_fits() {
        let claims = papers().iter().flat_map(|paper| paper.claims().iter().copied());
        for id in claims.filter(|id| !id.starts_with("theory")) {
            let headline = HEADLINES.iter().find(|headline| headline.id == id);
            let headline = headline.unwrap_or_else(|| panic!("no line for {id}"));
            assert!(headline.words.len() <= WORDS_MAX, "{id}: {}", headline.words.len());
        }
    }

    #[test]
    fn every_line_names_a_check_of_its_claim() {
        let baseline = shipped_baseline().unwrap();
        for headline in &HEADLINES {
            let Some(checks) = baseline.checks.get(headline.id) else { continue };
            assert!(checks.keys().any(|name| name.contains(headline.check)), "{}: {checks:?}", headline.id);
        }
    }

    #[test]
    fn the_figure_is_that_of_a_check_that_fails_before_others() {
        let claim = |holds: [bool; 2]| Claim {
            claim: "P1.1".into(),
            checks: [("PGC by the better, a".to_string(), holds[0]), ("PGC by the better, b".to_string(), holds[1])]
                .into(),
            figures: vec![("PGC by the better, a".into(), Some(1.5)), ("PGC by the better, b".into(), Some(0.9))],
            ..Claim::default()
        };
        let ours = |holds| line_of(&claim(holds)).unwrap().ours;
        assert_eq!((ours([true, true]), ours([true, false])), (Some(1.5), Some(0.9)));
        assert_eq!(line_of(&Claim { claim: "P1.2".into(), ..claim([true, true]) }).unwrap().ours, None);
        assert_eq!(line_of(&Claim::default()), None);
    }
}
