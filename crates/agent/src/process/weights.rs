//! CPU weights of local guests, in the place of a hypervisor's scheduler weights: each guest's virtual
//! CPUs are a group, and the threads that move the guests' packets (of every VMM all others, which
//! also run the kernel's bridge and taps for them) are one more, the driver domain.
//!
//! Version 2 of cgroups has `cpu.weight`, 1 to 10000 and normally 100; version 1 has `cpu.shares`, 2
//! to 262144 and normally 1024. A plan's weight is normally 256, as in Xen's scheduler, 1 to 65535.
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v2.rst ("CPU", "Threads") and
//! scheduler/sched-design-CFS.rst, section 7.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::cgroup::{Hierarchy, Scope, hierarchies, make_in, remove_tree};
use super::cpus;

/// The group of those that move packets. No node has this name.
const DRIVER: &str = "driver.domain";
const GROUPS: &str = "weights";
const NORMAL: u64 = 256;

/// The groups of one bench. Dropped, they are removed; their threads have ended.
pub struct Weights {
    groups: Groups,
}

/// Where the groups are: also known to who only turns them.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    root: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    V1,
    V2,
}

impl Weights {
    /// # Errors
    /// No cgroup with the cpu controller can be made here, and what to do.
    pub fn make(scope: &Scope) -> Result<Self> {
        let weights = Self::make_in(&hierarchies()?, &format!("{}.{GROUPS}", scope.name()))?;
        weights.groups.make(DRIVER)?;
        Ok(weights)
    }

