//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-jffs2 --test all collected::` runs those of one file.

mod common;
mod filling;
mod promise;

mod collected;
mod conformance;
mod contradictions;
mod cuts;
mod damage;
mod full;
mod hostile;
mod images;
mod interrupted;
mod memory;
mod old_kernels;
mod orphans;
mod overwrite;
mod remount;
mod times;
mod twice;
mod volumes;
