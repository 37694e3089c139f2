//! The verdicts on P3's claims.
//!
//! The tolerances stand here, in one place: a factor that the paper gives is met within a fifth,
//! "close to" and "a little" are within a tenth, "no gain" is within a tenth of 1.

use nandkit_record::RunRecord;
use serde_json::{Value, json};

use super::super::Claim;
use super::super::check::{self, Check, Stated, judge_in};
use super::Runs;
use super::plan::{CLEANING, DIE_PAGES, GATHER, IN_TURNS, MOVERS, READING, Scale, Setting, WRITERS};
use super::point::{change, count, find, gain, name_of, series, speed, way};

/// Relative difference up to which a factor of the paper counts as met.
const MET: f64 = 0.2;
/// Relative difference that counts as "a little", as "no gain" or as "close to".
const LITTLE: f64 = 0.1;
const MIB: u64 = 1 << 20;
/// Blocks of a segment.
const SEGMENT: f64 = 512.0;

fn met(paper: f64) -> impl FnOnce(f64) -> bool {
    move |ours| (ours / paper - 1.0).abs() <= MET
}

fn is_about_one(ours: f64) -> bool {
    (ours - 1.0).abs() <= LITTLE
}

fn shown(bytes: u64) -> String {
    if bytes >= MIB { format!("{} MiB", bytes / MIB) } else { format!("{} KiB", bytes >> 10) }
}

pub(super) fn rounded(value: Option<f64>) -> Value {
    value.map_or(Value::Null, |value| json!((value * 1e3).round() / 1e3))
}

/// A table as the command line shows it.
pub(super) fn table(title: &str, columns: &[&str], rows: Vec<Vec<Value>>) -> Value {
    let columns: Vec<Value> = columns.iter().map(|name| json!({"name": name})).collect();
    json!({"title": title, "columns": columns, "rows": rows})
}

fn claim(
    stated: Stated<'_>,
    settings: &[Setting],
    checks: impl Fn(&Setting) -> Vec<Check>,
    tables: Vec<Value>,
    causes: &str,
) -> Claim {
    check::claim(stated, &judge_in(settings.to_vec(), checks), ("tables", tables.into()), causes)
}

/// The archive of files of one size.
fn of_size(runs: &Runs, size: u64) -> Option<&RunRecord> {
    find(&runs.archives, &[("/workload/files", json!("even")), ("/workload/size", json!(size))])
}

/// The archive of the tree.
fn of_tree(runs: &Runs) -> Option<&RunRecord> {
    find(&runs.archives, &[("/workload/files", json!("linux"))])
}

/// The archives of directories of this host, with their paths.
fn of_directories(runs: &Runs) -> impl Iterator<Item = (&str, &RunRecord)> {
    runs.archives.iter().filter_map(|record| Some((record.spec.pointer("/workload/path")?.as_str()?, record)))
}

/// A row of the table of archives.
fn archive_row(name: String, record: Option<&RunRecord>) -> Vec<Value> {
    let speed = |name, host| rounded(record.and_then(|record| way(record, name, host)?.read_mb_per_s));
    let counted = |name| record.map_or(Value::Null, |record| json!(count(record, "archive", name)));
    let gained = |host| rounded(record.and_then(|record| gain(record, host)));
    vec![
        json!(name),
        counted("files"),
        counted("tar_requests"),
        counted("qtar_requests"),
        speed("tar", false),
        speed("qtar", false),
        gained(false),
        speed("tar", true),
        speed("qtar", true),
        gained(true),
    ]
}

const ARCHIVE_COLUMNS: [&str; 10] = [
    "files of",
    "files",
    "tar: reads",
    "qtar: reads",
    "tar MB/s",
    "qtar MB/s",
    "qtar by tar",
    "with host: tar MB/s",
    "qtar MB/s",
    "qtar by tar",
];

