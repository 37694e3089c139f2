use super::super::error::{Fault, Stop};
use super::super::repeat;

/// Fills `output` from a stream of version 0, or of version 1 (lzo-rle), which its first two bytes
/// indicate.
pub(in super::super) fn decompress(input: &[u8], output: &mut [u8]) -> Result<(), Stop> {
    let mut decoder = Decoder { input, read: 0, output, made: 0, start: (0, 0) };
    decoder.run()
}

struct Decoder<'a> {
    input: &'a [u8],
    read: usize,
    output: &'a mut [u8],
    made: usize,
    /// Input and output positions before the current instruction.
    start: (usize, usize),
}

/// A decoded copy instruction.
struct Copy {
    length: usize,
    distance: usize,
    /// Number of literals right after it, 0 to 3.
    literals: usize,
}

enum Step {
    Copy(Copy),
    Zeroes { length: usize, literals: usize },
    Literals(usize),
    End,
}

impl Decoder<'_> {
    fn stop(&self, fault: Fault) -> Stop {
        Stop::new(fault, self.start.0, self.start.1)
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<usize, Stop> {
        let byte = *self.input.get(self.read).ok_or_else(|| self.stop(Fault::InputEnds))?;
        self.read += 1;
        Ok(usize::from(byte))
    }

    #[inline(always)]
    fn pair(&mut self) -> Result<usize, Stop> {
        Ok(self.byte()? | self.byte()? << 8)
    }

    /// A length field with maximum `most`, or its extension if it is 0. Bounded by 255 times the
    /// input.
    #[inline(always)]
    fn length(&mut self, field: usize, most: usize) -> Result<usize, Stop> {
        if field != 0 {
            return Ok(field);
        }
        let mut length = most;
        loop {
            match self.byte()? {
                0 => length = length.saturating_add(255),
                rest => return Ok(length.saturating_add(rest)),
            }
        }
    }

    fn run(&mut self) -> Result<(), Stop> {
        // A stream of version 0 cannot start with these bytes: as a copy they would have no source.
        let runs = matches!(self.input, [17, 1, _, _, _, ..]);
        if runs {
            self.read = 2;
        }
        // Literals since the last copy; 4 means more.
        let mut state = 0;
        if let Some(count @ 1..) = self.input.get(self.read).and_then(|first| first.checked_sub(17)) {
            self.read += 1;
            state = usize::from(count).min(4);
            self.literals(usize::from(count))?;
        }
        loop {
            self.start = (self.read, self.made);
            match self.step(state, runs)? {
                Step::Copy(Copy { length, distance, literals }) => {
                    self.copy(length, distance)?;
                    state = literals;
                    self.literals(literals)?;
                }
                Step::Zeroes { length, literals } => {
                    let end = self.made.saturating_add(length);
                    let Some(room) = self.output.get_mut(self.made..end) else {
                        return Err(self.stop(Fault::OutputFull));
                    };
                    room.fill(0);
                    self.made = end;
                    state = literals;
                    self.literals(literals)?;
                }
                Step::Literals(count) => {
                    self.literals(count)?;
                    state = 4;
                }
                Step::End => break,
            }
        }
        if self.made < self.output.len() {
            return Err(self.stop(Fault::OutputShort));
        }
        if self.read < self.input.len() {
            return Err(Stop::new(Fault::Trailing, self.read, self.made));
        }
        Ok(())
    }

    #[inline(always)]
    fn step(&mut self, state: usize, runs: bool) -> Result<Step, Stop> {
        let code = self.byte()?;
        let copy = |length, distance, literals| Step::Copy(Copy { length, distance, literals: literals & 3 });
        Ok(match code {
            64.. => {
                let distance = (self.byte()? << 3 | code >> 2 & 7) + 1;
                copy((code >> 5) + 1, distance, code)
            }
            32.. => {
                let length = 2 + self.length(code & 31, 31)?;
                let operand = self.pair()?;
                copy(length, (operand >> 2) + 1, operand)
            }
            16.. => return self.far(code, runs),
            _ if state == 0 => Step::Literals(3 + self.length(code, 15)?),
            _ => {
                let distance = (self.byte()? << 2 | code >> 2) + 1;
                if state == 4 { copy(3, distance + 2048, code) } else { copy(2, distance, code) }
            }
        })
    }

    /// Decodes the instruction of far copies, of the end, and, in version 1, of zeroes.
    fn far(&mut self, code: usize, runs: bool) -> Result<Step, Stop> {
        if runs && code & 8 != 0 {
            // Checked before the length's extension, as Linux does; its compressor avoids copies
            // that would look the same.
            if let Some(&[low, 0xFF, eights]) = self.input.get(self.read..self.read + 3)
                && low >= 0xFC
            {
                self.read += 3;
                let length = (usize::from(eights) << 3 | code & 7) + 4;
                return Ok(Step::Zeroes { length, literals: usize::from(low & 3) });
            }
        }
        let length = 2 + self.length(code & 7, 7)?;
        let operand = self.pair()?;
        let back = (code & 8) << 11 | operand >> 2;
        if back == 0 {
            return if length == 3 { Ok(Step::End) } else { Err(self.stop(Fault::Corrupt)) };
        }
        Ok(Step::Copy(Copy { length, distance: 0x4000 + back, literals: operand & 3 }))
    }

    #[inline(always)]
    fn literals(&mut self, count: usize) -> Result<(), Stop> {
        let (from, to) = (self.read.saturating_add(count), self.made.saturating_add(count));
        // Usually there are few literals: a copy of fixed length is faster than one of the exact
        // length, and the excess is overwritten.
        if count <= 16
            && let Some(bytes) = self.input.get(self.read..).and_then(|rest| rest.first_chunk::<16>())
            && let Some(room) = self.output.get_mut(self.made..).and_then(|rest| rest.first_chunk_mut::<16>())
        {
            *room = *bytes;
        } else {
            let Some(bytes) = self.input.get(self.read..from) else { return Err(self.stop(Fault::InputEnds)) };
            let Some(room) = self.output.get_mut(self.made..to) else { return Err(self.stop(Fault::OutputFull)) };
            room.copy_from_slice(bytes);
        }
        (self.read, self.made) = (from, to);
        Ok(())
    }

    #[inline(always)]
    fn copy(&mut self, length: usize, distance: usize) -> Result<(), Stop> {
        let Some(source) = self.made.checked_sub(distance) else {
            return Err(self.stop(Fault::Distance { distance }));
        };
        let end = self.made.saturating_add(length);
        if end > self.output.len() {
            return Err(self.stop(Fault::OutputFull));
        }
        if length <= 16
            && distance >= 16
            && let Some(&bytes) = self.output.get(source..).and_then(|rest| rest.first_chunk::<16>())
            && let Some(room) = self.output.get_mut(self.made..).and_then(|rest| rest.first_chunk_mut::<16>())
        {
            *room = bytes;
        } else {
            repeat(self.output, source, self.made, end);
        }
        self.made = end;
        Ok(())
    }
}
