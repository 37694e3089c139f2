//! Power cuts as data: plans, their outcomes, and their text form.
//!
//! ```text
//! plan     none | at:CUT | every:N@MOMENT | list:CUT,CUT,...
//! CUT      STEP@MOMENT                      step 1 is the first program, copy or erase
//! MOMENT   before | after | PAGE-ERASE      PAGE: nothing whole prefix garbage; ERASE: nothing whole half weak
//! outcome  CUT/OPERATION/BLOCK.PAGE
//! ```

use std::fmt;
use std::str::FromStr;

use nandkit_units::PageAddress;

use crate::{Operation, TornErase, TornPage};

/// When the power fails, relative to the operation at its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CutMoment {
    /// The operation fails before it begins.
    Before,
    /// The operation fails half-way. The kind of operation determines which of the two states
    /// applies.
    Inside {
        /// The state that a program or copy leaves.
        page: TornPage,
        /// The state that an erase leaves.
        erase: TornErase,
    },
    /// The operation succeeds and is acknowledged; everything after it fails.
    After,
}

impl CutMoment {
    /// Every distinct moment: before, after, and the four torn states of page and erase in pairs.
    pub const ALL: [Self; 6] = [
        Self::Before,
        Self::Inside { page: TornPage::Nothing, erase: TornErase::Nothing },
        Self::Inside { page: TornPage::Whole, erase: TornErase::Whole },
        Self::Inside { page: TornPage::Prefix, erase: TornErase::Half },
        Self::Inside { page: TornPage::Garbage, erase: TornErase::Weak },
        Self::After,
    ];
}

/// One cut: its step (counted from 1 over the whole life of the device), and its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The number of the program, copy or erase.
    pub step: u64,
    /// Before, inside or after it.
    pub moment: CutMoment,
}

/// A plan of power cuts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum CutPlan {
    /// No cut.
    #[default]
    None,
    /// A single cut.
    At(Cut),
    /// A cut at every multiple of `n`; none if `n` is 0.
    EveryNth {
        /// The distance in steps.
        n: u64,
        /// The moment of each cut.
        moment: CutMoment,
    },
    /// A cut at each of these steps. Steps continue after the power returns, so a second entry can
    /// cut a recovery.
    List(Vec<Cut>),
}

impl CutPlan {
    /// A plan with one cut.
    pub const fn at(step: u64, moment: CutMoment) -> Self {
        Self::At(Cut { step, moment })
    }

    /// The plan that repeats these cuts exactly.
    pub fn replaying(outcomes: &[CutOutcome]) -> Self {
        match outcomes {
            [] => Self::None,
            [one] => Self::At(one.cut),
            all => Self::List(all.iter().map(|outcome| outcome.cut).collect()),
        }
    }

    /// The moment of the cut at this step, if the plan has one.
    pub fn moment_at(&self, step: u64) -> Option<CutMoment> {
        match self {
            Self::None => None,
            Self::At(cut) => (cut.step == step).then_some(cut.moment),
            Self::EveryNth { n, moment } => (*n != 0 && step.is_multiple_of(*n)).then_some(*moment),
            Self::List(cuts) => cuts.iter().find(|cut| cut.step == step).map(|cut| cut.moment),
        }
    }
}

/// A cut that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CutOutcome {
    /// Step and moment.
    pub cut: Cut,
    /// The operation that was cut: a program, a copy or an erase.
    pub operation: Operation,
    /// Address of the page that was cut.
    pub at: PageAddress,
}

/// The error for a text that is no plan, cut or outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseCutError {
    part: String,
    expected: &'static str,
}

impl fmt::Display for ParseCutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" in a cut plan: expected {}", self.part, self.expected)
    }
}

impl std::error::Error for ParseCutError {}

fn wrong(part: &str, expected: &'static str) -> ParseCutError {
    ParseCutError { part: part.to_string(), expected }
}

const PAGES: [(TornPage, &str); 4] = [
    (TornPage::Nothing, "nothing"),
    (TornPage::Whole, "whole"),
    (TornPage::Prefix, "prefix"),
    (TornPage::Garbage, "garbage"),
];
const ERASES: [(TornErase, &str); 4] = [
    (TornErase::Nothing, "nothing"),
    (TornErase::Whole, "whole"),
    (TornErase::Half, "half"),
    (TornErase::Weak, "weak"),
];
const OPERATIONS: [(Operation, &str); 3] =
    [(Operation::Program, "program"), (Operation::Copy, "copy"), (Operation::Erase, "erase")];

