//! The shape of a set-associative structure.

use serde::Deserialize;

/// So many entries in sets of so many ways; `ways == entries` is fully associative.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    pub entries: u32,
    pub ways: u32,
}

/// More than any processor has; a description beyond it is a slip of the pen.
const MOST_ENTRIES: u32 = 1 << 24;

impl Geometry {
    /// Sets of the structure. Only of a geometry that passed [`Geometry::check`].
    pub const fn sets(self) -> u32 {
        self.entries / self.ways
    }

    /// # Errors
    /// In words, if no hardware can have this shape: sets are chosen by address bits, so their number
    /// is a power of two.
    pub fn check(self, what: &str) -> Result<(), String> {
        let Self { entries, ways } = self;
        if entries == 0 || ways == 0 {
            return Err(format!("{what}: {entries} entries in {ways} ways; at least one of each"));
        }
        if entries > MOST_ENTRIES {
            return Err(format!("{what}: {entries} entries; at most {MOST_ENTRIES}"));
        }
        if !entries.is_multiple_of(ways) {
            return Err(format!(
                "{what}: {entries} entries cannot be divided into sets of {ways} ways"
            ));
        }
        if !(entries / ways).is_power_of_two() {
            return Err(format!(
                "{what}: {entries} entries of {ways} ways make {} sets; address bits choose the set, \
                 so it must be a power of two",
                entries / ways
            ));
        }
        Ok(())
    }
}
