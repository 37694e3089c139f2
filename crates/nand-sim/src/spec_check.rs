//! Reading and checking specs.

use nandkit_units::toml_depth::nests_too_deep;
use nandkit_units::{FlashGeometry, FlashKind, suggest};
use toml::{Table, Value};

use crate::sources;
use crate::spec::{BitErrorSpec, ChipKind, ChipSpec, CopybackReach, DieOrder, NorSpec, PageTimes};
use crate::spec_error::SpecError;

/// Finds the value with a wrong type: every key has a default, so each can be tried alone.
fn wrong_type(table: &Table, error: &toml::de::Error) -> SpecError {
    let refused = |alone: Table| alone.try_into::<ChipSpec>().err();
    for (section, entries) in table {
        let Value::Table(entries) = entries else {
            let Some(error) = refused(Table::from_iter([(section.clone(), entries.clone())])) else { continue };
            let is_section = matches!(sources::table_of(&ChipSpec::default()), Ok(known) if known.get(section).is_some_and(Value::is_table));
            let expected = if is_section { "a table of keys".to_string() } else { expected(error.message()) };
            return SpecError::WrongType { line: None, key: section.clone(), value: entries.to_string(), expected };
        };
        for (name, value) in entries {
            let alone = Table::from_iter([(section.clone(), Table::from_iter([(name.clone(), value.clone())]).into())]);
            if let Some(error) = refused(alone) {
                let (key, value) = (format!("{section}.{name}"), value.to_string());
                return SpecError::WrongType { line: None, key, value, expected: expected(error.message()) };
            }
        }
    }
    SpecError::Syntax(error.to_string())
}

/// The expectation in a message of serde.
fn expected(message: &str) -> String {
    suggest::expected_in_words(message.rsplit_once("expected ").map_or(message, |(_, what)| what).trim())
}

fn require(holds: bool, field: &str, value: impl ToString, expected: &str) -> Result<(), SpecError> {
    if holds { Ok(()) } else { Err(SpecError::impossible(field, value, expected)) }
}

/// Most blocks: a larger table (2 GiB of address space) is more than some machines grant.
const MOST_BLOCKS: u32 = 1 << 27;

