//! The clients, each at its own line of the load, and the trial of a load with one client.

use std::collections::HashMap;

use nandkit_units::random::Random;

use super::Dbench;
use super::grammar::{Disposition, Load, LoadLine, LoadOperation, Offset, PathNumber, Status};
use super::names::{Names, Node, PathLookup};
use crate::error::{Result, WorkloadError};
use crate::inputs::Inputs;
use crate::script::Script;
use crate::streams::Streams;

/// Operations between two questions whether to stop.
const OPERATIONS_PER_QUESTION: u64 = 1024;

/// What is wrong with an operation, and what would be right.
type Wrong = (String, &'static str);

/// A LOOP that a client is in.
#[derive(Clone, Copy, Debug)]
struct Round {
    first: usize,
    left: u64,
    /// Operations done when it began: a round without any is the last.
    done: u64,
}

/// Where a client is.
#[derive(Debug)]
struct Client {
    /// Counted from 1, as dbench names them.
    number: usize,
    at: usize,
    /// Times that it still goes through the load, this one among them.
    loops: u64,
    rounds: Vec<Round>,
    /// Times that the next operation is done.
    repeats: u64,
    done: u64,
    /// Most times of a LOOP or REPEAT.
    times_max: u64,
    handles: HashMap<u64, Node>,
    random: Random,
}

impl Client {
    fn new(number: usize, loops: u64, seed: u64) -> Self {
        let random = Random::new(seed, &format!("dbench client {number}"));
        let (rounds, handles) = (Vec::new(), HashMap::new());
        Self { number, at: 0, loops, rounds, repeats: 1, done: 0, times_max: u64::MAX, handles, random }
    }

    /// The next operation that is one of a file system; `None` at the end.
    fn next(&mut self, load: &Load) -> Option<LoadLine> {
        loop {
            let Some(line) = load.lines.get(self.at).copied() else {
                self.loops = self.loops.saturating_sub(1);
                if self.loops == 0 {
                    return None;
                }
                (self.at, self.repeats) = (load.fill, 1);
                self.rounds.clear();
                continue;
            };
            self.at += 1;
            match line.operation {
                LoadOperation::Loop { times: 0 } => self.at = behind_loop(load, self.at),
                LoadOperation::Loop { times } => {
                    let left = times.min(self.times_max);
                    self.rounds.push(Round { first: self.at, left, done: self.done });
                }
                LoadOperation::EndLoop => self.end_round(),
                LoadOperation::Repeat { times } => self.repeats = times.clamp(1, self.times_max),
                _ => {
                    if self.repeats > 1 {
                        self.at -= 1;
                    }
                    self.repeats = (self.repeats - 1).max(1);
                    self.done += 1;
                    return Some(line);
                }
            }
        }
    }

    fn end_round(&mut self) {
        let Some(round) = self.rounds.last_mut() else { return };
        round.left -= 1;
        if round.left == 0 || round.done == self.done {
            self.rounds.pop();
        } else {
            (self.at, round.done) = (round.first, self.done);
        }
    }
}

/// The line behind the ENDLOOP of the loop that begins there.
fn behind_loop(load: &Load, first: usize) -> usize {
    let mut depth = 1;
    for (number, line) in load.lines.iter().enumerate().skip(first) {
        match line.operation {
            LoadOperation::Loop { .. } => depth += 1,
            LoadOperation::EndLoop => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return number + 1;
        }
    }
    load.lines.len()
}

/// The files that the clients have made, and how an operation changes them.
#[derive(Debug)]
struct ClientTree {
    names: Names,
}

/// Looks a path up as far as it exists.
fn look_up(found: PathLookup, script: &mut Script) {
    let (PathLookup::There(node) | PathLookup::In(node) | PathLookup::Beneath(node)) = found;
    if node != Node::ROOT {
        script.open(node.slot());
    }
}

fn missing(path: &[String], expected: &'static str) -> std::result::Result<(), Wrong> {
    Err((format!("\\{} is not there", path.join("\\")), expected))
}

impl ClientTree {
    fn parent(&self, path: &[String]) -> Node {
        match path.split_last().map(|(_, parents)| self.names.find(parents)) {
            Some(PathLookup::There(node)) => node,
            _ => Node::ROOT,
        }
    }

    fn remove(&mut self, (parent, name, node): (Node, &str, Node), script: &mut Script) {
        if self.names.is_directory(node) {
            script.remove_directory(node.slot());
        } else {
            script.remove(node.slot());
        }
        self.names.remove(parent, name);
    }

    /// Makes a file or directory; the file that is there, if any.
    fn make(&mut self, path: &[String], is_directory: bool, script: &mut Script) -> Option<Node> {
        let (PathLookup::In(parent), Some(name)) = (self.names.find(path), path.last()) else { return None };
        let node = self.names.make(parent, name, is_directory);
        if is_directory {
            script.make_directory(node.slot(), parent.slot(), name.as_bytes());
        } else {
            script.create(node.slot(), parent.slot(), name.as_bytes());
        }
        Some(node)
    }

    /// Opens; answers what the handle stands for, if it opens anything.
    fn open(
        &mut self,
        (path, status): (&[String], Status),
        disposition: Disposition,
        is_directory: bool,
        script: &mut Script,
    ) -> std::result::Result<Option<Node>, Wrong> {
        let found = self.names.find(path);
        let node = match found {
            _ if status == Status::Fails => None,
            PathLookup::There(node) => Some(node),
            PathLookup::In(_) if disposition.creates || is_directory => {
                return Ok(self.make(path, is_directory, script));
            }
            _ => None,
        };
        look_up(found, script);
        match node {
            Some(node) => {
                if disposition.truncates && self.names.size(node) > 0 {
                    script.truncate(node.slot(), 0);
                    self.names.set_size(node, 0);
                }
                Ok(Some(node))
            }
            None if status == Status::Succeeds => {
                missing(path, "an operation before that makes it, or a status that says so").map(|()| None)
            }
            None => Ok(None),
        }
    }

    fn rename(&mut self, from: &[String], to: &[String], script: &mut Script) -> std::result::Result<(), Wrong> {
        let (PathLookup::There(node), Some(old), Some(new)) = (self.names.find(from), from.last(), to.last()) else {
            return missing(from, "the path of a file or directory");
        };
        let parent = match self.names.find(to) {
            PathLookup::There(same) if same == node => return Ok(()),
            PathLookup::There(other) if !self.names.is_directory(other) => {
                let parent = self.parent(to);
                self.remove((parent, new, other), script);
                parent
            }
            PathLookup::In(parent) if !to.starts_with(from) => parent,
            _ => {
                return Err((format!("\\{} cannot be its name", to.join("\\")), "a name in a directory that is there"));
            }
        };
        script.rename(node.slot(), parent.slot(), new.as_bytes());
        let old_parent = self.parent(from);
        self.names.rename((old_parent, old), (parent, new));
        Ok(())
    }

    /// Removes a file, or with `is_directory` an empty directory.
    fn unlink(&mut self, path: &[String], is_directory: bool, script: &mut Script) -> std::result::Result<(), Wrong> {
        let (PathLookup::There(node), Some(name)) = (self.names.find(path), path.last()) else {
            return missing(path, "an operation before that makes it, or a status that says so");
        };
        if self.names.is_directory(node) != is_directory || !self.names.is_empty(node) {
            let expected = if is_directory { "an empty directory" } else { "a file" };
            return Err((format!("\\{} is none", path.join("\\")), expected));
        }
        let parent = self.parent(path);
        self.remove((parent, name, node), script);
        Ok(())
    }

    fn delete_tree(&mut self, path: &[String], script: &mut Script) {
        let PathLookup::There(top) = self.names.find(path) else { return };
        for (parent, name, node) in self.names.beneath(top) {
            self.remove((parent, &name, node), script);
        }
        if let Some(name) = path.last() {
            let parent = self.parent(path);
            self.remove((parent, name, top), script);
        }
    }

    fn transfer(&mut self, node: Node, is_write: bool, (offset, length): (u64, u32), script: &mut Script) {
        if length == 0 {
            return;
        }
        if !is_write {
            script.read(node.slot(), offset, length.into());
            return;
        }
        script.write(node.slot(), offset, length.into());
        let end = offset + u64::from(length);
        if end > self.names.size(node) {
            self.names.set_size(node, end);
        }
    }
}

/// A path as a client has it.
fn path_of(load: &Load, client: usize, number: PathNumber) -> Vec<String> {
    let parts = load.paths.get(number.0 as usize).cloned().unwrap_or_default();
    if client == 1 {
        return parts;
    }
    let own = format!("client{client}");
    parts.into_iter().map(|part| if part.contains("client1") { part.replace("client1", &own) } else { part }).collect()
}

/// Does one operation of a client. Errors: what is wrong in the load; nothing is done then.
fn apply(
    volume: &mut ClientTree,
    client: &mut Client,
    (load, line): (&Load, LoadLine),
    script: &mut Script,
) -> std::result::Result<(), Wrong> {
    use LoadOperation as Of;
    let path = |number| path_of(load, client.number, number);
    let status = line.status;
    let outcome = match line.operation {
        Of::Create { path: number, disposition, directory, handle } => {
            let node = volume.open((&path(number), status), disposition, directory, script)?;
            if let (Some(node), true) = (node, handle != u64::MAX) {
                client.handles.insert(handle, node);
            }
            Ok(())
        }
        Of::Query { path: number } => {
            look_up(volume.names.find(&path(number)), script);
            Ok(())
        }
        Of::Find { path: number } => {
            let parts = path(number);
            let parents = parts.split_last().map_or(&[][..], |(_, parents)| parents);
            look_up(volume.names.find(parents), script);
            Ok(())
        }
        Of::DeleteTree { path: number } => {
            volume.delete_tree(&path(number), script);
            Ok(())
        }
        Of::Rename { .. } | Of::Unlink { .. } | Of::MakeDirectory { .. } | Of::RemoveDirectory { .. }
            if status == Status::Fails =>
        {
            Ok(())
        }
        Of::Rename { from, to } => volume.rename(&path(from), &path(to), script),
        Of::Unlink { path: number } => volume.unlink(&path(number), false, script),
        Of::RemoveDirectory { path: number } => volume.unlink(&path(number), true, script),
        Of::MakeDirectory { path: number } => {
            let parts = path(number);
            match volume.names.find(&parts) {
                PathLookup::There(_) => Ok(()),
                PathLookup::In(_) => {
                    volume.make(&parts, true, script);
                    Ok(())
                }
                PathLookup::Beneath(_) => {
                    missing(parts.split_last().map_or(&[], |(_, above)| above), "a directory above it")
                }
            }
        }
        operation => with_handle(volume, client, (operation, status), script),
    };
    if status == Status::Succeeds { outcome } else { Ok(()) }
}

/// Operations on what is open.
fn with_handle(
    volume: &mut ClientTree,
    client: &mut Client,
    (operation, status): (LoadOperation, Status),
    script: &mut Script,
) -> std::result::Result<(), Wrong> {
    use LoadOperation as Of;
    let (Of::Close { handle }
    | Of::Read { handle, .. }
    | Of::Write { handle, .. }
    | Of::Flush { handle }
    | Of::OfHandle { handle }) = operation
    else {
        return Ok(());
    };
    let Some(node) = client.handles.get(&handle).copied() else {
        return Err((format!("the handle {handle} is not open"), "one of an NTCreateX before"));
    };
    // Operations on a file that was deleted while it was open do not reach the volume.
    let is_there = volume.names.is_there(node);
    match operation {
        Of::Close { .. } => {
            client.handles.remove(&handle);
        }
        Of::Flush { .. } if is_there => script.sync(Some(node.slot())),
        Of::Read { offset, length, .. } | Of::Write { offset, length, .. } if is_there && status != Status::Fails => {
            if volume.names.is_directory(node) {
                return Err((format!("the handle {handle} is a directory"), "one of a file"));
            }
            let offset = match offset {
                Offset::At(offset) => offset,
                Offset::Random { align, modulo, plus } => {
                    (client.random.next_u64() / align.max(1) * align).checked_rem(modulo).unwrap_or(0) + plus
                }
            };
            volume.transfer(node, matches!(operation, Of::Write { .. }), (offset, length), script);
        }
        _ => {}
    }
    Ok(())
}

/// One client goes once through the load, so that what is wrong in it is told before anything runs.
#[derive(Debug)]
pub(super) struct Trial<'a> {
    load: &'a Load,
    client: Client,
}

