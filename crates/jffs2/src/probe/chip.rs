//! JFFS2 on the bare flash of a chip.

use nandkit_flash::{Flash, PageRead};
use nandkit_units::{BlockIndex, Context};

use super::holds_oob_marker;

/// Whether JFFS2 is on the bare flash. It writes nothing to the OOB except cleanmarkers, while
/// translation layers write the OOB of each page. Unreadable pages prove nothing. Cost: a read of
/// each block's first page.
pub fn is_on_chip(chip: &dyn Flash, context: &Context) -> bool {
    let geometry = *chip.geometry();
    let (mut page, mut oob) = (vec![0; geometry.page_size as usize], vec![0; geometry.oob_size as usize]);
    let (mut bare, mut layered) = (0, 0);
    for block in (0..geometry.blocks).map(BlockIndex).filter(|block| !chip.is_bad(*block)) {
        let read = PageRead { oob: &mut oob, ..PageRead::bytes(0, &mut page) };
        if chip.read(context, block.page(0), read).is_err() {
            continue;
        }
        match (nandkit_units::is_erased(&page), nandkit_units::is_erased(&oob), holds_oob_marker(&oob)) {
            (true, true, _) => {}
            (_, true, _) | (_, _, true) => bare += 1,
            _ => layered += 1,
        }
    }
    bare > layered
}
