//! Forms in which images come, of any content: an image within its limits, or an error with a
//! message.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use nandkit_codec::streams::Stream;
use nandkit_flash_image::{Limits, android_sparse, motorola, qcow2, text, unpack_stream};

const LIMITS: Limits = Limits { length: 16 << 20, written: 16 << 20 };

fuzz_target!(|data: &[u8]| {
    let mut to = Cursor::new(Vec::new());
    if let Some(stream) = Stream::of(data) {
        match unpack_stream(stream, data, &mut to, LIMITS) {
            Ok(bytes) => assert!(bytes.is_none_or(|bytes| bytes <= LIMITS.length)),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if qcow2::is_qcow2(data)
        && let Ok(report) = qcow2::unpack(data, &mut to, LIMITS)
    {
        assert!(report.bytes <= LIMITS.length);
    }
    if android_sparse::is_sparse(data) {
        // The same part twice gives the same bytes twice, but where it gives none.
        let whole = android_sparse::unpack_parts(&[data], &mut to, LIMITS.length);
        let twice = android_sparse::unpack_parts(&[data, data], &mut to, LIMITS.length);
        if let Ok(report) = whole {
            assert_eq!(twice.is_ok(), report.given.is_empty());
            let left: u64 = report.left_out().iter().map(|gap| gap.end - gap.start).sum();
            let given: u64 = report.given.iter().map(|range| range.end - range.start).sum();
            assert_eq!(left + given, report.bytes);
        }
    }
    if motorola::is_wrapped(data)
        && let Ok(inside) = motorola::inside(data)
    {
        assert!(inside.range.start < inside.range.end && inside.range.end <= data.len() as u64);
    }
    if text::is_text_dump(data)
        && let Ok(dump) = text::parse_text_dump(data)
    {
        assert!(!dump.bytes.is_empty());
    }
    assert!(to.into_inner().len() as u64 <= LIMITS.length);
});
