//! What happens to a device before a workload is measured.

use nandkit_stack::suggest;
use nandkit_workload::WorkloadSpec;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

/// What happens to a device before a workload is measured. In a spec a name, or a table with the
/// key `kind` and the figures of the rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Precondition {
    /// Nothing happens before the workload's own phases.
    #[default]
    None,
    /// Every sector is written once, in order.
    Fill,
    /// The device is filled as by `Fill`, then the workload runs until windows of write
    /// amplification agree; after that it is measured until the mean of the windows is known.
    Steady(SteadyRule),
    /// For a file system: it is filled with files, and these are overwritten at random, so that
    /// cleaning is needed while the workload is measured.
    Used(UsedRule),
}

/// How a file system is used before it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UsedRule {
    /// The share of the free space that the files take.
    pub fill: f64,
    /// Bytes that are overwritten in the files, in random pages, as a multiple of the free space.
    pub overwritten: f64,
}

impl Default for UsedRule {
    fn default() -> Self {
        Self { fill: 0.7, overwritten: 1.0 }
    }
}

/// The rule by which a device counts as settled, and by which its figure counts as known. Before
/// the measured phase the later half of the windows must agree, and at least `windows` of them; in
/// the measured phase all windows must.
///
/// A window is as long as it takes the host to write `window` times what the device holds. Windows
/// agree when the line fitted to them changes from the first to the last, and half the 95 %
/// confidence interval of their mean (Student's t) is, by no more than `tolerance` times the mean.
/// The measured windows come after the windows that were found to agree, so that the rule cannot
/// choose its own figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SteadyRule {
    /// The length of a window, as a share of what the device holds for the host.
    pub window: f64,
    /// Least number of windows that must agree.
    pub windows: u32,
    /// The largest drift of the windows, and the largest uncertainty of their mean, as a share of
    /// the mean.
    pub tolerance: f64,
    /// The rule gives up when the host has written this many times what the device holds, before
    /// the measured phase or in it.
    pub limit: f64,
}

impl Default for SteadyRule {
    fn default() -> Self {
        Self { window: 0.125, windows: 8, tolerance: 0.005, limit: 100.0 }
    }
}

const KINDS: [&str; 4] = ["none", "fill", "steady", "used"];

impl Precondition {
    /// The precondition of this name, with its defaults. Errors: an unknown name, with the nearest
    /// known one.
    pub fn named(name: &str) -> Result<Self, String> {
        Self::from_value(Value::String(name.to_string()))
    }

    /// The name in specs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fill => "fill",
            Self::Steady(_) => "steady",
            Self::Used(_) => "used",
        }
    }

    /// Describes the precondition for people; `None` if it does nothing.
    pub fn told(&self) -> Option<String> {
        let percent = |share: f64| (share * 100.0).round();
        match self {
            Self::None => None,
            Self::Fill => Some("Before each run every sector is written once, in order.".to_string()),
            Self::Steady(_) => {
                Some("Before each run the device is written until its write amplification settles.".into())
            }
            Self::Used(rule) => Some(format!(
                "Used devices: before each run files take {} % of the room, and {} % of the room is overwritten in them, in pages of 4 KiB at random.",
                percent(rule.fill),
                percent(rule.overwritten)
            )),
        }
    }

    pub(crate) fn from_value(value: Value) -> Result<Self, String> {
        let mut table = match value {
            Value::String(name) => Table::from_iter([("kind".to_string(), Value::String(name))]),
            Value::Table(table) => table,
            other => {
                return Err(format!(
                    "found {other}, expected none, fill, steady or used, or a table with the key kind"
                ));
            }
        };
        let kind = match table.remove("kind") {
            None => "steady".to_string(),
            Some(Value::String(kind)) => kind,
            Some(other) => return Err(format!("kind is {other}; expected none, fill, steady or used")),
        };
        if let (true, Some(key)) = (!matches!(kind.as_str(), "steady" | "used"), table.keys().next()) {
            return Err(format!("unknown key \"{key}\": only steady and used have options"));
        }
        match kind.as_str() {
            "none" => Ok(Self::None),
            "fill" => Ok(Self::Fill),
            "steady" => {
                let rule: SteadyRule = rule_of(table)?;
                rule.check().map(|()| Self::Steady(rule))
            }
            "used" => {
                let rule: UsedRule = rule_of(table)?;
                rule.check().map(|()| Self::Used(rule))
            }
            other => Err(suggest::unknown("precondition", other, &KINDS)),
        }
    }

    /// The workload that runs: with `steady` one that does not end by itself. Errors: a workload
    /// that ends, or writes nothing.
    pub(crate) fn workload(&self, workload: &WorkloadSpec) -> Result<WorkloadSpec, String> {
        if !matches!(self, Self::Steady(_)) {
            return Ok(workload.clone());
        }
        let mut endless = workload.clone();
        let written = match &mut endless {
            WorkloadSpec::Overwrite(spec) => {
                spec.operations = ENDLESS;
                1.0
            }
            WorkloadSpec::Random(spec) => {
                (spec.operations, spec.bytes, spec.age) = (ENDLESS, 0, 0.0);
                1.0 - spec.reads - spec.trims
            }
            WorkloadSpec::Sequential(spec) => {
                (spec.operations, spec.bytes) = (ENDLESS, 0);
                1.0 - spec.reads
            }
            _ => {
                let name = workload.name();
                return Err(format!("{name} ends by itself; expected overwrite, random or sequential with steady"));
            }
        };
        if written <= 0.0 {
            return Err("the workload writes nothing, so that nothing settles; expected reads and trims below 1".into());
        }
        Ok(endless)
    }
}

