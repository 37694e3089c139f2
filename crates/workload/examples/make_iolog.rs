//! Writes the sample trace `fixtures/sample.iolog`:
//! `cargo run -p nandkit-workload --example make_iolog > crates/workload/fixtures/sample.iolog`.
//!
//! fio itself makes one of a job of yours, in the same format (version 3 since fio 3.31):
//! `fio --name=job --filename=t.bin --size=4m --rw=randrw --bs=4k --io_size=2m --fsync=16 --write_iolog=t.iolog`.

use std::io::Write;

use nandkit_units::random::Random;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(sample().as_bytes())
}

/// A trace of version 2: a small log file with syncs and a data file with random reads and writes,
/// with pauses.
pub fn sample() -> String {
    let mut random = Random::new(1, "sample.iolog");
    let mut text = String::from("fio version 2 iolog\n");
    for name in ["data.bin", "log.bin"] {
        text += &format!("{name} add\n{name} open\n");
    }
    let mut log_end = 0;
    for _ in 0..100 {
        let offset = random.below(256) * 4096;
        let action = if random.chance(0.4) { "read" } else { "write" };
        text += &format!("data.bin {action} {offset} 4096\n");
        if random.chance(0.25) {
            let length = 512 * random.between(1, 4);
            text += &format!("log.bin write {log_end} {length}\nlog.bin datasync 0 0\n");
            log_end += length;
        }
        if random.chance(0.2) {
            text += &format!("data.bin wait {} 0\n", random.between(100, 2000));
        }
    }
    text += "data.bin trim 524288 65536\ndata.bin sync 0 0\ndata.bin close\nlog.bin close\n";
    text
}
