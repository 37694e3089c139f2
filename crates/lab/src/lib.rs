//! ExperimentSpec to grid to runs to records
