//! Policies by name: `greedy`, `d-choices:d=5`, `cat:erase-offset=0,open-clean=yes`.

use std::fmt;
use std::str::FromStr;

use nandkit_units::Nanos;

use super::{Age, CatParameters, Coldest, Leveling, Rule, VictimPolicy};

/// An option of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// What it takes and does, in one line.
    pub about: &'static str,
}

/// A policy that has a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Its own options; every policy takes those of [`PolicyInfo::common`] besides.
    pub options: &'static [OptionInfo],
    /// The rule with its defaults.
    pub rule: Rule,
}

/// A name or an option that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No policy of that name.
    #[error("no victim policy `{name}`; there are {}", names().collect::<Vec<_>>().join(", "))]
    Name {
        /// The name given.
        name: String,
    },
    /// An option that the policy does not have.
    #[error("victim policy `{policy}` has no option `{option}`; it has {expected}")]
    Option {
        /// The policy.
        policy: &'static str,
        /// The option given.
        option: String,
        /// The options that it has.
        expected: String,
    },
    /// A value that the option does not take.
    #[error("`{value}` is no value for `{option}` of victim policy `{policy}`, which takes {expected}")]
    Value {
        /// The policy.
        policy: &'static str,
        /// The option.
        option: String,
        /// The value given.
        value: String,
        /// What the option takes.
        expected: &'static str,
    },
}

pub(crate) const fn option(name: &'static str, about: &'static str) -> OptionInfo {
    OptionInfo { name, about }
}

const COMMON: &[OptionInfo] = &[
    option(
        "open-clean",
        "yes, no or rule: whether blocks without invalid data are candidates; rule: as its authors have it",
    ),
    option("level-one-in", "number: one victim in this many is the coldest block; 0: none"),
    option("level-coldest", "oldest or least-erased: what the coldest block is"),
    option("level-gap", "number or none: the least erased block goes when erase counts differ by more"),
];
const AGE: OptionInfo = option("age", "written or created: what the age counts from");
const CAT: &[OptionInfo] = &[
    option("erase-offset", "number: added to the erase count"),
    AGE,
    option("age-unit", "time (ns, us, ms, s, h, d): the unit of the age and its least value"),
    option("invalid-floor", "thousandths of the block: what a clean block counts as invalid if clean blocks are open"),
];
const CHIANG: &[OptionInfo] =
    &[CAT[0], AGE, CAT[2], CAT[3], option("log-age", "yes or no: take the logarithm of the age")];

const fn policy(name: &'static str, rule: Rule, options: &'static [OptionInfo], about: &'static str) -> PolicyInfo {
    PolicyInfo { name, about, options, rule }
}

static POLICIES: &[PolicyInfo] = &[
    policy("linux", Rule::Linux, &[], "JFFS2 in Linux: a draw picks the list, its head is the victim"),
    policy(
        "p2-baseline",
        Rule::P2Baseline,
        &[],
        "P2's account of JFFS2: the head of one dirty list, never a clean block",
    ),
    policy("fifo", Rule::Fifo, &[], "the block first written longest ago"),
    policy("greedy", Rule::Greedy, &[], "the block with the fewest valid bytes"),
    policy("greedy-by-lot", Rule::GreedyByLot, &[], "the same, one by lot among equals, as theory has it"),
    policy(
        "cost-benefit",
        Rule::CostBenefit { age: Age::Written },
        &[AGE],
        "Rosenblum and Ousterhout: the greatest (1-u)*age/(1+u)",
    ),
    policy(
        "cost-benefit-p1",
        Rule::Kawaguchi { age: Age::Written },
        &[AGE],
        "Kawaguchi, and P1: the greatest age*(1-u)/(2u)",
    ),
    policy(
        "cost-benefit-linux",
        Rule::F2fs,
        &[],
        "F2FS in Linux: cost-benefit in per cent, age by rank in the range of ages",
    ),
    policy(
        "cat",
        Rule::Cat(CatParameters::DEFAULT),
        CAT,
        "P2's cost-age-times: the smallest valid/invalid * 1/age * erases",
    ),
    policy(
        "cat-chiang",
        Rule::Chiang { parameters: CatParameters::DEFAULT, log_age: false },
        CHIANG,
        "Chiang and Chang's cost-age-times: the smallest u/(1-u) * 1/age * erases",
    ),
    policy(
        "d-choices",
        Rule::DChoices { d: 10 },
        &[option("d", "1 to 64: candidates drawn")],
        "greedy among d random blocks",
    ),
    policy("random", Rule::Random, &[], "a random block"),
    policy(
        "windowed-greedy",
        Rule::WindowedGreedy { window: 64 },
        &[option("window", "number: blocks in the window")],
        "greedy among the blocks first written longest ago",
    ),
    policy(
        "age-threshold",
        Rule::AgeThreshold { threshold: Nanos::from_secs(7 * 86_400), percent: 20, least: 10, weight: 60 },
        &[
            option("threshold", "time (ns, us, ms, s, h, d): the least age, from the newest write"),
            option("percent", "0 to 100: the share of candidates, oldest first"),
            option("least", "number: their least number"),
            option("weight", "0 to 100: the weight of age against space"),
        ],
        "F2FS's age-threshold cleaning: age and space weighed, among the oldest blocks",
    ),
    policy(
        "wear-aware",
        Rule::WearAware { balance: 100 },
        &[option("balance", "number: the gap of erase counts at which wear counts as much as space")],
        "greedy that spares worn blocks the more, the more wear differs",
    ),
];

