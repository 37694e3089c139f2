//! Policies by name: `greedy`, `d-choices:d=5`, `cat:erase-offset=0,open-clean=yes`.

use std::fmt;
use std::str::FromStr;

use super::option::{OptionInfo, OptionValues, option};
use super::rule::VictimRule;
use super::rules::RULES;
use super::{Coldest, Leveling, VictimPolicy};

/// An unknown name, option or value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// There is no policy of that name.
    #[error("no victim policy `{name}`; there are {}", names().collect::<Vec<_>>().join(", "))]
    Name {
        /// The name given.
        name: String,
    },
    /// The policy does not have the option.
    #[error("victim policy `{policy}` has no option `{option}`; it has {expected}")]
    Option {
        /// The policy.
        policy: &'static str,
        /// The option given.
        option: String,
        /// The options of the policy.
        expected: String,
    },
    /// The option does not accept the value.
    #[error("`{value}` is no value for `{option}` of victim policy `{policy}`, which takes {expected}")]
    Value {
        /// The policy.
        policy: &'static str,
        /// The option.
        option: String,
        /// The value given.
        value: String,
        /// The accepted values.
        expected: &'static str,
    },
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

/// The names of all policies.
pub fn names() -> impl ExactSizeIterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name())
}

/// The current name of a rule for an old one; returns any other name unchanged.
pub fn current_name(name: &str) -> &str {
    RULES.iter().find(|rule| rule.old_name() == Some(name)).map_or(name, |rule| rule.name())
}

/// The rule with this name or old name.
pub fn rule(name: &str) -> Option<&'static dyn VictimRule> {
    RULES.iter().copied().find(|rule| rule.name() == current_name(name))
}

/// The options of a policy with this rule: those of the rule, and those of every policy.
pub fn options(rule: &dyn VictimRule) -> impl Iterator<Item = OptionInfo> {
    rule.options().iter().map(|known| option(known.name, known.about)).chain(COMMON.iter().copied())
}

impl VictimPolicy {
    /// The policy with this name and these options, each a name and a value.
    ///
    /// # Errors
    ///
    /// Errors: [`PolicyError`] for an unknown name, option or value.
    pub fn named<'a>(name: &str, options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, PolicyError> {
        let rule = rule(name).ok_or_else(|| PolicyError::Name { name: name.to_owned() })?;
        let mut policy = Self::of(rule);
        for (option, value) in options {
            let Some(found) = self::options(rule).find(|known| known.name == option) else {
                let expected = self::options(rule).map(|known| known.name).collect::<Vec<_>>().join(", ");
                return Err(PolicyError::Option { policy: rule.name(), option: option.to_owned(), expected });
            };
            let set = policy.set_common(option, value).or_else(|| policy.options.set(option, value));
            set.ok_or_else(|| PolicyError::Value {
                policy: rule.name(),
                option: option.to_owned(),
                value: value.to_owned(),
                expected: found.about,
            })?;
        }
        Ok(policy)
    }

    /// The policy of a rule with its default options.
    pub fn of(rule: &'static dyn VictimRule) -> Self {
        Self { rule, options: OptionValues::defaults(rule.options()), open_clean: None, leveling: Leveling::default() }
    }

    /// The name of the policy's rule.
    pub fn name(&self) -> &'static str {
        self.rule.name()
    }

    fn set_common(&mut self, option: &str, value: &str) -> Option<()> {
        match option {
            "open-clean" => {
                self.open_clean = match value {
                    "rule" => None,
                    "yes" => Some(true),
                    "no" => Some(false),
                    _ => return None,
                }
            }
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

/// `name`, or `name:option=value,option=value`.
impl FromStr for VictimPolicy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let (name, options) = text.split_once(':').unwrap_or((text, ""));
        let options = options.split(',').filter(|pair| !pair.is_empty());
        Self::named(name, options.map(|pair| pair.split_once('=').unwrap_or((pair, ""))))
    }
}

/// Shows the name and the options that differ from their defaults, as read by `FromStr`.
impl fmt::Display for VictimPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options: Vec<_> = self.options.changed().collect();
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
