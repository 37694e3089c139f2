//! Requests in parts, for devices without special support for them.

use nandkit_units::{Assembly, Content, Context, Done, Lba, Payload, ReadInto};

use crate::check::check_unit;
use crate::{BlockDevice, Result};

/// Makes one read, and distributes it over the contents.
pub(crate) fn read<D: BlockDevice + ?Sized>(
    device: &D,
    context: &Context,
    at: Lba,
    unit: u32,
    into: &mut [Content],
) -> Result<Done> {
    let length = check_unit(device.geometry(), at, unit, into.len())?;
    if let [one] = into {
        return device.read(context, at, ReadInto::Content { content: one, length });
    }
    let mut whole = Content::new();
    let done = device.read(context, at, ReadInto::Content { content: &mut whole, length })?;
    whole.deal(unit, into);
    Ok(done)
}

/// Joins the parts and makes one write.
pub(crate) fn write(parts: &[Payload<'_>], write: impl FnOnce(Payload<'_>) -> Result<Done>) -> Result<Done> {
    match parts {
        [one] => write(*one),
        parts => write(Payload::joined(parts, &mut Assembly::new())),
    }
}
