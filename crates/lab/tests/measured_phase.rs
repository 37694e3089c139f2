//! What a record says of the layers is what happened in the measured phase, not what formatting and
//! filling did before it.

use crate::common::record_of;
use nandkit_record::{LayerValue, RunRecord};

fn run(workload: &str) -> RunRecord {
    let spec = format!("workload = \"{workload}\"\n[stack]\nfs = \"fat\"\ndevice = \"nandsim-32m-128k\"\n");
    record_of(&spec).unwrap()
}

#[test]
fn layers_tell_the_measured_phase_alone() {
    let record = run("overwrite:files=8,file_size=256K,operations=50");
    let value = |layer: &str, name: &str| record.layers[layer][name].clone();
    let sum = |layer, name| match value(layer, name) {
        LayerValue::Series(series) => series.iter().sum::<f64>(),
        other => panic!("{name} is {other:?}"),
    };
    let counted = |kind: &str| -> f64 {
        let layer = &record.layers["block"];
        let is_kind = |name: &str| name.starts_with(kind) && !name.ends_with("_bytes") && !name.contains("sizes");
        layer.iter().filter(|(name, _)| is_kind(name)).map(|(_, value)| value.as_f64().unwrap()).sum()
    };
    assert!((50.0..200.0).contains(&counted("device_writes_")), "{}", counted("device_writes_"));
    for (kind, sizes) in [
        ("device_writes_", "device_write_sizes_by_power_of_two"),
        ("device_reads_", "device_read_sizes_by_power_of_two"),
    ] {
        assert_eq!(sum("block", sizes), counted(kind), "{sizes}");
    }
    // Nothing is trimmed while records are overwritten.
    assert_eq!((counted("device_trims_"), value("block", "device_trim_latency_max_ns").as_f64()), (0.0, Some(0.0)));
    assert_eq!((sum("ftl", "ftl_recyclings_by_p"), value("ftl", "ftl_migrations")), (0.0, LayerValue::Count(0)));
    let never = value("flash", "flash_blocks_never_erased").as_f64();
    assert_eq!(never, Some(record.figures.erases_per_block.never as f64));
}
