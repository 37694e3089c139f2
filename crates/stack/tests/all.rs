//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-stack --test all drives::` runs those of one file.

mod fat_cuts;

mod device_spec;
mod drives;
mod f2fs_adopt;
mod f2fs_remap;
mod fat_on_block_map;
mod fs_spec;
mod ftl_spec;
mod jffs2_on_chip;
mod jffs2_on_nor;
mod page_map;
mod parts;
mod random_dumps;
mod remapped;
mod spec;
mod ubi;
mod ubifs;
mod ubifs_on_chip;
mod words;
