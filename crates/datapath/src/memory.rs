//! A guest's memory, as its VMM lends it: pieces of files, each at an address of the guest's and at one of
//! the VMM's. And memory that a guest has beside its own, in common with its machine ([`Mapped`]).

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result, ensure};
use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::frame_ring::Words;

/// QEMU lends at most so many pieces in one message.
pub const MOST_REGIONS: usize = 8;

/// More is no guest's of ours: addresses and lengths are far from where sums would overflow.
const MOST_BYTES: u64 = 1 << 46;

/// What a VMM says of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRegion {
    pub guest: u64,
    pub size: u64,
    pub vmm: u64,
    /// Where in the file it begins.
    pub offset: u64,
}

struct Region {
    guest: u64,
    vmm: u64,
    size: u64,
    /// Of the whole mapping, which begins at the file's begin.
    base: NonNull<u8>,
    mapped: usize,
    /// Where the piece begins in it.
    offset: usize,
}

/// A part of the guest's memory, for the kernel to read or write. Whoever uses it holds the [`Memory`] that
/// it is of.
pub type Part = libc::iovec;

/// All pieces of one guest.
#[derive(Default)]
pub struct Memory(Vec<Region>);

// SAFETY: the mappings are this value's own; who else writes them does so whatever this process does.
unsafe impl Send for Memory {}

impl Memory {
    /// Maps what was lent.
    ///
    /// # Errors
    /// It cannot be mapped, or is what no guest has.
    pub fn new(lent: &[MemoryRegion], files: &[OwnedFd]) -> Result<Self> {
        ensure!(lent.len() == files.len(), "its VMM lent memory without a file for each piece");
        let mut memory = Memory(Vec::with_capacity(lent.len()));
        for (lent, file) in lent.iter().zip(files) {
            memory.0.push(Region::map(lent, file)?);
        }
        Ok(memory)
    }

    /// What is at an address of the guest's, as a whole.
    pub fn at(&self, guest: u64, bytes: usize) -> Option<NonNull<u8>> {
        self.0.iter().find_map(|region| region.within(guest.checked_sub(region.guest)?, bytes))
    }

    /// What is at an address of the VMM's.
    pub fn at_vmm(&self, vmm: u64, bytes: usize) -> Option<NonNull<u8>> {
        self.0.iter().find_map(|region| region.within(vmm.checked_sub(region.vmm)?, bytes))
    }

    /// The parts of a buffer, which may go over from one piece to the next; false where some of it is in
    /// none.
    pub fn parts(&self, guest: u64, bytes: usize, parts: &mut Vec<Part>) -> bool {
        let (mut at, mut left) = (guest, bytes);
        while left > 0 {
            let Some((place, room)) = self.up_to_the_end(at) else { return false };
            let bytes = room.min(left);
            parts.push(Part { iov_base: place.as_ptr().cast(), iov_len: bytes });
            left -= bytes;
            let Some(next) = at.checked_add(bytes as u64) else { return left == 0 };
            at = next;
        }
        true
    }

    fn up_to_the_end(&self, guest: u64) -> Option<(NonNull<u8>, usize)> {
        self.0.iter().find_map(|region| {
            let from = guest.checked_sub(region.guest)?;
            let room = region.size.checked_sub(from).filter(|&room| room > 0)?;
            Some((region.within(from, 1)?, usize::try_from(room).ok()?))
        })
    }
}

impl Region {
    fn map(lent: &MemoryRegion, file: &OwnedFd) -> Result<Self> {
        let MemoryRegion { guest, size, vmm, offset } = *lent;
        ensure!(
            size > 0 && [guest, size, vmm >> 8, offset].iter().all(|&it| it < MOST_BYTES),
            "its VMM lent a piece of memory that no guest has: {lent:?}"
        );
        let there = fstat(file).context("a file of the guest's memory")?.st_size;
        ensure!(
            u64::try_from(there).is_ok_and(|there| offset + size <= there),
            "its VMM lent {size} bytes from byte {offset} on of a file of {there}"
        );
        let (mapped, offset) = (usize::try_from(offset + size)?, usize::try_from(offset)?);
        let how = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a new mapping, which nothing else is at.
        let base = unsafe { mmap(std::ptr::null_mut(), mapped, how, flags, file, 0) };
        let base = base.context("mapping the guest's memory")?;
        let base = NonNull::new(base.cast()).context("the guest's memory is mapped nowhere")?;
        Ok(Region { guest, vmm, size, base, mapped, offset })
    }

