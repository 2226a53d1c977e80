//! CPU weights of local guests, in the place of a hypervisor's scheduler weights: each guest's virtual
//! CPUs are a group, and the threads that move the guests' packets (of every VMM all others, which
//! also run the kernel's bridge and taps for them) are one more, the driver domain.
//!
//! A cgroup has a `cpu.weight`, 1 to 10000 and normally 100. A plan's weight is normally 256, as in Xen's
//! scheduler, 1 to 65535.
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v2.rst ("CPU", "Threads").

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::cgroup::{Scope, make_in, places, remove_tree};
use super::cpus;

/// The group of those that move packets. No node has this name.
const DRIVER: &str = "driver.domain";
const GROUPS: &str = "weights";
const WEIGHT: &str = "cpu.weight";
const NORMAL: u64 = 256;

/// The groups of one bench. Dropped, they are removed; their threads have ended.
pub struct Weights {
    groups: Groups,
}

/// Where the groups are: also known to who only turns them.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    root: PathBuf,
}

impl Weights {
    /// # Errors
    /// No cgroup with the cpu controller can be made here, and what to do.
    pub fn make(scope: &Scope) -> Result<Self> {
        let weights = Self::make_in(&places()?, &format!("{}.{GROUPS}", scope.name()))?;
        weights.groups.make(DRIVER)?;
        Ok(weights)
    }

    fn make_in(places: &[PathBuf], name: &str) -> Result<Self> {
        for root in places.iter().filter_map(|place| make_in(place, name)) {
            // Whether the controller is handed down to here, and can be handed on.
            if root.join(WEIGHT).exists()
                && fs::write(root.join("cgroup.subtree_control"), "+cpu").is_ok()
            {
                return Ok(Weights { groups: Groups { root } });
            }
            remove_tree(&root);
        }
        bail!(
            "CPU weights of guests need a cgroup of version 2 with the cpu controller that may be \
             written, and there is none: start it as `systemd-run --user --scope -p Delegate=yes \
             hypertare ...`, or as root; where version 1 holds the controller, boot with \
             systemd.unified_cgroup_hierarchy=1; or leave out knobs.driver_weight and \
             knobs.guest_weights"
        )
    }

    pub fn groups(&self) -> &Groups {
        &self.groups
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        remove_tree(&self.groups.root);
    }
}

impl Groups {
    /// As another process gave them.
    pub fn at(root: PathBuf) -> Self {
        Groups { root }
    }

    /// For [`Groups::at`].
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes a VMM's threads in: those of virtual CPUs into a group of the guest's own, all others to
    /// those that move packets. What they start later stays with them.
    pub fn place(&self, guest: &str, pid: i32, cpu_threads: &[i32]) -> Result<()> {
        let own = self.make(guest)?;
        self.take_in(pid)?;
        let list = own.join("cgroup.threads");
        cpu_threads.iter().try_for_each(|&thread| put(&list, thread))
    }

    /// Takes a process in that moves packets.
    pub fn take_in(&self, pid: i32) -> Result<()> {
        let driver = self.root.join(DRIVER);
        put(&self.root.join("cgroup.procs"), pid)?;
        cpus::threads(pid)?.into_iter().try_for_each(|one| put(&driver.join("cgroup.threads"), one))
    }

    /// The file that holds a weight, of a guest or of those that move packets.
    ///
    /// # Errors
    /// There is no such guest in a group.
    pub fn file(&self, guest: Option<&str>) -> Result<PathBuf> {
        let name = guest.unwrap_or(DRIVER);
        let file = self.root.join(name).join(WEIGHT);
        ensure!(file.exists(), "there is no guest {name} whose CPUs have a weight");
        Ok(file)
    }

    /// A weight as the file has it.
    ///
    /// # Errors
    /// Cgroups have no weight so great or so small.
    pub fn value(weight: u32) -> Result<u64> {
        let value = (u64::from(weight) * 100 + NORMAL / 2) / NORMAL;
        ensure!(
            (1..=10_000).contains(&value),
            "cgroups have weights from 2 to 25600 where {NORMAL} is the normal one, not {weight}"
        );
        Ok(value)
    }

    fn make(&self, name: &str) -> Result<PathBuf> {
        let directory = make_in(&self.root, name)
            .with_context(|| format!("no cgroup can be made in {}", self.root.display()))?;
        // Only then can threads of one process be in different groups.
        put(&directory.join("cgroup.type"), "threaded")?;
        Ok(directory)
    }
}

fn put(file: &Path, value: impl std::fmt::Display) -> Result<()> {
    fs::write(file, value.to_string())
        .with_context(|| format!("{} does not take {value}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_scaled_to_what_cgroups_have() {
        assert_eq!((Groups::value(256).unwrap(), Groups::value(2048).unwrap()), (100, 800));
        for impossible in [1, 32768] {
            let error = Groups::value(impossible).unwrap_err().to_string();
            assert!(error.contains("from 2 to 25600"), "{error}");
        }
    }

    #[test]
    fn a_place_without_the_controller_is_left_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        let found = Weights::make_in(&[root.path().to_owned()], "groups");
        let error = found.err().unwrap().to_string();
        assert!(error.contains("cpu controller") && error.contains("as root"), "{error}");
        assert!(!root.path().join("groups").exists());
    }

    #[test]
    fn a_place_hands_the_controller_on_to_groups_of_threads() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("groups");
        fs::create_dir_all(place.join("guest1")).unwrap();
        fs::write(place.join("cpu.weight"), "100").unwrap();
        let weights = Weights::make_in(&[root.path().to_owned()], "groups").unwrap();
        let read = |file: &str| fs::read_to_string(place.join(file)).unwrap();
        assert_eq!(read("cgroup.subtree_control"), "+cpu");
        weights.groups().make("guest1").unwrap();
        assert_eq!(read("guest1/cgroup.type"), "threaded");
        let error = weights.groups().file(Some("guest9")).unwrap_err().to_string();
        assert!(error.contains("no guest guest9"), "{error}");
        fs::remove_dir_all(&place).unwrap();
    }
}
