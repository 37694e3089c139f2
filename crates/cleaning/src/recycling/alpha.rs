//! Estimates online how fast the number of pages copied by migrations grows.

/// How `alpha` in `P_n = alpha * n` is estimated from the pages `p` of one macroscopic period (from
/// one merge of a block to the next).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AlphaEstimator {
    /// `P_n / n`: P4's law taken literally. One sample is enough. A block that starts with many
    /// pages (event recorder) gets a large `alpha`, and hence an early merge that frees them.
    #[default]
    Origin,
    /// The least-squares slope of `p` over `n` with a free intercept. Needs two samples. It sees
    /// only growth: a block that starts with many pages and stays flat has `alpha = 0`, however
    /// many it copies each time.
    Regression,
}

/// The pages `p` of the recyclings of one macroscopic period, as the sums that the estimators need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeriodHistory {
    count: u64,
    last: u32,
    sum_p: f64,
    sum_np: f64,
}

impl PeriodHistory {
    /// Adds the `p` of the period's next migration.
    pub fn push(&mut self, p: u32) {
        self.count += 1;
        self.last = p;
        self.sum_p += f64::from(p);
        self.sum_np += self.count as f64 * f64::from(p);
    }

    /// This history with one more sample: the migration under consideration.
    pub fn with(mut self, p: u32) -> Self {
        self.push(p);
        self
    }

    /// The number of samples.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The estimate; `None` with too few samples.
    pub fn alpha(&self, estimator: AlphaEstimator) -> Option<f64> {
        let n = self.count as f64;
        match estimator {
            AlphaEstimator::Origin if self.count >= 1 => Some(f64::from(self.last) / n),
            AlphaEstimator::Regression if self.count >= 2 => {
                // Sums of k and of k^2 for k = 1..n in closed form.
                let (sum_n, sum_nn) = (n * (n + 1.0) / 2.0, n * (n + 1.0) * (2.0 * n + 1.0) / 6.0);
                Some((n * self.sum_np - sum_n * self.sum_p) / (n * sum_nn - sum_n * sum_n))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(p: impl IntoIterator<Item = u32>) -> PeriodHistory {
        p.into_iter().fold(PeriodHistory::default(), PeriodHistory::with)
    }

    #[test]
    fn both_find_a_line_through_the_origin() {
        let line = history((1..=20).map(|n| 3 * n));
        assert_eq!(line.alpha(AlphaEstimator::Origin), Some(3.0));
        assert!((line.alpha(AlphaEstimator::Regression).unwrap() - 3.0).abs() < 1e-12);
    }

    #[test]
    fn they_differ_on_a_flat_start() {
        let flat = history([60; 10]);
        assert_eq!(flat.alpha(AlphaEstimator::Origin), Some(6.0));
        assert_eq!(flat.alpha(AlphaEstimator::Regression), Some(0.0));
    }

    #[test]
    fn regression_equals_the_textbook_sum() {
        let p = [4u32, 4, 5, 7, 6, 9, 11];
        let n = p.len() as f64;
        let mean_n = (n + 1.0) / 2.0;
        let mean_p = p.iter().map(|&p| f64::from(p)).sum::<f64>() / n;
        let (mut covariance, mut variance) = (0.0, 0.0);
        for (index, &p) in p.iter().enumerate() {
            let d = index as f64 + 1.0 - mean_n;
            covariance += d * (f64::from(p) - mean_p);
            variance += d * d;
        }
        let slope = history(p).alpha(AlphaEstimator::Regression).unwrap();
        assert!((slope - covariance / variance).abs() < 1e-12);
    }

    #[test]
    fn too_few_samples_give_none() {
        assert_eq!(history([]).alpha(AlphaEstimator::Origin), None);
        assert_eq!(history([5]).alpha(AlphaEstimator::Regression), None);
        assert_eq!(history([5]).alpha(AlphaEstimator::Origin), Some(5.0));
    }
}
