//! `nandkit doctor`

use std::path::PathBuf;

use nandkit_fuse::{DeadMount, check_device, dead_mounts};
use nandkit_report::{Align, Table};
use serde_json::json;

use crate::args::DoctorArguments;
use crate::failure::Failure;
use crate::output;

/// A program of somebody else's.
struct Tool {
    name: &'static str,
    /// The Debian package that holds it.
    package: &'static str,
    /// What it is for here.
    purpose: &'static str,
}

const TOOLS: [Tool; 13] = [
    Tool { name: "fusermount3", package: "fuse3", purpose: "mount and exec by users other than root" },
    Tool { name: "nbd-client", package: "nbd-client", purpose: "what is served as a block device of Linux" },
    Tool {
        name: "qemu-system-x86_64",
        package: "qemu-system-x86",
        purpose: "a guest on what is served; cargo xtask kernel",
    },
    Tool { name: "qemu-img", package: "qemu-utils", purpose: "looking at what is served, and copying it" },
    Tool { name: "nbdcopy", package: "libnbd-bin", purpose: "copying images into what is served, and out of it" },
    Tool { name: "fio", package: "fio", purpose: "traces to replay, and load on what is served" },
    Tool { name: "nanddump", package: "mtd-utils", purpose: "dumps of a device's flash" },
    Tool { name: "nandwrite", package: "mtd-utils", purpose: "images onto a device's flash" },
    Tool { name: "mkfs.jffs2", package: "mtd-utils", purpose: "a judge of the tests" },
    Tool { name: "jffs2dump", package: "mtd-utils", purpose: "a judge of the tests" },
    Tool { name: "fsck.vfat", package: "dosfstools", purpose: "a judge of the tests" },
    Tool { name: "mcopy", package: "mtools", purpose: "a judge of the tests" },
    Tool { name: "rsync", package: "rsync", purpose: "a judge of the tests" },
];

/// Tells what this machine offers and what to install; with `--clean` removes mounts whose process has gone.
pub fn doctor(arguments: &DoctorArguments) -> Result<(), Failure> {
    let fuse = check_device().map_err(|error| error.to_string());
    let dead = dead_mounts();
    let mut stuck = Vec::new();
    if arguments.clean {
        stuck.extend(dead.iter().filter_map(|mount| mount.clean().err().map(|error| (mount.clone(), error))));
    }
    if arguments.json {
        output::json(&as_json(
            &fuse,
            &dead,
            arguments.clean,
            &stuck.iter().map(|(mount, _)| mount).collect::<Vec<_>>(),
        ))?;
    } else {
        let stuck: Vec<&DeadMount> = stuck.iter().map(|(mount, _)| mount).collect();
        output::text(&as_text(&fuse, &dead, arguments.clean, &stuck))?;
    }
    match stuck.first() {
        None => Ok(()),
        Some((mount, error)) => Err(Failure::Check(format!(
            "{} cannot be unmounted: {error}; expected root, or fusermount3 and the user who mounted it",
            mount.point.display()
        ))),
    }
}

/// Where a program is, in the search path and where those for root are.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn as_text(fuse: &Result<(), String>, dead: &[DeadMount], cleaned: bool, stuck: &[&DeadMount]) -> String {
    let mut text = match fuse {
        Ok(()) => "mount, exec   possible: /dev/fuse is there\n".to_string(),
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
    for mount in dead {
        let done = match cleaned {
            true if stuck.contains(&mount) => "not removed",
            true => "removed",
            false => "nandkit doctor --clean removes it",
        };
        let (point, process) = (mount.point.display(), mount.process);
        text.push_str(&format!("\n{point}: a mount of process {process}, which has gone; {done}\n"));
    }
    text
}

fn as_json(fuse: &Result<(), String>, dead: &[DeadMount], cleaned: bool, stuck: &[&DeadMount]) -> serde_json::Value {
    let tools: Vec<_> = TOOLS
        .iter()
        .map(|tool| json!({"name": tool.name, "path": find(tool.name), "package": tool.package, "purpose": tool.purpose}))
        .collect();
    let dead: Vec<_> = dead
        .iter()
        .map(|mount| {
            let removed = cleaned && !stuck.contains(&mount);
            json!({"point": mount.point, "process": mount.process, "removed": removed})
        })
        .collect();
    json!({"fuse": fuse.is_ok(), "fuse_missing": fuse.as_ref().err(), "tools": tools, "dead_mounts": dead})
}
