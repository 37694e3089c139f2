//! Block devices over other block devices.
