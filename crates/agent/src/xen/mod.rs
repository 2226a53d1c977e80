//! Xen: PV guests ("domains") beside the driver domain ("Domain-0", dom0) in which the host agent runs.
//!
//! - in dom0: [`control`] starts what Xen's tools need once the machine has booted; [`domain`] makes
//!   and ends one guest with `xl`; [`vif`] is the hotplug script that joins a guest's interface to
//!   its bridge; [`block`] is the one that
//!   names the device of its disk; [`scheduler`] sets weights; [`placement`] reports what runs on which
//!   CPU; [`account`] asks the hypervisor for CPU time and whether a guest runs, both by [`hypercall`];
//!   [`store`] reports when to ask that.
//! - on a user's host: [`toolstack`] names a run's guests after it, [`keeper`] does for them what cannot be
//!   done in a sandbox, [`cleanup`] removes what they leave, [`journal`] notes what is to be put back.
//! - in a guest: [`console`] is the way in and out. A PV guest has no virtio; its console is a ring
//!   shared with dom0, where xenconsoled makes a terminal of it.
//!
//! Sources: xl(1), xl.cfg(5), Xen's docs/misc/xenstore-paths.pandoc and public/{sysctl,domctl}.h.

pub mod account;
pub mod block;
pub mod cleanup;
pub mod console;
pub mod control;
pub mod domain;
pub mod hypercall;
pub mod journal;
pub mod keeper;
pub mod placement;
pub mod scheduler;
pub mod store;
pub mod tools;
pub mod toolstack;
pub mod vif;

pub use crate::process::under_xen::{Role, role};

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// The driver domain's number.
pub const DRIVER_DOMAIN: u32 = 0;

/// The hypervisor's, for example `Xen 4.17.7`.
///
/// # Errors
/// sysfs does not report it.
pub fn version() -> Result<String> {
    let read = |part: &str| {
        let path = Path::new("/sys/hypervisor/version").join(part);
        let text = fs::read_to_string(&path);
        text.with_context(|| format!("reading {}", path.display()))
    };
    // `extra` begins with its own dot.
    let (major, minor, extra) = (read("major")?, read("minor")?, read("extra")?);
    Ok(format!("Xen {}.{}{}", major.trim(), minor.trim(), extra.trim()))
}
