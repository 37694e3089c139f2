//! Trace formats: good and bad lines, compression, fitting, recorded times.

use std::io::{self, Cursor, Read, Write};

use nandkit_block::BlockGeometry;
use nandkit_units::Nanos;
use nandkit_workload::trace::{Trace, TraceOperation, TraceReader};
use nandkit_workload::tree::source::TreeSource;
use nandkit_workload::{
    BlockOperationKind as Kind, BlockWorkload, Inputs, NoInputs, Parameters, Phase, Result, Value, WorkloadError,
    WorkloadSpec,
};

#[path = "../examples/make_iolog.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod make_iolog;

pub(crate) fn spec(settings: &[(&str, &str)]) -> Trace {
    let mut spec = Trace { file: "t".to_string(), ..Trace::default() };
    for (key, value) in settings {
        spec.set(key, &Value::Text((*value).to_string())).unwrap();
    }
    spec
}

pub(crate) fn read(text: impl Into<Vec<u8>>, settings: &[(&str, &str)]) -> Result<Vec<TraceOperation>> {
    let mut reader = TraceReader::new(&spec(settings), Box::new(Cursor::new(text.into())))?;
    let mut operations = Vec::new();
    while let Some(operation) = reader.next_operation()? {
        operations.push(operation);
    }
    Ok(operations)
}

pub(crate) fn brief(operations: &[TraceOperation]) -> Vec<(u32, Kind, u64, u64, u64)> {
    operations.iter().map(|o| (o.name, o.kind, o.offset, o.length, o.time.0)).collect()
}

#[test]
fn iolog_version_2() {
    let text = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 0 4096\n/dev/sda wait 500 0\n\
                /dev/sda read 8192 4096\n\n  b\tdatasync 0 0 \n/dev/sda wait 200\n/dev/sda trim 4096 512\n/dev/sda sync\n/dev/sda close\n";
    let operations = read(text, &[]).unwrap();
    assert_eq!(
        brief(&operations),
        [
            (0, Kind::Write, 0, 4096, 0),
            (0, Kind::Read, 8192, 4096, 500_000),
            (1, Kind::Flush, 0, 0, 500_000),
            (0, Kind::Trim, 4096, 512, 700_000),
            (0, Kind::Flush, 0, 0, 700_000),
        ]
    );
    assert_eq!(operations[3].line, 10);
}

#[test]
fn iolog_version_3_counts_from_its_first_stamp_in_the_unit_asked_for() {
    let text = "fio version 3 iolog\n100 a add\n102 a open\n115 a write 0 4096\n640 a trim 1048576 65536\n600 a read 0 512\n900 a close\n";
    let times = |settings| read(text, settings).unwrap().iter().map(|o| o.time.0).collect::<Vec<_>>();
    assert_eq!(times(&[]), [15_000, 540_000, 540_000]);
    assert_eq!(times(&[("time_unit", "ms")]), [15_000_000, 540_000_000, 540_000_000]);
    assert_eq!(times(&[("time_unit", "ns"), ("format", "iolog")]), [15, 540, 540]);
}

#[test]
fn msr_cambridge() {
    let text = "128166386787582087,mds,1,Read,1211904,4608,1331\n128166386816018591,mds,1,Write,3216997888,16384,2326\n\
                128166386816018590,web,0,write,0,512,1\n";
    assert_eq!(
        brief(&read(text, &[]).unwrap()),
        [
            (0, Kind::Read, 1_211_904, 4608, 0),
            (0, Kind::Write, 3_216_997_888, 16_384, 2_843_650_400),
            (1, Kind::Write, 0, 512, 2_843_650_400),
        ]
    );
    let headed = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{text}");
    assert_eq!(read(headed, &[]).unwrap().len(), 3);
}

const BLKPARSE: &str = "  8,0    3        1     5.000000000   697  G   W 223490 + 8 [kjournald]
  8,0    1        7     5.000412345  4162  Q  WS 52346776 + 8 [fio]
  8,0    1        9     5.000512001  4162  D  WS 52346776 + 16 [fio]
  8,0    1       10     5.000512001  4162  m   N cfq4162 put_queue
  8,0    1       11     5.000901234     0  C  WS 52346776 + 8 [0]
  8,16   0       12     5.001000000     1  Q   R 8 + 8 [x]
  8,16   0       13     5.001000001     1  Q  FWS [x]
  8,16   0       14     5.001000002     1  Q   D 16 + 64 [x]
  8,16   0       15     5.001000003     1  Q   N 36 (12 00 00 00 24 00 ..) [hald]
  8,16   0       16     5.001000004     1  Q   N 0 + 0 [x]
