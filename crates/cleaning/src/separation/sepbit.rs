//! The inference of SepBIT: Qiuping Wang, Jinhong Li, Patrick P. C. Lee, Tao Ouyang, Chao Shi,
//! Lilong Huang: "Separating Data via Block Invalidation Time Inference for Write Amplification
//! Reduction in Log-Structured Storage", FAST 2022, Algorithm 1.

/// The number of cleaned blocks of region 0 per mean.
const BLOCKS: u64 = 16;

/// The learned state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SepBit {
    /// The sum of `BLOCKS` lifespans in user writes; `None` means infinite.
    mean_times_blocks: Option<u64>,
    sum: u64,
    blocks: u64,
}

impl SepBit {
    /// Whether `span` is below `times` mean lifespans. In whole numbers: both sides carry the
    /// factor [`BLOCKS`].
    fn under(&self, span: u64, times: u64) -> bool {
        self.mean_times_blocks
            .is_none_or(|mean| u128::from(span) * u128::from(BLOCKS) < u128::from(mean) * u128::from(times))
    }

    /// The region for a user write that replaces a version of this lifespan.
    pub(super) fn on_write(&self, lifespan: Option<u64>) -> u8 {
        u8::from(!lifespan.is_some_and(|lifespan| self.under(lifespan, 1)))
    }

    /// The region for a version that cleaning moves.
    pub(super) fn on_clean(&self, from: u8, age: u64) -> u8 {
        if from == 0 {
            2
        } else if self.under(age, 4) {
            3
        } else if self.under(age, 16) {
            4
        } else {
            5
        }
    }

    /// Notes the cleaning of a block that was opened `lifespan` ago.
    pub(super) fn on_victim(&mut self, region: u8, lifespan: u64) {
        if region != 0 {
            return;
        }
        (self.sum, self.blocks) = (self.sum.saturating_add(lifespan), self.blocks + 1);
        if self.blocks == BLOCKS {
            self.mean_times_blocks = Some(self.sum);
            (self.sum, self.blocks) = (0, 0);
        }
    }
}
