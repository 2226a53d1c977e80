//! What serves disks of Xen's guests, on an experiment's own driver domain, whose modules came with us.

use anyhow::{Context, Result};

use super::modules;

/// Sees to it that it is there.
///
/// # Errors
/// The image lacks the module.
pub fn ensure() -> Result<()> {
    modules::load("xen_blkback", "").context(
        "a guest of Xen is to have a disk, and this image's kernel has no xen_blkback: take a kernel that \
         has it (Debian's)",
    )
}
