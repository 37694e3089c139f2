//! Outside judges: programs by other authors, and for each the one definition of "no complaint".
//!
//! A program that is not installed is an error ([`NotInstalled`]), never a verdict.

use std::fmt;
use std::path::Path;
use std::process::Command;

/// Marks with which fsck.f2fs begins or ends a complaint (f2fs-tools, fsck/fsck.h and
/// fsck/quotaio.h). It exits with 0 on some faults, which only these marks show.
pub const FSCK_F2FS_MARKS: [&str; 5] = ["[ASSERT]", "[FIX]", "[Fail]", "[QUOTA WARNING]", "[ERROR]"];

/// The last verdict of fsck.f2fs: without it the program did not look at the volume.
const FSCK_F2FS_LAST: &str = "[FSCK] other corrupted bugs";

/// A judge that could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotInstalled {
    /// The program.
    pub program: String,
    /// The Debian package that has it.
    pub package: String,
    /// The error of the operating system.
    pub error: String,
}

impl fmt::Display for NotInstalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, install the Debian package {}", self.program, self.error, self.package)
    }
}

impl std::error::Error for NotInstalled {}

/// The result of a program: its exit status and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// The exit status; `None` where a signal ended the program.
    pub status: Option<i32>,
    /// Standard output as bytes.
    pub stdout: Vec<u8>,
    /// Standard error as bytes.
    pub stderr: Vec<u8>,
}

impl ToolOutput {
    /// Whether the program ended with status 0.
    pub fn succeeded(&self) -> bool {
        self.status == Some(0)
    }

    /// Standard output, then standard error, as text.
    pub fn text(&self) -> String {
        format!("{}{}", String::from_utf8_lossy(&self.stdout), String::from_utf8_lossy(&self.stderr))
    }
}

/// Runs a program with nothing to read, also from `/usr/sbin` and `/sbin`, with text in UTF-8.
///
/// # Errors
/// The program cannot be started. What it makes of its arguments stands in the output.
pub fn tool<A: AsRef<std::ffi::OsStr>>(
    package: &str,
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> Result<ToolOutput, NotInstalled> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    // A program that is named by its path is started without a copy of this process and its memory,
    // which may be large.
    let found = std::env::split_paths(&path).map(|directory| directory.join(program)).find(|at| at.is_file());
    // mtools takes names by the locale, and refuses geometries that it finds odd.
    let environment = [("PATH", path.as_str()), ("MTOOLS_SKIP_CHECK", "1"), ("LC_ALL", "C.UTF-8")];
    let mut command = Command::new(found.unwrap_or_else(|| program.into()));
    command.args(arguments).envs(environment).stdin(std::process::Stdio::null());
    let output = command.output().map_err(|error| NotInstalled {
        program: program.to_owned(),
        package: package.to_owned(),
        error: error.to_string(),
    })?;
    Ok(ToolOutput { status: output.status.code(), stdout: output.stdout, stderr: output.stderr })
}

