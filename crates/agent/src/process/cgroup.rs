//! Cgroups that account for nodes and limit their memory and CPUs. Version 2 where it can be written to;
//! version 1's `memory`, `cpuset` and `cpuacct` hierarchies for what version 2 does not offer here.
//!
//! Names are `hypertare-PID-START.NODE`, with the process id of the agent that the user started and
//! the time it started at (field 22 of /proc/PID/stat), so that what dead runs left can be distinguished from
//! what living ones use.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

const PREFIX: &str = "hypertare-";

/// What one run's cgroups are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope(String);

impl Scope {
    /// Of the calling process.
    pub fn own() -> Result<Self> {
        let pid = std::process::id();
        let start = start_time(pid).context("/proc/self/stat has no start time")?;
        Ok(Scope(format!("{PREFIX}{pid}-{start}")))
    }

    /// As another process gave it.
    pub fn named(name: &str) -> Self {
        Scope(name.to_owned())
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// The name of something of the run's.
    pub fn member(&self, name: &str) -> String {
        format!("{}.{name}", self.0)
    }

    /// Whether that is the name of something of the run's.
    pub fn owns(&self, name: &str) -> bool {
        name.strip_prefix(&self.0).is_some_and(|rest| rest.starts_with('.'))
    }
}

/// One node's cgroup: one directory, or one in each hierarchy that is needed.
#[derive(Default)]
pub struct Cgroup {
    directories: Vec<PathBuf>,
    /// Which version accounts for the node, and the directory with the files that do.
    accounting: Option<(&'static str, PathBuf)>,
    limited: bool,
    bound: bool,
}

/// What a node may use at most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// Bytes.
    pub memory: Option<u64>,
    /// CPUs of the machine, by number; all that it has where none is named. Unlike an affinity, a process
    /// cannot set these for itself.
    pub cpus: &'a [u32],
}

impl Cgroup {
    /// Makes it, with those limits that can be set. An error means that none can be made here.
    pub fn make(scope: &Scope, node: &str, limits: Limits) -> Result<Self> {
        let name = scope.member(node);
        let mut cgroup = Cgroup::default();
        for hierarchy in &hierarchies()? {
            match hierarchy.kind.as_str() {
                "cgroup2" => cgroup.use_v2(hierarchy, &name, limits),
                _ if hierarchy.controls("memory") => cgroup.use_v1_memory(hierarchy, &name, limits),
                _ if hierarchy.controls("cpuset") => cgroup.use_v1_cpus(hierarchy, &name, limits),
                _ if hierarchy.controls("cpuacct") => cgroup.use_v1_accounting(hierarchy, &name),
                _ => {}
            }
        }
        if cgroup.accounting.is_none() && !cgroup.limited {
            cgroup.remove();
            bail!("no cgroup hierarchy can be written to");
        }
        Ok(cgroup)
    }

    /// One that only keeps its processes to some CPUs; none where that cannot be had.
    ///
    /// In version 2 it is made in this process's own and in none above: there it would be outside of the
    /// weight and quota of CPU time that this process has, and what runs in it weighed under others.
    pub fn of_cpus(scope: &Scope, node: &str, cpus: &[u32]) -> Option<Self> {
        let mut cgroup = Cgroup::default();
        let (name, limits) = (scope.member(node), Limits { memory: None, cpus });
        for mut hierarchy in hierarchies().ok()? {
            match hierarchy.kind.as_str() {
                "cgroup2" => {
                    hierarchy.places.truncate(1);
                    cgroup.use_v2(&hierarchy, &name, limits);
                }
                _ if hierarchy.controls("cpuset") => cgroup.use_v1_cpus(&hierarchy, &name, limits),
                _ => {}
            }
        }
        cgroup.bound.then_some(cgroup)
    }

