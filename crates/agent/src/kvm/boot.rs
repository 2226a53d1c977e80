//! Puts a kernel, its initramfs and its command line into a guest's memory, and tells where to begin.
//!
//! The kernel is an uncompressed ELF file that is entered by PVH: in 32-bit protected mode without
//! paging, with the address of a `hvm_start_info` in EBX. Nothing is unpacked and no firmware runs.
//! Source: Xen's documentation, "x86/HVM direct boot ABI" (docs/misc/pvh.pandoc).

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use linux_loader::configurator::pvh::PvhBootConfigurator;
use linux_loader::configurator::{BootConfigurator, BootParams};
use linux_loader::loader::elf::start_info::{
    hvm_memmap_table_entry, hvm_modlist_entry, hvm_start_info,
};
use linux_loader::loader::elf::{Elf, PvhBootCapability};
use linux_loader::loader::{KernelLoader, KernelLoaderResult};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

const START_INFO: GuestAddress = GuestAddress(0x6000);
const MODULES: GuestAddress = GuestAddress(0x6800);
const MEMORY_MAP: GuestAddress = GuestAddress(0x7000);
const COMMAND_LINE: GuestAddress = GuestAddress(0x2_0000);
/// The kernel's own limit (COMMAND_LINE_SIZE).
const LONGEST_COMMAND_LINE: usize = 2048;

/// Conventional memory ends below where PCs had their firmware's data; the next begins at 1 MB.
const LOW_END: u64 = 0x9_fc00;
const HIGH_BEGIN: u64 = 0x10_0000;

const MAGIC: u32 = 0x336e_c578;
const RAM: u32 = 1;
const PAGE: u64 = 4096;

/// Where the CPU begins, and what it finds in EBX.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    pub address: u64,
    pub start_info: u64,
}

/// # Errors
/// A file cannot be read or is no such kernel, or the memory is too small for them.
pub fn load(
    memory: &GuestMemoryMmap,
    kernel: &Path,
    initramfs: &[PathBuf],
    command_line: &str,
) -> Result<Entry> {
    let (entry, kernel_end) = load_kernel(memory, kernel)?;
    let module = load_initramfs(memory, initramfs, kernel_end)?;
    load_command_line(memory, command_line)?;
    let end = memory.last_addr().0 + 1;
    let map = [(0, LOW_END), (HIGH_BEGIN, end)].map(|(from, to)| hvm_memmap_table_entry {
        addr: from,
        size: to - from,
        type_: RAM,
        reserved: 0,
    });
    let info = hvm_start_info {
        magic: MAGIC,
        version: 1,
        nr_modules: 1,
        modlist_paddr: MODULES.0,
        cmdline_paddr: COMMAND_LINE.0,
        memmap_paddr: MEMORY_MAP.0,
        memmap_entries: map.len() as u32,
        ..Default::default()
    };
    let mut parameters = BootParams::new(&info, START_INFO);
    parameters.set_sections(&map, MEMORY_MAP);
    parameters.set_modules(&[module], MODULES);
    PvhBootConfigurator::write_bootparams(&parameters, memory)
        .map_err(|error| anyhow::anyhow!("telling the guest's kernel what there is: {error}"))?;
    Ok(Entry { address: entry, start_info: START_INFO.0 })
}

fn load_kernel(memory: &GuestMemoryMmap, path: &Path) -> Result<(u64, u64)> {
    let mut file = open("kernel", path)?;
    let loaded: KernelLoaderResult =
        Elf::load(memory, None, &mut file, Some(GuestAddress(HIGH_BEGIN))).map_err(|error| {
            anyhow::anyhow!(
                "the guest's kernel {path:?} cannot be loaded: {error}; it must be an uncompressed \
                 ELF file that fits into the guest's memory of {} MB",
                (memory.last_addr().0 + 1) >> 20
            )
        })?;
    match loaded.pvh_boot_cap {
        PvhBootCapability::PvhEntryPresent(entry) => Ok((entry.0, loaded.kernel_end)),
        _ => bail!("the guest's kernel {path:?} has no PVH entry (CONFIG_PVH)"),
    }
}

/// One after the other, each at a multiple of four bytes, as high as they fit: the kernel unpacks
/// them to what lies below.
fn load_initramfs(
    memory: &GuestMemoryMmap,
    paths: &[PathBuf],
    kernel_end: u64,
) -> Result<hvm_modlist_entry> {
    let mut files = Vec::new();
    let mut size = 0u64;
    for path in paths {
        let file = open("initramfs", path)?;
        let length = file.metadata()?.len();
        files.push((file, size, length));
        size += length.next_multiple_of(4);
    }
    let end = memory.last_addr().0 + 1;
    let begin = end.checked_sub(size).map(|begin| begin / PAGE * PAGE);
    let Some(begin) = begin.filter(|&begin| begin >= kernel_end) else {
        bail!("an initramfs of {size} bytes does not fit beside the kernel into {} MB", end >> 20)
    };
    for (mut file, offset, length) in files {
        memory
            .read_exact_volatile_from(GuestAddress(begin + offset), &mut file, length as usize)
            .context("reading the guest's initramfs")?;
    }
    Ok(hvm_modlist_entry { paddr: begin, size, ..Default::default() })
}

