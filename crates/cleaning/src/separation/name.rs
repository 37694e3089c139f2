//! Schemes by name: `sepbit`, `dac:regions=4,base=writes,promote-below=5000`.

use std::fmt;
use std::str::FromStr;

use super::{Base, FrequencyParameters, MAX_REGIONS, Separation};
use crate::victim::{OptionInfo, option, parse_span};

/// A named scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemeInfo {
    /// Its name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// Its options.
    pub options: &'static [OptionInfo],
    /// The scheme with its defaults.
    pub scheme: Separation,
}

/// An unknown name, option or value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeparationError {
    /// There is no scheme of that name.
    #[error("no separation `{name}`; there are {}", names().collect::<Vec<_>>().join(", "))]
    Name {
        /// The name given.
        name: String,
    },
    /// The scheme does not have the option.
    #[error("separation `{scheme}` has no option `{option}`; it has {expected}")]
    Option {
        /// The scheme.
        scheme: &'static str,
        /// The option given.
        option: String,
        /// The options of the scheme.
        expected: String,
    },
    /// The option does not accept the value.
    #[error("`{value}` is no value for `{option}` of separation `{scheme}`, which takes {expected}")]
    Value {
        /// The scheme.
        scheme: &'static str,
        /// The option.
        option: String,
        /// The value given.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
}

const REGIONS: OptionInfo = option("regions", "1 to 16: the number of regions");
const BASE: OptionInfo = option("base", "time or writes: what ages are measured in");
const SPAN: &str =
    "a number of nanoseconds or, with base=writes, of user writes; or time with its unit (ns, us, ms, s, h, d)";

/// Sixty seconds, since P2 gives no threshold.
const MINUTE: u64 = 60_000_000_000;

static SCHEMES: &[SchemeInfo] = &[
    SchemeInfo { name: "none", about: "one region for all", options: &[], scheme: Separation::None },
    SchemeInfo {
        name: "user-moved",
        about: "one region for what the user writes, one for what cleaning moves",
        options: &[],
        scheme: Separation::UserMoved,
    },
    SchemeInfo {
        name: "known",
        about: "what is hot is told beforehand: pages below a number apart from all others",
        options: &[option("below", "a number: the first page that is not hot")],
        scheme: Separation::Known { below: 0 },
    },
    SchemeInfo {
        name: "dac",
        about: "P2's dynamic data clustering: up when updated or cleaned young, down when cleaned old",
        options: &[
            REGIONS,
            BASE,
            option("promote-below", SPAN),
            option("demote-above", SPAN),
            option("clean-promotes", "yes or no: whether cleaning moves young data up"),
        ],
        scheme: Separation::Dac {
            regions: 3,
            base: Base::Time,
            promote_below: MINUTE,
            demote_above: MINUTE,
            clean_promotes: true,
        },
    },
    SchemeInfo {
        name: "interval",
        about: "by the last interval between two writes, in regions of growing length",
        options: &[
            REGIONS,
            BASE,
            option("first", SPAN),
            option("factor", "2 or more: the ratio of neighbouring regions"),
        ],
        scheme: Separation::Interval { regions: 4, base: Base::Time, first: MINUTE, factor: 4 },
    },
    SchemeInfo {
        name: "frequency",
        about: "by recent update frequency, each region twice the one below",
        options: &[
            option("regions", "1 to 8: the number of regions"),
            option("counters-log2", "4 to 24: the binary logarithm of the number of counters"),
            option("halve-every", "number: writes between two halvings of the counters"),
        ],
        scheme: Separation::Frequency(FrequencyParameters { regions: 4, counters_log2: 14, halve_every: 16_384 }),
    },
    SchemeInfo {
        name: "chain",
        about: "one group on with each move by cleaning, as in MiDAS but with fixed groups",
        options: &[option("groups", "1 to 16: the number of groups")],
        scheme: Separation::Chain { groups: 4 },
    },
    SchemeInfo {
        name: "sepbit",
        about: "SepBIT: by the lifetime inferred from the replaced version and from age",
        options: &[],
        scheme: Separation::SepBit,
    },
];

/// The names of all schemes.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    SCHEMES.iter().map(|scheme| scheme.name)
}

/// The scheme of that name.
pub fn info(name: &str) -> Option<&'static SchemeInfo> {
    SCHEMES.iter().find(|scheme| scheme.name == name)
}

