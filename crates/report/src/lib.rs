//! RunRecords to tables and plots: a pure function of records
