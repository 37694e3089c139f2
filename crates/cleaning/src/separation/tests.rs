//! The schemes against their published rules.

use super::*;

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
