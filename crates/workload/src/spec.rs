//! A workload and its parameters: read from the command line and from TOML, and written into
//! records.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use nandkit_block::BlockGeometry;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::access::{AccessBlocks, AccessFile};
use crate::calls::CallReplay;
use crate::copyfiles::CopyFiles;
use crate::dbench::Dbench;
use crate::error::{Nearest, Result, SpecError, WorkloadError};
use crate::event_recorder::EventRecorder;
use crate::fax::Fax;
use crate::holes::{self, Holes};
use crate::inputs::Inputs;
use crate::interleaved::Interleaved;
use crate::operation::FileWorkload;
use crate::overwrite::{Overwrite, OverwriteBlocks, OverwriteFiles};
use crate::parameters::{ParameterDescription, Parameters, Value};
use crate::phone::Phone;
use crate::postmark::{ChurnFiles, Postmark, PostmarkFiles, PostmarkLarge, PostmarkSmall};
use crate::random::RandomAccess;
use crate::sequential::SequentialAccess;
use crate::stream::BlockStream;
use crate::tiobench::Tiobench;
use crate::trace::{Trace, TraceBlocks, TraceFiles};
use crate::tree::{Tree, TreeFiles};
use crate::varmail::Varmail;

/// A workload and its parameters.
///
/// On the command line it is `name` or `name:key=value,key=value`; `tree:DIR` and `trace:FILE` may
/// be followed by further parameters. In TOML it is the same text, or a table with `kind` and the
/// parameters. A spec serialises as a table of all its parameters, defaults included.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each is documented by its parameters")]
pub enum WorkloadSpec {
    Postmark(Postmark),
    PostmarkSmall(PostmarkSmall),
    PostmarkLarge(PostmarkLarge),
    Fax(Fax),
    Phone(Phone),
    EventRecorder(EventRecorder),
    Overwrite(Overwrite),
    Holes(Holes),
    CopyFiles(CopyFiles),
    Tiobench(Tiobench),
    Varmail(Varmail),
    Dbench(Dbench),
    Interleaved(Interleaved),
    Random(RandomAccess),
    Sequential(SequentialAccess),
    Tree(Tree),
    Trace(Trace),
}

/// A workload for help texts.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadDescription {
    /// Its name.
    pub name: &'static str,
    /// One sentence that says what the workload does.
    pub summary: &'static str,
    /// Whether it runs on file systems.
    pub on_files: bool,
    /// Whether it runs on block devices.
    pub on_blocks: bool,
    /// The parameter that may follow the name without its key.
    pub positional: Option<&'static str>,
    /// Its parameters.
    pub parameters: Vec<ParameterDescription>,
}

/// Evaluates an expression with the parameters of whichever workload the spec has.
macro_rules! with_parameters {
    ($spec:expr, $parameters:ident => $body:expr) => {
        match $spec {
            WorkloadSpec::Postmark($parameters) => $body,
            WorkloadSpec::PostmarkSmall($parameters) => $body,
            WorkloadSpec::PostmarkLarge($parameters) => $body,
            WorkloadSpec::Fax($parameters) => $body,
            WorkloadSpec::Phone($parameters) => $body,
            WorkloadSpec::EventRecorder($parameters) => $body,
            WorkloadSpec::Overwrite($parameters) => $body,
            WorkloadSpec::Holes($parameters) => $body,
            WorkloadSpec::CopyFiles($parameters) => $body,
            WorkloadSpec::Tiobench($parameters) => $body,
            WorkloadSpec::Varmail($parameters) => $body,
            WorkloadSpec::Dbench($parameters) => $body,
            WorkloadSpec::Interleaved($parameters) => $body,
            WorkloadSpec::Random($parameters) => $body,
            WorkloadSpec::Sequential($parameters) => $body,
            WorkloadSpec::Tree($parameters) => $body,
            WorkloadSpec::Trace($parameters) => $body,
        }
    };
}

fn name_of<P: Parameters>(_: &P) -> &'static str {
    P::WORKLOAD
}

fn keys_of<P: Parameters>(_: &P) -> &'static [&'static str] {
    P::KEYS
}

fn describe<P: Parameters>(_: &P) -> Vec<ParameterDescription> {
    P::describe()
}

