//! The stacks and the programs. A new file system gets every program by one line in `STACKS`.

use std::collections::BTreeSet;

use crate::judges::Judge;

/// A stack, as `nandkit exec` takes it.
pub struct Stack {
    pub name: &'static str,
    pub options: &'static [&'static str],
    /// What the format cannot hold, and which failures follow from that: docs/design/soaks.md says
    /// of each why.
    pub known: Known,
}

/// What is known to fail on a stack.
pub struct Known {
    /// Tests of pjdfstest.
    pub pjdfstest: u64,
    /// Stressors of stress-ng.
    pub stressors: &'static [&'static str],
}

pub const STACKS: [Stack; 6] = [
    Stack {
        name: "jffs2",
        options: &["--fs", "jffs2", "--device", "slc-256m"],
        known: Known { pjdfstest: 3, stressors: &[] },
    },
    Stack {
        name: "fat-block-map",
        options: &["--fs", "fat", "--device", "k9l8g08u0m", "--ftl", "block-map"],
        known: Known { pjdfstest: 262, stressors: &["access", "copy-file", "iomix", "utime"] },
    },
    Stack {
        name: "fat-fast",
        options: &["--fs", "fat", "--device", "slc-256m", "--ftl", "fast"],
        known: Known { pjdfstest: 262, stressors: &["access", "copy-file", "iomix", "utime"] },
    },
    Stack {
        name: "f2fs-ssd",
        options: &["--fs", "f2fs", "--device", "p3-ssd"],
        known: Known { pjdfstest: 0, stressors: &[] },
    },
    Stack {
        name: "f2fs-card",
        options: &["--fs", "f2fs", "--device", "sd-sandisk-4"],
        known: Known { pjdfstest: 0, stressors: &[] },
    },
    Stack {
        name: "ubifs",
        options: &["--fs", "ubifs", "--device", "slc-256m"],
        known: Known { pjdfstest: 0, stressors: &[] },
    },
];

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Operations of fsx.
    pub operations: u64,
    /// Seconds of each thing that runs for a time; 0: what is usual for it.
    pub seconds: u64,
}

impl Size {
    const fn seconds_or(self, usual: u64) -> u64 {
        if self.seconds == 0 { usual } else { self.seconds }
    }
}

/// The verdict on a program's run.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Fine(String),
    /// The program failed only in what is known to fail on the stack.
    Known(String),
    Wrong(String),
}

/// A program, and how it is judged.
pub struct Program {
    pub name: &'static str,
    /// Its Debian packages.
    pub judges: &'static [Judge],
    /// Or its crate, with the version that was tried.
    pub from_crate: Option<(&'static str, &'static str)>,
    /// Scripts for `sh`, in the root of the volume; each runs on a fresh stack.
    pub parts: fn(Size) -> Vec<String>,
    /// Looks at whether all parts ended with status 0, and at what they said.
    pub judge: fn(&Stack, bool, &str) -> Verdict,
}

pub const PROGRAMS: [Program; 6] = [
    Program {
        name: "fsx",
        judges: &[],
        from_crate: Some(("fsx", "0.3.2")),
        // It maps anew for each operation and unmaps nothing: 65,530 maps are the kernel's usual
        // limit, and many make it slow.
        parts: |size| {
            let part = |seed, operations| format!("fsx -N {operations} -S {seed} file");
            let whole = size.operations / PART;
            let rest = (size.operations % PART > 0).then(|| part(whole + 1, size.operations % PART));
            (1..=whole).map(|seed| part(seed, PART)).chain(rest).collect()
        },
        judge: |_, ended_well, output| {
            let parts = output.matches("All operations completed").count();
            let told = format!("{parts} parts to their end");
            if ended_well && parts > 0 { Verdict::Fine(told) } else { Verdict::Wrong(told) }
        },
    },
    Program {
        name: "pjdfstest",
        judges: &[],
        from_crate: Some(("pjdfstest", "0.2.2")),
        parts: |_| vec![PJDFSTEST.to_owned()],
        judge: |stack, _, output| {
            let Some(summary) = output.lines().find_map(|line| line.strip_prefix("Summary: ")) else {
                return Verdict::Wrong("it did not come to its summary".to_owned());
            };
            let told = summary.to_owned();
            match count_before(summary, " failed") {
                Some(0) => Verdict::Fine(told),
                Some(failed) if failed <= stack.known.pjdfstest => Verdict::Known(told),
                _ => Verdict::Wrong(told),
            }
        },
    },
    Program {
        name: "dbench",
        judges: &[Judge { tool: "dbench", package: "dbench" }],
        from_crate: None,
        parts: |size| vec![format!("dbench -t {} -c /usr/share/dbench/client.txt 4", size.seconds_or(30))],
        judge: |_, ended_well, output| by_line(ended_well, output, "Throughput"),
    },
    Program {
        name: "postmark",
        judges: &[Judge { tool: "postmark", package: "postmark" }],
        from_crate: None,
        parts: |_| {
            // FAT16's root directory ends at 512 names: not there.
            let commands =
                "set location files\\nset number 2000\\nset transactions 10000\\nset size 500 20000\\nrun\\nquit\\n";
            vec![format!("mkdir files && printf '{commands}' | postmark")]
        },
        judge: |_, ended_well, output| by_line(ended_well && !output.contains("Error"), output, "created ("),
    },
    Program {
        name: "git",
        judges: &[Judge { tool: "git", package: "git" }],
        from_crate: None,
        // The project's own repository.
        parts: |_| {
            let source = crate::process::root();
            let clone = format!("git clone -q --no-local 'file://{}' clone && cd clone", source.display());
            vec![format!(
                "{clone} && git gc -q && git fsck --full --strict && test -z \"$(git status --porcelain)\" && git count-objects -v"
            )]
        },
        judge: |_, ended_well, output| by_line(ended_well, output, "in-pack:"),
    },
    Program {
        name: "stress-ng",
        judges: &[Judge { tool: "stress-ng", package: "stress-ng" }],
        from_crate: None,
        parts: |size| {
            let seconds = size.seconds_or(2);
            vec![format!("stress-ng --class filesystem --sequential 1 --timeout {seconds}s --verify --temp-path .")]
        },
        judge: |stack, _, output| stressors(stack, output),
    },
];

