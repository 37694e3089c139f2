//! `nandkit doctor`

use std::io;
use std::path::PathBuf;

use nandkit_fuse::{DeadMount, Mounter, check_device, dead_mounts, find_fusermount, find_program};
use nandkit_report::{Align, Table};
use serde_json::json;

use crate::args::DoctorArguments;
use crate::failure::Failure;
use crate::{leftover, output};

/// A program that nandkit can make use of.
struct Tool {
    name: &'static str,
    /// The Debian package that contains it.
    package: &'static str,
    /// What nandkit users need it for.
    purpose: &'static str,
}

/// The program that mounts for users other than root; its older name fusermount is accepted too.
const FUSERMOUNT: &str = "fusermount3";

const TOOLS: [Tool; 13] = [
    Tool { name: FUSERMOUNT, package: "fuse3", purpose: "mount and exec by users other than root" },
    Tool { name: "nbd-client", package: "nbd-client", purpose: "a served disk as a block device of Linux" },
    Tool {
        name: "qemu-system-x86_64",
        package: "qemu-system-x86",
        purpose: "a guest on a served disk; cargo xtask kernel",
    },
    Tool { name: "qemu-img", package: "qemu-utils", purpose: "inspecting and copying a served disk" },
    Tool { name: "nbdcopy", package: "libnbd-bin", purpose: "copying images to and from a served disk" },
    Tool { name: "fio", package: "fio", purpose: "traces to replay, and load on a served disk" },
    Tool { name: "nanddump", package: "mtd-utils", purpose: "reading a dump from a device" },
    Tool { name: "nandwrite", package: "mtd-utils", purpose: "writing an image to a device" },
    Tool { name: "mkfs.jffs2", package: "mtd-utils", purpose: "a checker for the tests" },
    Tool { name: "jffs2dump", package: "mtd-utils", purpose: "a checker for the tests" },
    Tool { name: "fsck.vfat", package: "dosfstools", purpose: "a checker for the tests" },
    Tool { name: "mcopy", package: "mtools", purpose: "a checker for the tests" },
    Tool { name: "rsync", package: "rsync", purpose: "a checker for the tests" },
];

/// What happened to a leftover of a killed process.
enum Fate {
    /// It was found, and left in place.
    Left,
    /// It was removed.
    Removed,
    /// It cannot be removed.
    Stuck(io::Error),
}

impl Fate {
    fn of(removed: io::Result<()>) -> Self {
        removed.map_or_else(Self::Stuck, |()| Self::Removed)
    }

    const fn told(&self) -> &'static str {
        match self {
            Self::Left => "nandkit doctor --clean removes it",
            Self::Removed => "removed",
            Self::Stuck(_) => "not removed",
        }
    }

    const fn is_removed(&self) -> bool {
        matches!(self, Self::Removed)
    }
}

/// What was found on this machine.
struct Findings {
    fuse: Result<Mounter, String>,
    /// Mounts without a process.
    mounts: Vec<(DeadMount, Fate)>,
    /// Mount directories of killed `exec` processes.
    directories: Vec<(PathBuf, Fate)>,
}

/// Prints what this machine has and what to install; with `--clean` removes the leftovers of killed
/// processes.
pub fn doctor(arguments: &DoctorArguments) -> Result<(), Failure> {
    let fate = |remove: &dyn Fn() -> io::Result<()>| if arguments.clean { Fate::of(remove()) } else { Fate::Left };
    let fuse = check_device().map_err(|error| error.to_string());
    let mounts = dead_mounts().into_iter().map(|mount| (mount.clone(), fate(&|| mount.clean()))).collect();
    // Removing a mount leaves its directory, so that directories come second.
    let directories = leftover::directories().into_iter();
    let directories = directories.map(|left| (left.path.clone(), fate(&|| left.remove()))).collect();
    let findings = Findings { fuse, mounts, directories };
    if arguments.json {
        output::json(&as_json(&findings))?;
    } else {
        output::text(&as_text(&findings))?;
    }
    for (mount, fate) in &findings.mounts {
        if let Fate::Stuck(error) = fate {
            let expected = "expected root, or fusermount3 and the user who mounted it";
            return Err(Failure::Check(format!("{} cannot be unmounted: {error}; {expected}", mount.point.display())));
        }
    }
    match findings
        .directories
        .iter()
        .find_map(|(path, fate)| if let Fate::Stuck(error) = fate { Some((path, error)) } else { None })
    {
        None => Ok(()),
        Some((path, error)) => Err(Failure::Check(format!("{} cannot be removed: {error}", path.display()))),
    }
}

/// The path of a program, in the search path and in the directories of root's programs.
fn find(name: &str) -> Option<PathBuf> {
    if name == FUSERMOUNT {
        return find_fusermount();
    }
    find_program(name, &["/usr/bin", "/bin", "/usr/sbin", "/sbin"])
}

fn as_text(findings: &Findings) -> String {
    let mut text = match &findings.fuse {
        Ok(mounter) => format!("mount, exec   possible: /dev/fuse exists, and {mounter}\n"),
        Err(what) => format!("mount, exec   not possible: {what}\n"),
    };
    text.push_str("all others    possible, without root and without the programs below\n\n");
    let mut table = Table::new([("program", Align::Left), ("found", Align::Left), ("for", Align::Left)]);
    let mut packages: Vec<&str> = Vec::new();
    for tool in &TOOLS {
        let found = find(tool.name);
        if found.is_none() && !packages.contains(&tool.package) {
            packages.push(tool.package);
        }
        let shown = found.map_or_else(|| "no".to_string(), |path| path.display().to_string());
        table.row([tool.name.to_string(), shown, tool.purpose.to_string()]);
    }
    text.push_str(&table.text());
    if !packages.is_empty() {
        text.push_str(&format!("\nto install (Debian): apt-get install {}\n", packages.join(" ")));
    }
    for (mount, fate) in &findings.mounts {
        let (point, process) = (mount.point.display(), mount.process);
        text.push_str(&format!("\n{point}: a mount of process {process}, which no longer exists; {}\n", fate.told()));
    }
    for (path, fate) in &findings.directories {
        text.push_str(&format!("\n{}: an empty directory left by exec; {}\n", path.display(), fate.told()));
    }
    text
}

fn as_json(findings: &Findings) -> serde_json::Value {
    let tools: Vec<_> = TOOLS
        .iter()
        .map(|tool| json!({"name": tool.name, "path": find(tool.name), "package": tool.package, "purpose": tool.purpose}))
        .collect();
    let mounts = findings.mounts.iter();
    let mounts = mounts
        .map(|(mount, fate)| json!({"point": mount.point, "process": mount.process, "removed": fate.is_removed()}));
    let directories = findings.directories.iter();
    let directories = directories.map(|(path, fate)| json!({"path": path, "removed": fate.is_removed()}));
    json!({
        "fuse": findings.fuse.is_ok(),
        "fuse_missing": findings.fuse.as_ref().err(),
        "tools": tools,
        "dead_mounts": mounts.collect::<Vec<_>>(),
        "left_directories": directories.collect::<Vec<_>>(),
    })
}