impl WorkloadSpec {
    /// All workloads with their defaults, in the order of help texts.
    fn defaults() -> Vec<Self> {
        vec![
            Self::Postmark(Postmark::default()),
            Self::PostmarkSmall(PostmarkSmall::default()),
            Self::PostmarkLarge(PostmarkLarge::default()),
            Self::Fax(Fax::default()),
            Self::Phone(Phone::default()),
            Self::EventRecorder(EventRecorder::default()),
            Self::Overwrite(Overwrite::default()),
            Self::Holes(Holes::default()),
            Self::CopyFiles(CopyFiles::default()),
            Self::Tiobench(Tiobench::default()),
            Self::Varmail(Varmail::default()),
            Self::Dbench(Dbench::default()),
            Self::Interleaved(Interleaved::default()),
            Self::Random(RandomAccess::default()),
            Self::Sequential(SequentialAccess::default()),
            Self::Tree(Tree::default()),
            Self::Trace(Trace::default()),
        ]
    }

    /// The workload of this name with its defaults. `recorder` is short for `event-recorder`.
    pub fn named(name: &str) -> std::result::Result<Self, SpecError> {
        let wanted = if name == "recorder" { "event-recorder" } else { name };
        let all = Self::defaults();
        let names: Vec<&'static str> = all.iter().map(Self::name).collect();
        all.into_iter().find(|spec| spec.name() == wanted).ok_or_else(|| SpecError::UnknownWorkload {
            name: name.to_string(),
            nearest: Nearest::of(name, &names),
            known: names.join(", "),
        })
    }

