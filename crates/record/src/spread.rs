//! The confidence interval of a mean.

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom (any table of the
/// distribution).
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The mean of these values; `None` for an empty slice.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Half the width of the 95 % confidence interval of the mean of these values, by Student's t;
/// `None` for fewer than three values. The values are taken to be independent.
pub fn half_width_95(values: &[f64]) -> Option<f64> {
    let count = values.len();
    let mean = mean(values).filter(|_| count >= 3)?;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    Some(T_95.get(count - 2).copied().unwrap_or(1.96) * (variance / count as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // 1, 2, 3: s = 1, standard error 0.577, t(2) = 4.303
        assert!((half_width_95(&[1.0, 2.0, 3.0]).unwrap() - 2.4843).abs() < 1e-3);
        assert_eq!((half_width_95(&[1.0, 2.0]), mean(&[])), (None, None));
        assert!(half_width_95(&[4.0; 40]).unwrap() == 0.0);
    }
}
