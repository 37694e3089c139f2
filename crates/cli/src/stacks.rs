//! Makes stacks from the options of `compare` and of commands with a single stack.

use std::fmt::Display;
use std::path::Path;

use nandkit_lab::{Precondition, UsedRule};
use nandkit_stack::{DEFAULT_DEVICE, DeviceSpec, FsSpec, FtlSpec, HostSpec, PolicyName, SpecError, StackSpec, suggest};
use toml::{Table, Value};

use crate::args::CompareArguments;
use crate::failure::Failure;
use crate::texts::read_spec;

fn input<E: Display>(option: &str) -> impl Fn(E) -> Failure + '_ {
    move |error| Failure::Input(format!("{option}: {error}"))
}

/// The default card for file systems on block devices: a class 10 card, in the middle of those in
/// P5's table.
const DEFAULT_CARD: &str = "sd-pny-10";
/// Capacity of the default chip and card in bytes: the size of a typical partition on a board,
/// small enough to fill before each run.
const DEFAULT_CAPACITY: i64 = 256 << 20;

/// The default file systems on a named bare chip: that of a device for which none is named, and
/// those that work on bare flash; a note says which of these the chip does not suit.
fn on_a_chip(device: &DeviceSpec, notes: &mut Vec<String>) -> Result<Vec<FsSpec>, SpecError> {
    let formats: Vec<FsSpec> = FsSpec::formats().into_iter().map(FsSpec::kind).collect::<Result<_, _>>()?;
    let suits = |fs: &FsSpec| {
        let FsSpec::Format(spec) = fs else { return true };
        let misfit = spec.check_device(device, &FtlSpec::None).err();
        notes.extend(misfit.iter().map(|misfit| format!("{} is left out: {}.", fs.name(), misfit.detail)));
        misfit.is_none()
    };
    let on_flash = formats.into_iter().filter(FsSpec::is_on_flash).filter(suits);
    Ok(std::iter::once(FsSpec::default()).chain(on_flash).collect())
}

/// The device of the options, in a file if --device-file names one.
fn device(arguments: &CompareArguments) -> Result<DeviceSpec, Failure> {
    let named = arguments.device.as_deref().map(named_device).transpose()?;
    match (named, arguments.device_file.clone()) {
        (None, None) => named_device(DEFAULT_DEVICE),
        (None, Some(file)) => Ok(DeviceSpec::Kept { file }),
        (Some(DeviceSpec::Ram { .. } | DeviceSpec::Card { .. }), Some(_)) => Err(input("--device-file")(
            "a device in memory cannot be kept in a file; expected a chip as --device".to_string(),
        )),
        (Some(DeviceSpec::Chip { preset, store, chip, interface, .. }), file @ Some(_)) => {
            Ok(DeviceSpec::Chip { preset, store, chip, file, interface })
        }
        (Some(device), _) => Ok(device),
    }
}

/// The device of a name: a preset, `ram`, or a spec file.
pub fn named_device(name: &str) -> Result<DeviceSpec, Failure> {
    if !name.ends_with(".toml") {
        return DeviceSpec::preset(name).map_err(input("--device"));
    }
    let text = read_spec(Path::new(name)).map_err(|error| {
        Failure::Input(format!("--device: cannot read {name}: {error}; expected a chip's spec or a card file, as in specs/devices and specs/cards"))
    })?;
    if nandkit_stack::nests_too_deep(&text) {
        return Err(Failure::Input(format!("--device: {name}: tables are nested too deeply; expected a chip's spec")));
    }
    let table: Table = toml::from_str(&text)
        .map_err(|error| Failure::Input(format!("--device: {name}: {}", error.to_string().trim_end())))?;
    table.try_into().map_err(|error: toml::de::Error| Failure::Input(format!("--device: {name}: {}", error.message())))
}

/// Whether a translation layer has log blocks.
fn has_logs(kind: &str) -> bool {
    matches!(kind, "block-map" | "fast")
}

/// Whether a device takes no translation layer.
const fn has_no_layer(device: &DeviceSpec) -> bool {
    matches!(device, DeviceSpec::Ram { .. } | DeviceSpec::Card { .. })
}

