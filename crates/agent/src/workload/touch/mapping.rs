//! The working set, in the pages asked for.

use std::fs;
use std::io;

use anyhow::{Context, Result, anyhow, bail, ensure};
use hypertare_plan::{HUGE_PAGE, Pages};

use super::CacheLine;

const SMALL: u64 = 4096;
/// No machine has more.
const MOST: u64 = 1 << 46;
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Anonymous memory of this process; given back when dropped.
pub struct Mapping {
    /// The whole mapping: more than is used, with inaccessible memory on both sides, so that the used part
    /// begins at a multiple of 2 MB and the kernel does not merge its account with other memory's.
    mapped: (*mut libc::c_void, usize),
    begin: *mut CacheLine,
    bytes: u64,
}

impl Mapping {
    /// # Errors
    /// The size is no multiple of the pages' size, or there are no such pages.
    pub fn new(bytes: u64, pages: Option<Pages>) -> Result<Self> {
        let page = if pages == Some(Pages::Huge) { HUGE_PAGE } else { SMALL };
        ensure!((1..=MOST).contains(&bytes), "memory is {bytes} bytes, but must be 1 to {MOST}");
        ensure!(
            bytes.is_multiple_of(page),
            "memory is {bytes} bytes, but must be a multiple of {page}"
        );
        match pages {
            Some(Pages::Huge) => {
                let flags = libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
                let at = map(bytes, USABLE, flags).map_err(|error| none_free(bytes, &error))?;
                Ok(Mapping { mapped: (at, bytes as usize), begin: at.cast(), bytes })
            }
            _ => {
                let mapping = Self::apart(bytes).with_context(|| {
                    format!("cannot map {bytes} bytes: the machine may have less memory")
                })?;
                mapping.advise(pages)?;
                Ok(mapping)
            }
        }
    }

    fn apart(bytes: u64) -> io::Result<Self> {
        let length = bytes + 2 * HUGE_PAGE;
        let at = map(length, libc::PROT_NONE, 0)?;
        let begin = (at as usize + 1).next_multiple_of(HUGE_PAGE as usize);
        let begin = at.wrapping_byte_add(begin - at as usize);
        let mapping = Mapping { mapped: (at, length as usize), begin: begin.cast(), bytes };
        // SAFETY: the range is within this mapping, which nobody uses yet.
        match unsafe { libc::mprotect(begin, bytes as usize, USABLE) } {
            0 => Ok(mapping),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn advise(&self, pages: Option<Pages>) -> Result<()> {
        let advice = match pages {
            Some(Pages::Small) => libc::MADV_NOHUGEPAGE,
            Some(Pages::Transparent) => libc::MADV_HUGEPAGE,
            Some(Pages::Huge) | None => return Ok(()),
        };
        // SAFETY: the range is within this mapping, and neither advice changes what it holds.
        if unsafe { libc::madvise(self.begin.cast(), self.bytes as usize, advice) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match (error.raw_os_error(), pages) {
            // A kernel without huge pages has small ones only.
            (Some(libc::EINVAL), Some(Pages::Small)) => Ok(()),
            (Some(libc::EINVAL), _) => {
                bail!("this kernel has no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)")
            }
            _ => Err(error).context("cannot say which pages are wanted"),
        }
    }

    pub fn lines(&mut self) -> &mut [CacheLine] {
        let lines = self.bytes as usize / size_of::<CacheLine>();
        // SAFETY: the mapping is this long, writable, aligned to a page, zero at first, and borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.begin, lines) }
    }

    pub fn first(&self) -> *const CacheLine {
        self.begin
    }

    /// Its bytes in pages of 2 MB, by /proc/self/smaps.
    pub fn huge_bytes(&self) -> Result<u64> {
        let smaps = fs::read_to_string("/proc/self/smaps").context("reading /proc/self/smaps")?;
        let begin = self.begin as u64;
        Ok(huge_within(&smaps, begin, begin + self.bytes))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped as a whole, and nothing borrows it any more.
        unsafe { libc::munmap(self.mapped.0, self.mapped.1) };
    }
}

const USABLE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

fn map(bytes: u64, protection: libc::c_int, flags: libc::c_int) -> io::Result<*mut libc::c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a new mapping, which touches no other memory.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes as usize, protection, flags, -1, 0) };
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(at) }
}

fn none_free(bytes: u64, error: &io::Error) -> anyhow::Error {
    if error.raw_os_error() != Some(libc::ENOMEM) {
        return anyhow!("cannot map pages of 2 MB ({error}): is the kernel built with hugetlbfs?");
    }
    let free = fs::read_to_string(FREE).unwrap_or_default();
    let free = free.trim();
    let wanted = bytes / HUGE_PAGE;
    anyhow!(
        "{wanted} free pages of 2 MB are needed, but there are {}: boot with the kernel argument \
         hugepages={wanted}, or write their number to {}",
        if free.is_empty() { "none" } else { free },
        FREE.replace("free", "nr"),
    )
}

/// The sum over a range of addresses, which the kernel may list in parts after advice on it.
fn huge_within(smaps: &str, begin: u64, end: u64) -> u64 {
    let mut inside = false;
    let mut kilobytes = 0u64;
    for line in smaps.lines() {
        if let Some((from, to)) = range(line) {
            inside = from >= begin && to <= end;
        } else if let (true, Some(huge)) = (inside, huge_kilobytes(line)) {
            kilobytes += huge;
        }
    }
    kilobytes * 1024
}

/// `AnonHugePages:      2048 kB`
fn huge_kilobytes(line: &str) -> Option<u64> {
    let (name, rest) = line.split_once(':')?;
    let huge = ["AnonHugePages", "Private_Hugetlb", "Shared_Hugetlb"].contains(&name);
    huge.then(|| rest.split_whitespace().next()?.parse().ok())?
}

/// `7f2c00000000-7f2c00200000 rw-p ...`
fn range(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
Size:               2048 kB
AnonHugePages:      2048 kB
Private_Hugetlb:       0 kB
VmFlags: rd wr mr mw me ac sd hg
7f0000200000-7f0000400000 rw-p 00000000 00:0f 52  /anon_hugepage (deleted)
AnonHugePages:         0 kB
Private_Hugetlb:    2048 kB
7f1000000000-7f1000200000 rw-p 00000000 00:00 0
AnonHugePages:      2048 kB
";

    #[test]
    fn huge_pages_of_a_range_are_summed() {
        assert_eq!(huge_within(SMAPS, 0x7f0000000000, 0x7f0000400000), 4 << 20);
        assert_eq!(huge_within(SMAPS, 0x7f0000000000, 0x7f0000200000), 2 << 20);
        assert_eq!(huge_within("", 0, u64::MAX), 0);
    }

    #[test]
    fn memory_begins_where_a_huge_page_may_and_has_an_account_of_its_own() {
        for pages in [None, Some(Pages::Small)] {
            let mapping = Mapping::new(3 * SMALL, pages).unwrap();
            let begin = mapping.begin as u64;
            assert_eq!(begin % HUGE_PAGE, 0);
            let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
            assert!(smaps.lines().any(|line| range(line) == Some((begin, begin + 3 * SMALL))));
        }
    }

    #[test]
    fn too_many_huge_pages_are_refused_with_what_to_do() {
        let error = Mapping::new(MOST, Some(Pages::Huge)).err().unwrap().to_string();
        assert!(error.contains("hugepages=33554432"), "{error}");
    }
}
