//! Tests the cursor, the limit, and the order of equals.

use super::*;

struct Plain<F>(F);

impl<F: Fn(u32) -> Option<u64>> Costs for Plain<F> {
    fn cost(&mut self, candidate: u32) -> u64 {
        self.0(candidate).unwrap_or(0)
    }

    fn may(&self, candidate: u32) -> bool {
        self.0(candidate).is_some()
    }
}

/// 100 segments, of which these are dirty.
fn dirty(segments: &[u32]) -> [u64; 2] {
    let mut words = [0; 2];
    for segment in segments {
        words[*segment as usize / 64] |= 1 << (segment % 64);
    }
    words
}

#[test]
fn the_first_of_equals_wins_and_the_cursor_goes_behind_the_last_looked_at() {
    let candidates = dirty(&[3, 10, 20, 30]);
    let search =
        Search { candidates: Marked { words: &candidates, length: 100 }, unit: 1, start: Some(0), most: 4, limit: 512 };
    let mut cursor = Cursor(0);
    let mut costs = Plain(|segment| Some(if segment == 3 { 9 } else { 7 }));
    assert_eq!((search.run(&mut cursor, &mut costs), cursor), (Some(10), Cursor(31)));
    // There is nothing after the cursor, so the search runs from 0 up to it.
    let search = Search { start: None, most: 2, ..search };
    assert_eq!(search.run(&mut cursor, &mut costs), Some(10));
    // The last one, 10, was before the cursor's old position.
    assert_eq!(cursor, Cursor(32));
}

#[test]
fn the_limit_is_not_taken_and_no_candidate_leaves_the_cursor() {
    let candidates = dirty(&[3, 10]);
    let search =
        Search { candidates: Marked { words: &candidates, length: 100 }, unit: 1, start: None, most: 2, limit: 512 };
    let mut cursor = Cursor(7);
    assert_eq!(search.run(&mut cursor, &mut Plain(|_| Some(512))), None);
    assert_eq!(Search { most: 0, ..search }.run(&mut cursor, &mut Plain(|_| Some(1))), None);
    assert_eq!(search.run(&mut Cursor(7), &mut Plain(|segment| (segment != 3).then_some(1))), Some(10));
}

#[test]
fn sections_are_counted_in_segments() {
    let candidates = dirty(&[3, 10]);
    let search =
        Search { candidates: Marked { words: &candidates, length: 100 }, unit: 4, start: None, most: 1, limit: 512 };
    let mut cursor = Cursor(16);
    assert_eq!((search.run(&mut cursor, &mut Plain(|_| Some(1))), cursor), (Some(10), Cursor(44)));
}
