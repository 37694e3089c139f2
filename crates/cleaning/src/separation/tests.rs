//! Checks the schemes against their published rules.

use super::*;

fn separator(scheme: &str) -> Separator {
    Separator::new(scheme.parse().unwrap())
}

fn datum(region: u8, stamp: u64) -> Datum {
    Datum { region, stamp: Stamp(stamp) }
}

const KEY: DatumKey = DatumKey(1);

#[test]
fn dac_goes_up_when_young_and_down_when_old() {
    let mut dac = separator("dac:regions=3,promote-below=10,demote-above=20");
    assert_eq!(dac.on_write(KEY, None, Nanos(100)), datum(0, 100));
    // Lifespans 9, 10, 11; then at the top.
    for (before, after) in [((0, 91), 1), ((0, 90), 0), ((1, 89), 1), ((2, 99), 2)] {
        assert_eq!(dac.on_write(KEY, Some(datum(before.0, before.1)), Nanos(100)), datum(after, 100), "{before:?}");
    }
    // Ages 19, 20, 21; at the bottom and at the top. The stamp is unchanged.
    for (before, after) in [((1, 81), 2), ((1, 80), 1), ((1, 79), 0), ((0, 0), 0), ((2, 99), 2)] {
        let before = datum(before.0, before.1);
        assert_eq!(dac.on_clean(KEY, before, Nanos(100)), Datum { region: after, ..before }, "{before:?}");
    }
    let mut demote_only = separator("dac:regions=3,demote-above=20,clean-promotes=no");
    assert_eq!(demote_only.on_clean(KEY, datum(1, 99), Nanos(100)).region, 1);
    let flows: Vec<_> = dac.flows().iter().collect();
    let expected = [
        (Event::Write, Some(0), 0, 1),
        (Event::Write, Some(0), 1, 1),
        (Event::Write, Some(1), 1, 1),
        (Event::Write, Some(2), 2, 1),
        (Event::Write, None, 0, 1),
        (Event::Clean, Some(0), 0, 1),
        (Event::Clean, Some(1), 0, 1),
        (Event::Clean, Some(1), 1, 1),
        (Event::Clean, Some(1), 2, 1),
        (Event::Clean, Some(2), 2, 1),
    ];
    assert_eq!(flows, expected);
    assert_eq!((dac.flows().get(Event::Clean, Some(1), 2), dac.flows().get(Event::Clean, None, 9)), (1, 0));
}

#[test]
fn ages_in_writes_stand_still_while_nobody_writes() {
    let mut dac = separator("dac:regions=2,base=writes,promote-below=3,demote-above=3");
    let first = dac.on_write(KEY, None, Nanos(0));
    for other in 2..4 {
        dac.on_write(DatumKey(other), None, Nanos(0));
    }
    // Three writes: the datum's own and two more.
    assert_eq!(dac.stamp(Nanos(u64::MAX)), Stamp(3));
    assert_eq!(dac.on_clean(KEY, first, Nanos(u64::MAX)).region, 0);
    let second = dac.on_write(KEY, Some(first), Nanos(u64::MAX));
    assert_eq!(second, datum(0, 3));
    assert_eq!(dac.on_write(KEY, Some(second), Nanos(u64::MAX)), datum(1, 4));
}

#[test]
fn sepbit_infers_lifetimes_as_its_algorithm_1() {
    let mut sepbit = separator("sepbit");
    let now = Nanos::ZERO;
    // Until 16 blocks of region 0 were cleaned, `l` is infinite: any update is short-lived, no age
    // reaches 4 l.
    let first = sepbit.on_write(KEY, None, now);
    assert_eq!(first, datum(1, 0));
    assert_eq!(sepbit.on_write(KEY, Some(first), now), datum(0, 1));
    for key in 2..1000 {
        sepbit.on_write(DatumKey(key), None, now);
    }
    assert_eq!([0, 1, 3, 5].map(|from| sepbit.on_clean(KEY, datum(from, 0), now).region), [2, 3, 3, 3]);
    // Sixteen lifespans of 8 and 12 have the mean 10. Blocks of other regions do not count.
    for victim in 0..16 {
        assert_eq!(sepbit.on_write(KEY, Some(datum(0, 0)), now).region, 0, "still infinite");
        let written = sepbit.stamp(now).0;
        sepbit.on_victim(3, Stamp(0), now);
        sepbit.on_victim(0, Stamp(written - if victim % 2 == 0 { 8 } else { 12 }), now);
    }
    let written = sepbit.stamp(now).0;
    let mut after = |lifespan| sepbit.clone().on_write(KEY, Some(datum(4, written - lifespan)), now).region;
    assert_eq!([1, 9, 10, 500].map(&mut after), [0, 0, 1, 1]);
    assert_eq!(sepbit.clone().on_write(KEY, None, now).region, 1);
    let mut moved = |from, age| sepbit.on_clean(KEY, datum(from, written - age), now).region;
    assert_eq!([0, 39, 40, 159, 160, 900].map(|age| moved(0, age)), [2; 6]);
    for from in 1..6 {
        assert_eq!([0, 39, 40, 159, 160, 900].map(|age| moved(from, age)), [3, 3, 4, 4, 5, 5], "from {from}");
    }
}

