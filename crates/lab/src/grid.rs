//! Grids: dotted keys with the values that they take in turn, and single settings from the command
//! line.

use nandkit_stack::nests_too_deep;
use nandkit_workload::WorkloadSpec;
use toml::{Table, Value};

use crate::SpecError;

/// Most runs that one experiment may come to; more is taken for a slip.
const RUNS_MAX: usize = 1_000_000;
/// Most segments of a dotted key; no key of an experiment has half as many. What is built from a
/// key nests as deep, and is gone through, and dropped, by recursion: a longer key must be refused
/// before anything is built from it.
const SEGMENTS_MAX: usize = 16;

/// Refuses factors whose product is more runs than an experiment may have.
pub(crate) fn check_count(factors: impl IntoIterator<Item = usize>) -> Result<(), SpecError> {
    match factors.into_iter().fold(1, usize::saturating_mul) {
        0..=RUNS_MAX => Ok(()),
        _ => {
            let detail = format!("more than {RUNS_MAX} runs, each seed counted; expected fewer");
            Err(SpecError::new("grid", detail))
        }
    }
}

/// Takes `grid` out of the experiment and returns one table for each combination of its values: the
/// first key changes slowest. Each table is to be run with `seeds` seeds.
pub(crate) fn expand(mut experiment: Table, seeds: usize) -> Result<Vec<Table>, SpecError> {
    let grid = match experiment.remove("grid") {
        None => return Ok(vec![experiment]),
        Some(Value::Table(grid)) => grid,
        Some(other) => {
            return Err(SpecError::value("grid", &other, "a table of dotted keys with lists of values"));
        }
    };
    let mut axes: Vec<(String, Vec<Value>)> = Vec::new();
    collect_axes(&mut axes, "", grid)?;
    // Keys that are not part of a run. Runs that differ only in such a key would be the same run.
    for (key, _) in &axes {
        if matches!(key.split('.').next(), Some("name" | "seeds" | "grid")) {
            let detail =
                "this key belongs to the whole experiment and cannot vary; expected one of a run, as stack.ftl.policy";
            return Err(SpecError::new(format!("grid.{key}"), detail));
        }
    }
    check_count(axes.iter().map(|(_, values)| values.len()).chain([seeds]))?;
    let mut runs = vec![experiment];
    for (key, values) in axes {
        let mut next = Vec::with_capacity(runs.len() * values.len());
        for run in &runs {
            for value in &values {
                let mut run = run.clone();
                set(&mut run, &key, value.clone())?;
                next.push(run);
            }
        }
        runs = next;
    }
    Ok(runs)
}

/// A grid may be written flat (`"stack.ftl.policy" = [...]`) or as tables
/// (`stack.ftl.policy = [...]`).
fn collect_axes(axes: &mut Vec<(String, Vec<Value>)>, prefix: &str, table: Table) -> Result<(), SpecError> {
    for (key, value) in table {
        let path = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        match value {
            Value::Array(values) if values.is_empty() => {
                return Err(SpecError::new(
                    format!("grid.{path}"),
                    "an empty list; expected at least one value".to_string(),
                ));
            }
            Value::Array(values) => axes.push((path, values)),
            Value::Table(inner) => collect_axes(axes, &path, inner)?,
            other => return Err(SpecError::value(&format!("grid.{path}"), &other, "a list of values")),
        }
    }
    Ok(())
}

/// Sets the value at a dotted key. A name where a table belongs (`ftl = "block-map"`) becomes that
/// table (`ftl = { kind = "block-map" }`).
pub fn set(table: &mut Table, key: &str, value: Value) -> Result<(), SpecError> {
    if key.split('.').nth(SEGMENTS_MAX).is_some() {
        let begin: String = key.chars().take(40).collect();
        let detail = format!("a key of more than {SEGMENTS_MAX} segments; expected one as stack.ftl.policy");
        return Err(SpecError::new(format!("{begin}..."), detail));
    }
    set_inside(table, key, value)
}

/// Recurses once for each segment.
fn set_inside(table: &mut Table, key: &str, value: Value) -> Result<(), SpecError> {
    let Some((head, rest)) = key.split_once('.') else {
        if key.is_empty() {
            return Err(SpecError::new(String::new(), "an empty key; expected one as stack.ftl.policy".to_string()));
        }
        table.insert(key.to_string(), value);
        return Ok(());
    };
    let inner = table.entry(head).or_insert_with(|| Value::Table(Table::new()));
    if let Value::String(name) = inner {
        *inner = Value::Table(named(head, std::mem::take(name))?);
    }
    match inner {
        Value::Table(inner) => set_inside(inner, rest, value).map_err(|error| error.within(head)),
        other => Err(SpecError::value(head, other, &format!("a table, in which {rest} could be set"))),
    }
}

/// The table that a name stands for. A workload's name may carry parameters.
fn named(key: &str, name: String) -> Result<Table, SpecError> {
    if key == "workload" {
        let spec: WorkloadSpec =
            name.parse().map_err(|error: nandkit_workload::SpecError| SpecError::new(key, error.to_string()))?;
        return Table::try_from(&spec).map_err(|error| SpecError::new(key, error.to_string()));
    }
    let naming_key = if key == "device" { "preset" } else { "kind" };
    Ok(Table::from_iter([(naming_key.to_string(), Value::String(name))]))
}

