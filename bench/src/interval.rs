// SPDX-License-Identifier: Apache-2.0
//! A ratio of things that were measured in turn, and how far it can be trusted.

/// The geometric mean of ratios, and where it lies with a confidence of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    /// Not less than this; 0 if there are too few to tell.
    pub(crate) low: f64,
    /// Not more than this; infinite if there are too few to tell.
    pub(crate) high: f64,
}

/// Student's t at 97.5 %, for 1, 2, 3 and so on degrees of freedom; beyond them the normal distribution's is near.
const T_VALUES: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
const NORMAL_VALUE: f64 = 1.96;

impl Estimate {
    /// That of parts to wholes, each pair measured one right behind the other. Pairs with nothing in them say nothing and are left
    /// out. The logarithms of the ratios are taken to be normally distributed and independent of each other.
    pub(crate) fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let pairs = pairs.into_iter().filter(|(part, whole)| *part > 0.0 && *whole > 0.0);
        let logarithms: Vec<f64> = pairs.map(|(part, whole)| (part / whole).ln()).collect();
        let count = logarithms.len();
        if count == 0 {
            return Self { mean: 0.0, low: 0.0, high: f64::INFINITY };
        }
        let mean = logarithms.iter().sum::<f64>() / count as f64;
        if count == 1 {
            return Self { mean: mean.exp(), low: 0.0, high: f64::INFINITY };
        }
        let freedom = count - 1;
        let variance = logarithms.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / freedom as f64;
        let t = T_VALUES.get(freedom - 1).copied().unwrap_or(NORMAL_VALUE);
        let reach = t * (variance / count as f64).sqrt();
        Self { mean: mean.exp(), low: (mean - reach).exp(), high: (mean + reach).exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_leave_no_doubt() {
        let estimate = Estimate::of([(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)]);
        for value in [estimate.mean, estimate.low, estimate.high] {
            assert!((value - 2.0).abs() < 1e-12, "{estimate:?}");
        }
    }

    #[test]
    fn the_interval_is_students_around_the_geometric_mean() {
        // Logarithms -1 and 1: mean 0, standard error 1, one degree of freedom.
        let e = std::f64::consts::E;
        let estimate = Estimate::of([(1.0, e), (e, 1.0)]);
        assert!((estimate.mean - 1.0).abs() < 1e-12);
        assert!((estimate.high.ln() - 12.706).abs() < 1e-9 && (estimate.low.ln() + 12.706).abs() < 1e-9);
    }

    #[test]
    fn one_pair_says_how_much_and_not_how_sure() {
        assert_eq!(Estimate::of([(3.0, 2.0)]), Estimate { mean: 1.5, low: 0.0, high: f64::INFINITY });
        assert_eq!(Estimate::of([(0.0, 2.0)]).mean, 0.0);
    }
}