/// Operations of a part of fsx: it takes the square of them, since the kernel searches ever more
/// maps.
const PART: u64 = 20_000;

/// The users are those of Debian and of pjdfstest's own instructions; the step of FAT's times is
/// two seconds.
const PJDFSTEST: &str = "\
chmod 755 . 2>/dev/null
id tests >/dev/null 2>&1 || useradd -M tests
touch probe
if chown 1 probe 2>/dev/null; then naptime=1.1 rename='rename_ctime = {}'; else naptime=2.1 rename=; fi
rm probe
config=$(mktemp)
cat >$config <<EOF
[features]
posix_fallocate = {}
utimensat = {}
utime_now = {}
$rename
[settings]
naptime = $naptime
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"tests\", \"tests\"]]
EOF
pjdfstest -c $config -p .
status=$?
rm $config
exit $status";

/// The number in front of these words, where they last stand.
fn count_before(output: &str, words: &str) -> Option<u64> {
    let front = output.get(..output.rfind(words)?)?;
    front.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Fine where it ended well and said this.
fn by_line(ended_well: bool, output: &str, word: &str) -> Verdict {
    match output.lines().find(|line| line.contains(word)) {
        Some(line) if ended_well => Verdict::Fine(line.trim().to_owned()),
        _ => Verdict::Wrong(format!("no line with '{word}', or an error")),
    }
}

/// Reads stress-ng's output, which has a line with `fail:`, process and name for each stressor that
/// failed.
fn stressors(stack: &Stack, output: &str) -> Verdict {
    let Some(end) = output.lines().rev().find(|line| line.contains("successful run completed")) else {
        return Verdict::Wrong("it did not come to its summary".to_owned());
    };
    let name = |line: &str| {
        let told = line.strip_prefix("stress-ng: fail:")?.split_once(']')?.1;
        Some(told.split(':').next().unwrap_or_default().trim().to_owned())
    };
    let failed: BTreeSet<String> = output.lines().filter_map(name).collect();
    let skipped = output.lines().filter(|line| line.contains("skipping stress")).count();
    let end = end.rsplit(']').next().unwrap_or_default().trim();
    let told =
        format!("{end}, {skipped} stressors skipped, failed: {}", failed.iter().cloned().collect::<Vec<_>>().join(" "));
    let is_known = failed.iter().all(|name| stack.known.stressors.contains(&name.as_str()));
    match (failed.is_empty() && !end.starts_with("un"), is_known) {
        (true, _) => Verdict::Fine(told),
        (false, true) if !failed.is_empty() => Verdict::Known(told),
        _ => Verdict::Wrong(told),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_operations_are_fifty_parts_with_seeds_of_their_own() {
        let parts = (PROGRAMS[0].parts)(Size { operations: 1_000_000, seconds: 0 });
        assert_eq!(parts.len(), 50);
        assert_eq!(parts.last().unwrap(), "fsx -N 20000 -S 50 file");
        let parts = (PROGRAMS[0].parts)(Size { operations: 20_001, seconds: 0 });
        assert_eq!(parts, ["fsx -N 20000 -S 1 file", "fsx -N 1 -S 2 file"]);
    }

    #[test]
    fn counts_are_those_of_the_summary() {
        let output = "3 failed, 16 skipped, 379 passed, 0 expected failures, 398 total";
        assert_eq!((count_before(output, " passed"), count_before(output, " failed")), (Some(379), Some(3)));
        assert_eq!(count_before("nothing", " failed"), None);
    }

    #[test]
    fn a_stressor_that_fails_is_wrong_unless_the_format_explains_it() {
        let judge = |stack: &Stack, lines: &str| stressors(stack, lines);
        let [jffs2, fat, ..] = &STACKS;
        let fine = "stress-ng: info:  [817] successful run completed in 51.83s";
        assert!(matches!(judge(jffs2, fine), Verdict::Fine(_)));
        let failed = "stress-ng: fail:  [84] utime: modified time is 3 s off\nstress-ng: info:  [817] unsuccessful run completed in 9s";
        assert!(matches!(judge(fat, failed), Verdict::Known(_)));
        assert!(matches!(judge(jffs2, failed), Verdict::Wrong(_)));
        let nameless = "stress-ng: info:  [817] unsuccessful run completed in 9s";
        assert!(matches!(judge(fat, nameless), Verdict::Wrong(_)));
        assert!(matches!(judge(fat, "killed"), Verdict::Wrong(_)));
    }
}