/// Longest time (one hour): larger values are typing errors.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl ChipSpec {
    /// Reads a spec and checks it.
    pub fn from_toml(text: &str) -> Result<Self, SpecError> {
        // The text may be the header of a chip file that anyone could have written.
        if nests_too_deep(text) {
            let what = "brackets and keys stand in each other deeper than any spec needs; expected plain tables";
            return Err(SpecError::Syntax(what.to_string()));
        }
        let table: Table = text.parse().map_err(|error: toml::de::Error| SpecError::Syntax(error.to_string()))?;
        Self::from_table(&table).map_err(|error| match (error, toml::from_str::<Self>(text)) {
            (SpecError::WrongType { key, value, expected, .. }, Err(error)) => {
                let line = error
                    .span()
                    .map(|span| text.get(..span.start).map_or(0, |before| before.matches('\n').count()) + 1);
                SpecError::WrongType { line, key, value, expected }
            }
            (error, _) => error,
        })
    }

    /// Reads a chip's spec from a table in a larger spec, and checks it.
    pub fn from_table(table: &Table) -> Result<Self, SpecError> {
        refuse_unknown_keys(table, &sources::table_of(&Self::with_every_key())?, "")?;
        let spec: Self = table.clone().try_into().map_err(|error| wrong_type(table, &error))?;
        spec.check()?;
        Ok(spec)
    }

    /// A default spec that writes every key.
    fn with_every_key() -> Self {
        let mut spec = Self::default();
        let timing = &mut spec.timing;
        (timing.order, timing.erase_suspend_ns, timing.program_suspend_ns) = (DieOrder::ReadsFirst, Some(0), Some(0));
        (spec.geometry.kind, spec.nor) = (ChipKind::Nor, Some(NorSpec::default()));
        spec
    }

    /// The spec as TOML, with every value written out.
    pub fn to_toml(&self) -> Result<String, SpecError> {
        toml::to_string(self).map_err(|error| SpecError::Syntax(error.to_string()))
    }

    /// Refuses impossible values.
    pub fn check(&self) -> Result<(), SpecError> {
        let geometry = self.geometry.build();
        geometry.check()?;
        require(geometry.blocks <= MOST_BLOCKS, "geometry.blocks", geometry.blocks, "at most 134217728 (2^27)")?;
        self.check_nor(&geometry)?;
        let units = geometry.page_size / geometry.write_unit;
        require(
            geometry.kind == FlashKind::Nor || units <= crate::rules::MOST_UNITS,
            "geometry.write_unit",
            geometry.write_unit,
            "at least a 48th of page_size",
        )?;
        require(
            (1..=255).contains(&self.rules.partial_programs),
            "rules.partial_programs",
            self.rules.partial_programs,
            "1 to 255",
        )?;
        self.check_times()?;
        require(self.endurance.cycles > 0, "endurance.cycles", self.endurance.cycles, "at least 1")?;
        let word = self.ecc.code_word_bytes;
        require(
            word == 0 || geometry.page_size.is_multiple_of(word),
            "ecc.code_word_bytes",
            word,
            "0 or a divisor of geometry.page_size",
        )?;
        let bits = self.ecc.correctable_bits;
        require(
            if word == 0 { bits == 0 } else { bits <= (word * 8).min(u32::from(u16::MAX)) },
            "ecc.correctable_bits",
            bits,
            "at most the bits of a code word; 0 where there is no ECC",
        )?;
        self.check_bad_blocks(geometry.blocks, geometry.oob_size)?;
        self.check_probabilities()
    }

    /// What NOR has, and NAND has not.
    fn check_nor(&self, geometry: &FlashGeometry) -> Result<(), SpecError> {
        let Some(nor) = &self.nor else {
            return require(
                geometry.kind == FlashKind::Nand,
                "nor",
                "missing",
                "the table [nor] for geometry.kind = \"nor\"",
            );
        };
        require(geometry.kind == FlashKind::Nor, "nor", "given", "no such table for NAND, or geometry.kind = \"nor\"")?;
        require(geometry.oob_size == 0, "geometry.oob_size", geometry.oob_size, "0 for NOR, which has no OOB")?;
        let reach = self.rules.copyback;
        require(reach == CopybackReach::None, "rules.copyback", "given", "\"none\" for NOR")?;
        require(
            !self.bad_blocks.enabled,
            "bad_blocks.enabled",
            true,
            "false for NOR, which is sold without bad blocks",
        )?;
        let (sector, block) = (u64::from(nor.sector_size), geometry.block_size());
        let is_whole =
            sector == 0 || (sector.is_multiple_of(u64::from(geometry.page_size)) && block.is_multiple_of(sector));
        require(is_whole, "nor.sector_size", sector, "0, or whole pages of which a block is a multiple")?;
        for (field, time) in [
            ("nor.first_byte_ns", nor.first_byte_ns),
            ("nor.next_byte_ns", nor.next_byte_ns),
            ("nor.sector_erase_ns", nor.sector_erase_ns),
        ] {
            require(time <= LONGEST_NS, field, time, "at most an hour (3600000000000)")?;
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), SpecError> {
        let timing = &self.timing;
        for (field, times) in [("timing.read_ns", &timing.read_ns), ("timing.program_ns", &timing.program_ns)] {
            let length = times.as_slice().len();
            let one = matches!(times, PageTimes::All(_));
            require(
                one || (1..=16).contains(&length),
                field,
                format!("a list of {length}"),
                "a list of 1 to 16 times",
            )?;
            for &time in times.as_slice() {
                require(time <= LONGEST_NS, field, time, "at most an hour (3600000000000)")?;
            }
        }
        for (field, time) in [
            ("timing.erase_ns", timing.erase_ns),
            ("timing.copy_ns", timing.copy_ns),
            ("timing.command_ns", timing.command_ns),
        ] {
            require(time <= LONGEST_NS, field, time, "at most an hour (3600000000000)")?;
        }
        for (field, time) in [
            ("timing.erase_suspend_ns", timing.erase_suspend_ns),
            ("timing.program_suspend_ns", timing.program_suspend_ns),
        ] {
            let Some(time) = time else { continue };
            require(
                timing.order == DieOrder::ReadsFirst,
                field,
                time,
                "the key only with timing.order = \"reads-first\"",
            )?;
            require(time <= LONGEST_NS, field, time, "at most an hour (3600000000000)")?;
        }
        let bus = timing.bus_ps_per_byte;
        require(bus <= 1_000_000_000, "timing.bus_ps_per_byte", bus, "at most a millisecond (1000000000)")
    }

    fn check_bad_blocks(&self, blocks: u32, oob_size: u32) -> Result<(), SpecError> {
        let bad = &self.bad_blocks;
        require(bad.factory_max < blocks, "bad_blocks.factory_max", bad.factory_max, "fewer than geometry.blocks")?;
        require(bad.good_at_start <= blocks, "bad_blocks.good_at_start", bad.good_at_start, "at most geometry.blocks")?;
        require(
            !bad.enabled || bad.marker_offset < oob_size,
            "bad_blocks.marker_offset",
            bad.marker_offset,
            "an offset inside the OOB",
        )
    }

    fn check_probabilities(&self) -> Result<(), SpecError> {
        let failures = &self.failures;
        for (field, value) in [
            ("failures.program_probability", failures.program_probability),
            ("failures.erase_probability", failures.erase_probability),
            ("failures.wear_probability", failures.wear_probability),
        ] {
            require((0.0..=1.0).contains(&value), field, value, "a probability from 0 to 1")?;
        }
        let growth = failures.wear_growth;
        require((0.0..=1000.0).contains(&growth), "failures.wear_growth", growth, "0 to 1000")?;
        let BitErrorSpec { base, wear, wear_exponent, retention, retention_wear_exponent, .. } = self.bit_errors;
        let BitErrorSpec { retention_exponent, disturb, disturb_exponent, shape, .. } = self.bit_errors;
        for (field, value) in [
            ("bit_errors.base", base),
            ("bit_errors.wear", wear),
            ("bit_errors.retention", retention),
            ("bit_errors.disturb", disturb),
        ] {
            require((0.0..=0.5).contains(&value), field, value, "a rate from 0 to 0.5")?;
        }
        for (field, value) in [
            ("bit_errors.wear_exponent", wear_exponent),
            ("bit_errors.retention_wear_exponent", retention_wear_exponent),
            ("bit_errors.retention_exponent", retention_exponent),
            ("bit_errors.disturb_exponent", disturb_exponent),
        ] {
            require((0.0..=10.0).contains(&value), field, value, "an exponent from 0 to 10")?;
        }
        require(shape <= 100, "bit_errors.shape", shape, "0 to 100")
    }
}

