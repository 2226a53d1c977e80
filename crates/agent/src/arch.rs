//! The processor architecture that this agent runs on, and its names and numbers in programs, packages and
//! the kernel.
//!
//! One is supported, x86-64. Another one needs a value of [`Arch`], and further: the program that `fork`
//! executes (`workload/fork/child.rs`), an instruction for `cpuid`, the system calls of containers
//! (`workload/system_calls.rs`), a counter of cycles (`vmm/tsc.rs`), the processors' own events
//! (`probe/hardware.rs`, `probe/cpu_modes.rs`), and of QEMU a machine and CPU models
//! (`vmm/command_line.rs`). The controller's names of it are in `src/hypertare/base/arch.py`.

use seccompiler::TargetArch;

pub struct Arch {
    /// QEMU's program for whole machines.
    pub qemu: &'static str,
    /// Debian's package with that program.
    pub qemu_package: &'static str,
    /// The file name of the dynamic loader.
    pub loader: &'static str,
    /// As an ELF file's header names it (EM_* of linux/elf-em.h).
    pub elf_machine: u16,
    /// As the kernel names it to a filter of system calls (AUDIT_ARCH_* of linux/audit.h).
    pub audit: u32,
    /// As the library that makes such filters names it.
    pub filtered: TargetArch,
}

/// The one of this host and of its guests.
pub const ARCH: Arch = Arch {
    qemu: "qemu-system-x86_64",
    qemu_package: "qemu-system-x86",
    loader: "ld-linux-x86-64.so.2",
    elf_machine: 62,
    audit: 0xC000_003E,
    filtered: TargetArch::x86_64,
};
