//! Definitions of what single layers count, in the record's `layers`.

use nandkit_units::StatisticDefinition;
use serde_json::{Value, json};

/// The definitions of a layer's values as JSON, their names as paths of the record. `of` is the
/// kind of the file system, because layers of one name count different things in different file
/// systems.
pub fn layer_legend(layer: &str, of: &str, definitions: &[StatisticDefinition]) -> Vec<Value> {
    let entry = |definition: &StatisticDefinition| {
        json!({
            "name": format!("layers.{layer}.{}", definition.name),
            "of": of,
            "unit": definition.unit,
            "better": definition.better.name(),
            "text": definition.text,
        })
    };
    definitions.iter().map(entry).collect()
}