fn refuse_unknown_keys(given: &Table, known: &Table, prefix: &str) -> Result<(), SpecError> {
    for (key, value) in given {
        let Some(known_value) = known.get(key) else {
            let nearest = nearest_key(key, known).map(|near| format!("{prefix}{near}"));
            return Err(SpecError::UnknownKey { key: format!("{prefix}{key}"), nearest });
        };
        if let (Value::Table(given), Value::Table(known)) = (value, known_value)
            && key != "sources"
        {
            refuse_unknown_keys(given, known, &format!("{prefix}{key}."))?;
        }
    }
    Ok(())
}

/// The most similar key in this table, or in its subtables if none here is as similar.
fn nearest_key(wrong: &str, known: &Table) -> Option<String> {
    let below = |(section, value): (&String, &Value)| {
        let keys: Vec<String> = value.as_table()?.keys().map(|key| format!("{section}.{key}")).collect();
        Some(keys)
    };
    let deeper: Vec<String> = known.iter().filter_map(below).flatten().collect();
    let plain = |path: &'_ str| path.rsplit('.').next().unwrap_or_default().to_string();
    let names: Vec<(String, &str)> = known.keys().chain(&deeper).map(|path| (plain(path), path.as_str())).collect();
    let nearest = suggest::nearest(wrong, names.iter().map(|(name, _)| name.as_str()))?;
    names.iter().find(|(name, _)| name == nearest).map(|(_, path)| (*path).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_spec_is_the_default_and_survives_a_round_trip() {
        let spec = ChipSpec::from_toml("").unwrap();
        assert_eq!(spec, ChipSpec::default());
        assert_eq!(ChipSpec::from_toml(&spec.to_toml().unwrap()).unwrap(), spec);
    }

    #[test]
    fn slips_are_answered_with_the_nearest_key() {
        let error = ChipSpec::from_toml("[timing]\nread_us = 5").unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown key \"timing.read_us\" in the chip spec, did you mean \"timing.read_ns\"?"
        );
        let order = "[timing]\norder = \"reads-first\"\nerase_suspend_ns = 5\nprogram_suspend_ns = 6";
        let timing = ChipSpec::from_toml(order).unwrap().timing;
        assert_eq!((timing.order, timing.program_suspend_ns), (DieOrder::ReadsFirst, Some(6)));
        let error = ChipSpec::from_toml("[timming]").unwrap_err();
        assert!(error.to_string().contains("did you mean \"timing\""), "{error}");
        let error = ChipSpec::from_toml("blokcs = 5").unwrap_err();
        assert!(error.to_string().contains("did you mean \"geometry.blocks\""), "{error}");
        let key = ["a"; 79].join(".");
        let deep = format!("x = {}1{}", format!("{{{key} = ").repeat(70), "}".repeat(70));
        assert!(ChipSpec::from_toml(&deep).unwrap_err().to_string().contains("plain tables"));
        for (text, told) in [
            (
                "[timing]\nerase_ns = \"slow\"",
                "line 2: timing.erase_ns is \"slow\", expected a whole number, 0 or more",
            ),
            (
                "[timing]\ncommand_ns = 1\nread_ns = -1",
                "line 3: timing.read_ns is -1, expected a whole number of nanoseconds, or a list",
            ),
            (
                "[geometry]\npage_size = 1000000000000",
                "geometry.page_size is 1000000000000, expected a whole number from 0 to 4294967295",
            ),
            ("rules = 3", "rules is 3, expected a table of keys"),
            ("name = \"a\"\ntitle = 5", "line 2: title is 5, expected a string"),
            (
                "name = \"a\"\n[ecc]\n[geometry]\npage_size = -5",
                "line 4: geometry.page_size is -5, expected a whole number from 0 to 4294967295",
            ),
            ("[rules]\norder = \"upwards\"", "rules.order is \"upwards\", expected "),
        ] {
            let error = ChipSpec::from_toml(text).unwrap_err();
            assert!(error.to_string().contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn impossible_values_are_refused_by_field() {
        for (text, field) in [
            ("[geometry]\npage_size = 1000", "geometry.page_size"),
            ("[geometry]\npage_size = 65536\nwrite_unit = 512", "geometry.write_unit"),
            ("[geometry]\npages_per_block = 1\nblocks = 200000000", "geometry.blocks"),
            ("[rules]\npartial_programs = 0", "rules.partial_programs"),
            ("[timing]\nread_ns = []", "timing.read_ns"),
            ("[timing]\nprogram_ns = [1, 99999999999999]", "timing.program_ns"),
            ("[timing]\nerase_ns = 99999999999999", "timing.erase_ns"),
            ("[timing]\nbus_ps_per_byte = 99999999999999", "timing.bus_ps_per_byte"),
            ("[endurance]\ncycles = 0", "endurance.cycles"),
            ("[ecc]\ncode_word_bytes = 500", "ecc.code_word_bytes"),
            ("[ecc]\ncorrectable_bits = 5000", "ecc.correctable_bits"),
            ("[ecc]\ncode_word_bytes = 0", "ecc.correctable_bits"),
            ("[bad_blocks]\nfactory_max = 256", "bad_blocks.factory_max"),
            ("[bad_blocks]\ngood_at_start = 257", "bad_blocks.good_at_start"),
            ("[bad_blocks]\nenabled = true\nmarker_offset = 64", "bad_blocks.marker_offset"),
            ("[failures]\nerase_probability = 1.5", "failures.erase_probability"),
            ("[failures]\nwear_growth = nan", "failures.wear_growth"),
            ("[bit_errors]\nbase = -1.0", "bit_errors.base"),
            ("[bit_errors]\nretention_exponent = inf", "bit_errors.retention_exponent"),
            ("[bit_errors]\nshape = 1000", "bit_errors.shape"),
            ("[geometry]\nkind = \"nor\"\noob_size = 0", "nor"),
            ("[nor]", "nor"),
            ("[geometry]\nkind = \"nor\"\n[nor]", "geometry.oob_size"),
            ("[geometry]\nkind = \"nor\"\noob_size = 0\n[nor]", "rules.copyback"),
            (
                "[geometry]\nkind = \"nor\"\noob_size = 0\n[rules]\ncopyback = \"none\"\n[nor]\nsector_size = 3000",
                "nor.sector_size",
            ),
        ] {
            match ChipSpec::from_toml(text) {
                Err(SpecError::Impossible { field: found, .. }) => assert_eq!(found, field, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
