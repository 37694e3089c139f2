//! The examples of `nandkit help COMMAND`.

use std::fs;
use std::path::Path;
use std::process::Command as Process;

use anyhow::{Result, bail};

use super::page::{Command, without_remark};
use super::{Directory, Page};
use crate::process;

/// The script that makes the inputs of the examples, run anew for each command.
const PREPARED: &str = include_str!("inputs.sh");

/// Examples that are not run, by what they contain, and why. That each parses is a test of the
/// command line.
const NOT_RUN: &[(&str, &str)] = &[
    ("/dev/mmcblk0", "needs a memory card"),
    ("nandkit serve ", "runs until Ctrl-C"),
    ("--foreground", "runs until Ctrl-C"),
    ("nandkit reproduce", "takes minutes"),
    ("nandkit calibrate card-parts-fast", "takes half a minute"),
    ("compare --device card.toml", "takes too long in a build for tests"),
    ("nandkit calibrate sd-lexar-16", "takes half a minute"),
    ("nandkit compare --csv", "the default comparison takes too long in a build for tests"),
    ("--seeds 5", "takes too long in a build for tests"),
    ("tree:/usr/share/doc", "depends on what is installed"),
    ("/usr/share/doc", "depends on what is installed"),
    ("/usr/src/linux", "depends on what is installed"),
    ("specs/experiments", "a test of the command line runs the shipped experiments"),
    ("--workload postmark-small", "takes too long in a build for tests"),
    ("--region", "needs a whole-device dump, which the guide's page on dumps has"),
    ("super.img_sparsechunk", "needs a split Android image, which the guide's page on dumps has"),
    ("--join part.1", "needs a split Android image, which the guide's page on dumps has"),
    ("--allow-other", "needs a line in /etc/fuse.conf"),
    ("vi mnt/", "an editor needs a terminal"),
    ("-- sh    ", "a shell needs a terminal"),
    ("www-data", "needs a user of this name"),
    ("/srv/tftp", "needs this directory"),
    ("resize userdata.img 8G", "takes too long in a build for tests"),
    ("mkfs f2fs --size 4G", "takes too long in a build for tests"),
    ("--size 8G", "takes too long in a build for tests"),
    ("man ./", "needs man(1)"),
    ("exec --image router.nand", "fails on images with OOB: docs/design/NOTES.md"),
];

/// Commands that an example needs before it, by a text that it contains, or after `^` begins with.
const BEFORE: &[(&str, &str)] = &[
    ("^nandkit umount", "nandkit mount rootfs.jffs2 mnt"),
    (" changes", "nandkit put dump.bin --overlay changes motd /new"),
    ("mnt --overlay changes", "nandkit overlay discard changes"),
    ("extract system.img", "rm fs_config file_contexts"),
    ("file_contexts system.img", "rm system.img"),
    ("^nandkit get dump.bin /etc/passwd", "rm passwd"),
    ("setfattr dump.bin -x", "nandkit setfattr dump.bin -n user.version -v 7 /bin/app"),
    ("--device-file card.nand", "rm card.nand"),
];

/// The examples of each command's help, each command as a page of its own, so that one does not see
/// the files of another.
pub fn pages(program: &Path, inputs: &Directory) -> Result<Vec<Page>> {
    let prepared = Command { line: 0, text: PREPARED.to_owned(), shown: None };
    let page = Page { name: "xtask/src/docs/inputs.sh".to_owned(), commands: vec![prepared], first: 0 };
    if let Some(wrong) = page.run_in(program, &inputs.0, &inputs.0)?.first() {
        bail!("{wrong}");
    }
    let directory = Directory::new()?;
    process::output(Process::new(program).args(["man", "--dir"]).arg(&directory.0))?;
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(&directory.0)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let mut pages = Vec::new();
    for name in names {
        let text = fs::read_to_string(directory.0.join(&name))?;
        let command = name.trim_end_matches(".1").replace('-', " ");
        let examples = examples(&text);
        if examples.is_empty() && command != "nandkit" {
            bail!("{command} --help has no example");
        }
        for mut example in examples.into_iter().filter(|example| is_run(&example.text)) {
            let before = BEFORE.iter().filter(|(part, _)| is_of(&example.text, part)).map(|(_, text)| *text);
            let copy = format!("cp -a '{}'/. .", inputs.0.display());
            let texts = std::iter::once(copy).chain(before.map(str::to_owned));
            let mut commands: Vec<Command> = texts.map(|text| Command { line: 0, text, shown: None }).collect();
            let first = commands.len();
            // Like diff(1), it exits with 1 where there is a difference.
            if example.text.contains("overlay diff") {
                example.text += " || [ $? = 1 ]";
            }
            commands.push(example);
            pages.push(Page { name: format!("{command} --help"), commands, first });
        }
    }
    Ok(pages)
}

fn is_of(example: &str, part: &str) -> bool {
    part.strip_prefix('^').map_or_else(|| example.contains(part), |beginning| example.starts_with(beginning))
}

fn is_run(example: &str) -> bool {
    !NOT_RUN.iter().any(|(part, _)| format!("{example}    ").contains(part))
}

/// The examples in a man page, which has each in a line of its own, however long it is.
fn examples(page: &str) -> Vec<Command> {
    let behind = page.lines().skip_while(|line| !line.starts_with("Example"));
    let lines = behind.skip(1).enumerate().filter(|(_, line)| line.starts_with("  nandkit "));
    let plain = |line: &str| line.replace("\\-", "-").replace("\\*(Aq", "'").replace("\\\\", "\\");
    lines
        .map(|(index, line)| {
            let text = without_remark(&plain(line)).to_owned();
            Command { line: index + 1, text, shown: None }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_come_out_of_man_pages() {
        let page =
            ".SH EXTRA\nText.\n\nExamples:\n  nandkit a \\-\\-b \\*(Aqc\\*(Aq    a remark\n  seeds = 3\n  nandkit d\n";
        let found: Vec<(usize, String)> = examples(page).into_iter().map(|found| (found.line, found.text)).collect();
        assert_eq!(found, [(1, "nandkit a --b 'c'".to_owned()), (3, "nandkit d".to_owned())]);
        assert!(is_run("nandkit info dump.bin") && !is_run("nandkit exec --fs fat -- sh"));
    }
}