fn layers(arguments: &CompareArguments, device: &DeviceSpec) -> Result<Vec<FtlSpec>, Failure> {
    // Devices in memory and cards have no layer; drives have their own.
    let names_none = arguments.policy.is_empty() && arguments.log_blocks.is_none();
    if arguments.ftl.is_empty() && names_none && !device.shows_flash() {
        return Ok(vec![device.default_layer()]);
    }
    let kinds = match arguments.ftl.as_slice() {
        [] if has_no_layer(device) => vec!["none".to_string()],
        // Only block-map has policies, so that --policy selects it.
        [] if !arguments.policy.is_empty() => vec!["block-map".to_string()],
        [] => vec!["block-map".to_string(), "fast".to_string()],
        kinds => kinds.to_vec(),
    };
    if !arguments.policy.is_empty() && !kinds.iter().any(|kind| kind == "block-map") {
        return Err(Failure::Input(
            "--policy: only the translation layer block-map has policies; add it to --ftl".into(),
        ));
    }
    if arguments.log_blocks.is_some() && kinds.iter().all(|kind| kind == "page-map") {
        let detail = "--log-blocks: the translation layer page-map has no log blocks; add block-map or fast to --ftl";
        return Err(Failure::Input(detail.into()));
    }
    let all: Vec<String> = PolicyName::ALL.iter().map(|policy| policy.name().to_string()).collect();
    let policies = if arguments.policy.is_empty() { &all } else { &arguments.policy };
    if let Some(name) = policies.iter().find(|name| !all.contains(name)) {
        let known: Vec<&str> = PolicyName::ALL.iter().map(|policy| policy.name()).collect();
        return Err(input("--policy")(suggest::unknown("recycling policy", name, &known)));
    }
    let mut layers = Vec::new();
    for kind in &kinds {
        let variants: Vec<Option<&String>> =
            if kind == "block-map" { policies.iter().map(Some).collect() } else { vec![None] };
        for policy in variants {
            let mut table = Table::from_iter([("kind".to_string(), Value::String(kind.clone()))]);
            if let Some(policy) = policy {
                table.insert("policy".to_string(), Value::String(policy.clone()));
            }
            if let Some(log_blocks) = arguments.log_blocks.filter(|_| has_logs(kind)) {
                table.insert("log_blocks".to_string(), Value::Integer(i64::from(log_blocks)));
            }
            let layer = device.layer(table).map_err(input("--ftl"))?;
            if !layers.contains(&layer) {
                layers.push(layer);
            }
        }
    }
    Ok(layers)
}

/// The stacks of a comparison, with notes about them.
pub struct Compared {
    pub stacks: Vec<StackSpec>,
    /// Notes to print, a sentence each.
    pub notes: Vec<String>,
    /// The default preparation before each run.
    pub precondition: Precondition,
}

/// All combinations of the requested file systems and translation layers, on the device or on the
/// default device of each file system. All have the same host.
pub fn stacks(arguments: &CompareArguments) -> Result<Compared, Failure> {
    let names_layers = !arguments.ftl.is_empty() || !arguments.policy.is_empty() || arguments.log_blocks.is_some();
    let names_device = arguments.device.is_some() || arguments.device_file.is_some();
    let mut compared = Compared { stacks: Vec::new(), notes: Vec::new(), precondition: Precondition::None };
    if names_layers || names_device || arguments.fs.iter().any(|name| !FsSpec::formats().contains(&name.as_str())) {
        compared.stacks = on_the_device(arguments, names_layers, &mut compared.notes)?;
    } else {
        compared.stacks = where_each_belongs(&arguments.fs)?;
        compared.notes = place_notes(&compared.stacks);
        compared.precondition = Precondition::Used(UsedRule::default());
    }
    put_host(arguments, &mut compared)?;
    Ok(compared)
}

/// The default stacks: file systems for block devices run on a card, and on a chip with the
/// page-mapped layer; file systems for flash run on the same chip without a layer.
fn where_each_belongs(names: &[String]) -> Result<Vec<StackSpec>, Failure> {
    let DeviceSpec::Chip { chip: whole, .. } = named_device(DEFAULT_DEVICE)? else {
        return Err(Failure::Input(format!("{DEFAULT_DEVICE} is no chip")));
    };
    let block_size = i64::from(whole.geometry.page_size) * i64::from(whole.geometry.pages_per_block);
    let blocks = DEFAULT_CAPACITY / block_size.max(1);
    let chip = part_of(DEFAULT_DEVICE, "blocks", blocks)?;
    let card = part_of(DEFAULT_CARD, "capacity", DEFAULT_CAPACITY)?;
    let page_map = Table::from_iter([("kind".to_string(), Value::String("page-map".to_string()))]);
    let page_map = chip.layer(page_map).map_err(input("--ftl"))?;
    let mut stacks = Vec::new();
    let is_named = |name: &str| names.is_empty() || names.iter().any(|other| other == name);
    for name in FsSpec::formats().into_iter().filter(|name| is_named(name)) {
        let fs = FsSpec::kind(name).map_err(input("--fs"))?;
        let places = match fs.is_on_flash() {
            true => vec![(chip.clone(), FtlSpec::None)],
            false => vec![(chip.clone(), page_map.clone()), (card.clone(), FtlSpec::None)],
        };
        for (device, ftl) in places {
            let stack = StackSpec { device, ftl, fs: fs.clone(), host: None };
            stack.check().map_err(|error| Failure::Input(error.to_string()))?;
            stacks.push(stack);
        }
    }
    Ok(stacks)
}

