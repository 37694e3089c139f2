//! Payloads, their parts, and their composition.

use super::*;

#[test]
fn pieces_of_parts_are_the_bytes_of_the_parts() {
    let described = |record, offset, length| {
        let description = Description { record, version: 0, offset, generator: Generator::Record };
        Payload::Described(Described { description, length })
    };
    let bytes: Vec<u8> = (0..100).collect();
    let parts = [
        Payload::Bytes(&bytes[..30]),
        described(3, 16, 40),
        Payload::Bytes(&[]),
        described(3, 56, 16),
        // Its second half cannot be described: the offset would exceed 32 bits.
        described(4, u32::MAX - 8, 24),
        Payload::Bytes(&bytes[30..]),
    ];
    let total = Pieces::total(&parts);
    let mut expected = vec![0; total];
    let mut start = 0;
    for part in &parts {
        part.copy_to(&mut expected[start..start + part.len()]);
        start += part.len();
    }
    for length in [1, 3, 8, 16, 36, 90, total] {
        let (mut pieces, mut buffer, mut found) = (Pieces::new(&parts), Assembly::new(), Vec::new());
        while let Some(piece) = pieces.next(length.min(total - found.len()).max(1), &mut buffer) {
            let end = found.len();
            found.resize(end + piece.len(), 0);
            piece.copy_to(&mut found[end..]);
        }
        assert_eq!(found, expected, "{length}");
    }
    let (mut pieces, mut buffer) = (Pieces::new(&parts[1..4]), Assembly::new());
    assert!(matches!(pieces.next(56, &mut buffer), Some(Payload::Described(all)) if all.length == 56));
    assert!(pieces.next(1, &mut buffer).is_none());
}

fn record(record: u64, version: u32, offset: u32) -> Description {
    Description { record, version, offset, generator: Generator::Record }
}

#[test]
fn a_part_of_a_record_equals_that_part_of_its_bytes() {
    let mut whole = [0; 256];
    record(3, 9, 0).generate(&mut whole);
    for (start, length) in [(0, 256), (8, 16), (5, 2), (7, 100), (13, 0), (250, 6)] {
        let payload = Payload::Described(Described { description: record(3, 9, 0), length: 256 });
        let mut part = vec![0; length];
        payload.part(start, length).unwrap().copy_to(&mut part);
        assert_eq!(part, &whole[start..start + length], "{start}+{length}");
    }
}

#[test]
fn record_zero_version_zero_starts_as_specified() {
    let seed = 0x9E37_79B9_7F4A_7C15u64 ^ 0xD1B5_4A32_D192_ED03;
    let mut first = [0; 8];
    record(0, 0, 0).generate(&mut first);
    assert_eq!(u64::from_le_bytes(first), xorshift::step(seed));
}

#[test]
fn joined_parts_are_a_description_only_where_they_go_on() {
    let described = |description, length| Payload::Described(Described { description, length });
    let joined = |parts: &[Payload<'_>]| {
        let (mut buffer, mut expected, mut found) = (Assembly::new(), Vec::new(), Vec::new());
        for part in parts {
            let mut bytes = vec![0; part.len()];
            part.copy_to(&mut bytes);
            expected.extend(bytes);
        }
        let all = Payload::joined(parts, &mut buffer);
        found.resize(all.len(), 0xEE);
        all.copy_to(&mut found);
        assert_eq!(found, expected);
        matches!(all, Payload::Described(_))
    };
    let zero = Description::default();
    assert!(joined(&[described(record(1, 2, 0), 16), described(record(1, 2, 16), 8)]));
    assert!(joined(&[described(zero, 16), described(zero, 24)]));
    assert!(!joined(&[described(record(1, 2, 0), 16), described(record(1, 2, 8), 8)]));
    assert!(!joined(&[described(record(1, 2, 0), 16), described(record(1, 3, 16), 8)]));
    assert!(!joined(&[described(zero, 16), described(record(1, 2, 16), 8)]));
    assert!(!joined(&[described(zero, 8), Payload::Bytes(&[7; 8])]));
    assert!(!joined(&[]));
}

#[test]
fn parts_past_the_end_are_refused() {
    let payload = Payload::Described(Described { description: record(0, 0, 0), length: 16 });
    assert!(payload.part(8, 9).is_none());
    assert!(Payload::Bytes(&[0; 4]).part(usize::MAX, 2).is_none());
}

#[test]
fn pieces_of_an_assembly_keep_their_form_and_their_bytes() {
    let described = |number, length| Payload::Described(Described { description: record(number, 2, 0), length });
    let (mut assembly, mut expected) = (Assembly::new(), Vec::new());
    for part in [described(5, 64), Payload::Bytes(&[9; 40]), described(6, 64), described(6, 64)] {
        let mut bytes = vec![0; part.len()];
        part.copy_to(&mut bytes);
        expected.extend(bytes);
        assembly.push(part);
    }
    let whole = assembly.payload();
    assert!(matches!(whole, Payload::Assembled(_)));
    assert!(matches!(whole.part(8, 16), Some(Payload::Described(part)) if part.description == record(5, 2, 8)));
    assert!(matches!(whole.part(70, 30), Some(Payload::Bytes(&[9, ..]))));
    assert!(whole.part(0, 233).is_none());
    for (start, length) in [(0, 232), (60, 10), (63, 120), (104, 128), (232, 0)] {
        let mut found = vec![0; length];
        whole.part(start, length).unwrap().copy_to(&mut found);
        assert_eq!(found, &expected[start..start + length], "{start}+{length}");
    }
    let mut content = Content::new();
    content.set(whole);
    assert!(content.len() == 232 && content.described().is_none());
    assert_eq!(content.to_bytes(), expected);
}

#[test]
fn bytes_fill_every_kind_of_target() {
    let read = |bytes: &mut [u8]| {
        bytes.fill(7);
        if bytes.is_empty() { Err("nothing to read") } else { Ok(()) }
    };
    let mut bytes = [0; 4];
    assert_eq!((ReadInto::Bytes(&mut bytes).fill_by(3, read), bytes), (Ok(()), [7, 7, 7, 0]));
    let mut content = Content::new();
    let target = ReadInto::Content { content: &mut content, length: 4 };
    assert_eq!((target.fill_by(3, read), content.to_bytes().to_vec()), (Ok(()), vec![7; 3]));
    assert_eq!(ReadInto::Nothing { length: 4 }.fill_by(3, read), Ok(()));
    assert_eq!(ReadInto::Nothing { length: 4 }.fill_by(0, read), Err("nothing to read"));
}
