//! Random calls against a naive cache that searches everything.

use nandkit_cache::{CacheOptions, Epoch, PageCache, Refused, Replacement, WriteBack, WriteFirst};
use nandkit_units::Nanos;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Page {
    key: u64,
    value: u8,
    /// Epoch, time, and the number of the call that made it dirty.
    dirty: Option<(Epoch, Nanos, u64)>,
}

/// Pages from the most to the least recently used one.
struct Naive {
    pages: Vec<Page>,
    options: CacheOptions,
    calls: u64,
}

impl Naive {
    fn position(&self, key: u64) -> Option<usize> {
        self.pages.iter().position(|page| page.key == key)
    }

    fn touch(&mut self, key: u64) -> Option<u8> {
        let page = self.pages.remove(self.position(key)?);
        let value = page.value;
        self.pages.insert(0, page);
        Some(value)
    }

    fn make_room(&mut self) -> Result<(), WriteFirst> {
        if self.pages.len() < self.options.capacity_pages {
            return Ok(());
        }
        let last = self.pages.len() - 1;
        let window = match self.options.replacement {
            Replacement::Lru => 1,
            Replacement::CleanFirst { window_pages } => window_pages.clamp(1, self.pages.len()),
        };
        let victim =
            (self.pages.len() - window..=last).rev().find(|&at| self.pages[at].dirty.is_none()).unwrap_or(last);
        match self.pages[victim].dirty {
            Some((epoch, ..)) => Err(WriteFirst { key: self.pages[victim].key, epoch }),
            None => {
                self.pages.remove(victim);
                Ok(())
            }
        }
    }

    fn load(&mut self, key: u64, value: u8) -> Result<(), WriteFirst> {
        if self.position(key).is_none() {
            self.make_room()?;
            self.pages.insert(0, Page { key, value, dirty: None });
        }
        Ok(())
    }

    fn put(&mut self, key: u64, value: u8, epoch: Epoch, now: Nanos) -> Result<(), WriteFirst> {
        if self.position(key).is_none() {
            self.make_room()?;
            self.pages.insert(0, Page { key, value, dirty: None });
        }
        let at = self.position(key).unwrap();
        match self.pages[at].dirty {
            Some((held, ..)) if held != epoch => return Err(WriteFirst { key, epoch: held }),
            Some(_) => {}
            None => self.pages[at].dirty = Some((epoch, now, self.calls)),
        }
        self.pages[at].value = value;
        self.touch(key);
        Ok(())
    }

    fn next_dirty(&self) -> Option<u64> {
        let dirty = self.pages.iter().filter_map(|page| page.dirty.map(|(epoch, _, call)| (epoch, call, page.key)));
        dirty.min().map(|(_, _, key)| key)
    }

    fn next_for(&self, key: u64) -> Option<u64> {
        let (epoch, ..) = self.pages[self.position(key)?].dirty?;
        let first = self.next_dirty()?;
        let (lowest, ..) = self.pages[self.position(first)?].dirty?;
        Some(if lowest < epoch { first } else { key })
    }

    fn next_due(&self, now: Nanos) -> Option<u64> {
        let WriteBack::Back { dirty_limit_pages, age_limit } = self.options.write_back else {
            return self.next_dirty();
        };
        if self.pages.iter().filter(|page| page.dirty.is_some()).count() > dirty_limit_pages {
            return self.next_dirty();
        }
        let (_, since, key) =
            self.pages.iter().filter_map(|page| page.dirty.map(|(_, since, call)| (call, since, page.key))).min()?;
        if now.0 - since.0 >= age_limit.0 { self.next_for(key) } else { None }
    }
}

#[derive(Clone, Debug)]
enum Call {
    Read(u64),
    Load(u64, u8),
    Put(u64, u8, u64),
    Modify(u64, u8, u64),
    WriteNext,
    WriteDue(u64),
    Discard(u64),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let key = 0u64..14;
    let call = prop_oneof![
        3 => key.clone().prop_map(Call::Read),
        4 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Call::Load(key, value)),
        3 => (key.clone(), any::<u8>(), 0u64..4).prop_map(|(key, value, epoch)| Call::Put(key, value, epoch)),
        3 => (key.clone(), any::<u8>(), 0u64..4).prop_map(|(key, value, epoch)| Call::Modify(key, value, epoch)),
        2 => Just(Call::WriteNext),
        1 => (0u64..20).prop_map(Call::WriteDue),
        1 => key.prop_map(Call::Discard),
    ];
    prop::collection::vec(call, 1..200)
}

