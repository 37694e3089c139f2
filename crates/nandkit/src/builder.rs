//! A builder of stacks.

use nandkit_lab::{figures_of, single_stack};
use nandkit_record::Figures;
use nandkit_stack::{DEFAULT_DEVICE, DeviceSpec, FsSpec, Mounted, Stack, StackError, StackSpec};
use nandkit_vfs::{Changes, FileSystem};

/// Builds a stack. The defaults are those of the command line: P4's chip, FAT, and the block-mapped
/// translation layer below it.
#[derive(Clone, Debug)]
pub struct StackBuilder {
    device: String,
    file: Option<String>,
    ftl: Option<String>,
    fs: String,
    settings: Vec<String>,
    seed: u64,
}

impl Default for StackBuilder {
    fn default() -> Self {
        let (device, fs) = (DEFAULT_DEVICE.to_owned(), FsSpec::default().name().to_owned());
        Self { device, file: None, ftl: None, fs, settings: Vec::new(), seed: 1 }
    }
}

impl StackBuilder {
    /// The device: a preset's name (`nandkit devices` lists them), or `ram`.
    #[must_use]
    pub fn device(mut self, name: &str) -> Self {
        name.clone_into(&mut self.device);
        self
    }

    /// Keeps the chip in a file from run to run. An existing file is opened, and its volume is
    /// mounted.
    #[must_use]
    pub fn file(mut self, path: &str) -> Self {
        self.file = Some(path.to_owned());
        self
    }

    /// The translation layer: `block-map`, `fast`, `page-map`, or `none`.
    #[must_use]
    pub fn ftl(mut self, name: &str) -> Self {
        self.ftl = Some(name.to_owned());
        self
    }

    /// The file system: one of [`FsSpec::kinds`]; `none` gives the bare block device.
    #[must_use]
    pub fn fs(mut self, name: &str) -> Self {
        name.clone_into(&mut self.fs);
        self
    }

    /// Overrides a value of the spec, such as `stack.ftl.log_blocks=16`. May be repeated.
    #[must_use]
    pub fn set(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// The seed of the device's faults; the same seed and calls give the same results.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The spec in the form of experiments. Errors: an unknown name, with the nearest known one;
    /// parts that do not fit together.
    pub fn spec(&self) -> Result<StackSpec, StackError> {
        let wrong = |key: &'static str, detail: String| StackError::new(key, detail);
        let fs = FsSpec::kind(&self.fs).map_err(|error| wrong("fs", error.to_string()))?;
        let device = DeviceSpec::preset(&self.device).map_err(|error| wrong("device", error.to_string()))?;
        let device = match (device, &self.file) {
            (DeviceSpec::Chip { preset, store, chip, interface, .. }, file @ Some(_)) => {
                DeviceSpec::Chip { preset, store, chip, file: file.clone(), interface }
            }
            (DeviceSpec::Ram { .. } | DeviceSpec::Card { .. }, Some(_)) => {
                return Err(wrong("file", "a device in memory cannot be kept in a file; expected a chip".to_owned()));
            }
            (device, _) => device,
        };
        single_stack(device, self.ftl.as_deref(), fs, &self.settings)
    }

    /// Builds the stack: a device in factory state, with everything above it formatted and mounted.
    /// Errors: those of [`StackBuilder::spec`]; a file system too large or too small for the
    /// device; a file that holds no chip, or another chip.
    pub fn build(&self) -> Result<Stack, StackError> {
        Stack::build(&self.spec()?, self.seed)
    }
}

/// Convenience methods of a stack.
pub trait UseStack {
    /// A new builder: `Stack::builder()`.
    fn builder() -> StackBuilder {
        StackBuilder::default()
    }
    /// Its file system, for reading; `None` if the top is a block device.
    fn files(&self) -> Option<&dyn FileSystem>;
    /// Its file system, for changes.
    fn files_mut(&mut self) -> Option<&mut dyn Changes>;
    /// Counters of the device since the stack was built: device time, bytes programmed by cause,
    /// erases, write amplification.
    fn figures(&self) -> Figures;
}

impl UseStack for Stack {
    fn files(&self) -> Option<&dyn FileSystem> {
        match &self.mounted {
            Mounted::Files(fs) => Some(&**fs),
            Mounted::Blocks(_) => None,
        }
    }

    fn files_mut(&mut self) -> Option<&mut dyn Changes> {
        match &mut self.mounted {
            Mounted::Files(fs) => fs.changes(),
            Mounted::Blocks(_) => None,
        }
    }

    fn figures(&self) -> Figures {
        figures_of(self)
    }
}