CPU0 (8,0):
 Reads Queued:           1,        4KiB
garbage that is not read
";

#[test]
fn blkparse_text() {
    assert_eq!(
        brief(&read(BLKPARSE, &[]).unwrap()),
        [
            (0, Kind::Write, 52_346_776 * 512, 4096, 0),
            (1, Kind::Read, 4096, 4096, 587_655),
            (1, Kind::Flush, 0, 0, 587_656),
            (1, Kind::Trim, 8192, 32_768, 587_657),
        ]
    );
    assert_eq!(brief(&read(BLKPARSE, &[("action", "d")]).unwrap()), [(0, Kind::Write, 52_346_776 * 512, 8192, 0)]);
}

#[test]
fn malformed_lines_are_named_with_the_grammar() {
    let v2 = "fio version 2 iolog\n";
    let v3 = "fio version 3 iolog\n";
    let cases: Vec<(String, u64, &str)> = vec![
        ("hello\n".into(), 1, "begins no known format"),
        ("fio version 1 iolog\n".into(), 1, "fio version 2 iolog"),
        (format!("{v2}a\n"), 2, "no action"),
        (format!("{v2}a write 0\n"), 2, "lacks offset or length"),
        (format!("{v2}a open\na write x 4096\n"), 3, "x for a number"),
        (format!("{v2}a write -1 4096\n"), 2, "-1 for a number"),
        (format!("{v2}a write 1 2 3\n"), 2, "too many fields"),
        (format!("{v2}a open 1\n"), 2, "too many fields"),
        (format!("{v2}a frobnicate 1 2\n"), 2, "unknown action frobnicate"),
        (format!("{v2}a write 18446744073709551615 4096\n"), 2, "too large"),
        (format!("{v2}a write 0 99999999999\n"), 2, "too large"),
        (format!("{v3}a write 0 4096\n"), 2, "no time"),
        (format!("{v3}1 a wait 5 0\n"), 2, "unknown action wait"),
        (format!("{v2}{} write 0 512\n", "n".repeat(5000)), 2, "4096 bytes"),
        ("1,h,0,Read,0,512,1\n1,h,0,Read,0,512\n".into(), 2, "7 fields but 6"),
        ("1,h,0,Erase,0,512,1\n".into(), 1, "unknown type Erase"),
        ("1,h,0,Read,zero,512,1\n".into(), 1, "for the offset"),
        ("x,h,0,Read,0,512,1\n".into(), 1, "for the time stamp"),
        ("8,0 1 1 0.0 1 Q W 8 - 8 [x]\n".into(), 1, "no \"+\""),
        ("8,0 1 1 0.0 1 Q W eight + 8\n".into(), 1, "no number of a sector"),
        ("8,0 1 1 0.0 1 Q W 8 +\n".into(), 1, "no number of sectors"),
        ("8,0 1 1 zero 1 Q W 8 + 8\n".into(), 1, "no time"),
        ("8,0 1 1 0.0 1\n".into(), 1, "ends before the action"),
        ("8,0 1 1 0.0 1 Q W 8 + 8\nsda 1 1 0.0 1 Q W 8 + 8\n".into(), 2, "no device"),
    ];
    let nothing = read("", &[]).unwrap_err();
    assert!(nothing.is_input());
    assert!(nothing.to_string().contains("the trace is empty; expected fio's iolog"), "{nothing}");
    for (text, at, part) in cases {
        let error = read(text.as_str(), &[]).unwrap_err();
        assert!(error.is_input());
        let message = error.to_string();
        assert!(message.contains(part), "{text}: {message}");
        let WorkloadError::Trace { line, expected, .. } = error else { panic!("{message}") };
        assert_eq!(line, at, "{text}: {message}");
        assert!(!expected.is_empty());
    }
}

struct One(Vec<u8>);