    /// The workload's name.
    pub fn name(&self) -> &'static str {
        with_parameters!(self, parameters => name_of(parameters))
    }

    /// Sets one parameter; text is read as on the command line.
    pub fn set(&mut self, key: &str, value: &Value) -> std::result::Result<(), SpecError> {
        with_parameters!(self, parameters => parameters.set(key, value))
    }

    /// All parameters with their values.
    pub fn values(&self) -> Vec<(&'static str, Value)> {
        with_parameters!(self, parameters => parameters.values())
    }

    /// The parameter that may follow the name without its key.
    const fn positional(&self) -> Option<&'static str> {
        match self {
            Self::Tree(_) => Some("dir"),
            Self::Trace(_) => Some("file"),
            Self::Dbench(_) => Some("load"),
            _ => None,
        }
    }

    const fn summary(&self) -> &'static str {
        match self {
            Self::Postmark(_) => "Katcher's benchmark of many small files: read or append, create or delete",
            Self::PostmarkSmall(_) => "creates and deletes a directory with 50 files of 512 bytes, again and again",
            Self::PostmarkLarge(_) => "creates and deletes files of 1 MB",
            Self::Fax(_) => "a fax machine: a new file per page, a history, the oldest faxes deleted",
            Self::Phone(_) => "a cell phone: small durable changes of call logs, messages, address book, appointments",
            Self::EventRecorder(_) => "an event recorder: small durable records at the end of a cyclic log",
            Self::Overwrite(_) => "files filled in order, then records overwritten: in order, at random, hot and cold",
            Self::Holes(_) => "warm and cold files full of holes by overwrites, then new files (P1)",
            Self::CopyFiles(_) => "copies files of 1 MB one after the other (P3)",
            Self::Tiobench(_) => {
                "threads that write records of 4 to 16 KiB in a file each: at random places, or in order"
            }
            Self::Varmail(_) => {
                "filebench's mail server: small files deleted, created, appended to, made durable, read"
            }
            Self::Dbench(_) => "clients that follow a load file of dbench, or a generated one with its proportions",
            Self::Interleaved(_) => {
                "writers that append pieces in turn, so that fragments form; then reads in order (P3)"
            }
            Self::Random(_) => "reads and writes at random places: uniform, Zipf, or hot and cold",
            Self::Sequential(_) => "reads and writes in order",
            Self::Tree(_) => "a real directory copied in, changed, read back and compared",
            Self::Trace(_) => {
                "a recorded trace: fio's iolog, blkparse, MQSim, SPC, MSR Cambridge, Alibaba, Tencent, SYSTOR '17, calls by exec --record"
            }
        }
    }

    /// Whether it runs on file systems.
    pub const fn on_files(&self) -> bool {
        true
    }

    /// Whether it runs on block devices.
    pub const fn on_blocks(&self) -> bool {
        matches!(self, Self::Overwrite(_) | Self::Random(_) | Self::Sequential(_) | Self::Trace(_))
    }

    /// Describes every workload and its parameters.
    pub fn list() -> Vec<WorkloadDescription> {
        let describe_one = |spec: &Self| WorkloadDescription {
            name: spec.name(),
            summary: spec.summary(),
            on_files: spec.on_files(),
            on_blocks: spec.on_blocks(),
            positional: spec.positional(),
            parameters: with_parameters!(spec, parameters => describe(parameters)),
        };
        Self::defaults().iter().map(describe_one).collect()
    }

    /// Checks that the parameters are possible together.
    pub fn check(&self) -> std::result::Result<(), SpecError> {
        match self {
            Self::Postmark(spec) => spec.check(),
            Self::Fax(spec) => spec.check(),
            Self::Phone(spec) => spec.check(),
            Self::Overwrite(spec) => spec.check(),
            Self::Holes(spec) => behind_holes(spec).and_then(|_| spec.check()),
            Self::CopyFiles(spec) => spec.check(),
            Self::Tiobench(spec) => spec.check(),
            Self::Varmail(spec) => spec.check(),
            Self::Dbench(spec) => spec.check(),
            Self::Interleaved(spec) => spec.check(),
            Self::Random(spec) => spec.check(),
            Self::Sequential(spec) => spec.check(),
            Self::Tree(spec) => spec.check(),
            Self::Trace(spec) => spec.check(),
            Self::PostmarkSmall(spec) => spec.check(),
            Self::PostmarkLarge(spec) => spec.check(),
            Self::EventRecorder(_) => Ok(()),
        }
    }

    /// Recorded calls of files, where the workload is a trace of them: they are replayed instead of
    /// a stream of operations.
    pub fn calls(&self, inputs: &dyn Inputs) -> Result<Option<CallReplay>> {
        match self {
            Self::Trace(spec) => CallReplay::open(spec, inputs),
            _ => Ok(None),
        }
    }

    /// The stream of operations on a file system with `free_bytes` bytes of free space.
    pub fn file_workload(&self, free_bytes: u64, seed: u64, inputs: &dyn Inputs) -> Result<Box<dyn FileWorkload>> {
        self.check()?;
        Ok(match self {
            Self::Postmark(spec) => Box::new(PostmarkFiles::new(spec.clone(), seed)?),
            Self::PostmarkSmall(spec) => Box::new(ChurnFiles::small(spec, seed, free_bytes)?),
            Self::PostmarkLarge(spec) => Box::new(ChurnFiles::large(spec, free_bytes)?),
            Self::Fax(spec) => Box::new(spec.files(seed, free_bytes)?),
            Self::Phone(spec) => Box::new(spec.files(seed, free_bytes)?),
            Self::EventRecorder(spec) => Box::new(spec.files(seed, free_bytes)?),
            Self::Overwrite(spec) => Box::new(OverwriteFiles::new(spec.clone(), seed, free_bytes)?),
            Self::Holes(spec) => {
                let behind = behind_holes(spec)?;
                let files = |free| behind.map(|behind| behind.file_workload(free, seed, inputs)).transpose();
                Box::new(spec.files(seed, free_bytes, files)?)
            }
            Self::CopyFiles(spec) => Box::new(spec.files(seed, free_bytes)?),
            Self::Tiobench(spec) => Box::new(spec.files(seed, free_bytes)?),
            Self::Varmail(spec) => Box::new(spec.files(seed, free_bytes)?),
            Self::Dbench(spec) => Box::new(spec.files(seed, free_bytes, inputs)?),
            Self::Interleaved(spec) => Box::new(spec.files(seed, free_bytes)?),
            Self::Random(spec) => Box::new(AccessFile::new(spec.plan(free_bytes)?, seed)?),
            Self::Sequential(spec) => Box::new(AccessFile::new(spec.plan(free_bytes)?, seed)?),
            Self::Tree(spec) => Box::new(TreeFiles::new(spec.clone(), inputs.tree(&spec.dir)?, seed, free_bytes)?),
            Self::Trace(spec) => Box::new(TraceFiles::new(spec.clone(), inputs, free_bytes)?),
        })
    }

    /// The stream of operations on a block device.
    pub fn block_workload(&self, geometry: &BlockGeometry, seed: u64, inputs: &dyn Inputs) -> Result<BlockStream> {
        self.check()?;
        let capacity = geometry.capacity();
        Ok(match self {
            Self::Overwrite(spec) => BlockStream::Overwrite(OverwriteBlocks::new(spec.clone(), seed, geometry)?),
            Self::Random(spec) => BlockStream::Access(AccessBlocks::new(spec.plan(capacity)?, seed, geometry)?),
            Self::Sequential(spec) => BlockStream::Access(AccessBlocks::new(spec.plan(capacity)?, seed, geometry)?),
            Self::Trace(spec) => BlockStream::Trace(Box::new(TraceBlocks::new(spec.clone(), inputs, geometry)?)),
            _ => {
                return Err(WorkloadError::WrongTarget {
                    workload: self.name(),
                    target: "a block device",
                    expected: "a file system, or one of overwrite, random, sequential, trace",
                });
            }
        })
    }

    /// Takes the path that may stand behind the name: the parts up to the first `key=`, so that it
    /// may hold commas.
    fn take_positional<'a>(&mut self, text: &'a str) -> std::result::Result<Option<&'a str>, SpecError> {
        let Some(key) = self.positional() else { return Ok(Some(text)) };
        let keys = with_parameters!(&*self, parameters => keys_of(parameters));
        let mut end = 0;
        for part in text.split(',') {
            // After the path, whatever looks like a key is taken as one, so that a mistyped key is
            // an error and not a part of the path.
            let is_parameter = part.split_once('=').is_some_and(|(name, _)| {
                let name = name.trim();
                let is_identifier = !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
                keys.contains(&name) || (end > 0 && is_identifier)
            });
            if is_parameter {
                break;
            }
            end += part.len() + 1;
        }
        if end == 0 {
            return Ok(Some(text));
        }
        let path = text.get(..(end - 1).min(text.len())).unwrap_or(text);
        self.set(key, &Value::Text(path.to_string()))?;
        Ok(text.get(end..).filter(|rest| !rest.is_empty()))
    }
}

