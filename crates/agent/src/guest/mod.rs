//! Guests: VMs started and watched from the host agent, and the init that runs inside them.
//!
//! - outside: [`vmm`] runs one QEMU ([`argv`] is its command line, [`qmp`] how it is asked,
//!   [`console`] what it prints, [`jail`] what keeps it from this host, [`backing`] and [`paging`]
//!   how its memory is mapped); [`boot`] does that for one guest alone. On a machine of an experiment's own, [`kvm_module`] and
//!   [`huge_pages`] see to it that a guest can have what it is to have.
//! - inside: [`init`] is PID 1; it loads [`modules`] and hands over to the node agent, which may
//!   want the machine's files from [`share`].
//!
//! The two sides meet in a virtio-serial port: orders in, records out. The kernel's command line
//! says which modules a guest needs. Nothing else enters.
//!
//! [`emulated`] is the other use of QEMU: a whole PC as the machine of an experiment. Its init finds
//! the plan in the initramfs and carries it out; records go out, nothing comes in.

pub mod argv;
pub mod backing;
pub mod boot;
pub mod console;
pub mod emulated;
pub mod huge_pages;
pub mod init;
pub mod jail;
pub mod kvm_module;
pub mod modules;
pub mod paging;
pub mod qmp;
pub mod share;
pub mod vmm;

/// Name of the virtio-serial port between a guest's agent and its machine's.
pub const PORT: &str = "hypertare";

/// Tag of the 9p share that holds the machine's files.
pub const SHARE_TAG: &str = "root";

/// Parameter of the kernel's command line: the modules to load, separated by commas.
pub const MODULES_PARAMETER: &str = "hypertare.modules=";

/// The plan that an emulated machine finds in its initramfs.
pub const PLAN: &str = "/plan.jsonl";

/// Parameter: what the kernel's random numbers of an emulated machine start from.
pub const SEED_PARAMETER: &str = "hypertare.seed=";

/// Parameter: a program of the archive that is started in the agent's place, on a machine that is to be
/// more than one that carries out a plan.
pub const PROGRAM_PARAMETER: &str = "hypertare.program=";

/// Parameter: seconds of an emulated machine's own clock after which it ends, whatever it does.
pub const LIMIT_PARAMETER: &str = "hypertare.limit=";
