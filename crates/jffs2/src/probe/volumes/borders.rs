//! Finding the borders between volumes of the same byte order.

use std::cmp::Ordering;

use crate::probe::erase_size::greatest_common_divisor;

/// This many contradictions, at least one of them between names, prove two volumes; fewer may be
/// one volume's own.
const CONFLICTS_MIN: usize = 2;

/// A possible beginning of a volume: a node at a multiple of the smallest erase size, after
/// something other than a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    pub(super) at: u64,
    /// Length in bytes of what precedes it.
    pub(super) gap: u64,
    /// Whether some of these bytes are not blank.
    pub(super) is_foreign: bool,
}

/// Two valid nodes that contradict each other about one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) earlier: u64,
    pub(super) later: u64,
    /// Whether they concern a directory's names rather than an inode's content.
    pub(super) is_name: bool,
}

/// The first byte of another volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Border {
    pub(super) at: u64,
    /// End of the last node of the volume before it.
    pub(super) before: u64,
    pub(super) doubt: Option<String>,
}

/// Whether contradictory nodes come from two volumes rather than from a fault of one.
pub(super) fn are_two_volumes(conflicts: &[Conflict]) -> bool {
    conflicts.len() >= CONFLICTS_MIN && conflicts.iter().any(|conflict| conflict.is_name)
}

/// The fewest borders that explain all contradictions, in ascending order: each contradictory pair
/// must have a border between its nodes.
pub(super) fn borders(conflicts: Vec<Conflict>, openings: &[Opening]) -> Vec<Border> {
    let mut rest = of_two_volumes(conflicts);
    let lowest = lowest_places(&rest);
    let all_end = rest.iter().map(|conflict| conflict.later).max().unwrap_or(0);
    let mut found: Vec<Border> = Vec::new();
    for (index, lowest_place) in lowest.iter().enumerate() {
        let Some(last) = rest.iter().map(|conflict| conflict.later).min() else { break };
        let start = found.last().map_or(0, |border| border.at);
        // Bytes that may lie after the next border show another volume's blocks.
        let end = lowest.get(index + 1).map_or(all_end, |next| last.max(*next));
        let near = openings.iter().filter(|opening| (start..=end).contains(&opening.at)).copied();
        let border = border(*lowest_place, last, &near.collect::<Vec<_>>());
        rest.retain(|conflict| conflict.earlier >= border.at);
        found.push(border);
    }
    found
}

/// Removes the contradictions within one volume.
fn of_two_volumes(mut conflicts: Vec<Conflict>) -> Vec<Conflict> {
    conflicts.sort_by_key(|conflict| conflict.later);
    let mut kept = Vec::new();
    while let Some(last) = conflicts.first().map(|first| first.later) {
        let (explained, others): (Vec<Conflict>, Vec<Conflict>) =
            conflicts.into_iter().partition(|conflict| conflict.earlier < last);
        conflicts = others;
        if are_two_volumes(&explained) {
            kept.extend(explained);
        }
    }
    kept
}

/// The lower bound of each of the fewest borders, in ascending order, if all following ones explain
/// as much as possible.
fn lowest_places(conflicts: &[Conflict]) -> Vec<u64> {
    let mut rest: Vec<&Conflict> = conflicts.iter().collect();
    rest.sort_by_key(|conflict| std::cmp::Reverse(conflict.earlier));
    let mut found = Vec::new();
    while let Some(place) = rest.first().map(|first| first.earlier) {
        rest.retain(|conflict| conflict.later <= place);
        found.push(place);
    }
    found.reverse();
    found
}

/// The border after `first` and up to `last`: where a node begins a block after foreign bytes; else
/// where the distance of blocks changes; else at the roundest position, which is a guess.
fn border(first: u64, last: u64, openings: &[Opening]) -> Border {
    let is_possible = |opening: &&Opening| opening.at > first && opening.at <= last;
    let possible: Vec<&Opening> = openings.iter().filter(is_possible).collect();
    let of = |opening: &Opening| Border { at: opening.at, before: opening.at - opening.gap, doubt: None };
    let foreign = possible.iter().filter(|opening| opening.is_foreign).max_by_key(|opening| opening.gap);
    if let Some(certain) = foreign.or(if possible.len() == 1 { possible.first() } else { None }) {
        return of(certain);
    }
    let (Some(low), Some(high)) = (possible.first(), possible.last()) else {
        return Border { at: last, before: last, doubt: None };
    };
    if let Some(change) = change_of_distance(&possible, openings) {
        return of(change);
    }
    let roundest = possible.iter().max_by_key(|opening| opening.at.trailing_zeros()).unwrap_or(low);
    let doubt = format!(
        "two volumes meet between {:#x} and {:#x}: which of the blocks there belong to which is not proven; {:#x} is taken, the roundest of these, and files in them may be missing or the other volume's",
        low.at, high.at, roundest.at
    );
    Border { doubt: Some(doubt), ..of(roundest) }
}

/// Where blocks of one size end and blocks of another begin; `None` if both sides have the same
/// size.
fn change_of_distance<'a>(possible: &[&'a Opening], openings: &[Opening]) -> Option<&'a Opening> {
    let distance = |sides: &mut dyn Iterator<Item = u64>| {
        let mut places = sides.peekable();
        let mut common = 0;
        while let Some(place) = places.next() {
            common = places.peek().map_or(common, |next| greatest_common_divisor(common, next.abs_diff(place)));
        }
        common
    };
    let sides = |opening: &&Opening| {
        let at = opening.at;
        let left = distance(&mut openings.iter().map(|other| other.at).filter(|other| *other <= at));
        let right = distance(&mut openings.iter().map(|other| other.at).filter(|other| *other >= at));
        (left, right)
    };
    let judged: Vec<(&'a Opening, (u64, u64))> = possible
        .iter()
        .map(|opening| (*opening, sides(opening)))
        .filter(|(_, (left, right))| *left > 0 && *right > 0)
        .collect();
    let best = judged.iter().map(|(_, (left, right))| left.saturating_mul(*right)).max()?;
    let mut fitting = judged.iter().filter(|(_, (left, right))| left.saturating_mul(*right) == best);
    let (first, (left, right)) = fitting.clone().next()?;
    match left.cmp(right) {
        Ordering::Greater => fitting.next_back().map(|(opening, _)| *opening),
        Ordering::Less => Some(first),
        Ordering::Equal => None,
    }
}
