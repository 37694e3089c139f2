//! Specs of translation layers.

use nandkit_stack::{FtlSpec, PolicyName};

fn read(text: &str) -> Result<FtlSpec, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

#[test]
fn kinds_have_their_own_options() {
    assert_eq!(read("").unwrap(), FtlSpec::default());
    let FtlSpec::BlockMap(spec) = read("policy = 'limit'\nlimit = 5\nlog_blocks = 4").unwrap() else { panic!() };
    assert_eq!((spec.policy, spec.limit, spec.log_blocks), (PolicyName::Limit, 5, 4));
    assert!(matches!(read("kind = 'fast'").unwrap(), FtlSpec::Fast(_)));
    let FtlSpec::PageMap(spec) = read("kind = 'page-map'\ncapacity = '64M'").unwrap() else { panic!() };
    assert_eq!((spec.capacity, spec.victim.as_str()), (64 << 20, "greedy"));
}

#[test]
fn options_that_are_not_the_usual_ones_are_in_the_title() {
    let text = "victim = 'fifo'\nallocation = 'fifo'\nwear_threshold = 9\ncapacity = '64M'";
    let title = read(text).unwrap().title();
    assert_eq!(
        title,
        "block-map | macroscopic | victim fifo | wear threshold 9 | free blocks fifo | capacity 64 MiB | 8 log blocks"
    );
    let text = "kind = 'page-map'\nvictim = 'd-choices:d=5'\nspare = 0.28\nseparation = 'none'\nstripe = 2";
    assert_eq!(read(text).unwrap().title(), "page-map | d-choices:d=5 | spare 0.28 | not separated | stripe 2");
    assert!(read("spare_blocks = 40").unwrap().title().contains("40 spare blocks"));
}

#[test]
fn wrong_layers_are_refused_with_what_would_be_right() {
    for (text, expected) in [
        ("kind = 'blockmap'", "did you mean \"block-map\""),
        ("polcy = 'limit'", "did you mean `policy`"),
        ("policy = 'macro'", "did you mean `macroscopic`"),
        ("kind = 'fast'\npolicy = 'merge'", "in fast: unknown field `policy`"),
        ("log_blocks = 0", "log_blocks is 0; expected 1 to 4096"),
        ("kind = 'fast'\nlog_blocks = 1", "expected 2 to 4096"),
        ("kind = 'none'\nlog_blocks = 1", "log_blocks"),
        ("log_blocks = 'x'", "log_blocks is \"x\": invalid type"),
        ("alpha = -5", "alpha is -5: expected a name in quotes"),
        ("log_blocks = 8\nalpha = 'orign'", "did you mean `origin`"),
        ("victim = 'lru'", "expected one of `least-recently-written`"),
        ("victim = 'fewest'", "did you mean `fewest-valid`"),
        ("allocation = 'last'", "least-erased"),
        ("capacity = '3X'", "is no size"),
        ("capacity = -3", "expected bytes"),
        ("capacity = '64M'\nspare_blocks = 20", "expected only one of them"),
        ("kind = 'page-map'\nlog_blocks = 8", "in page-map: unknown field `log_blocks`"),
        ("kind = 'page-map'\nvictim = 'gredy'", "no victim policy `gredy`; there are jffs2-lists"),
        ("kind = 'page-map'\nvictim = 'd-choices:d=0'", "which takes 1 to 64"),
        ("kind = 'page-map'\nseparation = 'sepbits'", "no separation"),
        ("kind = 'page-map'\nspare = 0", "expected a ratio above 0"),
        ("kind = 'page-map'\nspare = nan", "expected a ratio above 0"),
        ("kind = 'page-map'\nspare = 0.2\ncapacity = '64M'", "both spare and capacity"),
        ("kind = 'page-map'\nstripe = 3", "a power of two"),
        ("kind = 'page-map'\nseparation = 'known:above=3'", "it has below"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_resolved_layer_reads_as_itself() {
    for kind in FtlSpec::KINDS {
        let spec = FtlSpec::kind(kind).unwrap();
        let line = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<FtlSpec>(&line).unwrap(), spec, "{line}");
    }
    for policy in PolicyName::ALL {
        assert_eq!(serde_json::to_string(&policy).unwrap(), format!("\"{}\"", policy.name()));
    }
}
