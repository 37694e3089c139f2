//! Specs of whole stacks.

use nandkit_stack::{FtlSpec, StackSpec};

fn read(text: &str) -> StackSpec {
    toml::from_str(text).unwrap()
}

#[test]
fn everything_has_a_default_and_a_title() {
    let stack = read("");
    assert_eq!(stack, StackSpec::default());
    stack.check().unwrap();
    assert_eq!(stack.title(), "fat | block-map | macroscopic | 8 log blocks | k9l8g08u0m 1 GiB");
    let jffs2 = read("fs = { kind = 'jffs2', victim = 'cat' }\ndevice = 'nandsim-32m-128k'");
    jffs2.check().unwrap();
    assert_eq!((jffs2.ftl.clone(), jffs2.title().as_str()), (FtlSpec::None, "jffs2 | cat | nandsim-32m-128k 32 MiB"));
    assert_eq!(read("device = 'ram'\nftl = 'none'\nfs = 'none'").title(), "no translation layer | ram 64 MiB");
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    for (text, at) in [
        ("device = 'ram'\nftl = 'fast'", "stack.ftl"),
        ("device = 'sd-pny-10'\nftl = 'page-map'", "stack.ftl"),
        ("device = 'p3-ssd'\nftl = 'none'", "stack.ftl"),
        ("device = 'p3-ssd'\nfs = 'jffs2'", "stack.device"),
        ("device = 'sd-pny-10'\nfs = 'jffs2'", "stack.device"),
        ("device = 'card-parts-fast'\nftl = 'none'", "stack.ftl"),
        (
            "fs = 'f2fs'\n[device]\npreset = 'sd-pny-10'\ngeometry = { sector_size = 8192, capacity = 8388608 }\ncurves = { read_sequential = [[8192, 8], [16384, 9]], read_random = [[8192, 8], [16384, 9]], write_sequential = [[8192, 8], [16384, 9]], write_random = [[8192, 8], [16384, 9]] }",
            "stack.device",
        ),
        ("ftl = 'none'", "stack.ftl"),
        ("device = 'ram'\nfs = { kind = 'f2fs', mover = 'remap' }", "stack.fs"),
        ("device = 'p3-ssd'\nftl = 'fast'\nfs = { kind = 'f2fs', mover = 'remap-sorted' }", "stack.fs"),
        ("device = 'card-c'\nfs = { kind = 'f2fs', mover = 'remap-sorted' }", "stack.fs"),
        ("device = 'ram'\nfs = { kind = 'f2fs', gather = 100 }", "stack.fs"),
        ("device = 'ram'\nfs = { kind = 'f2fs', reuse = 'unified' }", "stack.fs"),
        ("device = 'p3-ssd'\nfs = { kind = 'f2fs', reuse = 'unified:curve=learned' }", "stack.fs"),
        ("device = { preset = 'k9l8g08u0m', store = 'shadow' }", "stack.device.store"),
        // 64 MiB are 128 Ki pages of 512 bytes, 1024 map pages.
        (
            "fs = 'none'\nftl = { kind = 'page-map', capacity = '64M', sector_size = 512, mapping_cache = 5119 }",
            "stack.ftl",
        ),
        ("fs = 'none'\nftl = { kind = 'page-map', mapping_cache = '2K' }", "stack.ftl"),
        ("device = { preset = 'k9l8g08u0m', store = 'address' }\nftl = 'page-map'", "stack.device.store"),
        ("fs = 'jffs2'\ndevice = { preset = 'k9l8g08u0m', store = 'address' }", "stack.device.store"),
        ("ftl = { kind = 'page-map', journal = false }\ndevice = { preset = 'k9l8g08u0m', file = 'x' }", "stack.ftl"),
        ("ftl = { kind = 'page-map', journal = false }\ndevice = { file = 'x' }", "stack.ftl"),
        ("ftl = 'page-map'\ndevice = 'ram'", "stack.ftl"),
        ("fs = 'ubifs'\ndevice = { preset = 'nandsim-32m-128k', blocks = 16 }", "stack.fs"),
        ("fs = 'ubifs'\ndevice = { kind = 'nor', erase_size = '4K' }", "stack.fs"),
        ("fs = { kind = 'ubifs', sub_pages = 512 }\ndevice = 'k9l8g08u0m'", "stack.fs.sub_pages"),
        ("fs = 'jffs2'\nftl = 'fast'", "stack.ftl"),
        ("fs = 'jffs2'\ndevice = 'ram'", "stack.device"),
        ("fs = 'jffs2'\ndevice = { preset = 'k9l8g08u0m', store = 'shadow' }", "stack.device.store"),
    ] {
        assert_eq!(read(text).check().unwrap_err().at, at, "{text}");
    }
    read("device = { preset = 'k9l8g08u0m', store = 'shadow' }\nfs = 'none'").check().unwrap();
    let address = read("device = { preset = 'k9l8g08u0m', store = 'address' }\nfs = 'none'\nftl = 'page-map'");
    address.check().unwrap();
    assert!(!address.keeps_content());
    read("ftl = 'page-map'").check().unwrap();
    read("device = 'p3-ssd'\nfs = { kind = 'f2fs', mover = 'remap-sorted', gather = 4096 }").check().unwrap();
    read("device = 'nvme-tlc'\nfs = { kind = 'f2fs', reuse = 'unified:segments=2' }").check().unwrap();
    read("device = 'card-c'\nfs = { kind = 'f2fs', reuse = 'unified' }").check().unwrap();
}

#[test]
fn a_resolved_stack_reads_as_itself() {
    for text in [
        "fs = 'fat'\nftl = { policy = 'limit' }",
        "device = 'p3-ssd'",
        "device = { preset = 'nvme-tlc', blocks = 4096, interface = { queue_depth = 4 } }\nftl = { spare = 0.28 }",
        "device = 'sata-tlc'\nftl = { capacity = '1G' }",
        "device = 'sata-tlc'\nftl = 'fast'",
        "device = 'sd-pny-10'",
    ] {
        let stack = read(text);
        stack.check().unwrap();
        let line = serde_json::to_string(&stack).unwrap();
        assert_eq!(serde_json::from_str::<StackSpec>(&line).unwrap(), stack, "{line}");
    }
}

#[test]
fn a_drive_has_its_own_layer_unless_another_is_named() {
    let layer = |text: &str| match read(text).ftl {
        FtlSpec::PageMap(ftl) => (ftl.spare, ftl.write_buffer, ftl.sector_size, ftl.victim),
        other => panic!("{other:?}"),
    };
    let own = (0.111, 1 << 20, 4096, "greedy".to_string());
    assert_eq!(layer("device = 'p3-ssd'"), own);
    assert_eq!(layer("device = 'p3-ssd'\nftl = 'page-map'"), own);
    let fifo = (0.111, 0, 4096, "fifo".to_string());
    assert_eq!(layer("device = 'p3-ssd'\nftl = { victim = 'fifo', write_buffer = 0 }"), fifo);
    let FtlSpec::Fast(fast) = read("device = 'p3-ssd'\nftl = 'fast'").ftl else { panic!("fast") };
    assert_eq!(fast.log_blocks, 8);
    assert_eq!(read("device = 'sd-pny-10'").ftl, FtlSpec::None);
    // A chip has none.
    assert_eq!(read("device = 'tlc-16k'").ftl, FtlSpec::default());
}

#[test]
fn unknown_parts_are_refused() {
    assert!(toml::from_str::<StackSpec>("ftll = 'fast'").is_err());
}