/// Runs a program that a test needs.
///
/// # Panics
/// Where the program is not installed or fails.
#[track_caller]
pub fn must_run<A: AsRef<std::ffi::OsStr> + fmt::Debug>(
    package: &str,
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> ToolOutput {
    let arguments: Vec<A> = arguments.into_iter().collect();
    let output = tool(package, program, &arguments).unwrap_or_else(|error| panic!("{error}"));
    assert!(output.succeeded(), "{program} {arguments:?}: {}", output.text());
    output
}

/// Complaints of fsck.f2fs about an image, which it does not change; none about a sound volume.
///
/// # Errors
/// The program is not installed.
pub fn fsck_f2fs(image: &Path) -> Result<Vec<String>, NotInstalled> {
    let output = tool("f2fs-tools", "fsck.f2fs", ["--dry-run".as_ref(), image.as_os_str()])?;
    Ok(fsck_f2fs_complaints(&output))
}

/// Complaints in the output of `fsck.f2fs --dry-run`.
fn fsck_f2fs_complaints(output: &ToolOutput) -> Vec<String> {
    let text = output.text();
    let is_complaint = |line: &&str| FSCK_F2FS_MARKS.iter().any(|mark| line.contains(mark));
    let mut complaints: Vec<String> = text.lines().filter(is_complaint).map(str::to_owned).collect();
    if !output.succeeded() {
        complaints.push(ended(output));
    }
    let looked = text.lines().any(|line| line.contains(FSCK_F2FS_LAST) && line.contains("[Ok"));
    if !looked && complaints.is_empty() {
        complaints.push(format!("fsck.f2fs did not reach its last verdict: {text}"));
    }
    complaints
}

/// Complaints of fsck.vfat about an image, which it does not change; none about a sound volume.
///
/// # Errors
/// The program is not installed.
pub fn fsck_vfat(image: &Path) -> Result<Vec<String>, NotInstalled> {
    let output = tool("dosfstools", "fsck.vfat", ["-n".as_ref(), image.as_os_str()])?;
    Ok(fsck_vfat_complaints(&output))
}

/// The beginnings of the lines in which fsck.vfat warns of FAT32 with fewer clusters than its
/// type has elsewhere. It is how the volume was made, not damage.
const FSCK_VFAT_SMALL_FAT32: [&str; 3] = [
    "Warning: Filesystem is FAT32 according to fat_length and fat32_length fields,",
    "  but has only ",
    "  This may lead to problems on some systems.",
];

/// Complaints in the output of `fsck.vfat -n`: of a sound volume it prints its version and one
/// line of counts (dosfstools, src/fsck.fat.c), and every other line is a complaint.
fn fsck_vfat_complaints(output: &ToolOutput) -> Vec<String> {
    let text = output.text();
    let is_version = |line: &str| line.starts_with("fsck.fat ");
    let is_counts = |line: &str| line.contains(" files, ") && line.ends_with(" clusters");
    let is_small = |line: &str| FSCK_VFAT_SMALL_FAT32.iter().any(|start| line.starts_with(start));
    let is_usual = |line: &str| line.trim().is_empty() || is_version(line) || is_counts(line) || is_small(line);
    let is_complaint = |line: &&str| !is_usual(line);
    let mut complaints: Vec<String> = text.lines().filter(is_complaint).map(str::to_owned).collect();
    if !output.succeeded() {
        complaints.push(ended(output));
    }
    if !text.lines().any(is_counts) && complaints.is_empty() {
        complaints.push(format!("fsck.vfat did not come to its counts: {text}"));
    }
    complaints
}

fn ended(output: &ToolOutput) -> String {
    output.status.map_or_else(|| "ended by a signal".to_owned(), |status| format!("status {status}"))
}

/// Panics unless a judge has been heard and has no complaint.
///
/// # Panics
/// On a complaint, or where the judge is not installed.
#[track_caller]
pub fn must_be_sound(verdict: Result<Vec<String>, NotInstalled>, context: &str) {
    match verdict {
        Ok(complaints) => assert!(complaints.is_empty(), "{context}: {}", complaints.join("\n")),
        Err(error) => panic!("{context}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND_F2FS: &str = "Info: Segments per section = 1\n\n[FSCK] Check node 1 / 3 (33.33%)\n\
        [FSCK] SIT valid block bitmap checking                [Ok..]\n\
        [FSCK] other corrupted bugs                           [Ok..]\n\nDone: 0.01 secs\n";
    const SOUND_VFAT: &str = "fsck.fat 4.2 (2021-01-31)\n/tmp/i: 3 files, 5/1999 clusters\n";

    fn output(status: Option<i32>, stdout: &str, stderr: &str) -> ToolOutput {
        ToolOutput { status, stdout: stdout.into(), stderr: stderr.into() }
    }

    #[test]
    fn sound_volumes_have_no_complaints() {
        assert_eq!(fsck_f2fs_complaints(&output(Some(0), SOUND_F2FS, "")), [""; 0]);
        let small = FSCK_VFAT_SMALL_FAT32.join("\n");
        for stderr in ["", &small] {
            assert_eq!(fsck_vfat_complaints(&output(Some(0), SOUND_VFAT, stderr)), [""; 0]);
        }
    }

    #[test]
    fn every_mark_of_fsck_f2fs_is_a_complaint() {
        for line in [
            "[ASSERT] (sanity_check_nid: 409)  --> nid is not valid",
            "[FIX] (fsck_chk_inode_blk: 1140)  --> Link count",
            "[FSCK] Unreachable nat entries                        [Fail] [0x1]",
            "[QUOTA WARNING] Usage inconsistent for ID 0",
            "[ERROR] quotaio_tree: cannot read the dquot",
        ] {
            for (stdout, stderr) in [(format!("{line}\n{SOUND_F2FS}"), String::new()), (SOUND_F2FS.into(), line.into())]
            {
                assert_eq!(fsck_f2fs_complaints(&output(Some(0), &stdout, &stderr)), [line]);
            }
        }
    }

    #[test]
    fn statuses_signals_and_silence_are_complaints() {
        for judge in [fsck_f2fs_complaints, fsck_vfat_complaints] {
            assert_eq!(judge(&output(Some(0), "", "")).len(), 1);
        }
        for (judge, sound) in
            [(fsck_f2fs_complaints as fn(&ToolOutput) -> Vec<String>, SOUND_F2FS), (fsck_vfat_complaints, SOUND_VFAT)]
        {
            assert_eq!(judge(&output(Some(1), sound, "")), ["status 1"]);
            assert_eq!(judge(&output(None, sound, "")), ["ended by a signal"]);
        }
        let failed_last = SOUND_F2FS.replace("bugs                           [Ok..]", "bugs                  ");
        assert_eq!(fsck_f2fs_complaints(&output(Some(0), &failed_last, "")).len(), 1);
    }

    #[test]
    fn every_other_line_of_fsck_vfat_is_a_complaint() {
        let dirty = "Dirty bit is set. Fs was not properly unmounted and some data may be corrupt.";
        let text = format!("fsck.fat 4.2 (2021-01-31)\n{dirty}\n/tmp/i: 3 files, 5/1999 clusters\n");
        assert_eq!(fsck_vfat_complaints(&output(Some(0), &text, "")), [dirty]);
    }

    #[test]
    fn a_judge_that_is_not_installed_is_an_error() {
        let error = tool("no-such-package", "nandkit-no-such-judge", [""; 0]).unwrap_err();
        assert!(error.to_string().ends_with("install the Debian package no-such-package"), "{error}");
        let heard = std::panic::catch_unwind(|| must_be_sound(Err(error), "image"));
        assert!(heard.is_err());
    }

    #[test]
    fn planted_faults_have_complaints() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        for (package, program, arguments, bytes) in
            [("f2fs-tools", "mkfs.f2fs", ["-q", "-f"], 64 << 20), ("dosfstools", "mkfs.vfat", ["-F", "16"], 16 << 20)]
        {
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            let made = tool(package, program, arguments.iter().map(AsRef::as_ref).chain([path.as_os_str()])).unwrap();
            assert!(made.succeeded(), "{}", made.text());
            let judge = if package == "dosfstools" { fsck_vfat } else { fsck_f2fs };
            assert_eq!(judge(&path).unwrap(), [""; 0], "{program}");
            let mut image = std::fs::read(&path).unwrap();
            // Both copies of the second FAT's or the checkpoints' place: far inside the metadata.
            let (from, length) = if package == "dosfstools" { (1024, 4096) } else { (512 * 4096, 8 << 20) };
            image.iter_mut().skip(from).take(length).for_each(|byte| *byte ^= 0x55);
            std::fs::write(&path, image).unwrap();
            assert!(!judge(&path).unwrap().is_empty(), "{program}");
        }
    }
}
