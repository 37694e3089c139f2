//! Copies a directory or a tar archive into a new directory, and says what it did and how long it took:
//! `cargo run --release -p nandkit-tree --example tree-copy -- FROM TO`.

use std::path::Path;
use std::time::Instant;

use nandkit_tree::extract::extract_tree;
use nandkit_tree::{ArchiveOptions, DirectoryOptions, ExtractOptions, HostDirectory, TarArchive};
use nandkit_vfs::source::SourceTree;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = arguments.as_slice() else { return Err("expected FROM and TO".into()) };
    let (from, to) = (Path::new(from), Path::new(to));
    let start = Instant::now();
    let tree: Box<dyn SourceTree> = match from.is_dir() {
        true => Box::new(HostDirectory::open(from, &DirectoryOptions::default())?),
        false => Box::new(TarArchive::open(from, &ArchiveOptions::default())?),
    };
    println!("{} names read in {:.2} s", tree.nodes().len(), start.elapsed().as_secs_f64());
    let start = Instant::now();
    let report = extract_tree(&*tree, to, &ExtractOptions::default(), &|_| {})?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{} files, {} bytes written in {seconds:.2} s", report.files, report.bytes);
    for (list, notes) in [("skipped", report.skipped), ("refused", report.refused), ("damaged", report.damaged)] {
        for note in notes {
            println!("{list}: {note}");
        }
    }
    Ok(())
}
