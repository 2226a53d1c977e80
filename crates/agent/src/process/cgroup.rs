//! Cgroups that account for nodes and limit their memory and CPUs: of version 2, wherever it is mounted. Where
//! version 1 holds the controllers, those of version 2 account for CPU time and limit nothing.
//!
//! Names are `hypertare-PID-START.NODE`, with the process id of the agent that the user started and
//! the time it started at (field 22 of /proc/PID/stat), so that what dead runs left can be distinguished from
//! what living ones use.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// As records have it: those of earlier runs also have `v1`.
pub const VERSION: &str = "v2";

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

/// One node's cgroup.
pub struct Cgroup {
    directory: PathBuf,
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
        Self::make_in(&places()?, &scope.member(node), limits)
            .context("no cgroup of version 2 can be written to")
    }

    /// One that only keeps its processes to some CPUs; none where that cannot be had.
    ///
    /// It is made in this process's own and in none above: there it would be outside of the weight and quota
    /// of CPU time that this process has, and what runs in it weighed under others.
    pub fn of_cpus(scope: &Scope, node: &str, cpus: &[u32]) -> Option<Self> {
        let own = places().ok()?.into_iter().take(1).collect::<Vec<_>>();
        Self::make_in(&own, &scope.member(node), Limits { memory: None, cpus })
            .filter(|cgroup| cgroup.bound)
    }

    /// Chooses the nearest place that can set the most of the limits, memory first, because a process has
    /// one cgroup. Which controllers are handed down there is the administrator's choice, and is not changed
    /// here.
    fn make_in(places: &[PathBuf], name: &str, limits: Limits) -> Option<Self> {
        let mut chosen: Option<Self> = None;
        for place in places {
            let Some(directory) = make_in(place, name) else { continue };
            let limited =
                limits.memory.is_some_and(|limit| set(&directory.join("memory.max"), limit));
            let bound = set_cpus(&directory.join("cpuset.cpus"), limits.cpus);
            let made = Cgroup { directory, limited, bound };
            // What is not kept is removed as it is dropped.
            if chosen.as_ref().is_none_or(|best| made.sets() > best.sets()) {
                chosen = Some(made);
            }
            if (limited, bound) == (limits.memory.is_some(), !limits.cpus.is_empty()) {
                break;
            }
        }
        chosen
    }

    fn sets(&self) -> (bool, bool) {
        (self.limited, self.bound)
    }

    /// Moves a process in; its later children follow.
    pub fn add(&self, pid: libc::pid_t) -> Result<()> {
        let procs = self.directory.join("cgroup.procs");
        fs::write(&procs, pid.to_string())
            .with_context(|| format!("cannot move a process into {}", procs.display()))
    }

    /// Whether the memory limit that was asked for is in force.
    pub fn limited(&self) -> bool {
        self.limited
    }

    /// The directory whose files account for the node's CPU time.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Cgroup {
    /// Its processes have ended; the kernel may need a moment to notice.
    fn drop(&mut self) {
        remove_directory(&self.directory, Instant::now() + Duration::from_secs(1));
    }
}

/// The directory that accounts for the CPU time of a process's cgroup, as /proc/PID/cgroup names it.
pub fn accounting_of(memberships: &str) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    accounting(&mounts, memberships).filter(|place| place.is_dir())
}

fn accounting(mounts: &str, memberships: &str) -> Option<PathBuf> {
    if has_another_of_version_1(memberships) {
        return None;
    }
    let found = parse_places(mounts, memberships);
    // In its root there is no group of its own: the mount point's account is of all processes.
    found.first().filter(|_| found.len() > 1).cloned()
}

/// Whether a process has a group of version 1 for its CPU time that is called otherwise than its group of
/// version 2: an engine that makes groups of version 1 only leaves its containers in its own of version 2.
fn has_another_of_version_1(memberships: &str) -> bool {
    let path_of = |controller: &str| {
        memberships.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            controllers.split(',').any(|name| name == controller).then_some(path)
        })
    };
    path_of("cpuacct").is_some_and(|path| path != "/" && path_of("") != Some(path))
}

