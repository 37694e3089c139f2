//! Specs from the command line and from TOML, and the messages of wrong ones.

use nandkit_workload::{Value, WorkloadSpec};

#[derive(serde::Deserialize, serde::Serialize, Debug, PartialEq)]
struct Holder {
    workload: WorkloadSpec,
}

#[test]
fn both_forms_say_the_same_and_survive_a_round_trip() {
    let text: WorkloadSpec = "overwrite:pattern=hcc,files=16,file_size=64K".parse().unwrap();
    let table: Holder =
        toml::from_str("[workload]\nkind = \"overwrite\"\npattern = \"hcc\"\nfiles = 16\nfile_size = \"64 KiB\"\n")
            .unwrap();
    assert_eq!(table.workload, text);
    let inline: Holder = toml::from_str("workload = \"overwrite:pattern=hcc,files=16,file_size=64K\"").unwrap();
    assert_eq!(inline.workload, text);
    for description in WorkloadSpec::list() {
        let mut spec = WorkloadSpec::named(description.name).unwrap();
        if let Some(key) = description.positional {
            spec.set(key, &Value::Text("some,where=1".into())).unwrap();
        }
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<WorkloadSpec>(&json).unwrap(), spec, "{json}");
        let toml = toml::to_string(&Holder { workload: spec.clone() }).unwrap();
        assert_eq!(toml::from_str::<Holder>(&toml).unwrap().workload, spec, "{toml}");
        assert_eq!(spec.values().len(), description.parameters.len());
        assert!(description.parameters.iter().all(|p| !p.help.is_empty() && !p.expected.is_empty()));
    }
}

#[test]
fn what_is_printed_is_read_again() {
    for text in ["phone", "random:reads=0.5,distribution=zipf", "trace:file=a.csv,fit=wrap", "tree:dir=/usr/share"] {
        let spec: WorkloadSpec = text.parse().unwrap();
        assert_eq!(spec.to_string().parse::<WorkloadSpec>().unwrap(), spec, "{text}");
    }
}

#[test]
fn paths_may_stand_behind_the_name() {
    let value = |text: &str, key: &str| {
        let spec: WorkloadSpec = text.parse().unwrap();
        let found = spec.values().into_iter().find(|(name, _)| *name == key).unwrap();
        found.1.to_string()
    };
    assert_eq!(value("tree:/a/b", "dir"), "/a/b");
    assert_eq!(value("trace:/a,b.csv,fit=wrap", "file"), "/a,b.csv");
    assert_eq!(value("trace:/a,b.csv,fit=wrap", "fit"), "wrap");
    assert_eq!(value("trace:C:/x=y.gz", "file"), "C:/x=y.gz");
    assert_eq!(value("trace:fit=wrap,file=z", "file"), "z");
    assert_eq!(value("recorder:events=5", "events"), "5");
}

#[test]
fn wrong_ones_are_told_with_what_would_be_right() {
    for (text, parts) in [
        ("overwite", &["overwrite", "there is no workload"][..]),
        ("overwrite:patern=rnd", &["did you mean \"pattern\"", "sync_every"]),
        ("overwrite:pattern=rdn", &["did you mean \"rnd\"", "seq, rnd, hcf, hcc, hci"]),
        ("overwrite:files=0", &["files = 0", "from 1 to"]),
        ("overwrite:files=-3", &["files = -3", "whole number"]),
        ("overwrite:files", &["\"files\" is no key=value"]),
        ("overwrite:files=2,files=3", &["the key files is given twice"]),
        ("overwrite:files=12", &["multiple of 8"]),
        ("random:reads=1.5", &["reads = 1.5", "from 0 to 1"]),
        ("random:reads=NaN", &["reads = NaN"]),
        ("random:reads=0.7,trims=0.7", &["must not exceed 1"]),
        ("random:operations=1,bytes=1", &["not both"]),
        ("random:fill=maybe", &["true or false"]),
        ("trace", &["trace:FILE"]),
        ("trace:a.csv,fitt=wrap", &["did you mean \"fit\""]),
        ("tree:", &["tree:DIR"]),
        ("postmark:size_low=5,size_high=4", &["size_high"]),
        ("fax:write=1,page_size=16M,pages_max=1000", &["too long"]),
        ("postmark-small:write=1,file_size=1M", &["too long"]),
        ("", &["there is no workload"]),
    ] {
        let error = text.parse::<WorkloadSpec>().unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{text}: {error}");
        }
    }
    for toml in [
        "[workload]\nkind = \"phone\"\ndais = 3\n",
        "[workload]\ndays = 3\n",
        "[workload]\nkind = \"phone\"\ndays = -3\n",
        "[workload]\nkind = \"phone\"\ndays = 2.5\n",
        "[workload]\nkind = \"phone\"\nsync = 1\n",
        "workload = 3\n",
    ] {
        assert!(toml::from_str::<Holder>(toml).is_err(), "{toml}");
    }
    let error = toml::from_str::<Holder>("[workload]\nkind = \"phone\"\ndais = 3\n").unwrap_err().to_string();
    assert!(error.contains("did you mean \"days\""), "{error}");
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in ".{0,60}") {
        let _ = text.parse::<WorkloadSpec>();
        let _ = format!("trace:{text}").parse::<WorkloadSpec>();
        let _ = format!("overwrite:files={text}").parse::<WorkloadSpec>();
    }
}

#[test]
fn holes_refuse_what_cannot_follow_them() {
    for (then, part) in [
        (Value::Text("random:bytes=1,reads=0".into()), "expected ;"),
        (Value::Text("holes".into()), "holes again"),
        (Value::Text("randm".into()), "did you mean \"random\""),
    ] {
        let mut spec = WorkloadSpec::named("holes").unwrap();
        spec.set("then", &then).unwrap();
        let error = spec.check().unwrap_err().to_string();
        assert!(error.contains(part), "{then:?}: {error}");
    }
}
