//! The outside judges of the tests: other people's tools that read what nandkit writes.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process;

/// A tool and the Debian package that holds it.
#[derive(Clone, Copy, Debug)]
pub struct Judge {
    /// The program's name.
    pub tool: &'static str,
    /// The Debian package.
    pub package: &'static str,
}

/// Every tool that some test needs.
pub const JUDGES: [Judge; 30] = [
    Judge { tool: "fsck.vfat", package: "dosfstools" },
    Judge { tool: "mkfs.vfat", package: "dosfstools" },
    Judge { tool: "mdir", package: "mtools" },
    Judge { tool: "mcopy", package: "mtools" },
    Judge { tool: "fio", package: "fio" },
    Judge { tool: "mkfs.jffs2", package: "mtd-utils" },
    Judge { tool: "jffs2reader", package: "mtd-utils" },
    Judge { tool: "jffs2dump", package: "mtd-utils" },
    Judge { tool: "sumtool", package: "mtd-utils" },
    Judge { tool: "mkfs.f2fs", package: "f2fs-tools" },
    Judge { tool: "sload.f2fs", package: "f2fs-tools" },
    Judge { tool: "fsck.f2fs", package: "f2fs-tools" },
    Judge { tool: "lzop", package: "lzop" },
    Judge { tool: "getfattr", package: "attr" },
    Judge { tool: "setfattr", package: "attr" },
    Judge { tool: "setfacl", package: "acl" },
    Judge { tool: "rsync", package: "rsync" },
    Judge { tool: "fusermount3", package: "fuse3" },
    Judge { tool: "nbdinfo", package: "libnbd-bin" },
    Judge { tool: "nbdcopy", package: "libnbd-bin" },
    Judge { tool: "qemu-img", package: "qemu-utils" },
    Judge { tool: "qemu-io", package: "qemu-utils" },
    Judge { tool: "git", package: "git" },
    Judge { tool: "sqlite3", package: "sqlite3" },
    Judge { tool: "perl", package: "perl-base" },
    Judge { tool: "python3", package: "python3" },
    Judge { tool: "xz", package: "xz-utils" },
    Judge { tool: "zstd", package: "zstd" },
    Judge { tool: "simg2img", package: "android-sdk-libsparse-utils" },
    Judge { tool: "img2simg", package: "android-sdk-libsparse-utils" },
];

/// Makes every judge available: installs the missing packages where apt and the rights for it are
/// there, and fails with their names otherwise. A test never passes because its judge is missing.
pub fn provide() -> Result<bool> {
    provide_all(&JUDGES)
}

/// Makes the given tools available, as [`provide`] does those of the tests.
pub fn provide_all(judges: &[Judge]) -> Result<bool> {
    let missing = missing_packages(judges, |tool| process::find(tool).is_some());
    if missing.is_empty() {
        return Ok(true);
    }
    let names = missing.join(" ");
    println!("missing judges, Debian packages: {names}");
    if !may_install() {
        bail!("the tests need {names}. Install them: sudo apt-get install --no-install-recommends {names}");
    }
    if !install(&missing)? {
        // A fresh machine's package lists are empty or old.
        process::succeeds(apt().arg("update"))?;
        if !install(&missing)? {
            bail!("apt-get could not install {names}: install them by hand and run this again");
        }
    }
    let still = missing_packages(judges, |tool| process::find(tool).is_some());
    if !still.is_empty() {
        bail!("installed, and yet tools of these packages are missing: {}", still.join(" "));
    }
    Ok(true)
}

/// The packages of the tools that `is_there` does not find, each once, in the order of the table.
fn missing_packages(judges: &[Judge], is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let mut packages = Vec::new();
    for judge in judges {
        if !is_there(judge.tool) && !packages.contains(&judge.package) {
            packages.push(judge.package);
        }
    }
    packages
}

fn may_install() -> bool {
    let root = process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    root && process::find("apt-get").is_some()
}

fn install(packages: &[&str]) -> Result<bool> {
    process::succeeds(apt().args(["install", "--yes", "--no-install-recommends"]).args(packages))
}

/// Debian's apt-get, which tries again where a server does not answer.
pub fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.args(["--quiet", "-o", "Acquire::Retries=5"]).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_names_its_package_once() {
        assert!(missing_packages(&JUDGES, |_| true).is_empty());
        assert_eq!(
            missing_packages(&JUDGES, |tool| !tool.starts_with('m')),
            ["dosfstools", "mtools", "mtd-utils", "f2fs-tools"]
        );
        let all = [
            "dosfstools",
            "mtools",
            "fio",
            "mtd-utils",
            "f2fs-tools",
            "lzop",
            "attr",
            "acl",
            "rsync",
            "fuse3",
            "libnbd-bin",
            "qemu-utils",
            "git",
            "sqlite3",
            "perl-base",
            "python3",
            "xz-utils",
            "zstd",
            "android-sdk-libsparse-utils",
        ];
        assert_eq!(missing_packages(&JUDGES, |_| false), all);
    }
}