    /// Chooses the nearest place that can set the most of the limits, memory first, because a process has
    /// one cgroup of version 2. Which controllers are handed down there is the administrator's choice, and
    /// is not changed here.
    fn use_v2(&mut self, hierarchy: &Hierarchy, name: &str, limits: Limits) {
        let mut chosen: Option<(PathBuf, (bool, bool))> = None;
        for place in &hierarchy.places {
            let Some(made) = make_in(place, name) else { continue };
            let set = (
                limits.memory.is_some_and(|limit| set(&made.join("memory.max"), limit)),
                set_cpus(&made.join("cpuset.cpus"), limits.cpus),
            );
            if chosen.as_ref().is_some_and(|(_, best)| set <= *best) {
                let _ = fs::remove_dir(made);
            } else if let Some((worse, _)) = chosen.replace((made, set)) {
                let _ = fs::remove_dir(worse);
            }
            if set == (limits.memory.is_some(), !limits.cpus.is_empty()) {
                break;
            }
        }
        let Some((directory, set)) = chosen else { return };
        (self.limited, self.bound) = set;
        self.accounting = Some(("v2", directory.clone()));
        self.directories.push(directory);
    }

    fn use_v1_memory(&mut self, hierarchy: &Hierarchy, name: &str, limits: Limits) {
        let Some(limit) = limits.memory.filter(|_| !self.limited) else { return };
        let Some(directory) = hierarchy.places.iter().find_map(|place| make_in(place, name)) else {
            return;
        };
        self.limited = set(&directory.join("memory.limit_in_bytes"), limit);
        self.directories.push(directory);
    }

    fn use_v1_cpus(&mut self, hierarchy: &Hierarchy, name: &str, limits: Limits) {
        if self.bound || limits.cpus.is_empty() {
            return;
        }
        let place = hierarchy.places.iter().find_map(|above| Some((above, make_in(above, name)?)));
        let Some((above, directory)) = place else { return };
        // A new one of version 1 has no memory nodes, and takes no process until it has some.
        let nodes = fs::read_to_string(above.join("cpuset.mems")).unwrap_or_default();
        self.bound = set(&directory.join("cpuset.mems"), nodes.trim())
            && set_cpus(&directory.join("cpuset.cpus"), limits.cpus);
        if self.bound {
            self.directories.push(directory);
        } else {
            let _ = fs::remove_dir(directory);
        }
    }

    fn use_v1_accounting(&mut self, hierarchy: &Hierarchy, name: &str) {
        if self.accounting.is_none()
            && let Some(directory) = hierarchy.places.iter().find_map(|place| make_in(place, name))
        {
            self.accounting = Some(("v1", directory.clone()));
            self.directories.push(directory);
        }
    }

    /// Moves a process in; its later children follow.
    pub fn add(&self, pid: libc::pid_t) -> Result<()> {
        for directory in &self.directories {
            let procs = directory.join("cgroup.procs");
            fs::write(&procs, pid.to_string())
                .with_context(|| format!("cannot move a process into {}", procs.display()))?;
        }
        Ok(())
    }

    /// Whether the memory limit that was asked for is in force.
    pub fn limited(&self) -> bool {
        self.limited
    }

    /// Which version accounts for the node.
    pub fn version(&self) -> Option<String> {
        self.accounting.as_ref().map(|(version, _)| (*version).to_owned())
    }

    /// The directory whose files account for the node's CPU time.
    pub fn accounting(&self) -> Option<&Path> {
        self.accounting.as_ref().map(|(_, directory)| directory.as_path())
    }