impl<'a> Trial<'a> {
    pub fn new(load: &'a Load, seed: u64) -> Self {
        // Rounds of a LOOP but the first tell nothing new.
        Self { load, client: Client { times_max: 1, ..Client::new(1, 1, seed) } }
    }

    /// The most bytes that the client's files have at a time. Errors: an operation that cannot
    /// succeed as its status says, by its line.
    pub fn run(mut self, file: &str, operations: u64, inputs: &dyn Inputs) -> Result<u64> {
        let mut volume = ClientTree { names: Names::new() };
        let mut script = Script::default();
        let fill = self.load.fill as u64;
        while let Some(line) = self.client.next(self.load) {
            if operations > 0 && self.client.done > operations.saturating_add(fill) {
                break;
            }
            if self.client.done.is_multiple_of(OPERATIONS_PER_QUESTION) && inputs.is_stopped() {
                return Err(WorkloadError::Cancelled { operations: 0 });
            }
            apply(&mut volume, &mut self.client, (self.load, line), &mut script).map_err(|(found, expected)| {
                let (file, line) = (file.to_string(), line.line.into());
                WorkloadError::Trace { file, line, found, expected: expected.to_string() }
            })?;
            while script.next().is_some() {}
        }
        Ok(volume.names.most_bytes)
    }
}

