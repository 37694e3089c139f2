//! Options of policies: `d=5`, `age=created`.

use nandkit_units::Nanos;

/// An option for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// What it accepts and does, in one line.
    pub about: &'static str,
}

pub(crate) const fn option(name: &'static str, about: &'static str) -> OptionInfo {
    OptionInfo { name, about }
}

/// An option of a rule, with its accepted values and default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleOption {
    /// Its name.
    pub name: &'static str,
    /// What it accepts and does, in one line.
    pub about: &'static str,
    kind: Kind,
    default: u64,
}

/// The values that an option accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A number in this range, inclusive.
    Number(u32, u32),
    /// A span of time; its value is in nanoseconds.
    Span,
    /// One of these words; its value is the word's index.
    Word(&'static [&'static str]),
}

impl RuleOption {
    /// A number from `least` to `most`.
    pub const fn number(name: &'static str, default: u32, (least, most): (u32, u32), about: &'static str) -> Self {
        Self { name, about, kind: Kind::Number(least, most), default: default as u64 }
    }

    /// A span of time.
    pub const fn span(name: &'static str, default: Nanos, about: &'static str) -> Self {
        Self { name, about, kind: Kind::Span, default: default.get() }
    }

    /// One of several words; the default is the first.
    pub const fn word(name: &'static str, words: &'static [&'static str], about: &'static str) -> Self {
        Self { name, about, kind: Kind::Word(words), default: 0 }
    }

    /// This option with another word as its default.
    pub(super) const fn with_default(self, word: u64) -> Self {
        Self { default: word, ..self }
    }

    fn parse(&self, text: &str) -> Option<u64> {
        match self.kind {
            Kind::Number(least, most) => {
                text.parse().ok().filter(|number| (least..=most).contains(number)).map(u64::from)
            }
            Kind::Span => parse_span(text).map(Nanos::get),
            Kind::Word(words) => words.iter().position(|word| *word == text).map(|place| place as u64),
        }
    }

    fn show(&self, value: u64) -> String {
        match self.kind {
            Kind::Number(..) => value.to_string(),
            Kind::Span => show_span(Nanos(value)),
            Kind::Word(words) => words.get(value as usize).copied().unwrap_or_default().to_owned(),
        }
    }
}

/// The most options of a rule.
const OPTIONS_MAX: usize = 5;

/// The values of a rule's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OptionValues {
    options: &'static [RuleOption],
    values: [u64; OPTIONS_MAX],
}

impl OptionValues {
    /// The default values of these options, at most five.
    pub(super) fn defaults(options: &'static [RuleOption]) -> Self {
        let mut values = [0; OPTIONS_MAX];
        values.iter_mut().zip(options).for_each(|(value, option)| *value = option.default);
        Self { options, values }
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.options.iter().position(|option| option.name == name)
    }

    /// The value of an option: a number, nanoseconds, or the index of a word; its default if the
    /// rule does not have it.
    pub fn get(&self, option: &RuleOption) -> u64 {
        self.place(option.name).and_then(|place| self.values.get(place)).copied().unwrap_or(option.default)
    }

    /// The value of an option as a number.
    pub fn number(&self, option: &RuleOption) -> u32 {
        u32::try_from(self.get(option)).unwrap_or(u32::MAX)
    }

    /// Sets an option; `None` if it does not exist or does not accept the value.
    pub(super) fn set(&mut self, name: &str, text: &str) -> Option<()> {
        let place = self.place(name)?;
        *self.values.get_mut(place)? = self.options.get(place)?.parse(text)?;
        Some(())
    }

    /// The options that differ from their defaults, in the rule's order.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&'static str, String)> {
        let all = self.options.iter().zip(self.values);
        all.filter(|(option, value)| *value != option.default).map(|(option, value)| (option.name, option.show(value)))
    }
}

/// Units of time, the largest first.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
    // After the units that end in it.
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