impl Separation {
    /// The scheme with this name and these options, each a name and a value.
    ///
    /// # Errors
    ///
    /// Errors: [`SeparationError`] for an unknown name, option or value.
    pub fn named<'a>(
        name: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, SeparationError> {
        let info = info(name).ok_or_else(|| SeparationError::Name { name: name.to_owned() })?;
        let mut scheme = info.scheme;
        for (option, value) in options {
            let Some(found) = info.options.iter().find(|known| known.name == option) else {
                let expected = match info.options {
                    [] => "none".to_owned(),
                    all => all.iter().map(|known| known.name).collect::<Vec<_>>().join(", "),
                };
                return Err(SeparationError::Option { scheme: info.name, option: option.to_owned(), expected });
            };
            scheme.set(option, value).ok_or_else(|| SeparationError::Value {
                scheme: info.name,
                option: option.to_owned(),
                value: value.to_owned(),
                expected: found.about,
            })?;
        }
        Ok(scheme)
    }

    /// The scheme's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::UserMoved => "user-moved",
            Self::Known { .. } => "known",
            Self::Dac { .. } => "dac",
            Self::Interval { .. } => "interval",
            Self::Frequency(_) => "frequency",
            Self::Chain { .. } => "chain",
            Self::SepBit => "sepbit",
        }
    }

    fn set(&mut self, option: &str, value: &str) -> Option<()> {
        match (self, option) {
            (Self::Dac { regions, .. } | Self::Interval { regions, .. }, "regions") => *regions = count(value)?,
            (Self::Frequency(FrequencyParameters { regions, .. }), "regions") => {
                *regions = count(value).filter(|regions| *regions <= FrequencyParameters::REGIONS_MAX)?;
            }
            (Self::Known { below }, "below") => *below = value.parse().ok()?,
            (Self::Chain { groups }, "groups") => *groups = count(value)?,
            (Self::Dac { base, .. } | Self::Interval { base, .. }, "base") => {
                *base = match value {
                    "time" => Base::Time,
                    "writes" => Base::Writes,
                    _ => return None,
                };
            }
            (Self::Dac { promote_below, .. }, "promote-below") => *promote_below = span(value)?,
            (Self::Dac { demote_above, .. }, "demote-above") => *demote_above = span(value)?,
            (Self::Dac { clean_promotes, .. }, "clean-promotes") => {
                *clean_promotes = match value {
                    "yes" => true,
                    "no" => false,
                    _ => return None,
                };
            }
            (Self::Interval { first, .. }, "first") => *first = span(value)?,
            (Self::Interval { factor, .. }, "factor") => *factor = value.parse().ok().filter(|&factor| factor >= 2)?,
            (Self::Frequency(parameters), "counters-log2") => {
                parameters.counters_log2 = value.parse().ok().filter(|log| (4..=24).contains(log))?;
            }
            (Self::Frequency(parameters), "halve-every") => {
                parameters.halve_every = value.parse().ok().filter(|&writes| writes > 0)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Every option with its value.
    fn options(&self) -> Vec<(&'static str, String)> {
        let base = |base: Base| if base == Base::Time { "time" } else { "writes" }.to_owned();
        match self {
            Self::None | Self::UserMoved | Self::SepBit => Vec::new(),
            Self::Dac { regions, base: unit, promote_below, demote_above, clean_promotes } => vec![
                ("regions", regions.to_string()),
                ("base", base(*unit)),
                ("promote-below", promote_below.to_string()),
                ("demote-above", demote_above.to_string()),
                ("clean-promotes", if *clean_promotes { "yes" } else { "no" }.to_owned()),
            ],
            Self::Interval { regions, base: unit, first, factor } => vec![
                ("regions", regions.to_string()),
                ("base", base(*unit)),
                ("first", first.to_string()),
                ("factor", factor.to_string()),
            ],
            Self::Frequency(FrequencyParameters { regions, counters_log2, halve_every }) => vec![
                ("regions", regions.to_string()),
                ("counters-log2", counters_log2.to_string()),
                ("halve-every", halve_every.to_string()),
            ],
            Self::Chain { groups } => vec![("groups", groups.to_string())],
            Self::Known { below } => vec![("below", below.to_string())],
        }
    }
}

/// `name`, or `name:option=value,option=value`.
impl FromStr for Separation {
    type Err = SeparationError;

    fn from_str(text: &str) -> Result<Self, SeparationError> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let options = options.split(',').filter(|pair| !pair.is_empty());
        Self::named(name, options.map(|pair| pair.split_once('=').unwrap_or((pair, ""))))
    }
}

/// Shows the name and the options that differ from their defaults, as read by `FromStr`.
impl fmt::Display for Separation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let default = info(self.name()).map(|info| info.scheme.options()).unwrap_or_default();
        f.write_str(self.name())?;
        let changed = self.options().into_iter().filter(|option| !default.contains(option));
        for (index, (option, value)) in changed.enumerate() {
            write!(f, "{}{option}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

fn count(value: &str) -> Option<u8> {
    value.parse().ok().filter(|count| (1..=MAX_REGIONS).contains(count))
}

fn span(value: &str) -> Option<u64> {
    value.parse().ok().or_else(|| parse_span(value).map(|span| span.get()))
}
