//! Guests' VMMs, seen from outside: [`qemu`] runs one ([`argv`] is its command line, [`initramfs`] what
//! it boots, [`qmp`] how it is asked, [`console`] what it prints, [`jail`] what keeps it from this host,
//! [`backing`] and [`paging`] how its memory is mapped); [`boot`] does that for one guest alone.

pub mod argv;
pub mod backing;
pub mod boot;
pub mod console;
pub mod initramfs;
pub mod jail;
pub mod paging;
pub mod qemu;
pub mod qmp;
