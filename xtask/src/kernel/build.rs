//! Prepares the files that a guest boots: the kernel of the distribution, unpacked but not
//! installed, and an initramfs with its modules.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::judges::{self, Judge};
use crate::process;

/// The programs that preparing or running a guest takes. The C compiler also needs the C library's
/// static form, which has the same package everywhere on Debian and is found missing when the
/// helper is linked.
const TOOLS: [Judge; 21] = [
    Judge { tool: "setfacl", package: "acl" },
    Judge { tool: "qemu-system-x86_64", package: "qemu-system-x86" },
    Judge { tool: "busybox", package: "busybox-static" },
    Judge { tool: "modprobe", package: "kmod" },
    Judge { tool: "depmod", package: "kmod" },
    Judge { tool: "cpio", package: "cpio" },
    Judge { tool: "xz", package: "xz-utils" },
    Judge { tool: "dpkg", package: "dpkg" },
    Judge { tool: "strip", package: "binutils" },
    Judge { tool: "cc", package: "gcc" },
    Judge { tool: "mkfs.jffs2", package: "mtd-utils" },
    Judge { tool: "mkfs.ubifs", package: "mtd-utils" },
    Judge { tool: "mkfs.f2fs", package: "f2fs-tools" },
    Judge { tool: "mkfs.vfat", package: "dosfstools" },
    Judge { tool: "mkfs.ext4", package: "e2fsprogs" },
    Judge { tool: "e2fsck", package: "e2fsprogs" },
    Judge { tool: "chattr", package: "e2fsprogs" },
    Judge { tool: "fallocate", package: "util-linux" },
    Judge { tool: "chrt", package: "util-linux" },
    Judge { tool: "setfattr", package: "attr" },
    Judge { tool: "ldd", package: "libc-bin" },
];

/// The package that depends on the current kernel's package.
const KERNEL: &str = "linux-image-amd64";

/// The modules of the guest; what they depend on comes along.
const MODULES: [&str; 29] = [
    "virtio_pci",
    "virtio_blk",
    "9p",
    "9pnet_virtio",
    "nandsim",
    "mtdram",
    "block2mtd",
    "mtdblock",
    "jffs2",
    "ubi",
    "ubifs",
    "f2fs",
    "quota_v2",
    "ext4",
    "nbd",
    "vfat",
    "nls_cp437",
    "nls_ascii",
    "nls_utf8",
    "loop",
    "crc32c_generic",
    "crc32_generic",
    "lzo",
    "lzo_rle",
    "lz4",
    "lz4hc",
    "zstd",
    "deflate",
    "xxhash_generic",
];

/// Programs of the guest beside busybox.
const PROGRAMS: [&str; 19] = [
    "nandwrite",
    "nanddump",
    "flash_erase",
    "mtdinfo",
    "ubiformat",
    "ubiattach",
    "ubidetach",
    "ubimkvol",
    "ubinfo",
    "ubiupdatevol",
    "mkfs.f2fs",
    "fsck.f2fs",
    "mkfs.vfat",
    "mkfs.ext4",
    "e2fsck",
    "chattr",
    "fallocate",
    "chrt",
    "setfattr",
];

const HELPER: [(&str, &str); 5] = [
    ("helper.h", include_str!("guest/helper.h")),
    ("helper.c", include_str!("guest/helper.c")),
    ("manifest.c", include_str!("guest/manifest.c")),
    ("churn.c", include_str!("guest/churn.c")),
    ("pattern.c", include_str!("guest/pattern.c")),
];

const INIT: &str = include_str!("guest/init.sh");

/// The files that a guest boots, and the helper program, which also runs on the host.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The directory of all files of this task, under cargo's target directory.
    pub directory: PathBuf,
    /// The kernel's version, as its module directory is called.
    pub version: String,
}

impl Kernel {
    /// The uncompressed kernel: QEMU boots it in a third of the time that the compressed one takes
    /// without hardware virtualisation.
    pub fn vmlinux(&self) -> PathBuf {
        self.directory.join("vmlinux")
    }

    /// The uncompressed initial file system.
    pub fn initramfs(&self) -> PathBuf {
        self.directory.join("initramfs.cpio")
    }

    /// The helper program: guest/helper.c names its commands.
    pub fn helper(&self) -> PathBuf {
        self.directory.join("helper")
    }
}