#[test]
fn the_simple_schemes_do_what_they_say() {
    let path = |scheme: &str| {
        let mut separator = separator(scheme);
        let written = separator.on_write(KEY, None, Nanos(0));
        let moved = separator.on_clean(KEY, written, Nanos(1));
        let again = separator.on_clean(KEY, moved, Nanos(1));
        let updated = separator.on_write(KEY, Some(again), Nanos(1));
        [written, moved, again, updated].map(|datum| datum.region)
    };
    assert_eq!(path("none"), [0, 0, 0, 0]);
    assert_eq!(path("user-moved"), [0, 1, 1, 0]);
    assert_eq!(path("chain:groups=2"), [0, 1, 1, 0]);
    assert_eq!(path("chain:groups=3"), [0, 1, 2, 0]);
}

#[test]
fn intervals_grow_by_the_factor() {
    let mut interval = separator("interval:regions=4,first=10,factor=3");
    assert_eq!(interval.on_write(KEY, None, Nanos(0)).region, 3);
    let region = [0, 9, 10, 29, 30, 89, 90, u64::MAX].map(|now| interval.on_write(KEY, Some(datum(0, 0)), Nanos(now)));
    assert_eq!(region.map(|datum| datum.region), [0, 0, 1, 1, 2, 2, 3, 3]);
    // A version older than its region allows moves on; a younger one stays.
    assert_eq!(interval.on_clean(KEY, datum(0, 0), Nanos(31)).region, 2);
    assert_eq!(interval.on_clean(KEY, datum(2, 0), Nanos(5)).region, 2);
}

#[test]
fn frequencies_double_from_region_to_region_and_are_forgotten() {
    let mut frequency = separator("frequency:regions=4,halve-every=16");
    let regions: Vec<_> = (0..9).map(|_| frequency.on_write(KEY, None, Nanos(0)).region).collect();
    assert_eq!(regions, [0, 1, 1, 2, 2, 2, 2, 3, 3]);
    // Nine writes of one key; the 16th write and each 16th after it halve the counters to 4, 2, 1.
    let mut seen = Vec::new();
    for key in 9..=48 {
        frequency.on_write(DatumKey(key + 1000), None, Nanos(0));
        seen.push(frequency.on_clean(KEY, datum(3, 0), Nanos(0)).region);
    }
    seen.dedup();
    assert_eq!(seen, [3, 2, 1, 0]);
}

#[test]
fn names_and_options_are_read_as_they_are_written() {
    for name in names() {
        let scheme: Separation = name.parse().unwrap();
        assert_eq!((scheme.name(), scheme.to_string().as_str()), (name, name));
        assert!((1..=MAX_REGIONS).contains(&scheme.regions()));
    }
    for text in [
        "dac:regions=16,base=writes,promote-below=5000,demote-above=1,clean-promotes=no",
        "interval:base=writes,first=64,factor=2",
        "frequency:regions=2,counters-log2=4,halve-every=1",
        "chain:groups=1",
    ] {
        assert_eq!(text.parse::<Separation>().unwrap().to_string(), text);
    }
    assert_eq!("dac:promote-below=2s".parse::<Separation>().unwrap().to_string(), "dac:promote-below=2000000000");
    for (text, error) in [
        ("hot", "no separation `hot`; there are none, "),
        ("sepbit:regions=4", "separation `sepbit` has no option `regions`; it has none"),
        ("chain:groups=17", "`17` is no value for `groups` of separation `chain`, which takes 1 to 16"),
    ] {
        let found = text.parse::<Separation>().unwrap_err().to_string();
        assert!(found.starts_with(error), "{found}");
    }
}
