//! Replacement order, write-back rules and epochs, case by case.

use nandkit_cache::{CacheOptions, Epoch, PageCache, Refused, Replacement, WriteBack, WriteFirst};
use nandkit_units::{Nanos, StatisticValue, Statistics};

const LATER: WriteBack = WriteBack::Back { dirty_limit_pages: usize::MAX, age_limit: Nanos(u64::MAX) };

fn cache(pages: usize, replacement: Replacement) -> PageCache {
    PageCache::new(CacheOptions::new(8, pages).replaced_by(replacement).written_back(LATER)).unwrap()
}

fn put(cache: &mut PageCache, key: u64, epoch: u64) -> Result<(), WriteFirst> {
    cache.put(key, &key.to_le_bytes(), Epoch(epoch), Nanos(0))
}

/// Writes what a refusal asks for and returns the keys in their order.
fn obey(cache: &mut PageCache, need: WriteFirst) -> Vec<u64> {
    let mut written = Vec::new();
    while let Some(key) = cache.next_for(need).map(|page| page.key) {
        written.push(key);
        assert!(cache.mark_clean(key));
    }
    written
}

fn held(cache: &PageCache) -> Vec<u64> {
    (0..100).filter(|key| cache.peek(*key).is_some()).collect()
}

#[test]
fn lru_drops_the_least_recently_used() {
    let mut cache = cache(3, Replacement::Lru);
    for key in [1, 2, 3] {
        cache.load(key, &[0; 8]).unwrap();
    }
    assert!(cache.read(1).is_some());
    cache.load(4, &[0; 8]).unwrap();
    assert_eq!(held(&cache), [1, 3, 4]);
    cache.load(5, &[0; 8]).unwrap();
    assert_eq!(held(&cache), [1, 4, 5]);
}

/// The example of the CFLRU paper: of the window P5 clean, P6 dirty, P7 clean, P8 dirty (least recently used last) LRU would take
/// P8, P7, P6, P5, and clean-first LRU takes P7, P5, P8, P6.
#[test]
fn clean_first_lru_takes_the_papers_order() {
    let mut cache = cache(8, Replacement::CleanFirst { window_pages: 4 });
    for key in [8, 7, 6, 5, 4, 3, 2, 1] {
        if [8, 6].contains(&key) {
            put(&mut cache, key, 0).unwrap();
        } else {
            cache.load(key, &[0; 8]).unwrap();
        }
    }
    // Pages enter the window from above as it loses some; clean ones among them would go before P8, so they are dirtied below.
    let mut gone = Vec::new();
    for fresh in [20, 21] {
        let before = held(&cache);
        cache.load(fresh, &[0; 8]).unwrap();
        gone.extend(before.into_iter().filter(|key| cache.peek(*key).is_none()));
    }
    assert_eq!(gone, [7, 5]);
    for key in [4, 3, 2, 1, 20, 21] {
        cache.modify(key, Epoch(0), Nanos(0)).unwrap();
    }
    let need = cache.load(22, &[0; 8]).unwrap_err();
    assert_eq!(need, WriteFirst { key: 8, epoch: Epoch(0) });
    assert_eq!(obey(&mut cache, need), [8]);
    cache.load(22, &[0; 8]).unwrap();
    assert!(cache.peek(8).is_none());
    cache.modify(22, Epoch(0), Nanos(0)).unwrap();
    assert_eq!(cache.load(23, &[0; 8]).unwrap_err().key, 6);
}

#[test]
fn a_clean_page_outside_the_window_is_safe() {
    let mut cache = cache(4, Replacement::CleanFirst { window_pages: 2 });
    put(&mut cache, 1, 0).unwrap();
    put(&mut cache, 2, 0).unwrap();
    cache.load(3, &[0; 8]).unwrap();
    cache.load(4, &[0; 8]).unwrap();
    assert_eq!(cache.load(5, &[0; 8]).unwrap_err().key, 1);
}

#[test]
fn lower_epochs_are_written_before_a_dirty_victim() {
    let mut cache = cache(4, Replacement::Lru);
    for (key, epoch) in [(1, 2), (2, 0), (3, 1), (4, 2)] {
        put(&mut cache, key, epoch).unwrap();
    }
    let need = put(&mut cache, 5, 0).unwrap_err();
    assert_eq!(need, WriteFirst { key: 1, epoch: Epoch(2) });
    assert_eq!(obey(&mut cache, need), [2, 3, 1]);
    put(&mut cache, 5, 0).unwrap();
    assert_eq!(held(&cache), [2, 3, 4, 5]);
    assert_eq!(cache.lowest_dirty_epoch(), Some(Epoch(0)));
}