/// The workload that `holes` measures instead of new files, if it names one.
fn behind_holes(spec: &Holes) -> std::result::Result<Option<WorkloadSpec>, SpecError> {
    let conflict = |detail: String| Err(SpecError::Conflict { workload: "holes", detail });
    if spec.then == holes::NONE {
        return Ok(None);
    }
    if spec.then.contains(',') {
        return conflict(format!("then is {}; expected ; for each comma", spec.then));
    }
    match spec.then.replace(';', ",").parse()? {
        WorkloadSpec::Holes(_) => conflict("then is holes again; expected another workload".to_string()),
        then if spec.rounds > 1 || spec.every > 0 => {
            conflict(format!("rounds and every are of new files; expected none of them with then={}", then.name()))
        }
        then => Ok(Some(then)),
    }
}

impl FromStr for WorkloadSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> std::result::Result<Self, SpecError> {
        Self::parse_with_keys(text).map(|(spec, _)| spec)
    }
}

impl WorkloadSpec {
    /// Parses a text as on the command line. Also returns the keys that it gives, so that a caller
    /// can use a default of its own for the others.
    pub fn parse_with_keys(text: &str) -> std::result::Result<(Self, Vec<&str>), SpecError> {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name.trim(), Some(rest)),
            None => (text.trim(), None),
        };
        let mut spec = Self::named(name)?;
        let mut given = Vec::new();
        let syntax = |detail: String| SpecError::Syntax { text: text.to_string(), detail };
        if let Some(rest) = rest {
            let rest = if rest.is_empty() { None } else { spec.take_positional(rest)? };
            for part in rest.into_iter().flat_map(|rest| rest.split(',')) {
                let Some((key, value)) = part.split_once('=') else {
                    return Err(syntax(format!("\"{part}\" is no key=value")));
                };
                let key = key.trim();
                spec.set(key, &Value::Text(value.trim().to_string()))?;
                if given.contains(&key) {
                    return Err(syntax(format!("the key {key} is given twice; expected once")));
                }
                given.push(key);
            }
        }
        spec.check()?;
        Ok((spec, given))
    }
}

impl fmt::Display for WorkloadSpec {
    /// Writes the workload as on the command line, with the parameters that differ from their
    /// defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        let defaults = Self::named(self.name()).map(|spec| spec.values()).unwrap_or_default();
        let mut separator = ':';
        for (value, default) in self.values().iter().zip(&defaults) {
            if value != default {
                write!(f, "{separator}{}={}", value.0, value.1)?;
                separator = ',';
            }
        }
        Ok(())
    }
}

impl Serialize for WorkloadSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let values = self.values();
        let mut map = serializer.serialize_map(Some(values.len() + 1))?;
        map.serialize_entry("kind", self.name())?;
        for (key, value) in values {
            map.serialize_entry(key, &value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for WorkloadSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct SpecVisitor;
        impl<'de> Visitor<'de> for SpecVisitor {
            type Value = WorkloadSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a workload: NAME:key=value,key=value, or a table with kind and parameters")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<WorkloadSpec, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<WorkloadSpec, A::Error> {
                let mut values: BTreeMap<String, Value> = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    if values.contains_key(&key) {
                        return Err(de::Error::custom(format!("the key {key} stands twice")));
                    }
                    values.insert(key, value);
                }
                let Some(kind) = values.remove("kind") else { return Err(de::Error::missing_field("kind")) };
                let mut spec = WorkloadSpec::named(&kind.to_string()).map_err(de::Error::custom)?;
                for (key, value) in &values {
                    spec.set(key, value).map_err(de::Error::custom)?;
                }
                spec.check().map_err(de::Error::custom)?;
                Ok(spec)
            }
        }
        deserializer.deserialize_any(SpecVisitor)
    }
}