/// A preset with a different capacity.
fn part_of(preset: &str, key: &str, size: i64) -> Result<DeviceSpec, Failure> {
    let geometry = Table::from_iter([(key.to_string(), Value::Integer(size))]);
    let table = Table::from_iter([
        ("preset".to_string(), Value::String(preset.to_string())),
        ("geometry".to_string(), Value::Table(geometry)),
    ]);
    table.try_into().map_err(|error: toml::de::Error| Failure::Input(format!("{preset}: {}", error.message())))
}

/// Notes on which file system runs on which device, and why.
fn place_notes(stacks: &[StackSpec]) -> Vec<String> {
    let mut notes = Vec::new();
    let kinds = |on_flash: bool| {
        let mut kinds: Vec<String> = stacks
            .iter()
            .filter(|stack| stack.fs.is_on_flash() == on_flash)
            .map(|stack| stack.fs.name().to_string())
            .collect();
        kinds.dedup();
        kinds.join(" and ")
    };
    let (on_blocks, on_flash) = (kinds(false), kinds(true));
    if !on_blocks.is_empty() {
        notes.push(format!(
            "{on_blocks}: made for block devices; runs on the chip {DEFAULT_DEVICE} with the page-mapped layer, as in an SSD, and on the memory card {DEFAULT_CARD}, whose flash is hidden (no WAF, no erases)."
        ));
    }
    if !on_flash.is_empty() {
        notes.push(format!("{on_flash}: made for bare flash; runs on the same chip without a layer."));
    }
    notes
}

/// Sets the host of all stacks with a file system: the requested one or the default. Without this
/// each file system would have a cache of its own size.
fn put_host(arguments: &CompareArguments, compared: &mut Compared) -> Result<(), Failure> {
    let host = match arguments.host.as_deref() {
        Some("none") => None,
        Some(text) => Some(HostSpec::parse(text).map_err(input("--host"))?),
        None => Some(HostSpec::default()),
    };
    let mut with_files: Vec<&mut StackSpec> =
        compared.stacks.iter_mut().filter(|stack| stack.fs != FsSpec::None && stack.fs != FsSpec::Model).collect();
    with_files.iter_mut().for_each(|stack| stack.host = host);
    if !with_files.is_empty() {
        let none = || "No host cache: each file system has the cache of its own options.".to_string();
        compared.notes.push(host.map_or_else(none, |host| host.told()));
    }
    Ok(())
}

/// All combinations of the requested file systems and translation layers on one device.
fn on_the_device(
    arguments: &CompareArguments,
    names_layers: bool,
    notes: &mut Vec<String>,
) -> Result<Vec<StackSpec>, Failure> {
    let device = device(arguments)?;
    let file_systems: Vec<FsSpec> = match arguments.fs.as_slice() {
        // Named layers ask for a file system that can use one, and a chip in a file holds one
        // volume.
        [] if !device.shows_flash() || names_layers || arguments.device_file.is_some() => vec![FsSpec::default()],
        [] => on_a_chip(&device, notes).map_err(input("--fs"))?,
        names => names.iter().map(|name| FsSpec::kind(name)).collect::<Result<_, _>>().map_err(input("--fs"))?,
    };
    if names_layers && file_systems.iter().all(FsSpec::is_on_flash) {
        let detail = "--ftl, --policy, --log-blocks: the requested file systems work on bare flash; expected none of these options, or fat among --fs";
        return Err(Failure::Input(detail.to_string()));
    }
    let above_layers = layers(arguments, &device)?;
    let mut stacks = Vec::new();
    for fs in &file_systems {
        let layers = if fs.is_on_flash() { &[FtlSpec::None][..] } else { &above_layers[..] };
        for ftl in layers {
            let stack = StackSpec { device: device.clone(), ftl: ftl.clone(), fs: fs.clone(), host: None };
            stack.check().map_err(|error| Failure::Input(error.to_string()))?;
            stacks.push(stack);
            // The model file system uses no device: once is enough.
            if *fs == FsSpec::Model {
                break;
            }
        }
    }
    Ok(stacks)
}

/// The options that describe one stack.
pub struct Single<'a> {
    pub fs: FsSpec,
    pub device: DeviceSpec,
    pub ftl: Option<&'a str>,
    pub settings: &'a [String],
}

/// Makes the stack of the options: on a chip with a translation layer, unless the file system works
/// on bare flash or the device is in memory.
pub fn single(options: &Single<'_>) -> Result<StackSpec, Failure> {
    let Single { fs, device, ftl, settings } = options;
    nandkit_lab::single_stack(device.clone(), *ftl, fs.clone(), settings).map_err(|error| match error.at {
        // These keys come from options of the same name.
        "ftl" | "set" => Failure::Input(format!("--{}: {}", error.at, error.detail)),
        _ => Failure::Input(error.to_string()),
    })
}
