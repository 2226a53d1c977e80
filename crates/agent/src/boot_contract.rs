//! What who boots a machine of ours and the agent that is its init agree on: names that the one writes
//! and the other reads. Orders go in and records come out by a virtio-serial port (Xen's guests: by
//! their console); the kernel's command line says what to load. Nothing else enters.

use std::path::Path;

/// Name of the virtio-serial port between a guest's agent and its machine's.
pub const PORT: &str = "hypertare";

/// Tag of the 9p share that holds the machine's files.
pub const SHARE_TAG: &str = "root";

/// Where the image builder puts kernel modules and their index.
pub const MODULES: &str = "/modules";

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

/// How everything begins that the agent prints on a guest's console.
pub const CONSOLE_PREFIX: &str = "hypertare: ";

/// Whether this machine is an experiment's own: one that was booted from an image of ours.
pub fn is_own_machine() -> bool {
    Path::new(MODULES).join("index").exists()
}
