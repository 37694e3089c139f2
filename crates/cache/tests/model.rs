//! Random calls, compared with a naive cache that searches everything.

use nandkit_cache::PageCache;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Call {
    Read(u64),
    Put(u64, u8),
    Remove(u64, u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let key = 0u64..14;
    let call = prop_oneof![
        3 => key.clone().prop_map(Call::Read),
        5 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Call::Put(key, value)),
        1 => (key, 0u64..14).prop_map(|(first, count)| Call::Remove(first, count)),
    ];
    prop::collection::vec(call, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn behaves_as_the_naive_cache(capacity in 0usize..10, calls in calls()) {
        let mut cache = PageCache::new(1, capacity);
        // From the most to the least recently used one.
        let mut naive: Vec<(u64, u8)> = Vec::new();
        for call in &calls {
            match *call {
                Call::Read(key) => {
                    let at = naive.iter().position(|page| page.0 == key);
                    prop_assert_eq!(cache.read(key).map(|bytes| bytes[0]), at.map(|at| naive[at].1));
                    if let Some(at) = at {
                        naive[..=at].rotate_right(1);
                    }
                }
                Call::Put(key, value) => {
                    cache.put(key, &[value, 1]);
                    naive.retain(|page| page.0 != key);
                    naive.insert(0, (key, value));
                    naive.truncate(capacity.max(1));
                }
                Call::Remove(first, count) => {
                    cache.remove_range(first, count);
                    let all = count > capacity.max(1) as u64;
                    naive.retain(|page| !all && !(first..first + count).contains(&page.0));
                }
            }
            prop_assert_eq!((cache.len(), cache.is_empty()), (naive.len(), naive.is_empty()));
        }
        // The remaining ones, least recently used first, so that the order is kept.
        for (key, value) in naive.into_iter().rev() {
            prop_assert_eq!(cache.read(key), Some(&[value][..]));
        }
    }
}

#[test]
fn bytes_that_are_missing_are_zeroes() {
    let mut cache = PageCache::new(4, 1);
    cache.put(1, &[7; 4]);
    cache.put(2, &[9]);
    assert_eq!(cache.read(1), None);
    assert_eq!(cache.read(2), Some(&[9, 0, 0, 0][..]));
}
