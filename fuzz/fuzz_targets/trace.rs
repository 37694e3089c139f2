//! Traces of any content are read to their end or refused; what is read keeps the reader's
//! promises, and what is replayed lies on the device.

#![no_main]

use std::io::{self, Cursor, Read};

use libfuzzer_sys::fuzz_target;
use nandkit_block::BlockGeometry;
use nandkit_units::Nanos;
use nandkit_workload::trace::{Fit, Format, Trace, TraceBlocks, TraceReader};
use nandkit_workload::tree::source::TreeSource;
use nandkit_workload::{BlockWorkload, Inputs, NoInputs, Phase};

/// Operations of a trace that are looked at: a few compressed bytes can hold millions.
const OPERATIONS_MAX: u64 = 10_000;

/// The formats of traces of blocks.
const FORMATS: [Format; 9] = [
    Format::Auto,
    Format::Iolog,
    Format::Msr,
    Format::Blkparse,
    Format::Mqsim,
    Format::Spc,
    Format::Alibaba,
    Format::Tencent,
    Format::Systor,
];

/// 4 MiB in sectors of 4 KiB.
const GEOMETRY: BlockGeometry =
    BlockGeometry { sector_size: 4096, sectors: 1024, preferred_size: 4096, recycling_size: 0 };

fuzz_target!(|data: &[u8]| {
    for format in FORMATS {
        read(data, format);
    }
    for fit in [Fit::None, Fit::Scale, Fit::Wrap] {
        replay(data, fit);
    }
});

fn read(data: &[u8], format: Format) {
    let spec = Trace { file: "fuzz".to_string(), format, ..Trace::default() };
    let Ok(mut reader) = TraceReader::new(&spec, Box::new(Cursor::new(data.to_vec()))) else { return };
    let (mut line, mut time) = (0, Nanos::ZERO);
    for _ in 0..OPERATIONS_MAX {
        let Ok(Some(operation)) = reader.next_operation() else { break };
        assert!(operation.line > line, "lines go up");
        assert!(operation.time >= time, "time does not go back");
        assert!(operation.length <= 1 << 32, "lengths are at most 4 GiB");
        assert!(operation.offset.checked_add(operation.length).is_some_and(|end| end <= 1 << 62), "ends are in range");
        (line, time) = (operation.line, operation.time);
    }
}

fn replay(data: &[u8], fit: Fit) {
    let spec = Trace { file: "fuzz".to_string(), fit, operations: OPERATIONS_MAX, ..Trace::default() };
    let Ok(mut workload) = TraceBlocks::new(spec, &Bytes(data.to_vec()), &GEOMETRY) else { return };
    for phase in [Phase::Fill, Phase::Age, Phase::Measure] {
        workload.begin(phase);
        while let Ok(Some(operation)) = workload.next_operation() {
            let end = operation.at.0.checked_add(u64::from(operation.sectors));
            assert!(end.is_some_and(|end| end <= GEOMETRY.sectors), "{operation:?} lies on the device");
        }
    }
}

/// The input as the one trace that there is.
struct Bytes(Vec<u8>);

impl Inputs for Bytes {
    fn open(&self, _: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(Cursor::new(self.0.clone())))
    }

    fn tree(&self, path: &str) -> nandkit_workload::Result<Box<dyn TreeSource>> {
        NoInputs.tree(path)
    }
}
