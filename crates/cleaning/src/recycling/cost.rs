//! The cost functions of merge and migration, and their macroscopic optimum.

/// Unit costs of a chip and the functions built on them. Any unit of time will do if all costs use
/// it.
///
/// P4 leaves the map page of each recycling out of its formulas ("a very small part"); `map = 0`
/// gives exactly those, any other value adds that cost to every recycling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// `C_E`: erasing a block.
    pub erase: f64,
    /// `C_cp`: copying a page, by copyback or by read and program.
    pub copy: f64,
    /// The cost of the map pages that each recycling writes.
    pub map: f64,
    /// `Np`: pages per block.
    pub pages_per_block: u32,
}

impl Costs {
    /// P4's chip (K9L8G08U0M, table 1) in milliseconds, without map pages.
    pub const P4: Self = Self { erase: 1.5, copy: 1.128, map: 0.0, pages_per_block: 128 };

    fn np(&self) -> f64 {
        f64::from(self.pages_per_block)
    }

    /// The cost of every recycling besides copies: one erase and the map pages.
    fn fixed(&self) -> f64 {
        self.erase + self.map
    }

    /// `C_merge`: the erase of the target, the erase of the next log block, and a copy of every
    /// page.
    pub fn merge(&self) -> f64 {
        2.0 * self.erase + self.np() * self.copy + self.map
    }

    /// `C_mig(p)`: the erase of the new log block, and a copy of its `p` valid pages.
    pub fn migration(&self, p: f64) -> f64 {
        self.fixed() + p * self.copy
    }

    /// `W_merge`: the cost of a merge per page that it makes writable.
    pub fn merge_per_page(&self) -> f64 {
        self.merge() / self.np()
    }

    /// `W_mig(p)`: the cost of a migration per page that it makes writable; infinite if it makes
    /// none.
    pub fn migration_per_page(&self, p: f64) -> f64 {
        if p < self.np() { self.migration(p) / (self.np() - p) } else { f64::INFINITY }
    }

    /// The `p` at which a migration costs as much per page as a merge: `Np / 2` without map pages,
    /// slightly less with them.
    pub fn equilibrium(&self) -> f64 {
        let merge = self.merge();
        let denominator = merge + self.np() * self.copy;
        if denominator > 0.0 { self.np() * (merge - self.fixed()) / denominator } else { self.np() / 2.0 }
    }

    /// `W(n)`: the cost per writable page of `n` migrations that copy `alpha`, `2 alpha`, ... `n
    /// alpha` pages, followed by one merge. Infinite if they leave no writable page.
    pub fn period_per_page(&self, alpha: f64, n: f64) -> f64 {
        let half = alpha / 2.0;
        let numerator = half * self.copy * n * n + (half * self.copy + self.fixed()) * n + self.merge();
        let denominator = -half * n * n + (self.np() - half) * n + self.np();
        if denominator > 0.0 { numerator / denominator } else { f64::INFINITY }
    }

    /// `n0`: the real number of migrations that minimises [`Costs::period_per_page`]; 0 if an
    /// immediate merge is best. `None` for `alpha <= 0` (or NaN): without growth every further
    /// migration lowers the average, and there is no minimum.
    pub fn optimum(&self, alpha: f64) -> Option<f64> {
        if alpha.is_nan() || alpha <= 0.0 {
            return None;
        }
        // The numerator of dW/dn: P4 section 5, with the map pages included in C_E and C_merge.
        let (np, merge) = (self.np(), self.merge());
        let a = alpha / 2.0 * (self.fixed() + self.copy * np);
        let b = alpha * (self.copy * np + merge);
        let c = (alpha * self.copy * np + alpha * merge) / 2.0 + np * self.fixed() - np * merge;
        if c >= 0.0 || a <= 0.0 {
            return Some(0.0);
        }
        // a > 0 and c < 0: exactly one positive root. This form avoids cancellation.
        Some(-2.0 * c / (b + (b * b - 4.0 * a * c).sqrt()))
    }

