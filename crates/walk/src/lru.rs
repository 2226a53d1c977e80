//! A set-associative structure that replaces the least recently used.

use crate::Geometry;

/// Keys of a structure. Each set is kept in the order of use, the latest first: programs return to
/// what they used last, so that most look-ups end at the first comparison.
#[derive(Clone)]
pub struct Lru {
    /// Keys plus one; 0 is empty, so that a large structure costs nothing until it is used.
    keys: Vec<u64>,
    ways: usize,
    set_mask: u64,
}

impl Lru {
    pub fn new(geometry: Geometry) -> Self {
        Self {
            keys: vec![0; geometry.entries as usize],
            ways: geometry.ways as usize,
            set_mask: u64::from(geometry.sets() - 1),
        }
    }

    /// Looks a key up; a hit makes it the latest of its set.
    #[inline]
    pub fn hit(&mut self, key: u64) -> bool {
        let set = self.set(key);
        match set.iter().position(|&held| held == key + 1) {
            Some(place) => {
                set.copy_within(..place, 1);
                set[0] = key + 1;
                true
            }
            None => false,
        }
    }

    /// Puts in a key that is not there; the least recently used one of its set goes.
    #[inline]
    pub fn insert(&mut self, key: u64) {
        let set = self.set(key);
        set.copy_within(..set.len() - 1, 1);
        set[0] = key + 1;
    }

    /// Looks a key up and puts it in where it was not.
    #[inline]
    pub fn touch(&mut self, key: u64) -> bool {
        let hit = self.hit(key);
        if !hit {
            self.insert(key);
        }
        hit
    }

    #[inline]
    fn set(&mut self, key: u64) -> &mut [u64] {
        let first = (key & self.set_mask) as usize * self.ways;
        &mut self.keys[first..first + self.ways]
    }
}
