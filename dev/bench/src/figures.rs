//! The statistics of a few measurements.

/// The quartiles and the median.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    pub first: f64,
    pub median: f64,
    pub third: f64,
}

impl Quartiles {
    /// There is at least one figure.
    pub fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        Self { first: part(&figures, 1), median: part(&figures, 2), third: part(&figures, 3) }
    }
}

/// The quartile of this number, interpolated between two figures.
fn part(sorted: &[f64], quarters: usize) -> f64 {
    let steps = (sorted.len() - 1) * quarters;
    let (below, rest) = (sorted[steps / 4], steps % 4);
    let above = sorted.get(steps / 4 + 1).copied().unwrap_or(below);
    below + (above - below) * [0.0, 0.25, 0.5, 0.75][rest]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "exact in binary")]
    fn the_median_is_the_middle_one_and_quartiles_lie_half_way_to_the_ends() {
        let quartiles = |figures: &[f64]| {
            let Quartiles { first, median, third } = Quartiles::of(figures.to_vec());
            [first, median, third]
        };
        assert_eq!(quartiles(&[3.0, 1.0, 2.0]), [1.5, 2.0, 2.5]);
        assert_eq!(quartiles(&[4.0, 1.0, 2.0, 3.0]), [1.75, 2.5, 3.25]);
        assert_eq!(quartiles(&[5.0, 4.0, 3.0, 2.0, 1.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(&[7.0]), [7.0; 3]);
    }
}
