//! The policies against their published formulas.

use super::*;

#[test]
fn names_and_options_are_read_as_they_are_written() {
    for name in names() {
        let policy: VictimPolicy = name.parse().unwrap();
        assert_eq!((policy.name(), policy.to_string().as_str()), (name, name));
    }
    for text in [
        "linux:open-clean=no,level-one-in=100",
        "cat:erase-offset=0,age=written,age-unit=1s,invalid-floor=0,open-clean=yes",
        "cat-chiang:log-age=yes,level-gap=4096",
        "d-choices:d=3,level-one-in=7,level-coldest=least-erased",
        "age-threshold:threshold=1500us,percent=5,least=1,weight=0",
        "cost-benefit:age=created",
    ] {
        assert_eq!(text.parse::<VictimPolicy>().unwrap().to_string(), text);
    }
    for (text, error) in [
        ("gready", "no victim policy `gready`; there are linux, "),
        ("greedy:d=2", "victim policy `greedy` has no option `d`; it has open-clean, "),
        ("d-choices:d=65", "`65` is no value for `d` of victim policy `d-choices`, which takes 1 to 64"),
        ("cat:age-unit=7", "`7` is no value for `age-unit` of victim policy `cat`, which takes time"),
    ] {
        let found = text.parse::<VictimPolicy>().unwrap_err().to_string();
        assert!(found.starts_with(error), "{found}");
    }
}
