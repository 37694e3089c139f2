//! Specs of devices.

use nandkit_stack::{DeviceSpec, StoreKind};
use serde::Deserialize;

fn read(text: &str) -> Result<DeviceSpec, String> {
    #[derive(Deserialize)]
    struct Holder {
        device: DeviceSpec,
    }
    toml::from_str::<Holder>(text).map(|holder| holder.device).map_err(|error| error.to_string())
}

#[test]
fn a_device_is_a_preset_with_changes() {
    let plain = read("device = 'k9l8g08u0m'").unwrap();
    let changed = read("[device]\npreset = 'k9l8g08u0m'\nblocks = 64\nstore = 'shadow'\ntiming.erase_ns = 7").unwrap();
    let (DeviceSpec::Chip { chip: plain, .. }, DeviceSpec::Chip { chip, store, .. }) = (&plain, &changed) else {
        panic!("two chips");
    };
    assert_eq!((chip.geometry.blocks, chip.timing.erase_ns, *store), (64, 7, StoreKind::Shadow));
    assert_eq!(chip.timing.read_ns, plain.timing.read_ns);
}

#[test]
fn a_nor_part_is_erased_by_blocks_or_by_sectors() {
    let chip = |text: &str| match read(text).unwrap() {
        DeviceSpec::Chip { preset, chip, .. } => {
            let geometry = chip.geometry.build();
            (preset, geometry.block_size(), geometry.blocks, chip.timing.erase_ns)
        }
        other => panic!("{other:?}"),
    };
    let blocks = ("w25q128jv".to_string(), 65_536, 256, 150_000_000);
    assert_eq!(chip("[device]\nkind = 'nor'"), blocks);
    assert_eq!(chip("[device]\npreset = 'w25q128jv'\nerase_size = 65536"), blocks);
    assert_eq!(chip("[device]\nkind = 'nor'\nerase_size = '4K'"), (blocks.0.clone(), 4096, 4096, 45_000_000));
    let own = "[device]\nkind = 'nor'\nerase_size = '4K'\nblocks = 64\ntiming.erase_ns = 7";
    assert_eq!(chip(own), (blocks.0, 4096, 64, 7));
}

#[test]
fn a_resolved_device_reads_as_itself() {
    for text in [
        "device = 'k9l8g08u0m'",
        "[device]\ngeometry.blocks = 9",
        "[device]\nstore = 'address'",
        "[device]\npreset = 'ram'\nsize = '1M'",
        "[device]\nfile = 'chip.nand'",
        "[device]\npreset = 'k9l8g08u0m'\nfile = 'chip.nand'",
        "device = 'nvme-tlc'",
        "[device]\npreset = 'p3-ssd'\nblocks = 640\ninterface.queue_depth = 1\nfile = 'drive.nand'",
        "device = 'sd-kingston-4'",
        "[device]\npreset = 'sd-kingston-4'\nopen_units.count = 2",
        "device = 'card-b'",
        "device = 'w25q128jv'",
        "[device]\nkind = 'nor'\nerase_size = '4K'\nblocks = 512",
        "device = 'card-parts-fast'",
        "[device]\nname = 'mine'\n[device.curves]\nread_sequential = [[4096, 8], [8192, 9]]\nread_random = [[4096, 8], [8192, 9]]\nwrite_sequential = [[4096, 8], [8192, 9]]\nwrite_random = [[4096, 8], [8192, 9]]",
    ] {
        let device = read(text).unwrap();
        let line = serde_json::to_string(&device).unwrap();
        let again: DeviceSpec = serde_json::from_str(&line).unwrap();
        assert_eq!(again, device, "{line}");
    }
}

#[test]
fn wrong_devices_are_refused_with_what_would_be_right() {
    for (text, expected) in [
        ("device = 'k9l8g08u0n'", "k9l8g08u0m"),
        ("device = 3", "expected a name or a table"),
        ("[device]\npreset = 'k9l8g08u0m'\nblokcs = 3", "blocks"),
        ("[device]\ntiming.raed_ns = 3", "timing.read_ns"),
        ("[device]\nstore = 'shadwo'", "did you mean `shadow`"),
        ("[device]\nstore = 'address'\nfile = 'x'", "in memory only"),
        ("[device]\ngeometry.page_size = 1000", "page_size is 1000"),
        ("[device]\nblocks = 0", "expected at least 1"),
        ("[device]\npreset = 'ram'\nsize = '1X'", "is no size"),
        ("[device]\npreset = 'ram'\nblocks = 3", "expected one of"),
        ("[device]\npreset = 'ram'\nfile = 'x'", "expected a chip"),
        ("[device]\nfile = ''", "expected a path"),
        ("[device]\nkind = 'nro'", "did you mean `nor`"),
        ("[device]\nkind = 3", "kind is 3"),
        ("[device]\nkind = 'nor'\npreset = 'tlc-16k'", "tlc-16k is NAND; expected preset = \"w25q128jv\""),
        ("[device]\nkind = 'nand'\npreset = 'w25q128jv'", "w25q128jv is NOR; expected kind = \"nor\""),
        ("[device]\nkind = 'nor'\nerase_size = '8K'", "w25q128jv erases 4096 or 65536 bytes"),
        ("[device]\nkind = 'nor'\nerase_size = 'x'", "erase_size: "),
        ("[device]\npreset = 'tlc-16k'\nerase_size = '4K'", "tlc-16k has one size of erase"),
        ("[device]\nkind = 'nor'\ngeometry.oob_size = 16", "geometry.oob_size is 16, expected 0 for NOR"),
        ("[device]\ngeometry.kind = 'nor'", "[nor]"),
        ("[device]\npreset = 'ram'\nkind = 'nor'", "kind"),
        ("[device]\nfile = 3", "file is 3"),
        ("device = 'p3-sdd'", "did you mean \"p3-ssd\""),
        ("device = 'sd-kingston'", "did you mean \"sd-kingston-4\""),
        ("[device]\npreset = 'p3-ssd'\ninterface.que_depth = 3", "did you mean `queue_depth`"),
        ("[device]\npreset = 'p3-ssd'\ninterface.queue_depth = 0", "interface.queue_depth is 0; expected 1 to"),
        ("[device]\npreset = 'p3-ssd'\ninterface.command_ns = 'x'", "in interface: command_ns is \"x\""),
        ("[device]\npreset = 'p3-ssd'\ninterface = 3", "interface is 3"),
        ("[device]\npreset = 'p3-ssd'\ntiming.raed_ns = 3", "timing.read_ns"),
        ("[device]\npreset = 'sd-pny-10'\nopen_units.cuont = 3", "open_units.count"),
        ("[device]\npreset = 'sd-pny-10'\nopen_units.count = 0", "open_units.count is 0, expected 1 to 1024"),
        ("[device]\npreset = 'sd-pny-10'\nblocks = 3", "unknown key \"blocks\""),
        ("[device]\ncurves.read_random = [[4096, 8]]", "curves.read_sequential is a list of 0"),
        ("[device]\npreset = 'sd-pny-10'\ncurves.read_random = [[4096, 8]]", "curves.read_random is a list of 1"),
        ("[device]\npreset = 'sd-pny-10'\ncurves.read_random = [[512, 8], [1024, 7]]", "expected no request that"),
        ("[device]\nname = 'mine'\ncurves = 3", "curves = 3"),
        ("[device]\npreset = 'sd-pny-10'\nfile = 'x'", "kept in no file"),
    ] {
        let error = read(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