    /// Removes it. Its processes have ended; the kernel may need a moment to notice.
    pub fn remove(&mut self) {
        for directory in self.directories.drain(..) {
            remove_directory(&directory, Instant::now() + Duration::from_secs(1));
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The directory that accounts for the CPU time of a process's cgroup, as /proc/PID/cgroup names it.
pub fn accounting_of(memberships: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    parse_hierarchies(&mounts, memberships)
        .into_iter()
        .filter(|found| found.kind == "cgroup2" || found.controls("cpuacct"))
        .filter_map(|found| Some((found.places.first()?.clone(), found.places.len())))
        // In its root there is no group of its own: the mount point's account is of all processes.
        .find_map(|(place, depth)| (depth > 1 && place.is_dir()).then_some(place))
}

/// Removes what a run that has ended made.
pub fn remove_scope(scope: &Scope) {
    let deadline = Instant::now() + Duration::from_secs(1);
    for (name, path) in ours() {
        if scope.owns(&name) {
            remove_directory(&path, deadline);
        }
    }
}

/// Removes what dead runs left: those that were killed together with whatever cleans up after them.
pub fn sweep() {
    for (name, path) in ours() {
        if !is_alive(&name) {
            // Still populated means that it is not dead, only not visible from here.
            remove_tree(&path);
        }
    }
}

/// What the run is called that something is called after.
pub fn run_of(name: &str) -> Option<&str> {
    process_of(name).and_then(|_| name.split('.').next())
}

/// Whether the run that something is called after has not ended.
pub fn is_alive(name: &str) -> bool {
    process_of(name).is_none_or(|(pid, start)| start_time(pid) == Some(start))
}

/// The run's first process, and when that started.
fn process_of(name: &str) -> Option<(u32, u64)> {
    let (pid, start) = name.split('.').next()?.strip_prefix(PREFIX)?.split_once('-')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in parentheses and may hold anything, so count from its end.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn ours() -> Vec<(String, PathBuf)> {
    let places = hierarchies().unwrap_or_default().into_iter().flat_map(|found| found.places);
    let mut found = Vec::new();
    for entry in places.filter_map(|place| fs::read_dir(place).ok()).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(PREFIX) {
            found.push((name, entry.path()));
        }
    }
    found
}

/// Writes to a file that the kernel must have made: where the controller is not handed down it is not
/// there, and making it is refused.
fn set(file: &Path, limit: impl std::fmt::Display) -> bool {
    let opened = fs::File::options().write(true).truncate(true).open(file);
    opened.is_ok_and(|mut file| write!(file, "{limit}").is_ok())
}

fn set_cpus(file: &Path, cpus: &[u32]) -> bool {
    let list = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    !cpus.is_empty() && set(file, list)
}

pub(super) fn make_in(place: &Path, name: &str) -> Option<PathBuf> {
    let directory = place.join(name);
    match fs::create_dir(&directory) {
        Ok(()) => Some(directory),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Some(directory),
        Err(_) => None,
    }
}

/// Removes a group and those in it, if they are empty.
pub(super) fn remove_tree(directory: &Path) {
    remove_directory(directory, Instant::now());
}

fn remove_directory(directory: &Path, deadline: Instant) {
    let inner = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_directory(&entry.path(), deadline);
    }
    while let Err(error) = fs::remove_dir(directory) {
        if error.raw_os_error() != Some(libc::EBUSY) || Instant::now() > deadline {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A mounted hierarchy, and where in it this process may perhaps make a cgroup: in its own, so that
/// the limits on the caller go on to hold, else in the ones above, the nearest first. In version 2
/// one that holds processes hands no controller down, so that only one above can limit memory: for a
/// user of systemd the slice that `systemd-run --user --scope` makes scopes in.
#[derive(Debug, PartialEq)]
pub(super) struct Hierarchy {
    pub(super) kind: String,
    pub(super) controllers: Vec<String>,
    pub(super) places: Vec<PathBuf>,
}

impl Hierarchy {
    pub(super) fn controls(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

pub(super) fn hierarchies() -> Result<Vec<Hierarchy>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let memberships = fs::read_to_string("/proc/self/cgroup")?;
    Ok(parse_hierarchies(&mounts, &memberships))
}

/// Version 2 comes first: what it offers is preferred.
fn parse_hierarchies(mounts: &str, memberships: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> =
        mounts.lines().filter_map(|line| parse_hierarchy(line, memberships)).collect();
    found.sort_by_key(|hierarchy| hierarchy.kind != "cgroup2");
    found
}

/// A line of mountinfo: `36 35 0:31 ROOT MOUNTPOINT options - cgroup source super,options`.
fn parse_hierarchy(line: &str, memberships: &str) -> Option<Hierarchy> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, mount_point) = (left.next()?, Path::new(left.next()?));
    let mut right = right.split(' ');
    let kind = right.next().filter(|kind| matches!(*kind, "cgroup" | "cgroup2"))?;
    let controllers: Vec<String> = match kind {
        "cgroup" => right.nth(1)?.split(',').map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let inside = own_path(kind, &controllers, memberships)
        .and_then(|path| path.strip_prefix(root.trim_end_matches('/')))
        // Outside of what the mount shows it begins with `/..`.
        .filter(|inside| !inside.split('/').any(|part| part == ".."))
        .unwrap_or_default();
    let own = mount_point.join(inside.trim_start_matches('/'));
    let places =
        own.ancestors().take_while(|place| place.starts_with(mount_point)).map(Path::to_owned);
    let places = places.collect();
    Some(Hierarchy { kind: kind.to_owned(), controllers, places })
}

/// This process's cgroup in the hierarchy. A line of /proc/self/cgroup: `4:memory:/a/b`, `0::/a/b`.
fn own_path<'a>(kind: &str, controllers: &[String], memberships: &'a str) -> Option<&'a str> {
    memberships.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        let matches = match kind {
            "cgroup2" => names.is_empty(),
            _ => !names.is_empty() && names.split(',').all(|n| controllers.iter().any(|c| c == n)),
        };
        matches.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
24 1 254:0 / / rw - ext4 /dev/vda rw
30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

    #[test]
    fn hybrid_hierarchies_are_found_with_version_2_first_and_the_own_cgroup_before_those_above() {
        let found = parse_hierarchies(MOUNTS, "4:memory:/jobs/7\n3:cpu,cpuacct:/\n0::/\n");
        assert_eq!(found[0].places, [PathBuf::from("/sys/fs/cgroup/unified/")]);
        let places = ["memory/jobs/7", "memory/jobs", "memory"];
        assert_eq!(found[1].places, places.map(|place| Path::new("/sys/fs/cgroup").join(place)));
        assert!(found[1].controls("memory") && found[2].controls("cpuacct"));
    }

    #[test]
    fn a_mount_that_shows_only_a_part_is_seen_from_its_root() {
        let mounts = "30 24 0:26 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw";
        let found = parse_hierarchies(mounts, "0::/docker/ab/x\n");
        assert_eq!(found[0].places[0], Path::new("/sys/fs/cgroup/x"));
        let outside =
            parse_hierarchies("30 24 0:26 / /sys/fs/cgroup rw - cgroup2 c rw", "0::/../x\n");
        assert_eq!(outside[0].places, [Path::new("/sys/fs/cgroup")]);
    }

    #[test]
    fn of_several_places_the_nearest_that_sets_the_most_is_used() {
        let home = std::env::temp_dir().join(format!("hypertare-cgroup-{}", std::process::id()));
        let slice = home.join("app.slice");
        let own = slice.join("run.scope");
        fs::create_dir_all(&own).unwrap();
        let places = [own.clone(), slice.clone(), home.clone()];
        // What a kernel does where a controller is handed down: each new cgroup has its file.
        let hand_down = |place: &Path, file: &str| {
            fs::create_dir_all(place.join("node")).unwrap();
            fs::write(place.join("node").join(file), "max").unwrap();
        };
        let chosen = |limits: Limits| {
            let hierarchy =
                Hierarchy { kind: "cgroup2".into(), controllers: vec![], places: places.to_vec() };
            let mut cgroup = Cgroup::default();
            cgroup.use_v2(&hierarchy, "node", limits);
            (std::mem::take(&mut cgroup.directories), cgroup.limited, cgroup.bound)
        };
        let memory = Some(4096);
        hand_down(&slice, "memory.max");
        assert_eq!(
            chosen(Limits { memory, cpus: &[0, 2] }),
            (vec![slice.join("node")], true, false),
            "a limit of memory is worth more than none"
        );
        assert_eq!(fs::read_to_string(slice.join("node/memory.max")).unwrap(), "4096");
        assert!(!own.join("node").exists(), "what is not used is removed again");
        hand_down(&home, "memory.max");
        hand_down(&home, "cpuset.cpus");
        assert_eq!(chosen(Limits { memory, cpus: &[0, 2] }), (vec![home.join("node")], true, true));
        assert_eq!(fs::read_to_string(home.join("node/cpuset.cpus")).unwrap(), "0,2");
        assert_eq!(chosen(Limits::default()), (vec![own.join("node")], false, false));
        fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn runs_are_reported_apart_by_process_and_start() {
        let own = Scope::own().unwrap();
        assert!(is_alive(&format!("{}.guest0", own.name())));
        assert!(!is_alive(&format!("{PREFIX}{}-1.guest0", std::process::id())));
        assert!(is_alive("hypertare-somebody-elses"));
        assert_eq!(run_of(&own.member("guest0")), Some(own.name()));
        assert!(run_of("hypertare-somebody-elses").is_none() && run_of("mail").is_none());
        assert!(own.owns(&format!("{}.guest0", own.name())));
        assert!(!own.owns(&format!("{}0.guest0", own.name())));
    }
}
