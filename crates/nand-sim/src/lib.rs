//! Emulated NAND chips: rules, time per die and channel, wear, faults, power cuts