/// P3.1.
pub fn sizes(runs: &Runs) -> Claim {
    let all = Scale::new(runs.quick).sizes();
    let checks = |setting: &Setting| {
        let gain = |size| of_size(runs, size).and_then(|record| gain(record, setting.request_ns > 0));
        let each = all.iter().map(|size| match *size {
            size if size <= MIB => Check::new(format!("{}: qtar by tar", shown(size)), gain(size), |x| x > 1.0),
            size => Check::new(format!("{}: qtar by tar", shown(size)), gain(size), |x| x >= 1.0 - LITTLE),
        });
        each.chain([Check::new("4 KiB: the gain", gain(4 << 10), met(3.4))]).collect()
    };
    let stated = Stated {
        id: "P3.1",
        text: "qtar is faster than tar for every file size up to 1 MB, 3.4 times at 4 KB; for big files it may lose a little",
        paper: json!({"qtar_by_tar_at_4_kb": 3.4, "qtar_by_tar_up_to_1_mb": "> 1"}),
    };
    let rows = all.iter().map(|size| archive_row(shown(*size), of_size(runs, *size))).collect();
    let small = of_size(runs, 4 << 10).map_or(String::new(), time_of_small);
    let large = all.last().and_then(|size| of_size(runs, *size)).map_or(String::new(), time_of_large);
    let causes = format!("{small} {large}");
    claim(stated, &READING, checks, vec![table("tar and qtar by file size", &ARCHIVE_COLUMNS, rows)], causes.trim())
}

/// What remap commands take of the time of large files.
fn time_of_large(record: &RunRecord) -> String {
    let of = |name| count(record, "archive", name);
    let whole = way(record, "qtar", false).map_or(0.0, |figures| figures.elapsed_ns as f64).max(1.0);
    format!(
        "Of qtar's time for the largest files the remap commands take {:.0} % ({:.1} us a page, in commands of {:.0} \
         pages), the layer's checkpoints {:.0} %, which lines of remaps and of the temporary file's end fill.",
        of("remap_ns") / whole * 100.0,
        of("remap_ns") / of("remapped_pages").max(1.0) / 1e3,
        of("remapped_pages") / of("remaps").max(1.0),
        of("checkpoint_ns") / whole * 100.0
    )
}

/// Where the time of a file of a page goes.
fn time_of_small(record: &RunRecord) -> String {
    let files = count(record, "archive", "files").max(1.0);
    let each = |name| way(record, name, false).map_or(0.0, |figures| figures.elapsed_ns as f64 / files / 1e3);
    let reads = |name| count(record, "archive", name) / files;
    format!(
        "Cause: of {:.2} reads a file that tar makes {:.2} stay for qtar, those of inodes and directories, which no \
         remap spares; a file of 4 KiB takes tar {:.0} us and qtar {:.0} us of the device.",
        reads("tar_requests"),
        reads("qtar_requests"),
        each("tar"),
        each("qtar")
    )
}

/// P3.2.
pub fn trees(runs: &Runs) -> Claim {
    let large = *Scale::new(runs.quick).sizes().last().unwrap_or(&(16 * MIB));
    let checks = |setting: &Setting| {
        let of = |record: Option<&RunRecord>| record.and_then(|record| gain(record, setting.request_ns > 0));
        vec![
            Check::new("a tree of Linux's shape: qtar by tar", of(of_tree(runs)), met(2.4)),
            Check::new(format!("files of {}: qtar by tar", shown(large)), of(of_size(runs, large)), is_about_one),
        ]
    };
    let stated = Stated {
        id: "P3.2",
        text: "Linux sources: qtar is 2.4 times as fast as tar; directories of large files: no gain or a slight loss",
        paper: json!({"linux": 2.4, "large_files": "no gain or a slight loss"}),
    };
    let mut rows = vec![
        archive_row("Linux 4.4.52's shape".into(), of_tree(runs)),
        archive_row(shown(large), of_size(runs, large)),
    ];
    rows.extend(of_directories(runs).map(|(path, record)| archive_row(path.to_string(), Some(record))));
    claim(stated, &READING, checks, vec![table("tar and qtar of trees", &ARCHIVE_COLUMNS, rows)], "")
}

/// The run of a workload under a mover in a setting.
fn cleaned<'a>(runs: &'a Runs, setting: &Setting, workload: &str, mover: &str) -> Option<&'a RunRecord> {
    let mode = if setting.lfs { "lfs" } else { "adaptive" };
    runs.cleaning.iter().find(|record| {
        let wanted = [
            ("/stack/fs/mode", json!(mode)),
            ("/stack/fs/mover", json!(mover)),
            ("/stack/host/request_ns", json!(setting.request_ns)),
            ("/stack/ftl/aliases", json!(setting.aliases)),
        ];
        name_of(record) == workload && find(std::slice::from_ref(*record), &wanted).is_some()
    })
}

/// The workloads that gain in the paper, and those that do not.
const GAINS: [&str; 2] = ["copyfiles", "tiobench"];
const SAME: [&str; 2] = ["varmail", "dbench"];

