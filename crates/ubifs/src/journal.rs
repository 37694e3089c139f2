//! The log: which LEBs hold nodes that the index of the last commit does not know (facts: Linux
//! `fs/ubifs/replay.c`, `replay_log_leb`).

use nandkit_vfs::Result;
use nandkit_vfs::check::{Finding, Findings};

use crate::damage::{self, DamageKind};
use crate::layout::{CommitStart, LOG_LEB, Master, Reference, Superblock, node_type};
use crate::lebs::Lebs;
use crate::node::{Node, Place};
use crate::walk::{Rest, nodes_of};

/// What the log says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// The buds since the last commit, in the order in which the log names them.
    pub buds: Vec<Reference>,
    /// The LEB in which the log ends, and where its nodes end; `None` if the log does not begin
    /// with the last commit.
    pub end: Option<(u32, u32)>,
    /// Whether something else than erased flash stands behind its nodes.
    pub is_torn: bool,
    /// The highest sequence number in it.
    pub sequence: u64,
    /// The start of the commit, and the first reference to each bud, as they stand on the flash.
    pub nodes: Vec<Vec<u8>>,
}

/// Reads the log since the last commit; tells what is damaged. Cost: a read per LEB of the log.
pub(crate) fn read(lebs: &dyn Lebs, superblock: &Superblock, master: &Master, findings: &mut Findings) -> Result<Log> {
    let log_lebs = superblock.log_lebs.get().min(lebs.leb_count());
    let first = master.log_leb.get();
    let lost = |findings: &mut Findings| {
        let detail = format!("the log does not begin in LEB {first} with commit {}", master.commit);
        findings.add(Finding::new(DamageKind::Journal, detail));
    };
    if !(LOG_LEB..LOG_LEB.saturating_add(log_lebs)).contains(&first) {
        lost(findings);
        return Ok(Log::default());
    }
    let (mut log, mut commit) = (Log::default(), None);
    for index in 0..log_lebs {
        let leb = LOG_LEB + (first - LOG_LEB + index) % log_lebs;
        let nodes = nodes_of(lebs, leb, 0)?;
        let begin = nodes.list.first().map(|(_, node)| node);
        let rest = nodes.rest(superblock.min_io_size.get());
        match (commit, begin) {
            (None, Some(start)) if begins_commit(start, master) => commit = Some(start.sequence),
            (None, _) => {
                lost(findings);
                break;
            }
            (Some(_), None) => {
                log.is_torn |= rest != Rest::Erased;
                tell_rest(lebs, leb, rest, findings);
                break;
            }
            // What the log held before it went round.
            (Some(commit), Some(start)) if start.sequence < commit => break,
            (Some(_), Some(_)) => {}
        }
        log.end = Some((leb, nodes.end()));
        log.is_torn |= rest != Rest::Erased;
        tell_rest(lebs, leb, rest, findings);
        log.sequence = nodes.list.iter().map(|(_, node)| node.sequence).fold(log.sequence, u64::max);
        for (offset, node) in &nodes.list {
            let bytes = nodes.bytes().get(*offset as usize..(*offset + node.length()) as usize).unwrap_or_default();
            let reference = node.body::<Reference>().filter(|_| node.node_type == node_type::REFERENCE);
            match reference {
                // A commit that was cut off names the buds of its heads again.
                Some((reference, _)) if !log.buds.iter().any(|bud| bud.leb == reference.leb) => {
                    log.buds.push(reference);
                    log.nodes.push(bytes.to_vec());
                }
                None if log.nodes.is_empty() => log.nodes.push(bytes.to_vec()),
                _ => {}
            }
        }
    }
    Ok(log)
}

/// Whether a node of the log starts the commit of the master node.
fn begins_commit(start: &Node, master: &Master) -> bool {
    let body = start.body::<CommitStart>().filter(|_| start.node_type == node_type::COMMIT_START);
    body.is_some_and(|(body, _)| body.commit == master.commit)
}

/// Tells what stands behind the nodes of a LEB.
pub(crate) fn tell_rest(lebs: &dyn Lebs, leb: u32, rest: Rest, findings: &mut Findings) {
    let (kind, offset, detail) = match rest {
        Rest::Erased => return,
        Rest::Torn(at) => (DamageKind::TornJournal, at, "the last write was cut: it does not count"),
        Rest::Damaged(at) => (DamageKind::Journal, at, "what stands from here on cannot be read"),
    };
    let detail = format!("LEB {leb} of the journal: {detail}");
    findings.add(damage::at(kind, lebs, Place { leb, offset, length: 0 }, &detail));
}