/// Reads `key=value` as the command line has it: the value as TOML where it is that, else as a
/// text.
pub fn parse_setting(text: &str) -> Result<(String, Value), SpecError> {
    if nests_too_deep(text) {
        let begin: String = text.chars().take(40).collect();
        return Err(SpecError::new(format!("{begin}..."), "a value of tables in tables without end".to_string()));
    }
    let (key, value) = text.split_once('=').filter(|(key, _)| !key.trim().is_empty()).ok_or_else(|| {
        SpecError::new(text.to_string(), "no setting; expected KEY=VALUE, as stack.ftl.policy=limit".to_string())
    })?;
    let parsed = toml::from_str::<Table>(&format!("value = {value}")).ok();
    let value = parsed
        .and_then(|mut table| if table.len() == 1 { table.remove("value") } else { None })
        .unwrap_or_else(|| Value::String(value.trim().to_string()));
    Ok((key.trim().to_string(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Vec<String> {
        expand(toml::from_str(text).unwrap(), 1)
            .unwrap()
            .iter()
            .map(|table| table.to_string().replace('\n', " "))
            .collect()
    }

    #[test]
    fn the_first_key_changes_slowest() {
        let text = "a = 0\n[grid]\n\"a\" = [1, 2]\n\"b.c\" = [\"x\", \"y\"]\n";
        let runs = expanded(text);
        assert_eq!(runs.len(), 4);
        assert!(runs[0].contains("a = 1") && runs[0].contains("c = \"x\""), "{runs:?}");
        assert!(runs[1].contains("a = 1") && runs[1].contains("c = \"y\""), "{runs:?}");
        assert!(runs[2].contains("a = 2"), "{runs:?}");
    }

    #[test]
    fn both_ways_of_writing_a_grid_are_one() {
        assert_eq!(expanded("[grid]\nb.c = [1, 2]\n"), expanded("[grid]\n\"b.c\" = [1, 2]\n"));
    }

    #[test]
    fn a_name_becomes_a_table_where_a_key_of_it_is_set() {
        let mut table: Table = toml::from_str("[stack]\nftl = \"block-map\"\ndevice = \"p4\"").unwrap();
        set(&mut table, "stack.ftl.policy", "limit".into()).unwrap();
        set(&mut table, "stack.device.blocks", 64.into()).unwrap();
        assert_eq!(table["stack"]["ftl"]["kind"].as_str(), Some("block-map"));
        assert_eq!(table["stack"]["device"]["preset"].as_str(), Some("p4"));
        let mut table: Table = toml::from_str("workload = \"phone:days=2\"").unwrap();
        set(&mut table, "workload.calls_in", 7.into()).unwrap();
        let workload: WorkloadSpec = table["workload"].clone().try_into().unwrap();
        assert_eq!(workload.to_string(), "phone:days=2,calls_in=7");
        let error = set(&mut toml::from_str("a = 1").unwrap(), "a.b", 1.into()).unwrap_err().to_string();
        assert!(error.contains("a is 1") && error.contains("table"), "{error}");
    }

    #[test]
    fn wrong_grids_are_refused() {
        for (text, expected) in [
            ("grid = 1", "grid is 1; expected a table"),
            ("[grid]\na = 1", "grid.a is 1; expected a list"),
            ("[grid]\na = []", "grid.a: an empty list"),
            ("[grid]\nname = ['x', 'y']", "grid.name: this key belongs to the whole experiment and cannot vary"),
            ("[grid]\ngrid.x = [1, 2]", "grid.grid.x: this key"),
            ("[grid]\nseeds = [1, 2]", "grid.seeds: this key belongs to the whole"),
        ] {
            let error = expand(toml::from_str(text).unwrap(), 1).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let list = format!("[{}]", "1,".repeat(1001));
        let text = format!("[grid]\na = {list}\nb = {list}\n");
        assert!(expand(toml::from_str(&text).unwrap(), 1).unwrap_err().to_string().contains("more than"));
    }

    #[test]
    fn seeds_count_among_the_runs_before_any_is_built() {
        let text = format!("[grid]\na = [{}]\n", "1,".repeat(1000));
        assert_eq!(expand(toml::from_str(&text).unwrap(), 1000).unwrap().len(), 1000);
        let error = expand(toml::from_str(&text).unwrap(), 1001).unwrap_err().to_string();
        assert!(error.contains("more than 1000000 runs"), "{error}");
    }

    #[test]
    fn a_key_without_end_is_refused_before_anything_is_built() {
        let key = "a.".repeat(200_000) + "b";
        let refused = |result: Result<(), SpecError>| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains("more than 16 segments") && error.len() < 200, "{error}");
        };
        refused(set(&mut Table::new(), &key, 1.into()));
        refused(expand(toml::from_str(&format!("[grid]\n\"{key}\" = [1]")).unwrap(), 1).map(|_| ()));
        set(&mut Table::new(), &("a.".repeat(15) + "b"), 1.into()).unwrap();
    }

    #[test]
    fn settings_are_toml_or_text() {
        let value = |text: &str| parse_setting(text).unwrap();
        assert_eq!(value("a.b=3"), ("a.b".into(), Value::Integer(3)));
        assert_eq!(value("a=limit"), ("a".into(), Value::String("limit".into())));
        assert_eq!(value("a=\"3\""), ("a".into(), Value::String("3".into())));
        assert_eq!(value("a={kind=\"fast\"}").1["kind"].as_str(), Some("fast"));
        assert_eq!(value("a=1\nb=2").1, Value::String("1\nb=2".into()));
        for wrong in ["", "a", "=3"] {
            assert!(parse_setting(wrong).unwrap_err().to_string().contains("KEY=VALUE"), "{wrong}");
        }
    }
}
