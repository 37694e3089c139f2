//! The named rules. Each has its own file; its line in `RULES` makes its name known.

mod age;
mod age_threshold;
mod cat;
mod cat_chiang;
mod cost_age;
mod cost_benefit;
mod cost_benefit_p1;
mod d_choices;
mod f2fs_cost_benefit;
mod fifo;
pub mod greedy;
mod greedy_by_lot;
pub mod jffs2_lists;
pub mod most_gain;
mod p2_baseline;
mod random;
mod wear_aware;
mod windowed_greedy;

use super::rule::VictimRule;

/// All rules in the order of listings.
pub(super) static RULES: &[&dyn VictimRule] = &[
    &jffs2_lists::Jffs2Lists,
    &p2_baseline::P2Baseline,
    &fifo::Fifo,
    &greedy::Greedy,
    &greedy_by_lot::GreedyByLot,
    &cost_benefit::CostBenefit,
    &cost_benefit_p1::CostBenefitP1,
    &f2fs_cost_benefit::F2fsCostBenefit,
    &cat::Cat,
    &cat_chiang::CatChiang,
    &d_choices::DChoices,
    &random::Random,
    &windowed_greedy::WindowedGreedy,
    &age_threshold::AgeThreshold,
    &wear_aware::WearAware,
    &most_gain::MostGain,
];