fn name_of<T: Copy + PartialEq>(table: &[(T, &'static str)], value: T) -> &'static str {
    table.iter().find(|(known, _)| *known == value).map_or("?", |(_, name)| name)
}

fn value_of<T: Copy>(table: &[(T, &'static str)], name: &str) -> Option<T> {
    table.iter().find(|(_, known)| *known == name).map(|(value, _)| *value)
}

fn number<T: FromStr>(text: &str) -> Result<T, ParseCutError> {
    text.parse().map_err(|_| wrong(text, "a number"))
}

impl fmt::Display for CutMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Before => f.write_str("before"),
            Self::After => f.write_str("after"),
            Self::Inside { page, erase } => write!(f, "{}-{}", name_of(&PAGES, page), name_of(&ERASES, erase)),
        }
    }
}

impl FromStr for CutMoment {
    type Err = ParseCutError;

    fn from_str(text: &str) -> Result<Self, ParseCutError> {
        let expected = "before, after, or PAGE-ERASE as in prefix-half (PAGE: nothing, whole, prefix, garbage; ERASE: nothing, whole, half, weak)";
        match text {
            "before" => Ok(Self::Before),
            "after" => Ok(Self::After),
            _ => {
                let (page, erase) = text.split_once('-').ok_or_else(|| wrong(text, expected))?;
                let page = value_of(&PAGES, page).ok_or_else(|| wrong(text, expected))?;
                let erase = value_of(&ERASES, erase).ok_or_else(|| wrong(text, expected))?;
                Ok(Self::Inside { page, erase })
            }
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.step, self.moment)
    }
}

impl FromStr for Cut {
    type Err = ParseCutError;

    fn from_str(text: &str) -> Result<Self, ParseCutError> {
        let (step, moment) = text.split_once('@').ok_or_else(|| wrong(text, "STEP@MOMENT as in 17@before"))?;
        Ok(Self { step: number(step)?, moment: moment.parse()? })
    }
}

impl fmt::Display for CutPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::At(cut) => write!(f, "at:{cut}"),
            Self::EveryNth { n, moment } => write!(f, "every:{n}@{moment}"),
            Self::List(cuts) => {
                f.write_str("list:")?;
                for (index, cut) in cuts.iter().enumerate() {
                    write!(f, "{}{cut}", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for CutPlan {
    type Err = ParseCutError;

    fn from_str(text: &str) -> Result<Self, ParseCutError> {
        let text = text.trim();
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            Some(("at", cut)) => Ok(Self::At(cut.parse()?)),
            Some(("every", cut)) => {
                let Cut { step, moment } = cut.parse()?;
                Ok(Self::EveryNth { n: step, moment })
            }
            Some(("list", "")) => Ok(Self::List(Vec::new())),
            Some(("list", cuts)) => Ok(Self::List(cuts.split(',').map(str::parse).collect::<Result<_, _>>()?)),
            _ => Err(wrong(text, "none, at:STEP@MOMENT, every:N@MOMENT or list:STEP@MOMENT,...")),
        }
    }
}

impl fmt::Display for CutOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}.{}", self.cut, name_of(&OPERATIONS, self.operation), self.at.block.0, self.at.page)
    }
}

impl FromStr for CutOutcome {
    type Err = ParseCutError;

    fn from_str(text: &str) -> Result<Self, ParseCutError> {
        let expected = "STEP@MOMENT/OPERATION/BLOCK.PAGE as in 17@before/erase/3.0";
        let mut parts = text.split('/');
        let (Some(cut), Some(operation), Some(at), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(wrong(text, expected));
        };
        let (block, page) = at.split_once('.').ok_or_else(|| wrong(at, expected))?;
        Ok(Self {
            cut: cut.parse()?,
            operation: value_of(&OPERATIONS, operation).ok_or_else(|| wrong(operation, "program, copy or erase"))?,
            at: PageAddress::new(number(block)?, number(page)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_and_outcomes_print_and_parse_back() {
        let mut plans = vec![CutPlan::None, CutPlan::List(Vec::new())];
        for (index, moment) in CutMoment::ALL.into_iter().enumerate() {
            let step = index as u64 * 1000 + 1;
            plans.push(CutPlan::at(step, moment));
            plans.push(CutPlan::EveryNth { n: step, moment });
            plans.push(CutPlan::List(vec![Cut { step, moment }, Cut { step: u64::MAX, moment }]));
            for (operation, _) in OPERATIONS {
                let outcome = CutOutcome { cut: Cut { step, moment }, operation, at: PageAddress::new(7, 63) };
                assert_eq!(outcome.to_string().parse(), Ok(outcome));
            }
        }
        for plan in plans {
            assert_eq!(plan.to_string().parse(), Ok(plan.clone()), "{plan}");
        }
        assert_eq!(CutPlan::at(17, CutMoment::ALL[3]).to_string(), "at:17@prefix-half");
    }

    #[test]
    fn wrong_texts_are_refused_with_what_would_be_right() {
        for (text, part) in [
            ("", "none, at:"),
            ("at:", "STEP@MOMENT"),
            ("at:x@before", "a number"),
            ("at:1@during", "before, after"),
            ("list:1@before,,", "STEP@MOMENT"),
            ("every:-1@after", "a number"),
            ("at:1@whole-prefix", "ERASE"),
        ] {
            let error = text.parse::<CutPlan>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for text in ["1@before", "1@before/read/0.0", "1@before/erase/0", "1@before/erase/0.0/x"] {
            assert!(text.parse::<CutOutcome>().is_err(), "{text}");
        }
    }
}