/// The names of all policies.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    POLICIES.iter().map(|policy| policy.name)
}

/// The policy of that name.
pub fn info(name: &str) -> Option<&'static PolicyInfo> {
    POLICIES.iter().find(|policy| policy.name == name)
}

impl PolicyInfo {
    /// The options that every policy takes.
    pub const fn common() -> &'static [OptionInfo] {
        COMMON
    }
}

impl VictimPolicy {
    /// The policy of that name with these options, each a name and a value.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] for a name, an option or a value that there is not.
    pub fn named<'a>(name: &str, options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, PolicyError> {
        let info = info(name).ok_or_else(|| PolicyError::Name { name: name.to_owned() })?;
        let mut policy = Self::from(info.rule);
        for (option, value) in options {
            let all = || info.options.iter().chain(COMMON);
            let Some(found) = all().find(|known| known.name == option) else {
                let expected = all().map(|known| known.name).collect::<Vec<_>>().join(", ");
                return Err(PolicyError::Option { policy: info.name, option: option.to_owned(), expected });
            };
            let set = policy.set_common(option, value).or_else(|| policy.rule.set(option, value));
            set.ok_or_else(|| PolicyError::Value {
                policy: info.name,
                option: option.to_owned(),
                value: value.to_owned(),
                expected: found.about,
            })?;
        }
        Ok(policy)
    }

    /// The name of the policy's rule.
    pub fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn set_common(&mut self, option: &str, value: &str) -> Option<()> {
        match option {
            "open-clean" if value == "rule" => self.open_clean = None,
            "open-clean" => self.open_clean = Some(yes(value)?),
            "level-one-in" => {
                let coldest =
                    if let Leveling::OneIn { coldest, .. } = self.leveling { coldest } else { Coldest::Oldest };
                self.leveling = Leveling::OneIn { victims: value.parse().ok()?, coldest };
            }
            "level-coldest" => {
                let victims = if let Leveling::OneIn { victims, .. } = self.leveling { victims } else { 0 };
                let coldest = match value {
                    "oldest" => Coldest::Oldest,
                    "least-erased" => Coldest::LeastErased,
                    _ => return None,
                };
                self.leveling = Leveling::OneIn { victims, coldest };
            }
            "level-gap" if value == "none" => self.leveling = Leveling::None,
            "level-gap" => self.leveling = Leveling::Gap { erases: value.parse().ok()? },
            _ => return None,
        }
        Some(())
    }
}

