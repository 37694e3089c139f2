//! The few options that tasks take: `--name value`, `--flag` and bare words.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, bail};

/// A command line that cannot be understood: what is wrong with it.
#[derive(Debug)]
pub struct Unusable(pub String);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

/// A task's command line, taken apart.
#[derive(Debug, Default)]
pub struct Options {
    words: Vec<String>,
    flags: Vec<String>,
    values: BTreeMap<String, String>,
}

impl Options {
    /// Takes `arguments` apart. `flags` stand alone, `valued` take the next argument, and at most
    /// `words` bare words are allowed.
    pub fn parse(arguments: &[String], flags: &[&str], valued: &[&str], words: usize) -> Result<Self> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, attached) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (argument.as_str(), None),
            };
            if flags.contains(&name) && attached.is_none() {
                options.flags.push(name.to_owned());
            } else if valued.contains(&name) {
                let Some(value) = attached.or_else(|| rest.next().cloned()) else {
                    bail!(Unusable(format!("{name} needs a value")));
                };
                options.values.insert(name.to_owned(), value);
            } else if !argument.starts_with('-') && options.words.len() < words {
                options.words.push(argument.clone());
            } else {
                bail!(Unusable(format!("'{argument}' is not understood here")));
            }
        }
        Ok(options)
    }

    /// Whether the flag was given.
    pub fn flag(&self, name: &str) -> bool {
        self.flags.iter().any(|flag| flag == name)
    }

    /// The text of an option.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The number of an option, or `default` where it was not given.
    pub fn number(&self, name: &str, default: u64) -> Result<u64> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => match text.replace('_', "").parse() {
                Ok(number) => Ok(number),
                Err(_) => bail!(Unusable(format!("{name} {text}: a whole number is expected"))),
            },
        }
    }

    /// The bare words.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&arguments, &["--quick"], &["--cuts", "--seed"], 1)
    }

    #[test]
    fn takes_words_flags_and_values() {
        let options = parse("block-map --cuts 35_000 --seed=7 --quick").unwrap();
        assert_eq!(options.words(), ["block-map"]);
        assert!(options.flag("--quick"));
        assert_eq!(options.number("--cuts", 1).unwrap(), 35_000);
        assert_eq!(options.number("--seed", 1).unwrap(), 7);
        assert_eq!(parse("").unwrap().number("--cuts", 9).unwrap(), 9);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for line in ["--cut 3", "one two", "--cuts", "--quick=1", "-x"] {
            assert!(parse(line).unwrap_err().is::<Unusable>(), "{line}");
        }
        assert!(parse("--cuts many").unwrap().number("--cuts", 1).is_err());
    }
}
