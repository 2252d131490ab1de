//! Circular correlations of series at all shifts, by fast Fourier transforms: n ln n operations
//! instead of n^2. A radix-2 transform is all that is needed, so there is no library for it.

use nalgebra::Complex;

/// The Fourier transform of a series, padded with zeros so that a circular correlation of the padded
/// series has no overlap.
pub(super) struct Spectrum {
    values: Vec<Complex<f64>>,
    /// The length of the series.
    length: usize,
}

impl Spectrum {
    /// Returns the spectrum of a series that is not empty.
    pub(super) fn new(series: impl ExactSizeIterator<Item = f64>) -> Self {
        let length = series.len();
        let mut values: Vec<Complex<f64>> = series.map(|value| Complex::new(value, 0.0)).collect();
        values.resize((2 * length).next_power_of_two(), Complex::ZERO);
        transform(&mut values);
        Spectrum { values, length }
    }

    /// Returns sum_i a_i b_(i+s mod n) for s = 0, ..., n - 1, where a is this series and b the other
    /// one, which has the same length n.
    pub(super) fn correlations(&self, other: &Spectrum) -> Vec<f64> {
        let (n, padded) = (self.length, self.values.len());
        // The inverse transform of v is the conjugate of the transform of v's conjugate.
        let mut products: Vec<Complex<f64>> =
            self.values.iter().zip(&other.values).map(|(a, b)| a * b.conj()).collect();
        transform(&mut products);
        let sum = |s: usize| products[s].re + products[padded - n + s].re;
        (0..n).map(|s| sum(s) / padded as f64).collect()
    }
}

/// Replaces values by their discrete Fourier transform. Their number is a power of two.
fn transform(values: &mut [Complex<f64>]) {
    let n = values.len();
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = if bits == 0 { 0 } else { i.reverse_bits() >> (usize::BITS - bits) };
        if i < j {
            values.swap(i, j);
        }
    }
    let angle = -std::f64::consts::TAU / n as f64;
    let roots: Vec<Complex<f64>> =
        (0..n / 2).map(|k| Complex::from_polar(1.0, angle * k as f64)).collect();
    let mut half = 1;
    while half < n {
        let step = n / (2 * half);
        for block in values.chunks_exact_mut(2 * half) {
            let (even, odd) = block.split_at_mut(half);
            for (k, (even, odd)) in even.iter_mut().zip(odd).enumerate() {
                let product = *odd * roots[k * step];
                (*even, *odd) = (*even + product, *even - product);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn correlations_are_those_of_direct_sums(
            pairs in prop::collection::vec((-3.0..3.0f64, -3.0..3.0f64), 1..70),
        ) {
            let n = pairs.len();
            let a = Spectrum::new(pairs.iter().map(|pair| pair.0));
            let b = Spectrum::new(pairs.iter().map(|pair| pair.1));
            for (s, found) in a.correlations(&b).into_iter().enumerate() {
                let direct: f64 = (0..n).map(|i| pairs[i].0 * pairs[(i + s) % n].1).sum();
                prop_assert!((found - direct).abs() < 1e-9, "{found} {direct}");
            }
        }
    }
}
