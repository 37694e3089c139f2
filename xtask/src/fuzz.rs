//! `cargo xtask fuzz`: the fuzz targets, through cargo-fuzz.
//!
//! Built without a sanitizer: the project's own code holds no `unsafe`, what is hunted are panics,
//! endless loops and memory without bound, and so the stable toolchain is enough.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::options::{Options, Unusable};
use crate::process;

/// Runs one target, or each in turn, for the given time.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = Options::parse(arguments, &[], &["--seconds"], 1)?;
    let seconds = options.number("--seconds", 60)?;
    let known = targets(&process::root())?;
    let chosen: Vec<String> = match options.words().first() {
        None => known,
        Some(name) if known.contains(name) => vec![name.clone()],
        Some(name) => bail!(Unusable(format!("no fuzz target is called '{name}'; there are: {}", known.join(", ")))),
    };
    if process::output(&mut process::cargo(&["fuzz", "--version"])).is_err() {
        bail!(
            "cargo-fuzz is missing. Install it: cargo install cargo-fuzz (it also needs a C++ compiler: Debian package g++)"
        );
    }
    let mut passed = true;
    for target in chosen {
        println!("==> fuzz {target}, {seconds} s");
        // New inputs go into the first directory; the seeds are read only.
        let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
        std::fs::create_dir_all(process::root().join(&corpus))?;
        let mut command = process::cargo(&["fuzz", "run", "--sanitizer", "none", &target, &corpus, &seeds]);
        if target == "spec" {
            let shipped = ["specs/devices", "specs/experiments"];
            command.args(shipped.iter().filter(|directory| process::root().join(directory).is_dir()));
        }
        command.arg("--");
        command.arg(format!("-max_total_time={seconds}")).args(["-timeout=60", "-rss_limit_mb=1024", "-max_len=65536"]);
        passed &= process::succeeds(&mut command)?;
    }
    println!(
        "xtask fuzz: {}",
        if passed { "nothing found" } else { "FAILED (an input that was found is under fuzz/artifacts)" }
    );
    Ok(passed)
}

/// Whether the targets compile without warnings against the crates as they are; run by
/// `cargo xtask test`.
pub fn check() -> Result<bool> {
    let lock = ["metadata", "--format-version", "1", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
    if process::output(&mut process::cargo(&lock)).is_err() {
        bail!("fuzz/Cargo.lock is behind the crates: cargo update --workspace --manifest-path fuzz/Cargo.toml");
    }
    let mut clippy =
        process::cargo(&["clippy", "--no-deps", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"]);
    // Beside what the workspace built: most of what the targets need was checked there.
    clippy.arg(process::target_directory()?).arg("--config").arg(shared_profile()?);
    clippy.args(["--", "-D", "warnings"]);
    // Nothing is linked, so the fuzzer's runtime need not be there: naming one keeps its build
    // script from compiling C++.
    process::succeeds(clippy.env("CUSTOM_LIBFUZZER_PATH", "not-linked/libfuzzer.a"))
}

/// The workspace's profile `dev` in a file: with another one, all that the targets need would be
/// checked once more.
fn shared_profile() -> Result<PathBuf> {
    let manifest = std::fs::read_to_string(process::root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let manifest: toml::Table = manifest.parse().context("Cargo.toml is not TOML")?;
    let dev =
        manifest.get("profile").and_then(|profile| profile.get("dev")).context("Cargo.toml has no profile dev")?;
    let profile = toml::Table::from_iter([("dev".to_owned(), dev.clone())]);
    let path = process::target_directory()?.join("fuzz-profile.toml");
    std::fs::write(&path, toml::to_string(&toml::Table::from_iter([("profile".to_owned(), profile.into())]))?)?;
    Ok(path)
}

/// The names of the targets, from the manifest of the fuzz workspace.
fn targets(root: &Path) -> Result<Vec<String>> {
    let path = root.join("fuzz/Cargo.toml");
    let manifest = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: toml::Table = manifest.parse().context("fuzz/Cargo.toml is not TOML")?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array);
    let names = bins.into_iter().flatten().filter_map(|bin| bin.get("name")?.as_str());
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_of_the_manifest_has_its_file() {
        let root = process::root();
        let names = targets(&root).unwrap();
        assert!(names.len() >= 2, "{names:?}");
        for name in names {
            assert!(root.join(format!("fuzz/fuzz_targets/{name}.rs")).is_file(), "{name}");
            assert!(std::fs::read_dir(root.join(format!("fuzz/seeds/{name}"))).unwrap().next().is_some(), "{name}");
        }
    }

    #[test]
    fn an_unknown_target_is_refused() {
        assert!(run(&["no-such-target".to_owned()]).unwrap_err().is::<Unusable>());
    }
}
