//! By which pages the machine maps a guest's memory: asked of QEMU, and read back from the kernel.
//!
//! - `2M`: pages of the machine's pool, through a memfd of QEMU's. No mount and no privilege; the
//!   kernel promises all of them when QEMU maps it, so a pool that is too small ends QEMU at once.
//! - `thp`: QEMU advises huge pages (madvise) for a guest's memory by itself, so nothing is asked.
//!   The machine's own setting must allow it.
//! - `4K`: that advice is void in a process whose transparent huge pages are switched off (prctl),
//!   which holds across exec and needs no setting of the machine.
//!
//! None of them touches pages in advance: a page is mapped when the guest first uses it. So the kernel
//! reports the pages that the guest has used by then, a booted kernel's at least.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use hypertare_plan::{Backing, HUGE_PAGE, Pages};

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Whether the machine can give such pages, as far as is known before it is tried.
///
/// # Errors
/// It cannot; says what to do.
pub fn check_machine(pages: Option<Pages>, memory: u64) -> Result<()> {
    match pages {
        Some(Pages::Huge) if !memory.is_multiple_of(HUGE_PAGE) => {
            bail!("{memory} bytes of memory are no multiple of the 2 MB that a page is to have")
        }
        Some(Pages::Transparent) => check_thp(&fs::read_to_string(THP).unwrap_or_default()),
        _ => Ok(()),
    }
}

fn check_thp(enabled: &str) -> Result<()> {
    if enabled.contains("[always]") || enabled.contains("[madvise]") {
        return Ok(());
    }
    match enabled.trim() {
        "" => bail!("the machine's kernel has no transparent huge pages"),
        _ => bail!(
            "the machine's transparent huge pages are switched off; as root: \
             echo madvise > {THP}"
        ),
    }
}

/// How the memory of the guest of this process is mapped at this moment.
///
/// # Errors
/// The process has ended, or has no mapping of that size.
pub fn read(process: i32, memory: u64) -> Result<Backing> {
    let path = format!("/proc/{process}/smaps");
    let text = fs::read_to_string(Path::new(&path)).with_context(|| format!("reading {path}"))?;
    parse(&text, memory).with_context(|| {
        format!("{path} shows no mapping of {memory} bytes, which the guest's memory would be")
    })
}

/// Whether it is what was asked for.
///
/// # Errors
/// It is not: what it is, in a sentence.
pub fn check(found: &Backing, asked: Pages) -> Result<()> {
    let (page, huge) = (found.page_size >> 10, found.huge >> 20);
    let is = match asked {
        Pages::Huge => found.page_size == HUGE_PAGE,
        Pages::Small => found.page_size < HUGE_PAGE && found.huge == 0,
        Pages::Transparent => found.page_size < HUGE_PAGE && found.huge > 0,
    };
    if is {
        return Ok(());
    }
    bail!(
        "its memory is not mapped as asked for: {} MiB of pages of {page} KiB are in use, {huge} MiB \
         of them by huge pages{}",
        found.resident >> 20,
        match asked {
            Pages::Transparent =>
                "; the machine finds no free 2 MB in one piece, as root: \
                                   echo 1 > /proc/sys/vm/compact_memory",
            _ => "",
        }
    )
}

/// The guest's memory is the one mapping of its size. QEMU keeps guard pages around it, and nothing
/// else of its own is advised and merged as it is, so that the kernel does not join them.
fn parse(smaps: &str, memory: u64) -> Option<Backing> {
    let mut found = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
        let Some(bytes) = value.parse::<u64>().ok().and_then(|kib| kib.checked_mul(1024)) else {
            continue;
        };
        if name == "Size:" {
            if found.is_some() {
                break;
            }
            found = (bytes == memory).then_some(Backing { page_size: 0, resident: 0, huge: 0 });
            continue;
        }
        let Some(backing) = &mut found else { continue };
        match name {
            "KernelPageSize:" => backing.page_size = bytes,
            "Rss:" => backing.resident += bytes,
            "AnonHugePages:" | "ShmemPmdMapped:" | "FilePmdMapped:" => backing.huge += bytes,
            // Pages of the pool are no part of the resident set, and are huge by nature.
            "Shared_Hugetlb:" | "Private_Hugetlb:" => {
                backing.resident += bytes;
                backing.huge += bytes;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0c8a00000-55d0c8e00000 r--p 00000000 fe:00 1 /usr/bin/qemu-system-x86_64
Size:               4096 kB
KernelPageSize:        4 kB
Rss:                 100 kB
AnonHugePages:         0 kB
VmFlags: rd mr mw me sd
7f1eb8000000-7f1ec8000000 rw-p 00000000 00:00 0
Size:             262144 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:               43008 kB
AnonHugePages:     40960 kB
ShmemPmdMapped:        0 kB
THPeligible:           1
VmFlags: rd wr mr mw me dc ac sd hg mg
7f1ec8200000-7f1ec8201000 rw-p 00000000 00:00 0
Size:                  4 kB
Rss:                   4 kB
KernelPageSize:        4 kB
";

    #[test]
    fn the_mapping_of_the_guest_s_size_is_its_memory() {
        let found = parse(SMAPS, 256 << 20).unwrap();
        assert_eq!(found, Backing { page_size: 4096, resident: 42 << 20, huge: 40 << 20 });
        assert_eq!(parse(SMAPS, 128 << 20), None);
        assert_eq!(parse("", 4096), None);
        assert_eq!(parse("Size: 99999999999999999999 kB\nSize:\n\n", 4096), None);
    }

    #[test]
    fn pages_of_the_pool_are_huge_and_resident() {
        let text =
            "Size: 131072 kB\nKernelPageSize: 2048 kB\nRss: 0 kB\nShared_Hugetlb: 36864 kB\n";
        let found = parse(text, 128 << 20).unwrap();
        assert_eq!(found, Backing { page_size: HUGE_PAGE, resident: 36 << 20, huge: 36 << 20 });
        assert!(check(&found, Pages::Huge).is_ok());
        let error = check(&found, Pages::Small).unwrap_err().to_string();
        assert!(error.contains("36 MiB of pages of 2048 KiB"), "{error}");
        assert!(check(&found, Pages::Transparent).is_err());
    }

    #[test]
    fn what_was_asked_for_is_held_against_what_there_is() {
        let transparent = Backing { page_size: 4096, resident: 42 << 20, huge: 40 << 20 };
        let small = Backing { huge: 0, ..transparent };
        assert!(check(&transparent, Pages::Transparent).is_ok());
        assert!(check(&small, Pages::Small).is_ok());
        assert!(check(&small, Pages::Huge).is_err());
        assert!(check(&transparent, Pages::Small).is_err());
        let error = check(&small, Pages::Transparent).unwrap_err().to_string();
        assert!(error.contains("compact_memory"), "{error}");
    }

    #[test]
    fn the_machine_s_setting_may_forbid_transparent_pages() {
        assert!(check_thp("always [madvise] never\n").is_ok());
        assert!(check_thp("[always] madvise never\n").is_ok());
        assert!(check_thp("always madvise [never]\n").unwrap_err().to_string().contains("off"));
        assert!(check_thp("").is_err());
    }

    #[test]
    fn memory_is_a_whole_number_of_its_pages() {
        assert!(check_machine(Some(Pages::Huge), (128 << 20) + 4096).is_err());
        assert!(check_machine(Some(Pages::Huge), 128 << 20).is_ok());
        assert!(check_machine(Some(Pages::Small), 4096).is_ok());
    }
}
