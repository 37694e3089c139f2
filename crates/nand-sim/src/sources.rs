//! The figures of a spec and their sources.

use nandkit_units::suggest;
use toml::{Table, Value};

use crate::spec::ChipSpec;
use crate::spec_error::SpecError;

/// One figure of a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The key with its section: `timing.read_ns`.
    pub key: String,
    /// The value in TOML syntax.
    pub value: String,
    /// The source; `None` if the spec names none.
    pub source: Option<String>,
}

pub(crate) fn table_of(spec: &ChipSpec) -> Result<Table, SpecError> {
    Table::try_from(spec).map_err(|error| SpecError::Syntax(error.to_string()))
}

impl ChipSpec {
    /// All figures with value and source, sorted by key. Switches (`enabled`) select what is
    /// simulated, and are no figures.
    pub fn figures(&self) -> Result<Vec<Figure>, SpecError> {
        let mut figures = Vec::new();
        for (section, entries) in table_of(self)? {
            let Value::Table(entries) = entries else { continue };
            if section == "sources" {
                continue;
            }
            for (name, value) in entries.into_iter().filter(|(name, _)| name != "enabled") {
                let key = format!("{section}.{name}");
                let source = self.sources.get(&key).or_else(|| self.sources.get(&section)).cloned();
                figures.push(Figure { key, value: value.to_string(), source });
            }
        }
        figures.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(figures)
    }

    /// Refuses a spec with a figure without source, or a source without figure.
    pub fn check_sources(&self) -> Result<(), SpecError> {
        let figures = self.figures()?;
        for figure in &figures {
            if figure.source.as_deref().is_none_or(|source| source.trim().is_empty()) {
                return Err(SpecError::NoSource { figure: figure.key.clone() });
            }
        }
        let sections = figures.iter().filter_map(|figure| figure.key.split('.').next());
        let known: Vec<&str> = figures.iter().map(|figure| figure.key.as_str()).chain(sections).collect();
        match self.sources.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(SpecError::UnknownKey {
                key: format!("sources.{key}"),
                nearest: suggest::nearest(key, known.iter().copied()).map(str::to_string),
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_sourced_by_its_key_or_by_its_section() {
        let mut spec = ChipSpec::default();
        assert!(matches!(spec.check_sources(), Err(SpecError::NoSource { .. })));
        for section in ["geometry", "rules", "timing", "endurance", "ecc", "bad_blocks", "failures", "bit_errors"] {
            spec.sources.insert(section.to_string(), "assumption".to_string());
        }
        spec.sources.insert("timing.read_ns".to_string(), "the data sheet".to_string());
        spec.check_sources().unwrap();
        let figures = spec.figures().unwrap();
        let read = figures.iter().find(|figure| figure.key == "timing.read_ns").unwrap();
        assert_eq!((read.value.as_str(), read.source.as_deref()), ("25000", Some("the data sheet")));
        spec.sources.insert("timing.raed_ns".to_string(), "assumption".to_string());
        let error = spec.check_sources().unwrap_err();
        assert!(error.to_string().contains("timing.read_ns"), "{error}");
    }
}
