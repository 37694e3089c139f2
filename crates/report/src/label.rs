//! Short names of stacks: the file system, and what it stands on.

use nandkit_record::RunRecord;
use serde_json::Value;

/// `f2fs/ssd` for a stack's record; `None` where the record tells no file system.
fn short_name(record: &RunRecord) -> Option<String> {
    let stack = record.spec.get("stack")?;
    let kind = |part: &str| stack.get(part)?.get("kind")?.as_str();
    let place = place(stack.get("device")?, kind("ftl").unwrap_or("none"));
    match kind("fs")? {
        "none" => Some(place.to_string()),
        fs => Some(format!("{fs}/{place}")),
    }
}

/// What a host sees of a device below a translation layer of this kind.
fn place<'a>(device: &'a Value, layer: &'a str) -> &'a str {
    let preset = device.get("preset").and_then(Value::as_str).unwrap_or_default();
    match layer {
        _ if device.get("curves").is_some() => "card",
        _ if preset == "ram" => "ram",
        "none" => "chip",
        "page-map" => "ssd",
        other => other,
    }
}

/// A short name for each record's stack, in their order; `None` where two would have one name.
pub(crate) fn short_names(records: &[&RunRecord]) -> Option<Vec<String>> {
    let names: Vec<String> = records.iter().map(|record| short_name(record)).collect::<Option<_>>()?;
    let mut sorted = names.clone();
    sorted.sort_unstable();
    sorted.dedup();
    (sorted.len() == names.len()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_say_the_file_system_and_its_place() {
        let of = |spec: Value| {
            let mut record = crate::testing::record("a | b", "w", 1, 1.0);
            record.spec = spec;
            short_name(&record)
        };
        let card = json!({"preset": "sd", "curves": {}});
        for (fs, ftl, device, expected) in [
            ("f2fs", "page-map", json!({"preset": "k9"}), "f2fs/ssd"),
            ("jffs2", "none", json!({"preset": "k9"}), "jffs2/chip"),
            ("fat", "none", card, "fat/card"),
            ("fat", "fast", json!({"preset": "k9"}), "fat/fast"),
            ("none", "page-map", json!({"preset": "k9"}), "ssd"),
            ("f2fs", "none", json!({"preset": "ram"}), "f2fs/ram"),
        ] {
            let spec = json!({"stack": {"fs": {"kind": fs}, "ftl": {"kind": ftl}, "device": device}});
            assert_eq!(of(spec).as_deref(), Some(expected));
        }
        assert_eq!(of(json!("told by nobody")), None);
    }
}