/// Prepares the kernel and the initramfs in the target directory, or finds them there. Everything
/// but the installation of missing packages works without root's rights.
pub fn build() -> Result<Kernel> {
    judges::provide_all(&TOOLS)?;
    let directory = process::target_directory()?.join("kernel");
    let recipe = recipe();
    let stamp = directory.join("stamp");
    if let Some(version) = fs::read_to_string(&stamp).ok().and_then(|text| Some(text.strip_suffix(&recipe)?.to_owned()))
    {
        return Ok(Kernel { directory, version: version.trim().to_owned() });
    }
    let start = Instant::now();
    // A second run of this task may be at the same point: each builds in a place of its own, and
    // the files are moved when they are whole.
    let work = directory.join(format!("build-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let version = build_in(&work)?;
    for product in ["vmlinux", "helper", "initramfs.cpio"] {
        fs::rename(work.join(product), directory.join(product))?;
    }
    fs::write(&stamp, format!("{version}\n{recipe}"))?;
    fs::remove_dir_all(&work)?;
    println!("kernel {version} prepared in {:.1} s: {}", start.elapsed().as_secs_f64(), directory.display());
    Ok(Kernel { directory, version })
}

/// The inputs of the products, without the packages' versions.
fn recipe() -> String {
    let sources: String = HELPER.iter().map(|(_, text)| *text).collect();
    format!("{MODULES:?}\n{PROGRAMS:?}\n{INIT}\n{sources}")
}

fn build_in(work: &Path) -> Result<String> {
    let unpacked = work.join("unpacked");
    let version = unpack_kernel(work, &unpacked)?;
    let image = fs::read(unpacked.join("boot").join(format!("vmlinuz-{version}")))
        .context("the kernel's package holds no vmlinuz")?;
    decompress(&image, &work.join("vmlinux"))?;
    compile_helper(work)?;
    let tree = work.join("initramfs");
    lay_out(&tree, &work.join("helper"))?;
    copy_modules(&unpacked, &tree, &version)?;
    pack(&tree, &work.join("initramfs.cpio"))?;
    Ok(version)
}

/// Fetches the package of the current kernel with apt and unpacks it; its version.
fn unpack_kernel(work: &Path, unpacked: &Path) -> Result<String> {
    let depends = Command::new("apt-cache").args(["depends", "--important", KERNEL]).output();
    let mut depends = depends.context("cannot start apt-cache: the guest's kernel is a Debian package")?;
    if !depends.status.success() || depends.stdout.is_empty() {
        // A fresh machine's package lists are empty; without root's rights this fails, and the next
        // step says so.
        process::succeeds(judges::apt().arg("update"))?;
        depends = Command::new("apt-cache").args(["depends", "--important", KERNEL]).output()?;
    }
    let list = String::from_utf8_lossy(&depends.stdout).into_owned();
    let package = list.split_whitespace().find(|word| word.starts_with("linux-image-") && *word != KERNEL);
    let Some(package) = package else {
        bail!("apt-cache knows no kernel package behind {KERNEL}. Run as root: apt-get update");
    };
    let fetch = || process::succeeds(judges::apt().args(["download", package]).current_dir(work));
    if !fetch()? {
        process::succeeds(judges::apt().arg("update"))?;
        ensure!(fetch()?, "apt-get could not download {package}");
    }
    let archive = files(work)?.into_iter().find(|path| path.extension().is_some_and(|end| end == "deb"));
    let archive = archive.context("apt-get download left no package")?;
    process::output(Command::new("dpkg").arg("-x").arg(archive).arg(unpacked))?;
    package.strip_prefix("linux-image-").map(str::to_owned).context("the kernel's package has a strange name")
}

/// Takes the kernel proper out of the self-extracting image: what follows the first sign of xz that
/// unpacks to an ELF file.
fn decompress(image: &[u8], to: &Path) -> Result<()> {
    const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
    let packed = to.with_extension("xz");
    for at in image.windows(XZ.len()).enumerate().filter(|(_, window)| *window == XZ).map(|(at, _)| at) {
        fs::write(&packed, image.get(at..).unwrap_or_default())?;
        let output = fs::File::create(to)?;
        // The bytes after the payload are not xz, so that the exit status says nothing.
        let mut command = Command::new("xz");
        command.args(["--decompress", "--stdout", "--single-stream"]).arg(&packed).stdout(output).stderr(Stdio::null());
        command.status().context("cannot start xz")?;
        if fs::read(to)?.starts_with(b"\x7fELF") {
            fs::remove_file(&packed)?;
            return Ok(());
        }
    }
    bail!("vmlinuz holds no kernel packed with xz: the distribution packs it in another way now")
}

fn compile_helper(work: &Path) -> Result<()> {
    for (name, text) in HELPER {
        fs::write(work.join(name), text)?;
    }
    let sources: Vec<&str> = HELPER.iter().map(|(name, _)| *name).filter(|name| name.ends_with(".c")).collect();
    let mut cc = Command::new("cc");
    cc.args(["-static", "-O2", "-Wall", "-Wextra", "-Wno-format-truncation", "-o", "helper"])
        .args(sources)
        .current_dir(work);
    process::output(&mut cc).context("the guest's helper does not compile (Debian: apt-get install gcc libc6-dev)")?;
    Ok(())
}

/// The initramfs without modules.
fn lay_out(tree: &Path, helper: &Path) -> Result<()> {
    for directory in ["bin", "sbin", "dev", "proc", "sys", "run", "etc", "job", "share", "mnt"] {
        fs::create_dir_all(tree.join(directory))?;
    }
    let busybox = process::find("busybox").context("busybox is gone")?;
    install(&busybox, &tree.join("bin/busybox"))?;
    for applet in process::output(Command::new(&busybox).arg("--list"))?.lines() {
        // modprobe above all: the kernel calls it as /sbin/modprobe.
        let directory = if applet == "modprobe" { "sbin" } else { "bin" };
        let link = tree.join(directory).join(applet);
        if !link.exists() {
            std::os::unix::fs::symlink("/bin/busybox", link)?;
        }
    }
    install(helper, &tree.join("bin/helper"))?;
    let mut libraries = BTreeSet::new();
    for program in PROGRAMS {
        let path = process::find(program).with_context(|| format!("{program} is missing"))?;
        let listed = process::output(Command::new("ldd").arg(&path))?;
        libraries.extend(listed.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned));
        let _ = fs::remove_file(tree.join("bin").join(program));
        install(&path, &tree.join("bin").join(program))?;
    }
    for library in &libraries {
        let to = tree.join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().context("a library without a directory")?)?;
        install(Path::new(library), &to)?;
    }
    let init = tree.join("init");
    fs::write(&init, INIT)?;
    make_executable(&init)
}