    fn within(&self, from: u64, bytes: usize) -> Option<NonNull<u8>> {
        let end = from.checked_add(bytes as u64)?;
        if end > self.size {
            return None;
        }
        let from = usize::try_from(from).ok()?;
        // SAFETY: `offset + size` is at most `mapped`, and `from` at most `size`.
        Some(unsafe { self.base.add(self.offset + from) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; parts of it are held by nobody who does not hold this.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// A part of a file as words, which others may change at any moment.
pub struct Mapped {
    start: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: the mapping is this value's own, and its words are atomic.
unsafe impl Send for Mapped {}

impl Mapped {
    /// # Errors
    /// The file has no such part, or cannot be mapped.
    pub fn new(file: impl AsFd, from: u64, bytes: usize) -> Result<Self> {
        let length = u64::try_from(fstat(&file)?.st_size)?;
        let is_inside = from.checked_add(bytes as u64).is_some_and(|end| end <= length);
        ensure!(is_inside, "{bytes} bytes from {from} on, of a file of {length} bytes");
        let how = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which nothing else is at.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, how, MapFlags::SHARED, file, from) };
        let start = start.context("mapping memory that is shared")?;
        Ok(Mapped { start: NonNull::new(start.cast()).context("it is mapped nowhere")?, bytes })
    }
}

impl Words for Mapped {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words lie within the mapping, which begins at a page and lives as long as `self`.
        // The other side may write them at any time, as both sides may with atomic ones.
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr(), self.bytes / size_of::<AtomicU64>())
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and nobody refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    pub fn file(bytes: u64) -> OwnedFd {
        let file = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, bytes).unwrap();
        file
    }

    /// Two pieces next to each other, a hole, and one beyond it.
    pub fn memory() -> Memory {
        let lent =
            |guest, size, offset| MemoryRegion { guest, size, vmm: guest + (1 << 40), offset };
        let pieces = [lent(0, 0x8000, 0), lent(0x8000, 0x8000, 0x1000), lent(0x20000, 0x1000, 0)];
        Memory::new(&pieces, &[file(0x8000), file(0x9000), file(0x1000)]).unwrap()
    }

    #[test]
    fn nothing_is_found_that_is_not_all_inside() {
        let memory = memory();
        assert!(memory.at(0, 0x8000).is_some() && memory.at(0x20fff, 1).is_some());
        assert!(memory.at(0x7fff, 2).is_none(), "a ring is in one piece");
        for (address, bytes) in
            [(0x10000, 1), (0x1ffff, 2), (0x20fff, 2), (u64::MAX, 1), (1, usize::MAX)]
        {
            assert!(memory.at(address, bytes).is_none(), "{address:x} {bytes}");
        }
        assert_eq!(memory.at_vmm((1 << 40) + 5, 1), memory.at(5, 1));
        assert!(memory.at_vmm(5, 1).is_none());
    }

    #[test]
    fn a_buffer_may_go_over_from_one_piece_to_the_next() {
        let (memory, mut parts) = (memory(), Vec::new());
        assert!(memory.parts(0x7ffe, 4, &mut parts));
        let bytes: Vec<usize> = parts.iter().map(|part| part.iov_len).collect();
        assert_eq!(bytes, [2, 2]);
        assert_eq!(parts[1].iov_base, memory.at(0x8000, 2).unwrap().as_ptr().cast());
        for (address, bytes) in [(0xffff, 2), (0x1ffff, 2), (u64::MAX, 2), (0x20000, 0x1001)] {
            assert!(!memory.parts(address, bytes, &mut parts), "{address:x} {bytes}");
        }
    }

    #[test]
    fn both_who_map_a_part_of_a_file_have_the_same_words() {
        let file = file(0x3000);
        let (one, other) = (Mapped::new(&file, 0x1000, 0x1000), Mapped::new(&file, 0, 0x2000));
        let (one, other) = (one.unwrap(), other.unwrap());
        one.words()[1].store(7, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(other.words()[0x201].load(std::sync::atomic::Ordering::Relaxed), 7);
        assert_eq!((one.words().len(), other.words().len()), (0x200, 0x400));
        for (from, bytes) in [(0x3000, 0x1000), (0, 0x4000), (u64::MAX, 8)] {
            let error = Mapped::new(&file, from, bytes).err().unwrap().to_string();
            assert!(error.contains("of a file of 12288 bytes"), "{error}");
        }
    }

    #[test]
    fn what_no_vmm_would_lend_is_refused() {
        let lent = MemoryRegion { guest: 0, size: 0x2000, vmm: 0, offset: 0 };
        let refused = |lent| Memory::new(&[lent], &[file(0x1000)]).err().unwrap().to_string();
        assert!(refused(lent).contains("of a file of 4096"));
        for lent in [
            MemoryRegion { size: 0, ..lent },
            MemoryRegion { size: u64::MAX, ..lent },
            MemoryRegion { guest: u64::MAX, size: 1, ..lent },
            MemoryRegion { offset: u64::MAX, size: 1, ..lent },
        ] {
            assert!(refused(lent).contains("no guest has"), "{lent:?}");
        }
        assert!(Memory::new(&[lent], &[]).is_err());
    }
}
