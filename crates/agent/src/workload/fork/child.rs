//! The program that `fork` executes: a few instructions and its memory, without a C library.
//!
//! A C library asks the processor for its features (CPUID), and in a guest each CPUID is an exit to the
//! hypervisor. A static glibc program makes 35 of them at its start, which would be most of the counted
//! exits. This program only writes one byte to each page of its memory and exits.

use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, ensure};

use crate::arch::ARCH;

/// Bytes from one write to the next, whatever the pages' size.
const STEP: u64 = 4096;
/// Where the program's memory begins: a multiple of 2 MB, so that huge pages fit.
const MEMORY: u64 = 0x1000_0000;
/// Most memory of one program.
const MOST: u64 = 1 << 40;

/// A program in memory, ready to be executed.
pub struct Program {
    file: OwnedFd,
    steps: u64,
}

impl Program {
    /// # Errors
    /// More memory than any program may have, or no file in memory.
    pub fn new(touch: u64) -> Result<Self> {
        ensure!(touch <= MOST, "touch is {touch} bytes, but must be at most {MOST}");
        let steps = touch.div_ceil(STEP);
        let file = memory_file().context("cannot make a program in memory")?;
        let mut writer = File::from(file);
        writer.write_all(&image(steps)).context("cannot write a program to memory")?;
        Ok(Program { file: writer.into(), steps })
    }

    /// Bytes of the pages that it writes to.
    pub fn touched(&self) -> u64 {
        self.steps * STEP
    }

    /// Becomes the program; returns only when that failed, with `errno` set.
    ///
    /// # Safety
    /// To be called in a child of this process. It makes one system call and nothing else.
    pub unsafe fn execute(&self) {
        let argv = [c"touch".as_ptr(), std::ptr::null()];
        let environment = [std::ptr::null::<libc::c_char>()];
        // SAFETY: the path is empty, both lists end with null and outlive the call.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                self.file.as_raw_fd(),
                c"".as_ptr(),
                argv.as_ptr(),
                environment.as_ptr(),
                libc::AT_EMPTY_PATH,
            );
        }
    }
}

