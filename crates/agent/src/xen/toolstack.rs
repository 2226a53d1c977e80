//! What a run makes its guests with: how they are called, where their configurations lie, and the
//! script that joins their interfaces to bridges.
//!
//! On an emulated machine guests have the names of their nodes. A user's host may have other guests too, so
//! the names of a run's guests begin with the name of the run: by that the run itself, its
//! [`keeper`](super::keeper) and the next run recognise them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hypertare_plan::XEN_VIF_SCRIPT;
use rustix::mount::mount_bind;

use crate::process::cgroup::Scope;
use crate::process::namespaces;

/// A file of the machine's image whose interpreter is this agent: see the image's builder.
const OWN_DIRECTORY: &str = "/run/hypertare-domains";

/// The host's settings of `xl`.
const SETTINGS: &str = "/etc/xen/xl.conf";
/// Ours: a guest that does not fit is not to be fitted in by taking memory from the driver domain.
const OWN_SETTINGS: &str = "autoballoon=\"off\"\n";

#[derive(Clone, Debug)]
pub struct XenToolstack {
    scope: Option<Scope>,
    pub script: PathBuf,
    pub directory: PathBuf,
}

impl XenToolstack {
    /// Of a machine that is the experiment's own.
    pub fn of_own_machine() -> Self {
        XenToolstack { scope: None, script: XEN_VIF_SCRIPT.into(), directory: OWN_DIRECTORY.into() }
    }

    /// Of a run on somebody's host: all of it lies in the sandbox's memory.
    pub fn in_sandbox(scope: &Scope) -> Result<Self> {
        let directory = namespaces::scratch("xen")?;
        let script = write_script(&directory)?;
        if Path::new(SETTINGS).exists() {
            let own = directory.join("xl.conf");
            fs::write(&own, OWN_SETTINGS).context("writing settings of xl")?;
            mount_bind(&own, SETTINGS).with_context(|| format!("covering {SETTINGS}"))?;
        }
        Ok(XenToolstack { scope: Some(scope.clone()), script, directory })
    }

    /// The run's name, where its guests carry it.
    pub fn scope(&self) -> Option<&Scope> {
        self.scope.as_ref()
    }

    /// How Xen's tools know the guest of a node.
    pub fn name(&self, node: &str) -> String {
        name(self.scope.as_ref(), node)
    }
}

pub fn name(scope: Option<&Scope>, node: &str) -> String {
    scope.map_or_else(|| node.to_owned(), |scope| scope.member(node))
}

/// The script, under the same path wherever a run's scratch memory is mounted: Xen's tools note it when
/// they make an interface, and look for it again when that goes.
pub fn write_script(directory: &Path) -> Result<PathBuf> {
    let program = std::env::current_exe().context("this program's own path")?;
    let interpreter = directory.join("agent");
    symlink(program, &interpreter).context("naming the agent")?;
    let script = directory.join("vif");
    fs::write(&script, format!("#!{} xen-vif\n", interpreter.display()))
        .and_then(|()| fs::set_permissions(&script, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("writing {}", script.display()))?;
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_users_host_guests_carry_the_runs_name() {
        assert_eq!(XenToolstack::of_own_machine().name("xen1"), "xen1");
        let scope = Scope::named("hypertare-7-99");
        assert_eq!(name(Some(&scope), "xen1"), "hypertare-7-99.xen1");
        assert!(scope.owns("hypertare-7-99.xen1"));
    }

    #[test]
    fn the_script_is_one_that_the_kernel_starts() {
        let directory = tempfile::tempdir().unwrap();
        let script = write_script(directory.path()).unwrap();
        let text = fs::read_to_string(&script).unwrap();
        let interpreter = text.strip_prefix("#!").unwrap().split(' ').next().unwrap();
        assert_eq!(fs::read_link(interpreter).unwrap(), std::env::current_exe().unwrap());
        assert!(rustix::fs::access(&script, rustix::fs::Access::EXEC_OK).is_ok());
    }
}