/// A figure of one mover's run by that of copies.
fn by_copy(runs: &Runs, setting: &Setting, of: (&str, &str), figure: fn(&RunRecord) -> f64) -> Option<f64> {
    let figure = |mover| cleaned(runs, setting, of.0, mover).map(figure);
    let copies = figure("copy")?;
    (copies > 0.0).then_some(figure(of.1)? / copies)
}

/// Blocks that were moved for each section that was collected, by those of a segment.
fn valid_share(record: &RunRecord) -> Option<f64> {
    let of =
        |name: &str| ["foreground", "background"].map(|why| count(record, "fs", &format!("{why}_{name}"))).iter().sum();
    let (sections, moved): (f64, f64) = (of("sections"), of("moved_data_blocks"));
    (sections > 0.0).then_some(moved / sections / SEGMENT)
}

/// P3.3.
pub fn writes(runs: &Runs) -> Claim {
    let checks = |setting: &Setting| {
        let gain = |workload| by_copy(runs, setting, (workload, "remap-sorted"), speed);
        let valid = |workload| cleaned(runs, setting, workload, "copy").and_then(valid_share);
        let mut checks = Vec::new();
        for name in GAINS {
            checks.push(Check::new(format!("{name}: remap by copy"), gain(name), |x| x > 2.0));
        }
        for name in SAME {
            checks.push(Check::new(format!("{name}: remap by copy"), gain(name), is_about_one));
            checks.push(Check::new(format!("{name}: valid share of victims"), valid(name), |x| x <= LITTLE));
        }
        checks
    };
    let stated = Stated {
        id: "P3.3",
        text: "Writes while cleaning: over 2 times as fast (up to 2.2) for copyfiles and tiobench; no gain for varmail and dbench, whose victims hold almost no valid blocks",
        paper: json!({"copyfiles": "> 2", "tiobench": "> 2", "varmail": 1.0, "dbench": 1.0}),
    };
    claim(stated, &CLEANING, checks, CLEANING.map(|setting| writes_table(runs, &setting)).to_vec(), &causes_of(runs))
}

fn writes_table(runs: &Runs, setting: &Setting) -> Value {
    let columns = [
        "workload",
        "copy MB/s",
        "remap",
        "remap-sorted",
        "valid % of victims",
        "sections",
        "copied pages",
        "remapped",
        "copied by remap-sorted",
    ];
    let rows = GAINS.iter().chain(&SAME).map(|workload| {
        let copy = cleaned(runs, setting, workload, "copy");
        let sorted = cleaned(runs, setting, workload, "remap-sorted");
        let of = |record: Option<&RunRecord>, name: &str| rounded(record.map(|record| count(record, "fs", name)));
        let sections =
            copy.map(|record| count(record, "fs", "foreground_sections") + count(record, "fs", "background_sections"));
        vec![
            json!(workload),
            rounded(copy.map(speed)),
            rounded(by_copy(runs, setting, (workload, "remap"), speed)),
            rounded(by_copy(runs, setting, (workload, "remap-sorted"), speed)),
            rounded(copy.and_then(valid_share).map(|share| share * 100.0)),
            rounded(sections),
            of(copy, "moved_by_copy_blocks"),
            of(sorted, "moved_by_remap_blocks"),
            of(sorted, "moved_by_copy_blocks"),
        ]
    });
    table(&format!("Writes while cleaning, by copies: {}", setting.name), &columns, rows.collect())
}

/// What remaps cost the device in its log: room for more of them, and the checkpoints that the
/// lines of remaps and of given up sources make it write. What the gain were without either.
fn causes_of(runs: &Runs) -> String {
    let settings = [&CLEANING[0], &CLEANING[3]];
    let each = settings.into_iter().flat_map(|setting| GAINS.map(|workload| (setting, workload)));
    let each = each.filter_map(|(setting, workload)| {
        let [copy, sorted] = ["copy", "remap-sorted"].map(|mover| cleaned(runs, setting, workload, mover));
        let (copy, sorted) = (copy?, sorted?);
        let elapsed = |record: &RunRecord| record.figures.elapsed_ns as f64;
        let of = |record, name| count(record, "ftl", name);
        let log = |record| of(record, "ftl_remap_fold_ns") + of(record, "ftl_checkpoint_stalls_ns");
        let share = |name| of(sorted, name) / elapsed(sorted).max(1.0) * 100.0;
        let bare = |record| (elapsed(record) - log(record)).max(1.0);
        Some(format!(
            "{workload} ({}) {:.0} % for room in the log, {:.0} % for checkpoints of the layer, {:.2} times as fast as \
             copies without these of both",
            setting.name,
            share("ftl_remap_fold_ns"),
            share("ftl_checkpoint_stalls_ns"),
            bare(copy) / bare(sorted)
        ))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() {
        String::new()
    } else {
        format!("Cause: the log of remaps takes of the time: {}.", each.join("; "))
    }
}

/// The volume of files in turns under a mover and a budget of gathering.
fn in_turns<'a>(
    runs: &'a Runs,
    setting: &Setting,
    (writers, mover, gather): (u64, &str, u32),
) -> Option<&'a RunRecord> {
    find(
        &runs.fragments,
        &[
            ("/workload/writers", json!(writers)),
            ("/stack/fs/mover", json!(mover)),
            ("/stack/fs/gather", json!(gather)),
            ("/stack/host/request_ns", json!(setting.request_ns)),
        ],
    )
}