fn install(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    make_executable(to)
}

fn make_executable(path: &Path) -> Result<()> {
    Ok(fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?)
}

/// Copies the modules with what they need, and writes the lists that modprobe reads.
fn copy_modules(unpacked: &Path, tree: &Path, version: &str) -> Result<()> {
    process::output(system("depmod")?.arg("-b").arg(unpacked).arg(version))?;
    let mut needed = BTreeSet::new();
    for module in MODULES {
        let mut modprobe = system("modprobe")?;
        modprobe.arg("--dirname").arg(unpacked).args(["--set-version", version, "--show-depends", module]);
        let listed = process::output(&mut modprobe).with_context(|| format!("this kernel has no module {module}"))?;
        let paths = listed.lines().filter_map(|line| line.strip_prefix("insmod ")?.split_whitespace().next());
        needed.extend(paths.map(PathBuf::from));
    }
    for module in needed {
        let to = tree.join(module.strip_prefix(unpacked).context("modprobe named a module of this machine")?);
        fs::create_dir_all(to.parent().context("a module without a directory")?)?;
        process::output(Command::new("strip").arg("--strip-debug").arg(&module).arg("-o").arg(&to))?;
    }
    let lists = Path::new("lib/modules").join(version);
    for list in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        fs::copy(unpacked.join(&lists).join(list), tree.join(&lists).join(list))?;
    }
    process::output(system("depmod")?.arg("-b").arg(tree).arg(version))?;
    Ok(())
}

fn system(tool: &str) -> Result<Command> {
    Ok(Command::new(process::find(tool).with_context(|| format!("{tool} is missing"))?))
}

fn pack(tree: &Path, to: &Path) -> Result<()> {
    let list = process::output(Command::new("find").arg(".").current_dir(tree))?;
    let names = tree.with_extension("list");
    fs::write(&names, list)?;
    let mut cpio = Command::new("cpio");
    cpio.args(["--create", "--format=newc", "--quiet", "--owner=0:0"]).current_dir(tree);
    ensure!(process::succeeds(cpio.stdin(fs::File::open(&names)?).stdout(fs::File::create(to)?))?, "cpio failed");
    Ok(())
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        paths.push(entry?.path());
    }
    paths.sort();
    Ok(paths)
}
