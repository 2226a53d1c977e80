//! Page tables: where in memory the entries of a walk lie.

use crate::PageSize;

/// Address bits that one level of tables resolves.
const LEVEL_BITS: u32 = 9;
const FANOUT: usize = 1 << LEVEL_BITS;
const ENTRY_BYTES: u64 = 8;
/// The most levels of tables.
pub const MOST_LEVELS: usize = 5;

/// A physical address space whose memory is given out in the order of first use: pages of 2 MB
/// aligned, tables and pages of 4 KB one after the other out of 2 MB pieces. No system does quite
/// that; it is the layout of a system that has just started.
#[derive(Clone, Default)]
pub struct Frames {
    end: u64,
    small: u64,
    small_end: u64,
}

impl Frames {
    fn take(&mut self, pages: PageSize) -> u64 {
        if pages == PageSize::Large {
            return self.take_large();
        }
        if self.small == self.small_end {
            self.small = self.take_large();
            self.small_end = self.small + (1 << PageSize::Large.shift());
        }
        let frame = self.small;
        self.small += 1 << PageSize::Small.shift();
        frame
    }

    fn take_large(&mut self) -> u64 {
        let frame = self.end;
        self.end += 1 << PageSize::Large.shift();
        frame
    }
}

/// One address space's tables, made as addresses are walked.
#[derive(Clone)]
pub struct Tree {
    pages: PageSize,
    levels: u32,
    tables: Vec<Table>,
}

#[derive(Clone)]
struct Table {
    address: u64,
    /// Of an upper level: index of the next table; of the leaf level: frame number. Plus one; 0 is
    /// not there.
    entries: Box<[u32; FANOUT]>,
}

/// The way of one walk through a tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    entries: [u64; MOST_LEVELS],
    length: usize,
    /// Physical address of the page.
    pub page: u64,
}

impl Path {
    /// Physical addresses of the entries, from the root to the leaf.
    pub fn entries(&self) -> &[u64] {
        &self.entries[..self.length]
    }
}

impl Tree {
    pub fn new(pages: PageSize, levels: u32, frames: &mut Frames) -> Self {
        let mut tree = Self { pages, levels, tables: Vec::new() };
        tree.add_table(frames);
        tree
    }

    fn add_table(&mut self, frames: &mut Frames) -> u32 {
        let address = frames.take(PageSize::Small);
        self.tables.push(Table { address, entries: Box::new([0; FANOUT]) });
        (self.tables.len() - 1) as u32
    }

    /// Walks to an address; what is not mapped yet is mapped to new frames.
    pub fn walk(&mut self, address: u64, frames: &mut Frames) -> Path {
        let leaf = self.pages.leaf();
        let mut path = Path::default();
        let mut table = 0;
        for level in (leaf..=self.levels).rev() {
            let index = index(address, level);
            path.entries[path.length] = self.tables[table].address + index as u64 * ENTRY_BYTES;
            path.length += 1;
            let mut entry = self.tables[table].entries[index];
            if entry == 0 {
                entry = 1 + if level == leaf {
                    (frames.take(self.pages) >> self.pages.shift()) as u32
                } else {
                    self.add_table(frames)
                };
                self.tables[table].entries[index] = entry;
            }
            table = entry as usize - 1;
        }
        path.page = (table as u64) << self.pages.shift();
        path
    }
}

fn index(address: u64, level: u32) -> usize {
    (address >> shift_of(level)) as usize & (FANOUT - 1)
}

/// Address bits below those that choose the entry of a level.
pub fn shift_of(level: u32) -> u32 {
    PageSize::Small.shift() + LEVEL_BITS * (level - 1)
}