/// All clients on one volume.
#[derive(Debug)]
pub(crate) struct Clients {
    load: Load,
    /// Operations of each client at most, those of the fill among them; 0: no limit.
    operations: u64,
    volume: ClientTree,
    clients: Vec<Client>,
}

impl Clients {
    pub(super) fn new(load: Load, spec: &Dbench, seed: u64) -> Self {
        let clients = (1..=spec.clients as usize).map(|number| Client::new(number, spec.loops, seed)).collect();
        let operations = if spec.operations == 0 { 0 } else { spec.operations.saturating_add(load.fill as u64) };
        Self { load, operations, volume: ClientTree { names: Names::new() }, clients }
    }
}

impl Streams for Clients {
    fn fill(&mut self, step: u64, script: &mut Script) -> bool {
        let fill = self.load.fill as u64;
        if fill == 0 {
            return false;
        }
        let number = step.checked_div(fill).and_then(|number| usize::try_from(number).ok());
        if number.and_then(|number| self.clients.get(number)).is_none() {
            script.sync(None);
            return false;
        }
        self.turn(number.unwrap_or(0), script)
    }

    fn turn(&mut self, stream: usize, script: &mut Script) -> bool {
        let Some(client) = self.clients.get_mut(stream) else { return false };
        if self.operations > 0 && client.done >= self.operations {
            return false;
        }
        let Some(line) = client.next(&self.load) else { return false };
        // An operation that the trial found possible may be impossible if clients share files: then
        // nothing happens, as in dbench.
        let _ = apply(&mut self.volume, client, (&self.load, line), script);
        true
    }

    fn end(&mut self, script: &mut Script) {
        script.sync(None);
    }
}
