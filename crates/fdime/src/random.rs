//! Random streams. Every use of randomness in a run has its own stream, so that its draws depend
//! neither on how many numbers other parts have drawn nor on the number of threads.

use rand::{RngExt, SeedableRng};

/// The random number generator of all streams.
pub type Rng = rand::rngs::ChaCha8Rng;

/// The use of a stream.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Initial network parameters.
    Parameters,
    /// Sampling data.
    Data,
    /// Pairing x with y.
    Pairing,
    /// Splitting rows into folds and batches.
    Rows,
    /// Permutations for the test of independence.
    Null,
}

/// Returns the stream of `seed` for a purpose, a step and a block of rows within that step.
pub fn stream(seed: u64, purpose: Purpose, step: u64, block: u64) -> Rng {
    let mut key = [0u8; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = purpose as u8;
    key[16..24].copy_from_slice(&step.to_le_bytes());
    key[24..].copy_from_slice(&block.to_le_bytes());
    Rng::from_seed(key)
}

/// Returns a random number below `count`, all equally likely.
pub fn random_index(rng: &mut Rng, count: usize) -> usize {
    rng.random_range(0..count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng as _;

    #[test]
    fn equal_keys_repeat_and_different_keys_differ() {
        let first = |rng: &mut Rng| rng.next_u64();
        let base = first(&mut stream(1, Purpose::Data, 2, 3));
        assert_eq!(base, first(&mut stream(1, Purpose::Data, 2, 3)));
        for mut other in [
            stream(2, Purpose::Data, 2, 3),
            stream(1, Purpose::Pairing, 2, 3),
            stream(1, Purpose::Data, 3, 3),
            stream(1, Purpose::Data, 2, 4),
        ] {
            assert_ne!(base, first(&mut other));
        }
    }
}
