use super::copy::Form;

/// Writes instructions into a bounded buffer; each step returns `None` when the buffer is full.
pub(super) struct Emitter<'a> {
    output: &'a mut [u8],
    made: usize,
    /// Literals since the last copy; 4 means more.
    literals: u32,
}

impl<'a> Emitter<'a> {
    pub(super) const fn new(output: &'a mut [u8]) -> Self {
        Self { output, made: 0, literals: 0 }
    }

    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.made + bytes.len();
        self.output.get_mut(self.made..end)?.copy_from_slice(bytes);
        self.made = end;
        Some(())
    }

    /// Writes the part of a length beyond what its instruction holds: 255 for each zero, then the
    /// rest, which is not zero.
    fn extend(&mut self, mut beyond: usize) -> Option<()> {
        while beyond > 255 {
            self.put(&[0])?;
            beyond -= 255;
        }
        self.put(&[beyond as u8])
    }

    /// Writes all literals up to the next copy. Call it once between two copies.
    pub(super) fn literals(&mut self, bytes: &[u8]) -> Option<()> {
        match bytes.len() {
            0 => return Some(()),
            count @ 1..=238 if self.made == 0 => self.put(&[count as u8 + 17])?,
            count @ 1..=3 => {
                // They are the two low bits of the second-last byte of every copy.
                *self.output.get_mut(self.made.checked_sub(2)?)? |= count as u8;
            }
            count @ 4..=18 => self.put(&[count as u8 - 3])?,
            count => {
                self.put(&[0])?;
                self.extend(count - 18)?;
            }
        }
        self.literals = bytes.len().min(4) as u32;
        self.put(bytes)
    }

    /// Writes a copy of `length` bytes from `distance` back.
    pub(super) fn copy(&mut self, length: usize, distance: usize) -> Option<()> {
        // The casts below keep the low bits; the forms limit the bits above.
        match Form::of(length, distance, self.literals)? {
            Form::Pair => self.short(0, distance - 1, 2)?,
            Form::Triple => self.short(0, distance - 2049, 2)?,
            Form::Near => {
                let kind = (length - 1) << 5;
                self.short(kind as u8, distance - 1, 3)?;
            }
            Form::Middle => self.long(32, 31, length, distance - 1)?,
            Form::Far => {
                let back = distance - 0x4000;
                self.long(16 | (back >> 11 & 8) as u8, 7, length, back)?;
            }
        }
        self.literals = 0;
        Some(())
    }

    /// Writes two bytes: the low `bits` of the distance in the first, the rest in the second.
    fn short(&mut self, kind: u8, distance: usize, bits: u32) -> Option<()> {
        let low = distance & ((1 << bits) - 1);
        self.put(&[kind | (low << 2) as u8, (distance >> bits) as u8])
    }

    /// Writes three bytes and the extension of the length. `field` is the maximum of the
    /// instruction's length field.
    fn long(&mut self, kind: u8, field: usize, length: usize, distance: usize) -> Option<()> {
        if length - 2 <= field {
            self.put(&[kind | (length - 2) as u8])?;
        } else {
            self.put(&[kind])?;
            self.extend(length - 2 - field)?;
        }
        self.put(&((distance << 2) as u16).to_le_bytes())
    }

    /// Writes the end mark; returns the number of bytes written.
    pub(super) fn finish(mut self) -> Option<usize> {
        self.put(&[0x11, 0, 0])?;
        Some(self.made)
    }
}
