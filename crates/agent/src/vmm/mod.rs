//! Guests' VMMs, seen from outside: [`qemu`] runs one as its [`spec`] says ([`guest_command_line`] is how, of what [`command_line`] has for all, [`port`] what is behind its cards, [`initramfs`] what
//! it boots, [`qmp`] how it is asked, [`console`] what it prints, [`jail`] what keeps it from this host,
//! [`backing`] and [`paging`] how its memory is mapped, [`tsc`] how fast its clock counts,
//! [`shared_files`] a directory that it works in); [`boot`] does that for one guest alone.

pub mod backing;
pub mod boot;
pub mod command_line;
pub mod console;
pub mod guest_command_line;
pub mod initramfs;
pub mod jail;
pub mod paging;
pub mod port;
pub mod qemu;
pub mod qmp;
pub mod shared_files;
pub mod spec;
pub mod tsc;
