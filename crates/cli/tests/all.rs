//! All tests of the crate in one program: what they share is compiled once, and they run beside
//! each other. `cargo test -p nandkit-cli --test all bad_input::` runs those of one file.

mod common;

mod android;
mod bad_input;
mod calibrate;
mod change;
mod change_fat;
mod change_large;
mod commands;
mod compare_places;
mod compare_records;
mod doctor;
mod dumps;
mod erase_size;
mod exec;
mod exec_cuts;
mod exec_image;
mod exec_programs;
mod exec_record;
mod export;
mod f2fs;
mod f2fs_change;
mod f2fs_check;
mod f2fs_newer;
mod f2fs_recovery;
mod f2fs_rescue;
mod f2fs_resize;
mod f2fs_sparse;
mod guide;
mod images;
mod jffs2;
mod jffs2_bad_input;
mod jffs2_lost;
mod mkfs_f2fs;
mod mount;
mod mount_atomic;
mod mount_ends;
mod mount_hostile;
mod mount_nobody;
mod mount_parallel;
mod mutated;
mod oob_layout;
mod overlay;
mod serve;
mod shipped;