fn options() -> impl Strategy<Value = CacheOptions> {
    let replacement = prop_oneof![
        Just(Replacement::Lru),
        (0usize..12).prop_map(|window_pages| Replacement::CleanFirst { window_pages })
    ];
    let write_back = prop_oneof![
        Just(WriteBack::Through),
        (0usize..8, 1u64..40)
            .prop_map(|(dirty_limit_pages, age)| WriteBack::Back { dirty_limit_pages, age_limit: Nanos(age) })
    ];
    (1usize..10, replacement, write_back).prop_map(|(pages, replacement, write_back)| {
        CacheOptions::new(1, pages).replaced_by(replacement).written_back(write_back)
    })
}

/// Writes in both caches until the refused call can succeed.
fn obey(cache: &mut PageCache, naive: &mut Naive, need: WriteFirst) {
    loop {
        let next = cache.next_for(need).map(|page| page.key);
        assert_eq!(next, naive.next_for(need.key));
        let Some(key) = next else { break };
        write(cache, naive, key);
    }
}

fn write(cache: &mut PageCache, naive: &mut Naive, key: u64) {
    let at = naive.position(key).unwrap();
    let (epoch, ..) = naive.pages[at].dirty.take().unwrap();
    assert_eq!(cache.dirty_epoch(key), Some(epoch));
    assert!(cache.mark_clean(key) && !cache.mark_clean(key));
}

fn step(cache: &mut PageCache, naive: &mut Naive, call: &Call, now: &mut Nanos) {
    naive.calls += 1;
    now.0 += 1;
    let refused = match *call {
        Call::Read(key) => {
            assert_eq!(cache.read(key).map(|bytes| bytes[0]), naive.touch(key));
            None
        }
        Call::Load(key, value) => {
            let result = cache.load(key, &[value]);
            assert_eq!(result, naive.load(key, value));
            result.err()
        }
        Call::Put(key, value, epoch) => {
            let result = cache.put(key, &[value], Epoch(epoch), *now);
            assert_eq!(result, naive.put(key, value, Epoch(epoch), *now));
            result.err()
        }
        Call::Modify(key, value, epoch) => {
            let result = cache.modify(key, Epoch(epoch), *now).map(|bytes| bytes[0] = value);
            if naive.position(key).is_none() {
                assert_eq!(result, Err(Refused::NotCached));
                None
            } else {
                let expected = naive.put(key, value, Epoch(epoch), *now);
                assert_eq!(result, expected.map_err(Refused::WriteFirst));
                expected.err()
            }
        }
        Call::WriteNext => {
            if let Some(key) = cache.next_dirty().map(|page| page.key) {
                write(cache, naive, key);
            }
            None
        }
        Call::WriteDue(wait) => {
            now.0 += wait;
            loop {
                let next = cache.next_due(*now).map(|page| page.key);
                assert_eq!(next, naive.next_due(*now));
                let Some(key) = next else { break };
                write(cache, naive, key);
            }
            None
        }
        Call::Discard(key) => {
            let position = naive.position(key);
            assert_eq!(cache.discard(key), position.is_some());
            position.map(|at| naive.pages.remove(at));
            None
        }
    };
    if let Some(need) = refused {
        obey(cache, naive, need);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn behaves_as_the_naive_cache(options in options(), calls in calls()) {
        let mut cache = PageCache::new(options).unwrap();
        let mut naive = Naive { pages: Vec::new(), options, calls: 0 };
        let mut now = Nanos(0);
        for call in &calls {
            step(&mut cache, &mut naive, call, &mut now);
            prop_assert_eq!(cache.len(), naive.pages.len());
            prop_assert_eq!(cache.next_dirty().map(|page| page.key), naive.next_dirty());
            prop_assert_eq!(cache.dirty_len(), naive.pages.iter().filter(|page| page.dirty.is_some()).count());
            for page in &naive.pages {
                prop_assert_eq!(cache.peek(page.key), Some(&[page.value][..]));
            }
        }
    }
}