/// A limit on this process's memory that a run of ours has set: the directory of its cgroup, and bytes.
pub fn own_limit() -> Option<(PathBuf, u64)> {
    let own = places().ok()?.into_iter().next()?;
    run_of(own.file_name()?.to_str()?)?;
    let limit = fs::read_to_string(own.join("memory.max")).ok()?.trim().parse().ok()?;
    Some((own, limit))
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
    let mut found = Vec::new();
    for entry in places()
        .unwrap_or_default()
        .iter()
        .filter_map(|place| fs::read_dir(place).ok())
        .flatten()
        .flatten()
    {
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

/// Where this process may perhaps make a cgroup: in its own, so that the limits on the caller go on to hold,
/// else in the ones above, the nearest first. One that holds processes hands no controller down, so that only
/// one above can limit memory: for a user of systemd the slice that `systemd-run --user --scope` makes scopes
/// in.
pub(super) fn places() -> Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let memberships = fs::read_to_string("/proc/self/cgroup")?;
    Ok(parse_places(&mounts, &memberships))
}

fn parse_places(mounts: &str, memberships: &str) -> Vec<PathBuf> {
    mounts.lines().find_map(|line| parse_mount(line, memberships)).unwrap_or_default()
}

/// A line of mountinfo: `36 35 0:31 ROOT MOUNTPOINT options - cgroup2 source super,options`.
fn parse_mount(line: &str, memberships: &str) -> Option<Vec<PathBuf>> {
    let (left, right) = line.split_once(" - ")?;
    right.strip_prefix("cgroup2 ")?;
    let mut left = left.split(' ').skip(3);
    let (root, mount_point) = (left.next()?, Path::new(left.next()?));
    // Version 2's line of /proc/self/cgroup: `0::/a/b`.
    let inside = memberships
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .and_then(|path| path.strip_prefix(root.trim_end_matches('/')))
        // Outside of what the mount shows it begins with `/..`.
        .filter(|inside| !inside.split('/').any(|part| part == ".."))
        .unwrap_or_default();
    let own = mount_point.join(inside.trim_start_matches('/'));
    let places = own.ancestors().take_while(|place| place.starts_with(mount_point));
    Some(places.map(Path::to_owned).collect())
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
    fn version_2_is_found_beside_version_1_and_the_own_cgroup_comes_before_those_above() {
        let found = parse_places(MOUNTS, "4:memory:/jobs/7\n0::/jobs/7\n");
        let places = ["unified/jobs/7", "unified/jobs", "unified"];
        assert_eq!(found, places.map(|place| Path::new("/sys/fs/cgroup").join(place)));
        let version_1 = MOUNTS.lines().take(2).collect::<Vec<_>>().join("\n");
        assert!(parse_places(&version_1, "4:memory:/jobs/7\n").is_empty());
    }

    #[test]
    fn a_container_of_version_1_is_not_counted_with_its_engine() {
        let place = |memberships: &str| accounting(MOUNTS, memberships);
        let its = Some(PathBuf::from("/sys/fs/cgroup/unified/docker/ab"));
        assert_eq!(place("4:cpu,cpuacct:/docker/ab\n0::/system.slice/docker.service\n"), None);
        assert_eq!(place("4:cpu,cpuacct:/docker/ab\n0::/docker/ab\n"), its);
        assert_eq!(place("4:cpu,cpuacct:/\n3:memory:/x\n0::/docker/ab\n"), its);
        assert_eq!(place("0::/docker/ab\n"), its);
        assert_eq!(place("0::/\n"), None);
    }

    #[test]
    fn a_mount_that_shows_only_a_part_is_seen_from_its_root() {
        let mounts = "30 24 0:26 /docker/ab /sys/fs/cgroup ro - cgroup2 cgroup rw";
        assert_eq!(parse_places(mounts, "0::/docker/ab/x\n")[0], Path::new("/sys/fs/cgroup/x"));
        let mounts = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 c rw";
        assert_eq!(parse_places(mounts, "0::/../x\n"), [Path::new("/sys/fs/cgroup")]);
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
            let mut cgroup = Cgroup::make_in(&places, "node", limits).unwrap();
            // Its files, which no kernel made, are to be read.
            (std::mem::take(&mut cgroup.directory), cgroup.limited, cgroup.bound)
        };
        let memory = Some(4096);
        hand_down(&slice, "memory.max");
        assert_eq!(
            chosen(Limits { memory, cpus: &[0, 2] }),
            (slice.join("node"), true, false),
            "a limit of memory is worth more than none"
        );
        assert_eq!(fs::read_to_string(slice.join("node/memory.max")).unwrap(), "4096");
        assert!(!own.join("node").exists(), "what is not used is removed again");
        hand_down(&home, "memory.max");
        hand_down(&home, "cpuset.cpus");
        assert_eq!(chosen(Limits { memory, cpus: &[0, 2] }), (home.join("node"), true, true));
        assert_eq!(fs::read_to_string(home.join("node/cpuset.cpus")).unwrap(), "0,2");
        assert_eq!(chosen(Limits::default()), (own.join("node"), false, false));
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