#[test]
fn a_page_dirty_in_another_epoch_is_reported_and_unchanged() {
    for newer in [5, 0] {
        let mut cache = cache(8, Replacement::Lru);
        put(&mut cache, 1, 0).unwrap();
        put(&mut cache, 2, 2).unwrap();
        let need = WriteFirst { key: 2, epoch: Epoch(2) };
        assert_eq!(cache.modify(2, Epoch(newer), Nanos(0)), Err(Refused::WriteFirst(need)));
        assert_eq!(cache.put(2, &[9; 8], Epoch(newer), Nanos(0)), Err(need));
        assert_eq!(cache.peek(2), Some(&2u64.to_le_bytes()[..]));
        assert_eq!(obey(&mut cache, need), [1, 2]);
        cache.modify(2, Epoch(newer), Nanos(0)).unwrap().fill(9);
        assert_eq!(cache.next_dirty().map(|page| (page.key, page.epoch)), Some((2, Epoch(newer))));
    }
}

#[test]
fn the_dirty_limit_writes_the_lowest_epochs() {
    let back = WriteBack::Back { dirty_limit_pages: 2, age_limit: Nanos(u64::MAX) };
    let mut cache = PageCache::new(CacheOptions::new(8, 8).written_back(back)).unwrap();
    put(&mut cache, 1, 7).unwrap();
    put(&mut cache, 2, 3).unwrap();
    assert_eq!(cache.next_due(Nanos(1)), None);
    put(&mut cache, 3, 5).unwrap();
    assert_eq!(cache.next_due(Nanos(1)).map(|page| page.key), Some(2));
    assert!(cache.mark_clean(2));
    assert_eq!(cache.next_due(Nanos(1)), None);
}

#[test]
fn the_age_limit_writes_the_oldest_and_what_must_come_before_it() {
    let back = WriteBack::Back { dirty_limit_pages: 8, age_limit: Nanos(10) };
    let mut cache = PageCache::new(CacheOptions::new(8, 8).written_back(back)).unwrap();
    assert_eq!(cache.due_at(), None);
    cache.put(1, &[], Epoch(1), Nanos(100)).unwrap();
    cache.put(2, &[], Epoch(0), Nanos(105)).unwrap();
    cache.put(1, &[1], Epoch(1), Nanos(109)).unwrap();
    assert_eq!(cache.due_at(), Some(Nanos(110)));
    assert_eq!(cache.next_due(Nanos(109)), None);
    assert_eq!(cache.next_due(Nanos(110)).map(|page| page.key), Some(2));
    cache.mark_clean(2);
    assert_eq!(cache.next_due(Nanos(110)).map(|page| page.key), Some(1));
    cache.mark_clean(1);
    assert_eq!((cache.next_due(Nanos(999)), cache.due_at()), (None, None));
}

#[test]
fn write_through_is_always_due() {
    let mut cache = PageCache::new(CacheOptions::new(8, 8)).unwrap();
    put(&mut cache, 1, 0).unwrap();
    assert_eq!(cache.next_due(Nanos(0)).map(|page| page.key), Some(1));
    cache.mark_clean(1);
    assert_eq!(cache.next_due(Nanos(0)), None);
}

#[test]
fn loading_never_overwrites_newer_content_and_discarding_forgets_it() {
    let mut cache = cache(2, Replacement::Lru);
    put(&mut cache, 1, 0).unwrap();
    cache.load(1, &[0xFF; 8]).unwrap();
    assert_eq!(cache.read(1), Some(&1u64.to_le_bytes()[..]));
    assert!(cache.discard(1) && !cache.discard(1));
    assert!(cache.next_dirty().is_none() && cache.is_empty());
    cache.load(1, &[0xEE; 4]).unwrap();
    assert_eq!(cache.read(1), Some(&[0xEE, 0xEE, 0xEE, 0xEE, 0, 0, 0, 0][..]));
    cache.clear();
    assert_eq!((cache.len(), cache.read(1)), (0, None));
}

#[test]
fn statistics_count_what_happened() {
    let mut cache = cache(1, Replacement::Lru);
    assert!(cache.read(1).is_none());
    cache.load(1, &[]).unwrap();
    assert!(cache.read(1).is_some());
    cache.modify(1, Epoch(0), Nanos(0)).unwrap();
    cache.modify(1, Epoch(0), Nanos(0)).unwrap();
    assert!(cache.modify(1, Epoch(1), Nanos(0)).is_err());
    cache.mark_clean(1);
    cache.load(2, &[]).unwrap();
    let mut values = Vec::new();
    cache.collect(&mut |name, value| {
        if let StatisticValue::Count(count) = value {
            values.push((name.trim_start_matches("cache_"), count));
        }
    });
    let expected = [
        ("hits", 3),
        ("misses", 1),
        ("insertions", 2),
        ("evictions", 1),
        ("writebacks", 1),
        ("dirtied", 1),
        ("redirtied", 1),
        ("dirty_discards", 0),
        ("order_stalls", 1),
    ];
    assert_eq!(values, expected);
}

#[test]
fn impossible_options_are_refused_with_a_reason() {
    for (page_size, pages, word) in [(0, 1, "page_size"), (1, 0, "capacity_pages"), (1, usize::MAX, "capacity_pages")] {
        let error = PageCache::new(CacheOptions::new(page_size, pages)).unwrap_err();
        assert!(error.to_string().contains(word));
    }
}