fn ends(record: Option<&RunRecord>, name: &str) -> [Option<f64>; 2] {
    let series = record.map_or(&[][..], |record| series(record, name));
    [series.first().copied(), series.last().copied()]
}

/// P3.4.
pub fn defragmented(runs: &Runs) -> Claim {
    let checks = |setting: &Setting| {
        let of = |mover| in_turns(runs, setting, (9, mover, 0));
        let sorted = of("remap-sorted");
        let whole = in_turns(runs, setting, (1, "copy", 0));
        let [_, last] = ends(sorted, "read_mb_per_s");
        let by_whole =
            last.zip(ends(whole, "read_mb_per_s")[0]).map(|(ours, whole)| ours / whole.max(f64::MIN_POSITIVE));
        let apart = of("remap").and_then(|record| change(record, "fragments"));
        vec![
            Check::new("fragments at the end by those at first", sorted.and_then(|of| change(of, "fragments")), |x| {
                x <= 828.0 / 51_167.0 * (1.0 + MET)
            }),
            Check::new(
                "read speed at the end by that at first",
                sorted.and_then(|of| change(of, "read_mb_per_s")),
                |x| x >= 2.1 * (1.0 - MET),
            ),
            Check::new("read speed by that of a file never fragmented", by_whole, |x| x >= 1.0 - LITTLE),
            Check::new("without the order: fragments at the end by those at first", apart, |x| x >= 1.0 - LITTLE),
        ]
    };
    let stated = Stated {
        id: "P3.4",
        text: "Fragments fall from 51,167 to 828 as cleaning goes on; reads become 2.1 times as fast, close to those of an unfragmented file",
        paper: json!({"fragments": [51_167, 828], "read_speed": 2.1}),
    };
    let tables = READING.map(|setting| rounds_table(runs, &setting)).to_vec();
    claim(stated, &READING, checks, tables, "")
}

/// Fragments and read speeds by round.
fn rounds_table(runs: &Runs, setting: &Setting) -> Value {
    let of = |mover, name| in_turns(runs, setting, (9, mover, 0)).map_or(&[][..], |record| series(record, name));
    let columns = ["round", "copy: fragments", "remap", "remap-sorted", "copy: read MB/s", "remap", "remap-sorted"];
    let figures = ["fragments", "read_mb_per_s"].into_iter().flat_map(|name| MOVERS.map(|(mover, _)| of(mover, name)));
    let figures: Vec<&[f64]> = figures.collect();
    let rounds = figures.iter().map(|series| series.len()).max().unwrap_or(0);
    let row = |round: usize| {
        let each = figures.iter().map(|series| rounded(series.get(round).copied()));
        [json!(round)].into_iter().chain(each).collect()
    };
    table(&format!("Cleaning in idle times: {}", setting.name), &columns, (0..rounds).map(row).collect())
}

/// The volume of P3.5.
fn of_pieces<'a>(runs: &'a Runs, setting: &Setting, piece: u64, fewer: bool) -> Option<&'a RunRecord> {
    let mut all: Vec<&RunRecord> = runs
        .fragments
        .iter()
        .filter(|record| {
            let wanted = [
                ("/workload/writers", json!(IN_TURNS)),
                ("/workload/piece", json!(piece)),
                ("/stack/host/request_ns", json!(setting.request_ns)),
            ];
            find(std::slice::from_ref(*record), &wanted).is_some()
        })
        .collect();
    all.sort_by_key(|record| record.spec.pointer("/workload/size").and_then(Value::as_u64));
    if fewer { all.first().filter(|_| all.len() > 1).copied() } else { all.last().copied() }
}