impl Inputs for One {
    fn open(&self, _: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(Cursor::new(self.0.clone())))
    }
    fn tree(&self, path: &str) -> Result<Box<dyn TreeSource>> {
        NoInputs.tree(path)
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn blank_lines_without_end_are_refused() {
    let line = "fio version 2 iolog\na write 0 512\n";
    assert_eq!(read(gzip(format!("{}{line}", "\n".repeat(1 << 19)).as_bytes()), &[]).unwrap().len(), 1);
    for before in ["", line] {
        let error = read(gzip(format!("{before}{}{line}", " \n".repeat(1 << 20)).as_bytes()), &[]).unwrap_err();
        assert!(error.is_input() && error.to_string().contains("blank lines"), "{error}");
    }
}

#[test]
fn only_a_plain_file_is_opened() {
    let error = nandkit_workload::HostInputs.open("/dev/null").err().unwrap();
    assert!(error.to_string().contains("no plain file"), "{error}");
}

#[test]
fn looking_through_a_trace_stops_when_asked() {
    struct Stopped(One);
    impl Inputs for Stopped {
        fn open(&self, path: &str) -> io::Result<Box<dyn Read + Send>> {
            self.0.open(path)
        }
        fn tree(&self, path: &str) -> Result<Box<dyn TreeSource>> {
            NoInputs.tree(path)
        }
        fn is_stopped(&self) -> bool {
            true
        }
    }
    // The second has no operation between which anything could be asked.
    for line in ["a write 0 512\n", "a open\n"] {
        let text = format!("fio version 2 iolog\na add\n{}", line.repeat(5000));
        let inputs = Stopped(One(text.into_bytes()));
        let spec: WorkloadSpec = "trace:t".parse().unwrap();
        let error = spec.file_workload(1 << 30, 1, &inputs).err().unwrap();
        assert!(matches!(error, WorkloadError::Cancelled { .. }), "{error}");
        let error = spec.outside().unwrap().fingerprint(&inputs).unwrap_err();
        assert!(matches!(error, WorkloadError::Cancelled { .. }), "{error}");
    }
}

#[test]
fn compression_is_told_by_the_first_bytes() {
    let plain = read(BLKPARSE, &[]).unwrap();
    assert_eq!(read(gzip(BLKPARSE.as_bytes()), &[]).unwrap(), plain);
    assert_eq!(read(zstd::encode_all(BLKPARSE.as_bytes(), 3).unwrap(), &[]).unwrap(), plain);
    // Two members one behind the other are one trace.
    let (first, second) = BLKPARSE.split_at(BLKPARSE.find("  8,16").unwrap());
    let members = [gzip(first.as_bytes()), gzip(second.as_bytes())].concat();
    assert_eq!(read(members, &[]).unwrap(), plain);
    let mut damaged = gzip(BLKPARSE.as_bytes());
    damaged.truncate(damaged.len() / 2);
    assert!(matches!(read(damaged, &[]).unwrap_err(), WorkloadError::Input { .. }));
}

type Placed = (Kind, u64, u32, Option<Nanos>);

fn blocks(text: &str, settings: &str, sector_size: u32, bytes: u64) -> Result<Vec<Placed>> {
    let spec: WorkloadSpec = format!("trace:t,fill=false{settings}").parse().unwrap();
    let sectors = bytes / u64::from(sector_size);
    let geometry = BlockGeometry { sector_size, sectors, preferred_size: sector_size, recycling_size: 0 };
    let mut workload = spec.block_workload(&geometry, 1, &One(text.as_bytes().to_vec()))?;
    workload.begin(Phase::Measure);
    let mut operations = Vec::new();
    while let Some(o) = workload.next_operation()? {
        assert!(o.at.0 + u64::from(o.sectors) <= sectors);
        operations.push((o.kind, o.at.0, o.sectors, o.arrival));
    }
    Ok(operations)
}

#[test]
fn fitting_is_done_only_when_asked_for() {
    let text = "fio version 2 iolog\na write 0 4096\na write 1048576 4096\na wait 7 0\na read 1049088 512\n";
    let error = blocks(text, "", 512, 1 << 20).unwrap_err().to_string();
    for part in ["t, line 3", "1052672", "fit=wrap", "fit=scale", "at least 1052672 bytes"] {
        assert!(error.contains(part), "{error}");
    }
    let write = |at, sectors| (Kind::Write, at, sectors, None);
    let expected = [write(0, 8), write(2048, 8), (Kind::Read, 2049, 1, None)];
    assert_eq!(blocks(text, "", 512, 2 << 20).unwrap(), expected);
    assert_eq!(blocks(text, "", 512, 1_052_672).unwrap(), expected);
    assert_eq!(blocks(text, ",fit=wrap", 512, 1 << 20).unwrap(), [write(0, 8), write(0, 8), (Kind::Read, 1, 1, None)]);
    let scaled = blocks(text, ",fit=scale", 512, 512 << 10).unwrap();
    assert_eq!((scaled[0].1, scaled[0].2), (0, 8));
    assert!((1000..1024).contains(&scaled[1].1), "{scaled:?}");
    let recorded = blocks(text, ",timing=recorded,operations=3", 4096, 2 << 20).unwrap();
    assert_eq!(recorded[2], (Kind::Read, 256, 1, Some(Nanos(7000))));
    assert_eq!(blocks(text, ",operations=1", 512, 8192).unwrap(), [write(0, 8)]);
}

#[test]
fn the_users_bytes_are_the_traces_also_where_sectors_are_larger() {
    let text = "fio version 2 iolog\na write 0 512\na write 6144 4096\na write 12288 8192\n";
    let spec: WorkloadSpec = "trace:t,fill=false".parse().unwrap();
    let geometry = BlockGeometry { sector_size: 4096, sectors: 64, preferred_size: 4096, recycling_size: 0 };
    let mut workload = spec.block_workload(&geometry, 1, &One(text.as_bytes().to_vec())).unwrap();
    workload.begin(Phase::Measure);
    let sizes: Vec<_> =
        std::iter::from_fn(|| workload.next_operation().unwrap()).map(|o| (o.sectors, o.bytes)).collect();
    assert_eq!(sizes, [(1, 512), (2, 4096), (2, 8192)]);
}

#[test]
fn a_mark_before_the_text_is_skipped_and_time_stamps_of_another_clock_are_told() {
    let text = "\u{feff}fio version 3 iolog\n0 a write 0 4096\n4000000000000000 a write 0 4096\n";
    let error = blocks(text, "", 512, 1 << 20).unwrap_err().to_string();
    for part in ["t, line 3", "4000000000000000", "a century", "one clock"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(blocks(&text[..text.len() - 32], "", 512, 1 << 20).unwrap().len(), 1);
}

#[test]
fn several_names_lie_one_behind_the_other() {
    let text = "fio version 2 iolog\na write 0 512\nb write 0 512\na write 5000 512\n";
    let at: Vec<_> = blocks(text, "", 512, 1 << 20).unwrap().iter().map(|o| (o.1, o.2)).collect();
    assert_eq!(at, [(0, 1), (16, 1), (9, 2)]);
}

#[test]
fn the_sample_is_what_its_generator_makes() {
    let stored = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sample.iolog")).unwrap();
    assert_eq!(stored, make_iolog::sample());
    assert!(read(stored, &[]).unwrap().len() > 100);
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        for prefix in ["", "fio version 2 iolog\n", "fio version 3 iolog\n", "1,h,0,Read,0,512,1\n", "8,0 1 1 0.0 1 Q W 8 + 8\n", "1,2,3,W,", "1.,,", "1 2 3 "] {
            let _ = read([prefix.as_bytes(), &bytes].concat(), &[]);
        }
        let _ = read([&[0x1F, 0x8B][..], &bytes].concat(), &[]);
        let _ = read([&[0x28, 0xB5, 0x2F, 0xFD][..], &bytes].concat(), &[]);
    }

    #[test]
    fn lines_that_are_nearly_right_never_panic(
        words in proptest::collection::vec("(a|write|read|wait|sync|add|[0-9]{1,21}|8,0|Q|D|W|FWS|\\+|0\\.[0-9]{1,10}|\\[x\\]|1,h,0,Read|,|0\\.|419,W|Timestamp)", 0..12),
        commas in proptest::bool::ANY,
    ) {
        let line = words.join(if commas { "," } else { " " });
        for format in ["iolog", "msr", "blkparse", "mqsim", "spc", "alibaba", "tencent", "systor", "auto"] {
            for prefix in ["", "fio version 2 iolog\n", "fio version 3 iolog\n"] {
                let _ = read(format!("{prefix}{line}\n{line}\n"), &[("format", format)]);
            }
        }
    }
}
