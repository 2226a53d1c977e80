//! What who boots a machine of ours and the agent that is its init agree on: names that the one writes
//! and the other reads. Orders go in and records come out by a virtio-serial port (Xen's guests: by
//! their console); the kernel's command line says what to load. Nothing else enters.
//! What Python has to know of this too is in `hypertare_plan`'s constants.

use std::path::Path;

use hypertare_plan::MODULES_DIRECTORY;

/// Name of the virtio-serial port between a guest's agent and its machine's.
pub const PORT: &str = "hypertare";

/// Tag of the 9p share that holds the machine's files.
pub const SHARE_TAG: &str = "root";

/// Parameter: a program of the archive that is started in the agent's place, on a machine that is to be
/// more than one that carries out a plan.
pub const PROGRAM_PARAMETER: &str = "hypertare.program=";

/// Parameter: seconds of an emulated machine's own clock after which it ends, whatever it does.
pub const LIMIT_PARAMETER: &str = "hypertare.limit=";

/// Parameter: the device of the guest's disk.
pub const DISK_PARAMETER: &str = "hypertare.disk=";

/// Parameter: by which file system the guest reaches the directory that its disk is a file in.
pub const FILES_PARAMETER: &str = "hypertare.files=";

/// Where it has that directory, what the file is called there, and the tag of the share.
pub const FILES_DIRECTORY: &str = "/files";
pub const FILE_OF_DISK: &str = "disk";
pub const FILES_TAG: &str = "files";

/// Environment variable: where a node's work finds its disk.
pub const DISK_VARIABLE: &str = "HYPERTARE_DISK";

/// Whether this machine is an experiment's own: one that was booted from an image of ours.
pub fn is_own_machine() -> bool {
    Path::new(MODULES_DIRECTORY).join("index").exists()
}
