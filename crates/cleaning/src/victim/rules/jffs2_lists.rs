//! The lists of JFFS2 in Linux 6.1 (`fs/jffs2/gc.c`).

use crate::victim::{Candidates, Choice, Draw, OptionValues, Queue, Reason, VictimRule};

/// Takes a block of `BadUsed` if there is one; else a draw `n` of `0..128` (the kernel takes its
/// tick count modulo 128) picks the list: under 50 `Erasable`, under 110 `VeryDirty`, under 126
/// `Dirty`, each if it is not empty, else `Clean`. If that is empty too: `Dirty`, `VeryDirty`,
/// `Erasable`, in this order. The victim is the list's head.
#[derive(Clone, Copy, Debug)]
pub struct Jffs2Lists;

impl VictimRule for Jffs2Lists {
    fn name(&self) -> &'static str {
        "jffs2-lists"
    }

    fn old_name(&self) -> Option<&'static str> {
        Some("linux")
    }

    fn about(&self) -> &'static str {
        "JFFS2 in Linux: a draw picks the list, its head is the victim"
    }

    fn choose(&self, candidates: &Candidates<'_>, _: &OptionValues, draw: &mut Draw<'_>) -> Option<Choice> {
        use Queue::{BadUsed, Clean, Dirty, Erasable, VeryDirty};
        let n = draw(128);
        let mut heads: [Option<(i64, u32)>; 5] = [None; 5];
        candidates.for_each(|view| {
            let (head, here) = (&mut heads[view.queue as usize], (view.place, view.block));
            *head = Some(head.map_or(here, |head| head.min(here)));
        });
        let by_draw = [(BadUsed, true), (Erasable, n < 50), (VeryDirty, n < 110), (Dirty, n < 126), (Clean, true)];
        let fall_back = [(Dirty, true), (VeryDirty, true), (Erasable, true)];
        by_draw.into_iter().chain(fall_back).filter(|&(_, asked)| asked).find_map(|(queue, _)| {
            let (_, block) = heads[queue as usize]?;
            Some(Choice { block, reason: Reason::Head(queue), evaluated: 1 })
        })
    }

    fn opens_clean(&self) -> bool {
        true
    }

    fn needs_lists(&self) -> bool {
        true
    }

    fn draws_from_ticks(&self) -> bool {
        true
    }
}