fn read_speed(record: &RunRecord) -> Option<f64> {
    series(record, "read_mb_per_s").first().copied()
}

/// P3.5.
pub fn pieces(runs: &Runs) -> Claim {
    let all = Scale::new(runs.quick).pieces();
    let checks = |setting: &Setting| {
        let mut checks = Vec::new();
        let of = |piece, fewer| of_pieces(runs, setting, piece, fewer).and_then(read_speed);
        let speeds: Option<Vec<f64>> = all.iter().map(|piece| of(*piece, false)).collect();
        let least = speeds.as_ref().and_then(|all| all.windows(2).map(|two| two[1] / two[0]).reduce(f64::min));
        let most = speeds.as_ref().and_then(|all| Some(all.last()? / all.first()?));
        checks.push(Check::new("speed from size to size, the least step", least, |x| x >= 0.98));
        checks.push(Check::new("speed of the largest by the smallest pieces", most, |x| x > 1.5));
        for piece in all.iter().filter(|piece| **piece <= 64 << 10) {
            let ratio = of(*piece, false).zip(of(*piece, true)).map(|(more, fewer)| more / fewer);
            let name = format!("{}: speed of 4 times as many pieces", shown(*piece));
            checks.push(Check::new(name, ratio, is_about_one));
        }
        checks
    };
    let stated = Stated {
        id: "P3.5",
        text: "Read speed follows the size of the fragments, not their number",
        paper: json!({"by": "size, not number"}),
    };
    let columns =
        ["piece", "fragments", "read MB/s", "of a quarter as many", "with host: read MB/s", "of a quarter as many"];
    let rows = all.iter().map(|piece| {
        let of = |setting: &Setting, fewer| of_pieces(runs, setting, *piece, fewer);
        let speed = |setting, fewer| rounded(of(setting, fewer).and_then(read_speed));
        let [host, device] = &READING;
        let fragments = rounded(ends(of(device, false), "fragments")[0]);
        vec![
            json!(shown(*piece)),
            fragments,
            speed(device, false),
            speed(device, true),
            speed(host, false),
            speed(host, true),
        ]
    });
    let tables = vec![table("Reads by the size of pieces", &columns, rows.collect()), dies_table(runs)];
    claim(stated, &READING, checks, tables, &costs_of_pieces(runs))
}

/// Microseconds of a read-ahead in pieces of `pages` pages.
fn window_us(runs: &Runs, setting: &Setting, writers: u64, pages: u64) -> Option<f64> {
    let wanted = [
        ("/workload/writers", json!(writers)),
        ("/workload/pages", json!(pages)),
        ("/stack/host/request_ns", json!(setting.request_ns)),
    ];
    Some(count(find(&runs.dies, &wanted)?, "dies", "window_ns") / 1e3)
}

fn dies_table(runs: &Runs) -> Value {
    let columns = ["pieces of", "on all dies us", "on few dies us", "with host: on all dies us", "on few dies us"];
    let rows = DIE_PAGES.map(|pages| {
        let [host, device] = &READING;
        let of = |setting, writers| rounded(window_us(runs, setting, writers, pages));
        let [few, all] = WRITERS;
        vec![json!(shown(pages << 12)), of(device, all), of(device, few), of(host, all), of(host, few)]
    });
    table("A read-ahead of 128 KiB on the bare device, its pieces at once", &columns, rows.to_vec())
}