/// A kernel before 6.3 knows no flag for an executable file, and needs none.
fn memory_file() -> std::io::Result<OwnedFd> {
    const NAME: &CStr = c"hypertare-fork";
    let flags = [libc::MFD_CLOEXEC | libc::MFD_EXEC, libc::MFD_CLOEXEC];
    for flags in flags {
        // SAFETY: the name ends with a zero byte.
        let fd = unsafe { libc::memfd_create(NAME.as_ptr(), flags) };
        if fd >= 0 {
            // SAFETY: it was opened just now, for this purpose alone.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    Err(std::io::Error::last_os_error())
}

const HEADER: usize = 64;
const PART: usize = 56;
const PARTS: usize = 3;
const CODE_AT: u64 = 0x40_0000;
const CODE_OFFSET: usize = HEADER + PARTS * PART;

/// An ELF file (System V gABI, chapter 4 and 5): the code, the memory that it writes to, and a stack
/// that is not executable.
fn image(steps: u64) -> Vec<u8> {
    let mut code = code().to_vec();
    let count_at = code.len() - 8;
    code[count_at..].copy_from_slice(&steps.to_le_bytes());
    let length = (CODE_OFFSET + code.len()) as u64;
    let mut image = vec![0; HEADER];
    // 64 bits, little end first, version 1, System V.
    image[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\x00");
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &2u16.to_le_bytes()); // an executable file
    put(18, &ARCH.elf_machine.to_le_bytes());
    put(20, &1u32.to_le_bytes());
    put(24, &(CODE_AT + CODE_OFFSET as u64).to_le_bytes()); // entry
    put(32, &(HEADER as u64).to_le_bytes()); // where the parts are listed
    put(52, &(HEADER as u16).to_le_bytes());
    put(54, &(PART as u16).to_le_bytes());
    put(56, &(PARTS as u16).to_le_bytes());
    image.extend(part(PT_LOAD, READ | EXECUTE, CODE_AT, length, length));
    image.extend(match steps {
        0 => part(PT_NULL, 0, 0, 0, 0),
        _ => part(PT_LOAD, READ | WRITE, MEMORY, 0, steps * STEP),
    });
    image.extend(part(PT_GNU_STACK, READ | WRITE, 0, 0, 0));
    image.extend(code);
    image
}

const PT_NULL: u32 = 0;
const PT_LOAD: u32 = 1;
const PT_GNU_STACK: u32 = 0x6474_e551;
const EXECUTE: u32 = 1;
const WRITE: u32 = 2;
const READ: u32 = 4;

fn part(kind: u32, flags: u32, address: u64, in_file: u64, in_memory: u64) -> [u8; PART] {
    let mut part = [0; PART];
    part[..4].copy_from_slice(&kind.to_le_bytes());
    part[4..8].copy_from_slice(&flags.to_le_bytes());
    let words = [0, address, address, in_file, in_memory, STEP];
    for (index, word) in words.into_iter().enumerate() {
        part[8 + 8 * index..16 + 8 * index].copy_from_slice(&word.to_le_bytes());
    }
    part
}

/// The instructions, and after them a place for the number of writes.
fn code() -> &'static [u8] {
    unsafe extern "C" {
        static hypertare_child_begin: u8;
        static hypertare_child_end: u8;
    }
    // SAFETY: both symbols are in this binary, with the code below between them, and are only read.
    unsafe {
        let begin = &raw const hypertare_child_begin;
        let end = &raw const hypertare_child_end;
        std::slice::from_raw_parts(begin, end.offset_from(begin) as usize)
    }
}

core::arch::global_asm!(
    ".pushsection .rodata.hypertare_child, \"a\", @progbits",
    ".balign 8",
    ".globl hypertare_child_begin",
    ".globl hypertare_child_end",
    "hypertare_child_begin:",
    "    mov rcx, [rip + 4f]",
    "    mov edi, {memory}",
    "    jrcxz 3f",
    "2:  mov byte ptr [rdi], 1",
    "    add rdi, {step}",
    "    dec rcx",
    "    jnz 2b",
    "3:  xor edi, edi",
    "    mov eax, {exit}",
    "    syscall",
    "    ud2",
    "    .balign 8",
    "4:  .quad 0",
    "hypertare_child_end:",
    ".popsection",
    memory = const MEMORY,
    step = const STEP,
    exit = const libc::SYS_exit_group,
);

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_code_is_what_it_says_and_asks_the_processor_nothing() {
        let expected: &[&[u8]] = &[
            b"\x48\x8b\x0d",         // mov rcx, [rip + ..]
            b"\xbf\x00\x00\x00\x10", // mov edi, MEMORY
            b"\xe3",                 // jrcxz
            b"\xc6\x07\x01",         // mov byte [rdi], 1
            b"\x48\x81\xc7\x00\x10\x00\x00",
            b"\x48\xff\xc9", // dec rcx
            b"\x75",         // jnz
            b"\x31\xff",     // xor edi, edi
            b"\xb8\xe7\x00\x00\x00",
            b"\x0f\x05", // syscall
            b"\x0f\x0b", // ud2
        ];
        let mut rest = code();
        for instruction in expected {
            let at = rest.windows(instruction.len()).position(|bytes| bytes == *instruction);
            let at = at.unwrap_or_else(|| panic!("{instruction:02x?} is not in {rest:02x?}"));
            // Between instructions are only their own operands.
            assert!(at <= 4, "{at} bytes before {instruction:02x?}");
            rest = &rest[at + instruction.len()..];
        }
        // Padding and the number of writes.
        assert!(rest.len() < 16, "{rest:02x?}");
        // 0f a2 is CPUID, at whatever byte an instruction may begin.
        for steps in [0, 1, 256, 1 << 28] {
            let image = image(steps);
            assert!(!image.windows(2).any(|bytes| bytes == b"\x0f\xa2"), "{steps}");
        }
    }

    #[test]
    fn it_is_a_program_that_a_kernel_executes() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        for steps in [0, 1, 300] {
            let path = folder.path().join(format!("touch{steps}"));
            std::fs::write(&path, image(steps)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            assert!(Command::new(&path).status().unwrap().success(), "{steps}");
        }
    }
}
