//! Formats of traces that are lines of fields: what is read, what is refused, which format is
//! found, and the parameter that picks one of a trace's names.

use std::io::Cursor;

use nandkit_workload::trace::{TraceReader, TraceSummary};
use nandkit_workload::{BlockOperationKind as Kind, WorkloadError, WorkloadSpec};

use crate::traces::{brief, read, spec};

/// The lines of traces/README.md of umn-cris/MQSim, and a read of another device.
const MQSIM: &str = "4851300 1 524288 16 0\n4864300 1 524304 16 0\n4871300 0 8 1 1\n";

const SPC: &str = "0,20941264,8192,W,0.551706\n0,20939840,8192,w,0.554041\n1,3436288,15872,r,1.5,more,fields\n";

const ALIBABA: &str =
    "419,W,8192,4096,1577808144360767\n725,R,0,512,1577808144360768\n419,R,8192,4096,1577808144361767\n";

const TENCENT: &str = "1538323200,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n1538323202,0,8,1,1063\n";

const SYSTOR: &str = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                      1455592214.030170908,0.000181,R,0,4866121728,8192\n\
                      1455592214.030170909,,W,1,512,4096\n\
                      1455592214.030170910,,,1,0,0\n\
                      Timestamp,Response,IOType,LUN,Offset,Size\n\
                      1455592214.5,0.01,W,0,0,1024\n";

/// Formats with a trace of each.
const ALL: [(&str, &str); 5] =
    [("mqsim", MQSIM), ("spc", SPC), ("alibaba", ALIBABA), ("tencent", TENCENT), ("systor", SYSTOR)];

#[test]
fn each_format_is_read() {
    let expected = |text| brief(&read(text, &[]).unwrap());
    assert_eq!(
        expected(MQSIM),
        [
            (0, Kind::Write, 524_288 * 512, 8192, 0),
            (0, Kind::Write, 524_304 * 512, 8192, 13_000),
            (1, Kind::Read, 4096, 512, 20_000),
        ]
    );
    assert_eq!(
        expected(SPC),
        [
            (0, Kind::Write, 20_941_264 * 512, 8192, 0),
            (0, Kind::Write, 20_939_840 * 512, 8192, 2_335_000),
            (1, Kind::Read, 3_436_288 * 512, 15_872, 948_294_000),
        ]
    );
    assert_eq!(
        expected(ALIBABA),
        [(0, Kind::Write, 8192, 4096, 0), (1, Kind::Read, 0, 512, 1000), (0, Kind::Read, 8192, 4096, 1_000_000),]
    );
    assert_eq!(
        expected(TENCENT),
        [
            (0, Kind::Read, 12_910_952 * 512, 65_536, 0),
            (1, Kind::Write, 6_338_688 * 512, 4096, 0),
            (0, Kind::Write, 0, 4096, 2_000_000_000),
        ]
    );
    assert_eq!(
        expected(SYSTOR),
        [
            (0, Kind::Read, 4_866_121_728, 8192, 0),
            (1, Kind::Write, 512, 4096, 1),
            (0, Kind::Write, 0, 1024, 469_829_092),
        ]
    );
}

#[test]
fn the_unit_of_mqsims_time_is_nanoseconds_unless_another_is_given() {
    let last = |unit| read(MQSIM, &[("time_unit", unit)]).unwrap()[2].time.0;
    assert_eq!([last("auto"), last("ns"), last("us")], [20_000, 20_000, 20_000_000]);
}

#[test]
fn the_format_is_found_from_several_lines() {
    for (format, text) in ALL {
        let named = read(text, &[("format", format)]).unwrap();
        assert_eq!(read(text, &[]).unwrap(), named, "{format}");
        for (other, _) in ALL.iter().filter(|(other, _)| *other != format) {
            assert!(read(text, &[("format", other)]).is_err(), "{format} as {other}");
        }
        // The first line fits no format: the format is found from the other lines, and the first
        // line is refused.
        let error = read(format!("{}\n{text}", "#".repeat(9)), &[]).unwrap_err().to_string();
        assert!(error.contains("line 1") && !error.contains("known format"), "{format}: {error}");
    }
    // Headings are lines of their formats, and a mark before them is skipped.
    let headed = |heading: &str, text: &str| read(format!("\u{feff}{heading}\n{text}"), &[]).unwrap().len();
    assert_eq!(headed("device_id,opcode,offset,length,timestamp", ALIBABA), 3);
    assert_eq!(headed("Timestamp,Offset,Size,IOType,VolumeID", TENCENT), 3);
}

#[test]
fn two_formats_that_fit_equally_are_named_with_the_option() {
    let both = "0,20941264,8192,W,0.551706\n419,W,8192,4096,1577808144360767\n";
    let one = "1,X,512,W,0.5\n";
    for (text, count) in [(both, "the first 2 lines fit"), (one, "the only line fits")] {
        let error = read(text, &[]).unwrap_err();
        assert!(error.is_input());
        let message = error.to_string();
        for part in ["t, line 1", count, "SPC and Alibaba's CSV equally well", "format=spc or format=alibaba"] {
            assert!(message.contains(part), "{message}");
        }
    }
    let error = read(both, &[("format", "spc")]).unwrap_err().to_string();
    assert!(error.contains("line 2: column 5: the LBA \"W\""), "{error}");
    // Where one takes more of the lines, the others are wrong.
    let error = read(format!("{both}0,8,512,r,0.6\n"), &[]).unwrap_err().to_string();
    assert!(error.contains("line 2: column 5: the LBA \"W\""), "{error}");
}