fn load_command_line(memory: &GuestMemoryMmap, text: &str) -> Result<()> {
    if text.len() >= LONGEST_COMMAND_LINE || text.contains('\0') {
        bail!("the guest's kernel takes command lines of at most {LONGEST_COMMAND_LINE} bytes");
    }
    memory.write_slice(text.as_bytes(), COMMAND_LINE)?;
    memory.write_obj(0u8, GuestAddress(COMMAND_LINE.0 + text.len() as u64))?;
    Ok(())
}

fn open(what: &str, path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("the guest's {what} {path:?} cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Pages, map};
    use super::*;

    /// An ELF file of one segment at 16 MB and the note of Xen's that names the entry.
    fn kernel(with_note: bool) -> Vec<u8> {
        let mut file = vec![0u8; 0x200];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"\x7fELF\x02\x01\x01");
        put(16, &2u16.to_le_bytes());
        put(18, &62u16.to_le_bytes());
        put(24, &0x100_0000u64.to_le_bytes());
        put(32, &64u64.to_le_bytes());
        put(52, &64u16.to_le_bytes());
        put(54, &56u16.to_le_bytes());
        put(56, &(1 + u16::from(with_note)).to_le_bytes());
        // Type, flags, offset, addresses, sizes in file and memory, alignment.
        put(64, &1u32.to_le_bytes());
        for (at, value) in [(72, 0x1c0u64), (88, 0x100_0000), (96, 8), (104, 4096)] {
            put(at, &value.to_le_bytes());
        }
        put(120, &4u32.to_le_bytes());
        for (at, value) in [(128, 0x1d0u64), (152, 24), (160, 24), (168, 4)] {
            put(at, &value.to_le_bytes());
        }
        put(0x1c0, b"thekern!");
        // Sizes of name and value, type XEN_ELFNOTE_PHYS32_ENTRY, name, value.
        for (at, value) in [(0x1d0, 4u32), (0x1d4, 4), (0x1d8, 18)] {
            put(at, &value.to_le_bytes());
        }
        put(0x1dc, b"Xen\0");
        put(0x1e0, &0x100_0040u32.to_le_bytes());
        file
    }

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    #[test]
    fn all_lies_where_the_start_info_says() {
        let memory = map(64 << 20, Pages::Any).unwrap();
        let (kernel, one, two) = (file(&kernel(true)), file(b"12345"), file(b"678"));
        let parts = [one.path().to_owned(), two.path().to_owned()];
        let entry = load(&memory, kernel.path(), &parts, "quiet").unwrap();
        assert_eq!(entry, Entry { address: 0x100_0040, start_info: START_INFO.0 });
        let read = |at: u64, length: usize| {
            let mut bytes = vec![0; length];
            memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
            bytes
        };
        assert_eq!(read(0x100_0000, 8), b"thekern!");
        let info: [u32; 4] = memory.read_obj(START_INFO).unwrap();
        assert_eq!(info, [MAGIC, 1, 0, 1]);
        let module: [u64; 2] = memory.read_obj(MODULES).unwrap();
        assert_eq!(module, [(64 << 20) - PAGE, 12]);
        assert_eq!(read(module[0], 12), b"12345\0\0\x00678\0");
        assert_eq!(read(COMMAND_LINE.0, 6), b"quiet\0");
    }

    #[test]
    fn what_cannot_boot_is_named() {
        let memory = map(64 << 20, Pages::Any).unwrap();
        let rest = file(b"x");
        let error = |kernel: &Path, initramfs: &Path| {
            format!("{:#}", load(&memory, kernel, &[initramfs.to_owned()], "").unwrap_err())
        };
        let plain = file(&kernel(false));
        assert!(error(plain.path(), rest.path()).contains("no PVH entry"));
        let text = file(b"this is no kernel at all, but it is longer than the header of one....");
        assert!(error(text.path(), rest.path()).contains("must be an uncompressed ELF"));
        assert!(error(Path::new("/no"), rest.path()).contains("kernel \"/no\" cannot be read"));
        let good = file(&kernel(true));
        let large = file(&vec![0; 49 << 20]);
        assert!(error(good.path(), large.path()).contains("does not fit"));
        let long = "x".repeat(LONGEST_COMMAND_LINE);
        assert!(load(&memory, good.path(), &[], &long).is_err());
    }
}
