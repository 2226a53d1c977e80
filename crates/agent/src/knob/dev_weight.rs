//! Packets that one poll may take from a CPU's backlog, which takes what is steered to it and what
//! links of software hand on (Documentation/admin-guide/sysctl/net.rst, dev_weight).

use std::path::Path;

use anyhow::Result;

use super::Wanted;
use super::file::core_sysctl;

/// `sysctls` is `/proc/sys/net`, but for tests.
pub fn places(sysctls: &Path, packets: u32) -> Result<Vec<Wanted>> {
    Ok(vec![core_sysctl(sysctls, "dev_weight", packets)?])
}
