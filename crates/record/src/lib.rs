//! What one run measured: [`RunRecord`], one JSON object on one line, and the one table of metric
//! definitions.
//!
//! A record is a plain value: it holds the whole resolved spec, so that a run can be made again
//! from its record alone, and everything that was counted. The same spec and seed give the same
//! record byte for byte, except for the two fields whose names begin with `host_`.

mod claim;
mod figures;
mod layers;
mod lifetime;
mod metrics;
mod read;
mod run_record;
pub mod spread;

pub use claim::{Claim, ClaimLine, Verdict};
pub use figures::{ByCause, ErasesPerBlock, Figures, Latency, LayerValue, Layers};
pub use layers::layer_legend;
pub use metrics::{METRICS, Metric, Reading, csv, csv_field, has_path, legend, metric, read_path};
pub use read::{ReadError, read_lines};
pub use run_record::{RunRecord, SCHEMA, run_key};