    /// The whole number of migrations that minimises [`Costs::period_per_page`]; `None` as for
    /// [`Costs::optimum`].
    pub fn best_migrations(&self, alpha: f64) -> Option<u64> {
        let floor = self.optimum(alpha)?.floor();
        let up = self.period_per_page(alpha, floor + 1.0) < self.period_per_page(alpha, floor);
        Some(floor as u64 + u64::from(up))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p4_figures_come_out_exactly() {
        let costs = Costs::P4;
        assert!((costs.merge() - (3.0 + 128.0 * 1.128)).abs() < 1e-9);
        assert!((costs.equilibrium() - 64.0).abs() < 1e-9);
        assert!((costs.migration_per_page(64.0) - costs.merge_per_page()).abs() < 1e-9);
        let n0 = costs.optimum(0.1).unwrap();
        assert!((n0 - 48.6).abs() < 0.05, "{n0}");
        assert_eq!(costs.best_migrations(0.1), Some(49));
        let share = costs.period_per_page(0.1, 49.0) / costs.merge_per_page();
        assert!((share * 100.0 - 4.97).abs() < 0.005, "{share}");
    }

    /// `W(n)` summed term by term, as P4 defines it before the closed form.
    fn period_by_sum(costs: &Costs, alpha: f64, n: u64) -> f64 {
        let np = f64::from(costs.pages_per_block);
        let cost: f64 = (1..=n).map(|k| costs.migration(alpha * k as f64)).sum::<f64>() + costs.merge();
        let pages: f64 = (1..=n + 1).map(|k| np - alpha * (k - 1) as f64).sum();
        cost / pages
    }

    #[test]
    fn the_closed_forms_equal_brute_force() {
        let chips = [
            Costs::P4,
            Costs { map: 1.013, ..Costs::P4 },
            Costs { erase: 2.0, copy: 0.325, map: 0.0, pages_per_block: 64 },
            Costs { erase: 10.0, copy: 0.1, map: 0.3, pages_per_block: 16 },
        ];
        for costs in chips {
            for alpha in [0.01, 0.05, 0.1, 0.3, 1.0, 2.5, 7.0] {
                let limit = (f64::from(costs.pages_per_block) / alpha) as u64;
                for n in (0..limit).step_by(7) {
                    let (sum, closed) = (period_by_sum(&costs, alpha, n), costs.period_per_page(alpha, n as f64));
                    assert!((sum - closed).abs() <= 1e-9 * sum, "{costs:?} alpha {alpha} n {n}: {sum} {closed}");
                }
                let brute = (0..limit.max(1))
                    .min_by(|a, b| period_by_sum(&costs, alpha, *a).total_cmp(&period_by_sum(&costs, alpha, *b)));
                assert_eq!(costs.best_migrations(alpha), brute, "{costs:?} alpha {alpha}");
            }
        }
    }

    #[test]
    fn the_equilibrium_is_where_the_costs_cross() {
        for map in [0.0, 0.5, 1.013, 20.0] {
            let costs = Costs { map, ..Costs::P4 };
            let p = costs.equilibrium();
            assert!((costs.migration_per_page(p) - costs.merge_per_page()).abs() < 1e-9, "{map}");
            assert!(p <= 64.0 + 1e-9);
        }
    }

    #[test]
    fn edges_are_defined() {
        assert_eq!(Costs::P4.optimum(0.0), None);
        assert_eq!(Costs::P4.optimum(-1.0), None);
        assert_eq!(Costs::P4.optimum(f64::NAN), None);
        assert_eq!(Costs::P4.best_migrations(1e6), Some(0));
        assert_eq!(Costs::P4.migration_per_page(128.0), f64::INFINITY);
        let free = Costs { erase: 0.0, copy: 0.0, map: 0.0, pages_per_block: 4 };
        assert_eq!(free.equilibrium(), 2.0);
        assert_eq!(free.best_migrations(0.5), Some(0));
    }
}