/// The costs of split requests and of pieces on common dies, in microseconds for each read-ahead.
fn costs_of_pieces(runs: &Runs) -> String {
    let [few, all] = WRITERS;
    let each = READING.iter().filter_map(|setting| {
        let whole = window_us(runs, setting, all, *DIE_PAGES.last()?)?;
        let (split, together) = (window_us(runs, setting, all, 1)?, window_us(runs, setting, few, 1)?);
        Some(format!(
            "{}: {whole:.0} us whole, {:.0} more by split requests, {:.0} more by dies in common",
            setting.name,
            split - whole,
            together - split
        ))
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() {
        return String::new();
    }
    format!(
        "128 KiB in pieces of a page, asked for at once: {}. F2FS asks for the pieces of a read together, and files in \
         turns lie on all dies, so that their pieces come as fast as one.",
        each.join("; ")
    )
}

fn erases_per_byte(record: &RunRecord) -> f64 {
    record.figures.erases as f64 / (record.figures.user_bytes_written as f64).max(1.0)
}

fn programmed_per_byte(record: &RunRecord) -> f64 {
    record.figures.waf.unwrap_or(0.0)
}

/// P3.6.
pub fn lifetime(runs: &Runs) -> Claim {
    let checks = |setting: &Setting| {
        let mut checks = Vec::new();
        for workload in GAINS.iter().chain(&SAME) {
            let most = if GAINS.contains(workload) { 1.0 } else { 1.0 + LITTLE };
            for (what, figure) in
                [("programmed", programmed_per_byte as fn(&RunRecord) -> f64), ("erases", erases_per_byte)]
            {
                let ratio = by_copy(runs, setting, (workload, "remap-sorted"), figure);
                let name = format!("{workload}: {what} per user byte, remap by copy");
                checks.push(Check::new(name, ratio, |x| if most > 1.0 { x <= most } else { x < most }));
            }
        }
        checks
    };
    let stated = Stated {
        id: "P3.6",
        text: "Remapping also saves lifetime: cleaning programs fewer pages",
        paper: json!({"programmed_per_user_byte": "less", "erases": "fewer"}),
    };
    let columns =
        ["workload", "copy: programmed by user bytes", "remap-sorted", "copy: erases for each MiB", "remap-sorted"];
    let tables = CLEANING.map(|setting| {
        let rows = GAINS.iter().chain(&SAME).map(|workload| {
            let of = |mover, figure: fn(&RunRecord) -> f64, by: f64| {
                rounded(cleaned(runs, &setting, workload, mover).map(|record| figure(record) * by))
            };
            let mib = MIB as f64;
            vec![
                json!(workload),
                of("copy", programmed_per_byte, 1.0),
                of("remap-sorted", programmed_per_byte, 1.0),
                of("copy", erases_per_byte, mib),
                of("remap-sorted", erases_per_byte, mib),
            ]
        });
        table(&format!("What the flash wears: {}", setting.name), &columns, rows.collect())
    });
    claim(stated, &CLEANING, checks, tables.to_vec(), "")
}

/// P3.F.
pub fn gathered(runs: &Runs) -> Claim {
    let ways = [("copy", 0), ("remap-sorted", 0), ("copy", GATHER)];
    let checks = |setting: &Setting| {
        let mut checks = Vec::new();
        for (writers, dies) in [(512, "one die"), (513, "all dies")] {
            let of = |(mover, gather), name: &str| change(in_turns(runs, setting, (writers, mover, gather))?, name);
            let (sorted, gathered) = (of(ways[1], "fragments"), of(ways[2], "fragments"));
            let name = |what: &str| format!("pages on {dies}: {what}");
            checks.push(Check::new(name("fragments behind sorting by those before"), sorted, |x| x >= 1.0 - LITTLE));
            checks.push(Check::new(name("fragments behind gathering by those before"), gathered, |x| x <= LITTLE));
            let faster = of(ways[2], "read_mb_per_s");
            checks.push(Check::new(name("read speed behind gathering by that before"), faster, |x| x > 1.0 + MET));
        }
        checks
    };
    let stated = Stated {
        id: "P3.F",
        text: "A sort within segments cannot help a file with one block in each of many: whole files, chosen by size, fragments and reads, are gathered",
        paper: json!(null),
    };
    let columns = [
        "files in turns",
        "cleaner",
        "fragments at first",
        "at the end",
        "read MB/s at first",
        "at the end",
        "gathered by remap",
        "by copy",
    ];
    let tables = READING.map(|setting| {
        let cases = [512, 513].into_iter().flat_map(|writers| ways.map(|way| (writers, way)));
        let rows = cases.map(|(writers, (mover, gather))| {
            let record = in_turns(runs, &setting, (writers, mover, gather));
            let name = if gather > 0 { "gather" } else { mover };
            let series = ["fragments", "read_mb_per_s"].map(|name| ends(record, name));
            let counted = ["gathered_by_remap_blocks", "gathered_by_copy_blocks"];
            let counted = counted.map(|name| rounded(record.map(|record| count(record, "fs", name))));
            let figures = series.into_iter().flatten().map(rounded).chain(counted);
            [json!(writers), json!(name)].into_iter().chain(figures).collect()
        });
        table(&format!("Files with a page in each of many segments: {}", setting.name), &columns, rows.collect())
    });
    claim(stated, &READING, checks, tables.to_vec(), "")
}
