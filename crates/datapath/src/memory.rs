//! A guest's memory, as its VMM lends it: pieces of files, each at an address of the guest's and at one of
//! the VMM's.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use anyhow::{Context, Result, ensure};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// QEMU lends at most so many pieces in one message.
pub const MOST_REGIONS: usize = 8;

/// More is no guest's of ours: addresses and lengths are far from where sums would overflow.
const MOST_BYTES: u64 = 1 << 46;

/// What a VMM says of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
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
    pub fn new(lent: &[Lent], files: &[OwnedFd]) -> Result<Self> {
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
    fn map(lent: &Lent, file: &OwnedFd) -> Result<Self> {
        let Lent { guest, size, vmm, offset } = *lent;
        ensure!(
            size > 0 && [guest, size, vmm >> 8, offset].iter().all(|&it| it < MOST_BYTES),
            "its VMM lent a piece of memory that no guest has: {lent:?}"
        );
        let there = rustix::fs::fstat(file).context("a file of the guest's memory")?.st_size;
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
        let lent = |guest, size, offset| Lent { guest, size, vmm: guest + (1 << 40), offset };
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
    fn what_no_vmm_would_lend_is_refused() {
        let lent = Lent { guest: 0, size: 0x2000, vmm: 0, offset: 0 };
        let refused = |lent| Memory::new(&[lent], &[file(0x1000)]).err().unwrap().to_string();
        assert!(refused(lent).contains("of a file of 4096"));
        for lent in [
            Lent { size: 0, ..lent },
            Lent { size: u64::MAX, ..lent },
            Lent { guest: u64::MAX, size: 1, ..lent },
            Lent { offset: u64::MAX, size: 1, ..lent },
        ] {
            assert!(refused(lent).contains("no guest has"), "{lent:?}");
        }
        assert!(Memory::new(&[lent], &[]).is_err());
    }
}
