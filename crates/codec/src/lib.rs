//! Checksums, compression and error-correcting codes
