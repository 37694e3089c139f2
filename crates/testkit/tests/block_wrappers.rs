//! What each block wrapper adds: the suite (`block_suite.rs`) already shows that they forward.

use nandkit_block::wrap::{
    CutDevice, DeviceAction, DeviceCutMoment, DeviceCutPlan, DeviceEvent, DeviceFault, DeviceFaultWhen, FaultDevice,
    ReadOnlyDevice, Survival, TraceDevice,
};
use nandkit_block::{BlockDevice, BlockGeometry, ErrorKind, Operation, RamDevice};
use nandkit_testkit::block_suite::planted::PlantedDevice;
use nandkit_testkit::model_block::ModelBlockDevice;
use nandkit_units::random::Random;
use nandkit_units::{Context, Lba, Payload, ReadInto};

fn geometry() -> BlockGeometry {
    BlockGeometry { sector_size: 512, sectors: 32, preferred_size: 4096, recycling_size: 0 }
}

fn write(device: &mut impl BlockDevice, at: u64, byte: u8) -> nandkit_block::Result<nandkit_units::Done> {
    device.write(&Context::default(), Lba(at), Payload::Bytes(&[byte; 512]))
}

fn byte(device: &impl BlockDevice, at: u64) -> nandkit_block::Result<u8> {
    let mut bytes = [0; 512];
    device.read(&Context::default(), Lba(at), ReadInto::Bytes(&mut bytes))?;
    Ok(bytes[0])
}

#[test]
fn every_cut_of_a_run_leaves_old_or_new_sectors() {
    let context = Context::default();
    let (mut lost, mut kept) = (0, 0);
    for moment in [DeviceCutMoment::Before, DeviceCutMoment::Inside, DeviceCutMoment::After] {
        for survival in [Survival::None, Survival::All, Survival::Prefix, Survival::Subset] {
            for request in 1..=40 {
                let plan = DeviceCutPlan::at(request, moment, survival, request);
                let mut device = CutDevice::new(RamDevice::new(geometry()).unwrap(), plan);
                let mut model = ModelBlockDevice::new(&geometry());
                let mut random = Random::new(9, "cut run");
                while !device.is_off() {
                    let at = Lba(random.below(28));
                    let mut bytes = vec![0; 512 * random.between(1, 4) as usize];
                    random.fill(&mut bytes);
                    match random.below(8) {
                        0 => {
                            if device.flush(&context).is_ok() {
                                model.flush();
                            }
                        }
                        1 => match device.trim().unwrap().trim(&context, at, 3) {
                            Ok(_) => model.trim(at, 3),
                            Err(_) => model.trim_failed(at, 3),
                        },
                        _ => match device.write(&context, at, Payload::Bytes(&bytes)) {
                            Ok(_) => model.write(at, &bytes),
                            Err(_) => model.write_failed(at, &bytes),
                        },
                    }
                }
                assert_eq!(byte(&device, 0).unwrap_err().kind, ErrorKind::PowerLost);
                assert_eq!((device.cuts(), device.requests()), (&[request][..], request));
                let device = device.into_inner().unwrap();
                let newest: Vec<u8> = (0..32).map(|sector| model.newest(sector)[0]).collect();
                model.recover(&device, &context).unwrap_or_else(|detail| panic!("{plan:?}: {detail}"));
                let found: Vec<u8> = (0..32).map(|sector| byte(&device, sector).unwrap()).collect();
                if found == newest { kept += 1 } else { lost += 1 }
            }
        }
    }
    assert!(lost > 100 && kept > 50, "{lost} cuts lost something, {kept} nothing");
}

#[test]
fn a_remap_is_atomic_under_a_cut() {
    let mut done = 0;
    for seed in 0..40 {
        let plan = DeviceCutPlan::at(3, DeviceCutMoment::Inside, Survival::All, seed);
        let mut device = CutDevice::new(PlantedDevice::new(&geometry()), plan);
        write(&mut device, 0, 1).unwrap();
        write(&mut device, 1, 2).unwrap();
        let pairs = [(Lba(0), Lba(4)), (Lba(1), Lba(5))];
        let error = device.remap().unwrap().share(&Context::default(), &pairs).unwrap_err();
        assert_eq!(error.kind, ErrorKind::PowerLost);
        device.power_on();
        let found = (byte(&device, 4).unwrap(), byte(&device, 5).unwrap());
        assert!(found == (0, 0) || found == (1, 2), "{found:?}");
        done += u32::from(found == (1, 2));
    }
    assert!(done > 5 && done < 35, "{done} of 40 remaps happened");
}

#[test]
fn faults_strike_as_scripted() {
    let carried =
        DeviceFault { carried_out: true, ..DeviceFault::new(Operation::Write, DeviceFaultWhen::Nth(2), ErrorKind::Io) };
    let unreadable = DeviceFault::new(Operation::Read, DeviceFaultWhen::Sector(Lba(3)), ErrorKind::Unreadable).times(1);
    let mut device = FaultDevice::new(RamDevice::new(geometry()).unwrap(), [carried, unreadable]);
    write(&mut device, 0, 1).unwrap();
    assert_eq!(write(&mut device, 1, 2).unwrap_err().kind, ErrorKind::Io);
    assert_eq!(byte(&device, 1).unwrap(), 2);
    let mut bytes = [0; 4 * 512];
    let error = device.read(&Context::default(), Lba(1), ReadInto::Bytes(&mut bytes)).unwrap_err();
    assert_eq!((error.kind, error.at), (ErrorKind::Unreadable, Lba(3)));
    assert_eq!(byte(&device, 3).unwrap(), 0);
    assert_eq!(device.struck(), [1, 1]);
}

#[test]
fn traces_tell_every_request_and_a_read_only_view_takes_no_change() {
    let mut events = Vec::new();
    let mut device = TraceDevice::new(RamDevice::new(geometry()).unwrap(), |event: DeviceEvent| events.push(event));
    write(&mut device, 1, 5).unwrap();
    write(&mut device, 99, 5).unwrap_err();
    device.flush(&Context::default()).unwrap();
    let mut guarded = ReadOnlyDevice::new(device.into_parts().0);
    let texts: Vec<String> = events.iter().skip(1).map(ToString::to_string).collect();
    assert_eq!(texts, ["#1 t=0 user_data write 99 512 -> OutOfRange", "#2 t=0 user_data flush -> 0"]);
    assert_eq!(events.last().unwrap().action, DeviceAction::Flush);
    assert_eq!((byte(&guarded, 1).unwrap(), write(&mut guarded, 1, 6).unwrap_err().kind), (5, ErrorKind::ReadOnly));
    assert!(guarded.trim().is_none() && guarded.remap().is_none() && guarded.flush(&Context::default()).is_ok());
}