fn rule_of<R: serde::de::DeserializeOwned>(table: Table) -> Result<R, String> {
    table.try_into().map_err(|error: toml::de::Error| suggest::explain(error.message()))
}

fn within(name: &str, value: f64, low: f64, high: f64) -> Result<(), String> {
    let text = format!("{name} is {value}; expected {low} to {high}");
    if (low..=high).contains(&value) { Ok(()) } else { Err(text) }
}

impl UsedRule {
    fn check(&self) -> Result<(), String> {
        within("fill", self.fill, 0.01, 0.95)?;
        within("overwritten", self.overwritten, 0.0, 1000.0)
    }
}

/// More operations than any rule lets pass.
const ENDLESS: u64 = 1 << 40;

impl SteadyRule {
    fn check(&self) -> Result<(), String> {
        within("window", self.window, 0.001, 10.0)?;
        within("windows", f64::from(self.windows), 3.0, 1000.0)?;
        within("tolerance", self.tolerance, 1e-6, 0.5)?;
        within("limit", self.limit, 0.01, 1e6)?;
        if self.limit < self.window * f64::from(self.windows) {
            let least = self.window * f64::from(self.windows);
            return Err(format!(
                "limit is {}; expected room for {} windows, {least} or more",
                self.limit, self.windows
            ));
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Precondition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_value(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Precondition, String> {
        let mut table: Table = toml::from_str(text).unwrap();
        Precondition::from_value(table.remove("precondition").unwrap())
    }

    #[test]
    fn a_name_or_a_table_and_both_read_as_themselves() {
        assert_eq!(read("precondition = 'fill'").unwrap(), Precondition::Fill);
        let steady = read("precondition = { kind = 'steady', tolerance = 0.01 }").unwrap();
        assert_eq!(steady, Precondition::Steady(SteadyRule { tolerance: 0.01, ..SteadyRule::default() }));
        let used = read("precondition = { kind = 'used', fill = 0.5 }").unwrap();
        assert_eq!(used, Precondition::Used(UsedRule { fill: 0.5, ..UsedRule::default() }));
        for spec in [Precondition::None, Precondition::Fill, steady, used] {
            let line = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<Precondition>(&line).unwrap(), spec, "{line}");
        }
    }

    #[test]
    fn rules_that_cannot_be_are_refused_with_what_would_be_right() {
        for (text, expected) in [
            ("precondition = 'stedy'", "did you mean \"steady\""),
            ("precondition = 3", "expected none, fill, steady or used"),
            ("precondition = { kind = 'fill', window = 0.1 }", "only steady and used have options"),
            ("precondition = { kind = 'used', fill = 0.99 }", "fill is 0.99; expected 0.01 to 0.95"),
            ("precondition = { windws = 9 }", "did you mean `windows`"),
            ("precondition = { windows = 2 }", "windows is 2; expected 3 to 1000"),
            ("precondition = { tolerance = 0.0 }", "tolerance is 0"),
            ("precondition = { window = nan }", "window is NaN"),
            ("precondition = { limit = 0.5 }", "expected room for 8 windows, 1 or more"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn only_workloads_that_go_on_and_write_can_settle() {
        let steady = Precondition::Steady(SteadyRule::default());
        let of = |text: &str| steady.workload(&text.parse().unwrap());
        for text in ["random:bytes=1M,age=3", "overwrite:files=8", "sequential"] {
            let endless = of(text).unwrap();
            assert!(
                endless
                    .values()
                    .iter()
                    .any(|(key, value)| *key == "operations" && value.to_string() == ENDLESS.to_string())
            );
        }
        assert!(of("trace:x.iolog").unwrap_err().contains("ends by itself"));
        assert!(of("random:reads=0.5,trims=0.5").unwrap_err().contains("writes nothing"));
        let trace: WorkloadSpec = "trace:x.iolog".parse().unwrap();
        assert_eq!(Precondition::Fill.workload(&trace).unwrap(), trace);
    }
}
