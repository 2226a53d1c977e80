//! vhost-net on an experiment's own machine, whose modules came with us.

use std::path::Path;

use anyhow::{Context, Result};

use super::modules;

/// Sees to it that vhost-net is there.
///
/// # Errors
/// The image lacks the module.
pub fn ensure() -> Result<()> {
    if Path::new("/dev/vhost-net").exists() {
        return Ok(());
    }
    modules::load("vhost_net", "").context(
        "sut.datapath asks for vhost, and this image's kernel has no vhost_net: take a kernel that \
         has it (Debian's), or another datapath",
    )
}