#[test]
fn refusals_name_line_column_and_what_would_be_right() {
    let cases = [
        ("mqsim", MQSIM, "  48 1 x 16 0", 8, "the LBA \"x\" is no whole number", "sectors of 512 bytes"),
        ("mqsim", MQSIM, "48 1 8 16 2", 11, "the type \"2\" is neither 1 (read) nor 0 (write)", "MQSim"),
        ("mqsim", MQSIM, "48 1 8 16", 10, "ends before the type", "TIME DEVICE LBA"),
        ("mqsim", MQSIM, "48.5 1 8 16 1", 1, "the arrival time \"48.5\"", "MQSim"),
        ("spc", SPC, "0,1,512,X,0.5", 9, "the opcode \"X\"", "ASU,LBA,SIZE,R|W,TIMESTAMP"),
        ("spc", SPC, "0,1,512,W,half", 11, "the timestamp \"half\" is no time in seconds", "SPC"),
        ("spc", SPC, "0,9999999999999999,512,W,1", 3, "too large", "SPC"),
        ("spc", SPC, "é,1,512,W,1", 1, "the ASU \"é\"", "SPC"),
        ("alibaba", ALIBABA, "1,R,0,-512,1", 7, "the length \"-512\"", "bytes"),
        ("alibaba", ALIBABA, "1,R,0,512,1,2", 13, "\"2\" follows the timestamp", "Alibaba"),
        ("alibaba", ALIBABA, "1,R,0,9999999999,1", 5, "too large", "Alibaba"),
        ("tencent", TENCENT, "1,0, 8 ,2,7", 9, "the type \"2\" is neither 0 (read) nor 1 (write)", "512 bytes"),
        ("tencent", TENCENT, "1,0,8,1", 8, "ends before the volume", "TIMESTAMP,OFFSET,SIZE,TYPE,VOLUME"),
        ("systor", SYSTOR, "1.5,0.1,R,x,0,512", 11, "the LUN \"x\"", "TIMESTAMP,RESPONSE"),
        ("systor", SYSTOR, "1.5,soon,R,0,0,512", 5, "the response time \"soon\"", "SYSTOR"),
        ("systor", SYSTOR, "1.5,0.1,7,0,0,512", 9, "the type \"7\"", "R|W"),
        ("systor", SYSTOR, "99999999999999.0,0.1,R,0,0,512", 1, "no time in seconds", "SYSTOR"),
    ];
    for (format, before, line, column, part, right) in cases {
        // By content as by name.
        for format in [format, "auto"] {
            let error = read(format!("{before}\n{line}\n"), &[("format", format)]).unwrap_err();
            assert!(error.is_input());
            let WorkloadError::Trace { line: at, found, expected, .. } = error else { panic!("{error}") };
            assert_eq!(at as usize, before.lines().count() + 2, "{line}");
            assert!(found.starts_with(&format!("column {column}: ")), "{line}: {found}");
            assert!(found.contains(part) && expected.contains(right), "{line}: {found}: {expected}");
        }
    }
}

#[test]
fn what_is_wrong_behind_the_first_lines_is_told_where_it_is() {
    let text = format!("{TENCENT}{}\n", "7".repeat(5000));
    let error = read(text.as_str(), &[]).unwrap_err().to_string();
    assert!(error.contains("line 4") && error.contains("4096 bytes"), "{error}");
    let mut reader = TraceReader::new(&spec(&[]), Box::new(Cursor::new(text))).unwrap();
    for line in 1..=3 {
        assert_eq!(reader.next_operation().unwrap().unwrap().line, line);
    }
    assert!(reader.next_operation().is_err());
}

#[test]
fn only_picks_one_of_the_names_and_counts_time_from_its_first_operation() {
    let only = |text: &str, name: &str| brief(&read(text, &[("only", name)]).unwrap());
    assert_eq!(only(ALIBABA, "419"), [(0, Kind::Write, 8192, 4096, 0), (0, Kind::Read, 8192, 4096, 1_000_000)]);
    assert_eq!(only(ALIBABA, "725"), [(0, Kind::Read, 0, 512, 0)]);
    let msr = "10,mds,1,Read,512,512,1\n20,web,0,Write,0,512,1\n30,web,0,Write,0,512,1\n";
    let web = [(0, Kind::Write, 0, 512, 0), (0, Kind::Write, 0, 512, 1000)];
    assert_eq!((only(msr, "web,0"), only(msr, "web:0")), (web.to_vec(), web.to_vec()));
    let spec = spec(&[("only", "7")]);
    let reader = TraceReader::new(&spec, Box::new(Cursor::new(msr))).unwrap();
    let error = TraceSummary::of(&spec, reader, &|| false).unwrap_err();
    assert!(error.is_input());
    assert!(error.to_string().contains("no operation on 7; expected for only: mds,1; web,0"), "{error}");
}

#[test]
fn too_many_names_are_told_with_the_way_out() {
    let text: String = (0..8193).map(|device| format!("{device},R,0,512,1\n")).collect();
    let error = read(text.as_str(), &[]).unwrap_err().to_string();
    assert!(error.contains("line 8193: more than 8192 names") && error.contains("only=NAME"), "{error}");
    assert_eq!(read(text, &[("only", "8192")]).unwrap().len(), 1);
}

#[test]
fn a_picked_name_is_shown_as_it_is_given() {
    let text = "trace:file=t,only=mds:1";
    let spec: WorkloadSpec = text.parse().unwrap();
    assert_eq!(spec.to_string(), text);
}
