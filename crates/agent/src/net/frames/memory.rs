//! Memory that a program shares with the kernel or a hypervisor: rings of packet sockets, pages of calls.
//! The other side may change its contents at any time, or write wrong ones: so every place is checked
//! against the memory's length.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

pub struct Shared {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is the value's own, and nothing of it is bound to a thread.
unsafe impl Send for Shared {}

impl Shared {
    /// What a file offers to map, this much of it: the ring of a socket, for example.
    pub fn map(socket: impl AsFd, length: usize) -> io::Result<Self> {
        Self::map_from(socket, 0, length)
    }

    /// The same for a socket with several rings, which begin at different offsets.
    pub fn map_from(socket: impl AsFd, from: u64, length: usize) -> io::Result<Self> {
        let flags = MapFlags::SHARED;
        // SAFETY: a new mapping at a place of the kernel's choice touches no other memory.
        let start = unsafe { mmap(ptr::null_mut(), length, ACCESS, flags, socket.as_fd(), from)? };
        Self::made(start, length)
    }

    /// Memory of this process, fully populated, to which the kernel writes frames.
    pub fn own(length: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping at a place of the kernel's choice touches no other memory.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), length, ACCESS, flags)? };
        Self::made(start, length)
    }

    fn made(start: *mut libc::c_void, length: usize) -> io::Result<Self> {
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Shared { start, length })
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// Its address, for the kernel.
    pub fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    /// Reads a word by which both sides hand memory over. Earlier writes of the other side are visible
    /// then.
    #[inline]
    pub fn load(&self, at: usize) -> u32 {
        self.word(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Writes such a word, which hands memory over to the other side; earlier writes are visible to it.
    #[inline]
    pub fn store(&self, at: usize, value: u32) {
        if let Some(word) = self.word(at) {
            word.store(value, Ordering::Release);
        }
    }

    #[inline]
    fn word(&self, at: usize) -> Option<&AtomicU32> {
        let is_inside = at.checked_add(size_of::<u32>())? <= self.length;
        if !is_inside || !at.is_multiple_of(align_of::<AtomicU32>()) {
            return None;
        }
        // SAFETY: the word lies within the mapping, which lives as long as `self`; the mapping begins at
        // a page, so the word is aligned; both sides use it as an atomic one.
        Some(unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) })
    }

    /// A part of it to which the other side does not write until it is handed over.
    #[inline]
    pub fn bytes(&self, from: usize, length: usize) -> &[u8] {
        if !self.holds(from, length) {
            return &[];
        }
        // SAFETY: the part lies within the mapping, which lives as long as `self`. The kernel leaves it
        // alone until its status says so, and it is given back by a later call only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(from), length) }
    }

    /// The same, to be written to.
    #[inline]
    pub fn bytes_mut(&mut self, from: usize, length: usize) -> &mut [u8] {
        if !self.holds(from, length) {
            return &mut [];
        }
        // SAFETY: as in `bytes`; there is no other reference, for this one borrows `self` alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(from), length) }
    }

    fn holds(&self, from: usize, length: usize) -> bool {
        from.checked_add(length).is_some_and(|end| end <= self.length)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
pub mod made {
    use super::*;

    /// A ring of a test's own making.
    pub fn of(bytes: &[u8]) -> Shared {
        let mut shared = Shared::own(bytes.len().max(1)).unwrap();
        shared.bytes_mut(0, bytes.len()).copy_from_slice(bytes);
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_is_reached() {
        let mut shared = made::of(&[7; 64]);
        assert_eq!(shared.bytes(60, 4), [7; 4]);
        for (from, length) in [(60, 5), (64, 1), (65, 0), (usize::MAX, 1), (8, usize::MAX)] {
            assert!(shared.bytes(from, length).is_empty(), "{from} {length}");
            assert!(shared.bytes_mut(from, length).is_empty(), "{from} {length}");
        }
        for at in [61, 62, 64, usize::MAX - 2] {
            shared.store(at, 1);
            assert_eq!(shared.load(at), 0, "{at}");
        }
        shared.store(60, 9);
        assert_eq!(shared.load(60), 9);
    }
}
