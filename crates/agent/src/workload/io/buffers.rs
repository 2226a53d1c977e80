//! Memory for blocks, aligned as disks require it.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use anyhow::{Context as _, Result, ensure};

/// A page, the alignment that O_DIRECT requires at most.
const ALIGNMENT: usize = 4096;

/// Blocks in one piece of memory.
pub struct Buffers {
    memory: NonNull<u8>,
    layout: Layout,
    block: usize,
}

// SAFETY: the memory is this value's own, and reached by its methods alone.
unsafe impl Send for Buffers {}

impl Buffers {
    pub fn new(count: usize, block: usize) -> Result<Self> {
        let bytes = count.checked_mul(block).context("so many blocks have no room in memory")?;
        ensure!(bytes > 0, "no blocks at all");
        let layout = Layout::from_size_align(bytes, ALIGNMENT)?;
        // SAFETY: the layout is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) });
        let memory = memory.unwrap_or_else(|| handle_alloc_error(layout));
        Ok(Buffers { memory, layout, block })
    }

    /// All of them, for the kernel.
    pub fn whole(&self) -> libc::iovec {
        libc::iovec { iov_base: self.memory.as_ptr().cast(), iov_len: self.layout.size() }
    }

    /// Where a block begins.
    pub fn address(&self, index: usize) -> *mut u8 {
        assert!((index + 1) * self.block <= self.layout.size(), "no such block");
        // SAFETY: within the memory, as was just seen.
        unsafe { self.memory.as_ptr().add(index * self.block) }
    }

    pub fn block(&self, index: usize) -> &[u8] {
        // SAFETY: this many bytes are there and initialised; the kernel writes to none of them between a
        // completion and the next submission, as callers see to.
        unsafe { std::slice::from_raw_parts(self.address(index), self.block) }
    }

    pub fn block_mut(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: as above, and nobody else has them.
        unsafe { std::slice::from_raw_parts_mut(self.address(index), self.block) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: made with this layout.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}
