//! Random numbers that are the same for the same seed, on every machine and with every version.

/// SplitMix64: good enough to choose faults and orders, and twelve lines.
pub struct Random(u64);

impl Random {
    /// One stream of a seed; others are independent of it.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut random = Self(seed);
        let mixed = random.next() ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(mixed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `from` to `to - 1`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }

    /// One of them.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len() as u64) as usize]
    }

    /// True so many times of a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.between(0, 100) < chance
    }

    /// Another sequence.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.between(0, index as u64 + 1) as usize);
        }
    }
}
