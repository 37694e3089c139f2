//! The papers' claims beside measured figures.
//!
//! A paper is a [`Paper`]: it makes the runs that its claims need and computes each verdict from
//! their records. A claim that does not hold is reported so, with the reason where it is known; the
//! baseline file says which claims held when it was shipped, so that one that no longer does is
//! noticed.

mod baseline;
pub mod check;
mod headlines;
pub mod p1;
pub mod p2;
pub mod p3;
pub mod p4;
pub mod theory;

pub use baseline::{Baseline, Changes, shipped_baseline};
pub use nandkit_record::{Claim, Verdict};

use nandkit_record::RunRecord;
use nandkit_stack::suggest;

use crate::{Experiment, LabError, Options};

/// A request for a reproduction: which claims, how thoroughly, and how to make the runs.
pub struct Request<'a> {
    /// Whether to take fewer seeds and smaller workloads.
    pub quick: bool,
    /// Directories of this host that P3.2 packs beside its own trees.
    pub directories: &'a [String],
    /// Answers whether the claim of an id is asked for; a paper may leave out runs that only other
    /// claims need.
    pub wanted: &'a dyn Fn(&str) -> bool,
    /// How to make the runs.
    pub options: &'a Options<'a>,
}

impl Request<'_> {
    /// Makes the runs of an experiment.
    pub fn run(&self, experiment: &Experiment) -> Result<Vec<RunRecord>, LabError> {
        experiment.run(self.options)
    }
}

/// A paper whose claims can be reproduced.
pub trait Paper: Sync {
    /// Its id: `P4`.
    fn id(&self) -> &'static str;

    /// Its title.
    fn title(&self) -> &'static str;

    /// The ids of its claims, in their order.
    fn claims(&self) -> &'static [&'static str];

    /// Makes the runs and judges the wanted claims, in their order.
    fn reproduce(&self, request: &Request<'_>) -> Result<Vec<Claim>, LabError>;
}

/// All papers.
pub fn papers() -> &'static [&'static dyn Paper] {
    &[&p1::P1, &p2::P2, &p3::P3, &p4::P4, &theory::Theory]
}

/// What is to be reproduced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// A paper (`P4`) or a claim (`P4.3`); everything where it is `None`.
    pub what: Option<&'a str>,
    /// Whether to take fewer seeds and smaller workloads.
    pub quick: bool,
    /// Directories of this host that P3.2 packs beside its own trees.
    pub directories: &'a [String],
}

/// The claim that reads directories of this host.
const OF_DIRECTORIES: &str = "P3.2";

/// Reproduces what is asked for, from `papers`. Errors: no such paper or claim; a directory for a
/// claim that reads none, or that cannot be read or held.
pub fn reproduce(papers: &[&dyn Paper], asked: Asked<'_>, options: &Options<'_>) -> Result<Vec<Claim>, LabError> {
    let Asked { what, quick, directories } = asked;
    let is_wanted = |paper: &dyn Paper, claim: &str| {
        what.is_none_or(|what| what.eq_ignore_ascii_case(paper.id()) || what.eq_ignore_ascii_case(claim))
    };
    let chosen: Vec<&&dyn Paper> =
        papers.iter().filter(|paper| paper.claims().iter().any(|claim| is_wanted(**paper, claim))).collect();
    if let (Some(what), []) = (what, chosen.as_slice()) {
        let names: Vec<&str> =
            papers.iter().flat_map(|paper| [paper.id()].into_iter().chain(paper.claims().iter().copied())).collect();
        return Err(LabError::Input(suggest::unknown("paper or claim", what, &names)));
    }
    let reads = |paper: &&&dyn Paper| is_wanted(**paper, OF_DIRECTORIES) && paper.claims().contains(&OF_DIRECTORIES);
    if !directories.is_empty() && !chosen.iter().any(reads) {
        let what = what.unwrap_or_default();
        return Err(LabError::Input(format!(
            "--dir: {what} reads no directories; {OF_DIRECTORIES} does, and so does P3"
        )));
    }
    let mut claims = Vec::new();
    for paper in chosen {
        let wanted = |claim: &str| is_wanted(*paper, claim);
        let judged = paper.reproduce(&Request { quick, directories, wanted: &wanted, options })?;
        let judged = judged.into_iter().filter(|claim| wanted(&claim.claim));
        claims.extend(judged.map(|claim| Claim { line: headlines::line_of(&claim), ..claim }));
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unmeasured;
    use std::sync::atomic::AtomicBool;

    struct Two;

    impl Paper for Two {
        fn id(&self) -> &'static str {
            "P9"
        }
        fn title(&self) -> &'static str {
            "two claims"
        }
        fn claims(&self) -> &'static [&'static str] {
            &["P9.1", "P9.2"]
        }
        fn reproduce(&self, request: &Request<'_>) -> Result<Vec<Claim>, LabError> {
            let claim = |id: &str| Claim {
                claim: id.into(),
                text: "t".into(),
                paper: 1.into(),
                measured: 2.into(),
                holds: !request.quick,
                ..Claim::default()
            };
            Ok(self.claims().iter().map(|id| claim(id)).collect())
        }
    }

    fn ids(what: Option<&str>) -> Result<Vec<String>, LabError> {
        let stop = AtomicBool::new(false);
        let options = Options {
            jobs: 1,
            directory: None,
            program: None,
            notice: &|_| (),
            inputs: &nandkit_workload::NoInputs,
            host: &Unmeasured,
            progress: &|_| (),
            stop: &stop,
            tap: None,
        };
        let claims = reproduce(&[&Two], Asked { what, ..Asked::default() }, &options)?;
        Ok(claims.into_iter().map(|claim| claim.claim).collect())
    }

    #[test]
    fn a_paper_a_claim_or_everything() {
        assert_eq!(ids(None).unwrap(), ["P9.1", "P9.2"]);
        assert_eq!(ids(Some("p9")).unwrap(), ["P9.1", "P9.2"]);
        assert_eq!(ids(Some("P9.2")).unwrap(), ["P9.2"]);
        let error = ids(Some("P9.3")).unwrap_err().to_string();
        assert!(error.contains("unknown paper or claim \"P9.3\"; did you mean \"P9"), "{error}");
    }
}
