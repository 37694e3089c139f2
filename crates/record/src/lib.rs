//! RunRecord and the definitions of its metrics
