//! Guests: VMs started and watched from the host agent, and the init that runs inside them.
//!
//! - outside: [`vmm`] runs one QEMU ([`argv`] is its command line, [`qmp`] how it is asked,
//!   [`console`] what it prints); [`boot`] does that for one guest alone.
//! - inside: [`init`] is PID 1; it loads [`modules`] and hands over to the node agent, which may
//!   want the machine's files from [`share`].
//!
//! The two sides meet in a virtio-serial port: orders in, records out. The kernel's command line
//! says which modules a guest needs. Nothing else enters, so a plan that lies in the initramfs
//! later needs a different input for the node agent and no other change.

pub mod argv;
pub mod boot;
pub mod console;
pub mod init;
pub mod modules;
pub mod qmp;
pub mod share;
pub mod vmm;

/// Name of the virtio-serial port between a guest's agent and its machine's.
pub const PORT: &str = "hypertare";

/// Tag of the 9p share that holds the machine's files.
pub const SHARE_TAG: &str = "root";

/// Parameter of the kernel's command line: the modules to load, separated by commas.
pub const MODULES_PARAMETER: &str = "hypertare.modules=";
