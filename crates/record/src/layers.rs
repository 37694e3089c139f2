//! Definitions of what single layers count, in the record's `layers`.

use serde_json::{Value, json};

use crate::{Better, f2fs};

/// The definition of a value in `layers`.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerMetric {
    /// The layer, as in the record.
    pub layer: &'static str,
    /// Whose it is, where layers of one name count different things: the kind of the file system.
    pub of: &'static str,
    /// Its name in the layer.
    pub name: String,
    /// Its unit; empty for pure numbers.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
    /// What it is, in one sentence.
    pub text: String,
}

/// The definitions of what the layers of this kind count: those of `f2fs`; other layers' own names say what they are.
pub fn layer_metrics(of: &str) -> Vec<LayerMetric> {
    if of == "f2fs" { f2fs::metrics() } else { Vec::new() }
}

/// The definitions as JSON, their names as paths of the record.
pub fn layer_legend(of: &str) -> Vec<Value> {
    let entry = |metric: LayerMetric| {
        json!({
            "name": format!("layers.{}.{}", metric.layer, metric.name),
            "of": metric.of,
            "unit": metric.unit,
            "better": metric.better.name(),
            "text": metric.text,
        })
    };
    layer_metrics(of).into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<String> = layer_metrics("f2fs").into_iter().map(|metric| metric.name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!((names.len(), layer_metrics("fat").len()), (count, 0));
        assert_eq!(layer_legend("f2fs")[0]["name"], "layers.fs.checkpoints_asked");
    }
}
