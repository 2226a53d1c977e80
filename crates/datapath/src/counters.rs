//! A card's counters: a page that the serving process writes and others read, at no cost for either.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

const PAGE: usize = 4096;

/// In the order in which they stand in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Times that the guest said that there is work: an exit each.
    Kicks,
    /// Interrupts that the guest asked for.
    Calls,
    /// Looks at the rings and the TAP.
    Polls,
    /// Of those, the ones that found nothing.
    EmptyPolls,
    /// Frames that the guest sent, and their bytes.
    FramesOut,
    BytesOut,
    /// Frames for the guest, and their bytes.
    FramesIn,
    BytesIn,
    /// Times that the guest had given no room for a frame that may have been there.
    Full,
    /// Frames of the guest that the kernel did not take.
    Refused,
}

/// Their names, in the same order.
pub const NAMES: [&str; 10] = [
    "kicks",
    "calls",
    "polls",
    "empty_polls",
    "frames_out",
    "bytes_out",
    "frames_in",
    "bytes_in",
    "full",
    "refused",
];

/// A page for counters.
pub fn page() -> Result<OwnedFd> {
    let page = memfd_create("hypertare-counters", MemfdFlags::CLOEXEC)?;
    ftruncate(&page, PAGE as u64)?;
    Ok(page)
}

/// The counters as they are now, on a machine whose numbers begin with their least byte. They are read, not mapped: who writes them may be anything.
pub fn read(page: &File) -> Result<[u64; NAMES.len()]> {
    let mut bytes = [0; 8 * NAMES.len()];
    page.read_exact_at(&mut bytes, 0).context("reading the counters of a datapath")?;
    let mut counts = [0; NAMES.len()];
    for (count, bytes) in counts.iter_mut().zip(bytes.chunks_exact(8)) {
        *count = bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    }
    Ok(counts)
}

/// The side that writes: one thread.
pub struct Counters(NonNull<AtomicU64>);

// SAFETY: the page is this value's own, and its counters are atomic.
unsafe impl Send for Counters {}

impl Counters {
    pub fn new(page: impl AsFd) -> Result<Self> {
        let how = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which nothing else is at.
        let place = unsafe { mmap(std::ptr::null_mut(), PAGE, how, MapFlags::SHARED, page, 0) };
        let place = place.context("mapping the counters")?;
        Ok(Counters(NonNull::new(place.cast()).context("counters are mapped nowhere")?))
    }

    pub fn add(&self, which: Count, count: u64) {
        // SAFETY: within the page, which is aligned and stays mapped as long as this value is there.
        let counter = unsafe { self.0.add(which as usize).as_ref() };
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and used by nothing any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_adds_the_other_reads() {
        let page = page().unwrap();
        let counters = Counters::new(&page).unwrap();
        counters.add(Count::Kicks, 2);
        counters.add(Count::Refused, 3);
        counters.add(Count::Kicks, 1);
        let read = read(&File::from(page)).unwrap();
        assert_eq!((read[0], read[9]), (3, 3));
        assert_eq!(read.iter().sum::<u64>(), 6);
        assert_eq!(Count::Refused as usize + 1, NAMES.len());
    }
}
