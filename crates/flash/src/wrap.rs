//! Flash devices over other flash devices.
