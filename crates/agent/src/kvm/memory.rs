//! A guest's memory, mapped by the pages that were asked for.

use std::io;
use std::ptr::null_mut;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{GuestAddress, GuestMemoryMmap, GuestRegionMmap};

use super::pool::{self, HUGE};

/// The least that holds a kernel with its initramfs twice, packed and unpacked.
const LEAST: u64 = 64 << 20;
/// Above lies what PCs have below 4 GB: the interrupt controllers, and room for PCI.
const MOST: u64 = 3 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pages {
    /// As the machine does it for everybody
    Any,
    #[value(name = "4K")]
    Small,
    #[value(name = "2M")]
    Huge,
    #[value(name = "thp")]
    Transparent,
}

/// # Errors
/// No guest can have so much, or the machine does not give it, and why.
pub fn map(size: u64, pages: Pages) -> Result<GuestMemoryMmap> {
    if !(LEAST..=MOST).contains(&size) {
        bail!("a guest's memory is {} to {} MB, not {}", LEAST >> 20, MOST >> 20, size >> 20);
    }
    let size = usize::try_from(size)?;
    let place = match pages {
        Pages::Huge => map_huge(size)?,
        Pages::Small => advised(size, Some(libc::MADV_NOHUGEPAGE))?,
        Pages::Transparent => advised(size, Some(libc::MADV_HUGEPAGE))?,
        Pages::Any => advised(size, None)?,
    };
    // SAFETY: `place` is a mapping of that size with these rights, which is never unmapped.
    let region = unsafe {
        MmapRegionBuilder::new(size)
            .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
            .with_mmap_flags(FLAGS)
            .with_raw_mmap_pointer(place)
            .build()
    }?;
    let region = GuestRegionMmap::new(region, GuestAddress(0)).context("it is too large")?;
    Ok(GuestMemoryMmap::from_regions(vec![region])?)
}

const FLAGS: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

fn map_huge(size: usize) -> Result<*mut u8> {
    if !size.is_multiple_of(HUGE as usize) {
        bail!("memory in pages of 2 MB is a multiple of 2 MB, not {size} bytes");
    }
    // Without MAP_NORESERVE: the pages are this guest's from now on, or there are not enough.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
    mmap(size, flags).map_err(|error| pool::shortage(size as u64, &error))
}

/// At a multiple of 2 MB: KVM maps a huge page only where guest and machine agree on where it begins.
fn advised(size: usize, advice: Option<i32>) -> Result<*mut u8> {
    let huge = HUGE as usize;
    let place = mmap(size + huge, FLAGS).context("mapping the guest's memory")?;
    let place = place.map_addr(|address| address.next_multiple_of(huge));
    if let Some(advice) = advice {
        // SAFETY: the range lies in the mapping that was just made; nothing was written there.
        if unsafe { libc::madvise(place.cast(), size, advice) } != 0 {
            return Err(io::Error::last_os_error())
                .context("the kernel takes no advice on huge pages: was it built without them?");
        }
    }
    Ok(place)
}

fn mmap(size: usize, flags: i32) -> io::Result<*mut u8> {
    // SAFETY: a new mapping, at a place that the kernel chooses.
    let place =
        unsafe { libc::mmap(null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    match place {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        place => Ok(place.cast()),
    }
}

#[cfg(test)]
mod tests {
    use vm_memory::{Bytes, GuestMemoryBackend};

    use super::*;

    #[test]
    fn memory_begins_where_a_huge_page_could() {
        for pages in [Pages::Any, Pages::Small, Pages::Transparent] {
            let memory = map(LEAST, pages).unwrap();
            let place = memory.get_host_address(GuestAddress(0)).unwrap();
            assert_eq!(place.addr() % HUGE as usize, 0);
            memory.write_obj(7u64, GuestAddress(LEAST - 8)).unwrap();
            assert!(memory.write_obj(7u64, GuestAddress(LEAST - 7)).is_err());
        }
    }

    #[test]
    fn small_pages_are_never_huge() {
        let memory = map(LEAST, Pages::Small).unwrap();
        let place = memory.get_host_address(GuestAddress(0)).unwrap().addr();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let of = format!("{place:x}-");
        let flags = maps.lines().skip_while(|line| !line.starts_with(&of));
        let flags = flags.skip(1).find(|line| line.starts_with("VmFlags:")).unwrap();
        assert!(flags.split_ascii_whitespace().any(|flag| flag == "nh"), "{flags}");
    }

    #[test]
    fn what_no_guest_can_have_is_refused() {
        assert!(map(32 << 20, Pages::Any).unwrap_err().to_string().contains("64 to 3072 MB"));
        assert!(map(4 << 30, Pages::Any).is_err());
        let error = map(LEAST + 4096, Pages::Huge).unwrap_err().to_string();
        assert!(error.contains("multiple of 2 MB"), "{error}");
    }

    /// A test machine has no pool of them, or has: then it must have been given.
    #[test]
    fn without_huge_pages_it_says_how_many_are_missing() {
        let need = 1536u64 << 20;
        match map(need, Pages::Huge) {
            Ok(_) => assert!(pool::free(std::path::Path::new(pool::DIRECTORY)).unwrap() > 0),
            Err(error) => assert!(error.to_string().contains("768 are needed"), "{error}"),
        }
    }
}