impl Rule {
    fn name(&self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::P2Baseline => "p2-baseline",
            Self::Fifo => "fifo",
            Self::Greedy => "greedy",
            Self::GreedyByLot => "greedy-by-lot",
            Self::CostBenefit { .. } => "cost-benefit",
            Self::Kawaguchi { .. } => "cost-benefit-p1",
            Self::F2fs => "cost-benefit-linux",
            Self::Cat(_) => "cat",
            Self::Chiang { .. } => "cat-chiang",
            Self::DChoices { .. } => "d-choices",
            Self::Random => "random",
            Self::WindowedGreedy { .. } => "windowed-greedy",
            Self::AgeThreshold { .. } => "age-threshold",
            Self::WearAware { .. } => "wear-aware",
            Self::Own(rule) => rule.name,
        }
    }

    fn set(&mut self, option: &str, value: &str) -> Option<()> {
        match (self, option) {
            (Self::CostBenefit { age } | Self::Kawaguchi { age }, "age") => *age = parse_age(value)?,
            (Self::Chiang { log_age, .. }, "log-age") => *log_age = yes(value)?,
            (Self::Cat(parameters) | Self::Chiang { parameters, .. }, _) => match option {
                "erase-offset" => parameters.erase_offset = value.parse().ok()?,
                "age" => parameters.age = parse_age(value)?,
                "age-unit" => parameters.age_unit = parse_span(value)?.get(),
                "invalid-floor" => parameters.invalid_floor = up_to(value, 0, 1000)?,
                _ => return None,
            },
            (Self::DChoices { d }, "d") => *d = up_to(value, 1, 64)?,
            (Self::WindowedGreedy { window }, "window") => *window = up_to(value, 1, u32::MAX)?,
            (Self::AgeThreshold { threshold, .. }, "threshold") => *threshold = parse_span(value)?,
            (Self::AgeThreshold { percent, .. }, "percent") => *percent = up_to(value, 0, 100)?,
            (Self::AgeThreshold { least, .. }, "least") => *least = value.parse().ok()?,
            (Self::AgeThreshold { weight, .. }, "weight") => *weight = up_to(value, 0, 100)?,
            (Self::WearAware { balance }, "balance") => *balance = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }

    /// Every option with its value.
    fn options(&self) -> Vec<(&'static str, String)> {
        let cat = |parameters: &CatParameters| {
            vec![
                ("erase-offset", parameters.erase_offset.to_string()),
                ("age", show_age(parameters.age).to_owned()),
                ("age-unit", show_span(Nanos(parameters.age_unit))),
                ("invalid-floor", parameters.invalid_floor.to_string()),
            ]
        };
        match self {
            Self::CostBenefit { age } | Self::Kawaguchi { age } => vec![("age", show_age(*age).to_owned())],
            Self::Cat(parameters) => cat(parameters),
            Self::Chiang { parameters, log_age } => {
                let mut all = cat(parameters);
                all.push(("log-age", if *log_age { "yes" } else { "no" }.to_owned()));
                all
            }
            Self::DChoices { d } => vec![("d", d.to_string())],
            Self::WindowedGreedy { window } => vec![("window", window.to_string())],
            Self::AgeThreshold { threshold, percent, least, weight } => vec![
                ("threshold", show_span(*threshold)),
                ("percent", percent.to_string()),
                ("least", least.to_string()),
                ("weight", weight.to_string()),
            ],
            Self::WearAware { balance } => vec![("balance", balance.to_string())],
            Self::Linux | Self::P2Baseline | Self::Fifo | Self::Greedy | Self::GreedyByLot | Self::F2fs => Vec::new(),
            Self::Random | Self::Own(_) => Vec::new(),
        }
    }
}

/// `name`, or `name:option=value,option=value`.
impl FromStr for VictimPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let options = options.split(',').filter(|pair| !pair.is_empty());
        Self::named(name, options.map(|pair| pair.split_once('=').unwrap_or((pair, ""))))
    }
}

/// The name, and the options that differ from their defaults: what `FromStr` reads.
impl fmt::Display for VictimPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = info(self.name()).map(|info| info.rule.options()).unwrap_or_default();
        let mut options = self.rule.options();
        options.retain(|option| !default.contains(option));
        if let Some(open) = self.open_clean {
            options.push(("open-clean", if open { "yes" } else { "no" }.to_owned()));
        }
        match self.leveling {
            Leveling::None => {}
            Leveling::OneIn { victims, coldest } => {
                options.push(("level-one-in", victims.to_string()));
                if coldest == Coldest::LeastErased {
                    options.push(("level-coldest", "least-erased".to_owned()));
                }
            }
            Leveling::Gap { erases } => options.push(("level-gap", erases.to_string())),
        }
        f.write_str(self.name())?;
        for (index, (option, value)) in options.iter().enumerate() {
            write!(f, "{}{option}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

fn yes(value: &str) -> Option<bool> {
    match value {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

fn up_to(value: &str, least: u32, most: u32) -> Option<u32> {
    value.parse().ok().filter(|number| (least..=most).contains(number))
}

fn parse_age(value: &str) -> Option<Age> {
    match value {
        "written" => Some(Age::Written),
        "created" => Some(Age::Created),
        _ => None,
    }
}

fn show_age(age: Age) -> &'static str {
    match age {
        Age::Written => "written",
        Age::Created => "created",
    }
}

/// Units of time, the greatest first.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
    // After those that end in it.
    ("s", 1_000_000_000),
];

pub(crate) fn parse_span(value: &str) -> Option<Nanos> {
    let (number, unit) = UNITS.iter().find_map(|(name, unit)| Some((value.strip_suffix(name)?, *unit)))?;
    number.parse::<u64>().ok()?.checked_mul(unit).map(Nanos)
}

fn show_span(span: Nanos) -> String {
    let fits = UNITS.iter().filter(|(_, unit)| span.get().is_multiple_of(*unit)).max_by_key(|(_, unit)| *unit);
    let (name, unit) = fits.copied().unwrap_or(("ns", 1));
    format!("{}{name}", span.get() / unit)
}
