//! What translating addresses costs: a model of the hardware that turns the addresses of a program
//! into those of the memory, natively, with shadow page tables and with nested ones.
//!
//! Accesses go one way: a [`Core`] looks them up in the TLBs of all processors at once ([`Tlbs`]), and
//! what misses is walked, for each processor and [`Layout`], through tables and caches that the cores of
//! a process share ([`Shared`]). Everything is pure: no QEMU, no files.

#![warn(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod cache;
mod core;
mod emulated;
mod geometry;
mod layout;
mod lru;
mod marks;
mod processor;
mod result;
mod tables;
mod tlb;
mod walker;

pub use core::{Core, Shared};
pub use geometry::Geometry;
pub use layout::{LAYOUTS, Layout, PageSize, Paging};
pub use marks::{Mark, Marks};
pub use processor::{
    CacheLevel, NestedTlb, Processor, SecondTlb, TlbLevel, WalkCache, WalkCacheKind,
};
pub use result::{Counts, LayoutResult, ProcessorResult, Walks};
pub use tlb::{MOST_PROCESSORS, Miss, TlbCounts, Tlbs};
