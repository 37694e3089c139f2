//! Specs of file systems.

use nandkit_stack::FsSpec;

#[test]
fn wrong_file_systems_are_refused_with_what_would_be_right() {
    for (text, expected) in [
        ("kind = 'vfat'", "did you mean \"fat\""),
        ("kind = 'btrfs'", "expected one of: f2fs, fat, jffs2, model, none, ubifs"),
        ("cache_sectrs = 3", "did you mean `cache_sectors`"),
        // An unknown option: FAT's cache has no replacement policy to choose.
        ("cache_sectors = 3\nreplacement = 'clean-first'", "unknown"),
        ("cluster_size = 1000", "power of two"),
        ("root_entries = 0", "root_entries is 0"),
        ("alignment = 'block'", "erase-block"),
        ("label = 'twelve chars'", "up to 11 characters"),
        ("write_back = 'back'", "cache_sectors above 0"),
        ("kind = 'model'\ncache_sectors = 3", "has no options"),
        ("kind = 'f2fs'\nactive_logs = 5", "expected 2, 4 or 6"),
        ("kind = 'f2fs'\nvictim = 'dog'", "no victim policy `dog`"),
        ("kind = 'f2fs'\nmode = 'log'", "lfs"),
        ("kind = 'f2fs'\nfeatures = 'extras'", "extra_attr"),
        ("kind = 'jffs2'\nvictm = 'cat'", "did you mean `victim`"),
        ("kind = 'jffs2'\nvictim = 'dog'", "no victim policy `dog`"),
        ("kind = 'jffs2'\nseparation = 'dac:regions=99'", "separation"),
        ("kind = 'ubifs'\ncompression = 'rtime'", "zstd"),
        ("kind = 'ubifs'\nfanout = 2", "fanout is 2"),
        ("kind = 'ubifs'\nsub_pages = 500", "a power of two"),
        ("kind = 'ubifs'\nwear_threshold = 0", "wear_threshold is 0"),
        ("kind = 'ubifs'\nvolume = ''", "1 to 127 bytes"),
    ] {
        let error = toml::from_str::<FsSpec>(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// Names from specs and records of version 0.1.
#[test]
fn old_keys_and_names_of_victims_become_the_present_ones() {
    for (old, now) in [
        ("kind = 'jffs2'", "kind = 'jffs2'\nvictim = 'jffs2-lists'"),
        ("kind = 'jffs2'\ncollector = 'linux'", "kind = 'jffs2'\nvictim = 'jffs2-lists'"),
        ("kind = 'jffs2'\nvictim = 'linux:open-clean=no'", "kind = 'jffs2'\nvictim = 'jffs2-lists:open-clean=no'"),
        ("kind = 'f2fs'\ncollector = 'linux'", "kind = 'f2fs'\nvictim = 'f2fs-search'"),
        ("kind = 'f2fs'", "kind = 'f2fs'\nvictim = 'f2fs-search'"),
        (
            "kind = 'f2fs'\ncollector = 'cost-benefit-linux'\nbackground_collector = 'linux'",
            "kind = 'f2fs'\nvictim = 'f2fs-cost-benefit'\nbackground_victim = 'f2fs-search'",
        ),
    ] {
        let [old, now] = [old, now].map(|text| toml::from_str::<FsSpec>(text).unwrap());
        assert_eq!(old, now);
        assert_eq!(serde_json::to_string(&old).unwrap(), serde_json::to_string(&now).unwrap());
    }
}

/// The treatments of segments before F2FS fills their gaps, with their options.
#[test]
fn treatments_of_segments_are_read_with_their_options() {
    let read = |reuse: &str, mode: &str| {
        let text = format!("kind = 'f2fs'\nmode = '{mode}'\nreuse = '{reuse}'");
        toml::from_str::<FsSpec>(&text).map(|spec| spec.title()).map_err(|error| error.to_string())
    };
    for text in ["gc:segments=3,curve=unit", "hole-plugging", "pgc:curve=learned", "atgc"] {
        assert!(read(text, "adaptive").unwrap().contains(text), "{text}");
    }
    for (text, goes) in [("ssr", true), ("zoned", true), ("atgc", false), ("pgc", false), ("unified", false)] {
        assert_eq!(read(text, "lfs").is_ok(), goes, "{text}");
    }
    for (text, part) in [
        ("pcg", "pgc"),
        ("pgc:segments=9", "1 to 8"),
        ("pgc:x=1", "segments=N"),
        ("ssr:segments=2", "no options"),
        ("atgc:x", "no options"),
        ("unified:segments=0", "1 to 8"),
    ] {
        let error = read(text, "adaptive").unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}