    fn make_in(hierarchies: &[Hierarchy], name: &str) -> Result<Self> {
        for hierarchy in hierarchies {
            let version = match hierarchy.kind.as_str() {
                "cgroup2" => Version::V2,
                _ if hierarchy.controls("cpu") => Version::V1,
                _ => continue,
            };
            for root in hierarchy.places.iter().filter_map(|place| make_in(place, name)) {
                let groups = Groups { root, version };
                let hand_on = || fs::write(groups.root.join("cgroup.subtree_control"), "+cpu");
                // Whether the controller is handed down to here, and can be handed on.
                if groups.root.join(groups.attribute()).exists()
                    && (version == Version::V1 || hand_on().is_ok())
                {
                    return Ok(Weights { groups });
                }
                remove_tree(&groups.root);
            }
        }
        bail!(
            "CPU weights of guests need a cgroup with the cpu controller that may be written, and \
             there is none: start it as `systemd-run --user --scope -p Delegate=yes hypertare ...` \
             (cgroup v2 under systemd), or as root; or leave out knobs.driver_weight and \
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
    /// As they are given to another process.
    pub fn at(text: &str) -> Result<Self> {
        let (version, root) = text.split_once(':').context("this is no place of groups")?;
        let version = if version == "v1" { Version::V1 } else { Version::V2 };
        Ok(Groups { root: root.into(), version })
    }

    /// For [`Groups::at`].
    pub fn text(&self) -> String {
        let version = if self.version == Version::V1 { "v1" } else { "v2" };
        format!("{version}:{}", self.root.display())
    }

    /// Takes a VMM's threads in: those of virtual CPUs into a group of the guest's own, all others to
    /// those that move packets. What they start later stays with them.
    pub fn place(&self, guest: &str, pid: i32, cpu_threads: &[i32]) -> Result<()> {
        let own = self.make(guest)?;
        self.take_in(pid)?;
        let list = if self.version == Version::V1 { "tasks" } else { "cgroup.threads" };
        cpu_threads.iter().try_for_each(|&thread| put(&own.join(list), thread))
    }

    /// Takes a process in that moves packets.
    pub fn take_in(&self, pid: i32) -> Result<()> {
        let driver = self.root.join(DRIVER);
        if self.version == Version::V1 {
            return put(&driver.join("cgroup.procs"), pid);
        }
        put(&self.root.join("cgroup.procs"), pid)?;
        cpus::threads(pid)?.into_iter().try_for_each(|one| put(&driver.join("cgroup.threads"), one))
    }

    /// The file that holds a weight, of a guest or of those that move packets.
    ///
    /// # Errors
    /// There is no such guest in a group.
    pub fn file(&self, guest: Option<&str>) -> Result<PathBuf> {
        let name = guest.unwrap_or(DRIVER);
        let file = self.root.join(name).join(self.attribute());
        ensure!(file.exists(), "there is no guest {name} whose CPUs have a weight");
        Ok(file)
    }

    /// A weight as the file has it.
    ///
    /// # Errors
    /// Version 2 has no weight so great or so small.
    pub fn value(&self, weight: u32) -> Result<u64> {
        let weight = u64::from(weight);
        if self.version == Version::V1 {
            return Ok(weight * 1024 / NORMAL);
        }
        let value = (weight * 100 + NORMAL / 2) / NORMAL;
        ensure!(
            (1..=10_000).contains(&value),
            "cgroups of version 2 have weights from 2 to 25600 where {NORMAL} is the normal one, not \
             {weight}"
        );
        Ok(value)
    }

    fn attribute(&self) -> &'static str {
        if self.version == Version::V1 { "cpu.shares" } else { "cpu.weight" }
    }

    fn make(&self, name: &str) -> Result<PathBuf> {
        let directory = make_in(&self.root, name)
            .with_context(|| format!("no cgroup can be made in {}", self.root.display()))?;
        if self.version == Version::V2 {
            // Only then can threads of one process be in different groups.
            put(&directory.join("cgroup.type"), "threaded")?;
        }
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

    /// A directory that looks as a kernel would make it: files are there as soon as the directory is.
    fn hierarchy(kind: &str, root: &Path) -> Hierarchy {
        let controllers = if kind == "cgroup" { vec!["cpu".to_owned()] } else { vec![] };
        Hierarchy { kind: kind.into(), controllers, places: vec![root.to_owned()] }
    }

    #[test]
    fn weights_are_scaled_to_what_the_version_has() {
        let v1 = Groups { root: "/x".into(), version: Version::V1 };
        assert_eq!((v1.value(256).unwrap(), v1.value(65535).unwrap()), (1024, 262_140));
        let v2 = Groups { root: "/x".into(), version: Version::V2 };
        assert_eq!((v2.value(256).unwrap(), v2.value(2048).unwrap()), (100, 800));
        for impossible in [1, 32768] {
            let error = v2.value(impossible).unwrap_err().to_string();
            assert!(error.contains("from 2 to 25600"), "{error}");
        }
        for groups in [v1, v2] {
            assert_eq!(Groups::at(&groups.text()).unwrap(), groups);
        }
    }

    #[test]
    fn a_place_without_the_controller_is_left_as_it_was() {
        let root = tempfile::tempdir().unwrap();
        for kind in ["cgroup", "cgroup2"] {
            let found = Weights::make_in(&[hierarchy(kind, root.path())], "groups");
            let error = found.err().unwrap().to_string();
            assert!(error.contains("cpu controller") && error.contains("as root"), "{error}");
        }
        assert!(!root.path().join("groups").exists());
    }

    #[test]
    fn a_version_2_place_hands_the_controller_on_to_groups_of_threads() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("groups");
        fs::create_dir_all(place.join("guest1")).unwrap();
        fs::write(place.join("cpu.weight"), "100").unwrap();
        let weights = Weights::make_in(&[hierarchy("cgroup2", root.path())], "groups").unwrap();
        let read = |file: &str| fs::read_to_string(place.join(file)).unwrap();
        assert_eq!(read("cgroup.subtree_control"), "+cpu");
        weights.groups().make("guest1").unwrap();
        assert_eq!(read("guest1/cgroup.type"), "threaded");
        let error = weights.groups().file(Some("guest9")).unwrap_err().to_string();
        assert!(error.contains("no guest guest9"), "{error}");
        fs::remove_dir_all(&place).unwrap();
    }
}
