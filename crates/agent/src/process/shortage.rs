//! Handles the lack of memory in a guest, a container, or Xen's driver domain: which process is killed, how
//! much files may take, and which error is reported.
//!
//! Files in memory belong to no process, so killing a process frees none of them: a kernel without free
//! memory would kill one process after the other, the agent among them, and the guest would be lost. So the
//! agent is spared, and files never get all of the memory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::cgroup::own_limit;

const ADJUSTMENT: &str = "/proc/self/oom_score_adj";

/// What the C library says of a full file system (ENOSPC), and programs repeat.
const NO_ROOM: &str = "No space left on device";

/// Files are full with less room than this: whoever writes pages finds none.
const LEAST_ROOM: u64 = 64 << 10;

/// What the C library says where the kernel refuses memory (ENOMEM), and programs repeat.
const NO_MEMORY: &str = "Cannot allocate memory";

/// Makes this process the last one that the kernel kills for want of memory. Needs `CAP_SYS_RESOURCE`.
pub fn spare_this_process() -> Result<()> {
    fs::write(ADJUSTMENT, "-1000").with_context(|| format!("cannot write {ADJUSTMENT}"))
}

/// Undoes the protection that was inherited from a spared agent. A process that is to be killed earlier
/// than others stays so.
pub fn expose_this_process() -> Result<()> {
    let is_spared = fs::read_to_string(ADJUSTMENT).is_ok_and(|text| text.starts_with('-'));
    if is_spared {
        fs::write(ADJUSTMENT, "0").with_context(|| format!("cannot write {ADJUSTMENT}"))?;
    }
    Ok(())
}

/// Bytes that files of a guest may take, of those asked for: half of what is free, for a quarter
/// more may be taken by what is kept of the share, and the rest is for the work itself.
pub fn room_for_files(asked: u64) -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    let free = bytes(&text, "MemAvailable:").context("/proc/meminfo has no MemAvailable")?;
    Ok(asked.min(free / 2))
}

/// Watches from a task's beginning whether its memory runs out.
pub struct Shortage {
    /// The file system in memory that takes whatever is written, where there is one.
    place: Option<PathBuf>,
    /// What limits memory, and what it had counted before the task; none where others' memory counts too.
    limit: Option<(Limit, Counts)>,
}

/// How often a limit was reached, and how many processes were killed: both rise where it is the reason.
type Counts = [u64; 2];

/// What limits memory.
enum Limit {
    /// All that the kernel has.
    Machine,
    /// A container's: the directory of its cgroup, and bytes.
    Cgroup(PathBuf, u64),
}

impl Limit {
    /// Since the kernel booted, or the container began. A cgroup's `oom_kill` counts processes that the
    /// machine's want of memory killed, too, and its `oom` also a limit that memory freed meanwhile has met
    /// (cgroup-v2.rst).
    fn counts(&self) -> Counts {
        let (file, keys) = match self {
            Limit::Machine => ("/proc/vmstat".into(), ["oom_kill"; 2]),
            Limit::Cgroup(directory, _) => (directory.join("memory.events"), ["oom", "oom_kill"]),
        };
        let text = fs::read_to_string(file).unwrap_or_default();
        keys.map(|key| number(&text, key).unwrap_or_default())
    }
}

impl Shortage {
    /// `alone`: nothing else runs on this kernel, as in a guest.
    pub fn watch(place: &Path, alone: bool) -> Self {
        Shortage { place: Some(place.to_owned()), limit: Self::limit(alone) }
    }

    fn limit(alone: bool) -> Option<(Limit, Counts)> {
        let own = own_limit().map(|(directory, bytes)| Limit::Cgroup(directory, bytes));
        let limit = own.or_else(|| alone.then_some(Limit::Machine))?;
        let before = limit.counts();
        Some((limit, before))
    }

    /// Of the whole machine, which has nothing else to do: what is written goes to none of its files.
    pub fn of_machine() -> Self {
        Shortage { place: None, limit: Self::limit(true) }
    }

    /// What to say of a task that failed with this error, if memory is why.
    pub fn explain(&self, error: &str) -> Option<String> {
        let room = self.place.as_deref().and_then(room);
        let alone_and_refused = self.place.is_none() && error.contains(NO_MEMORY);
        let reached = self.limit.as_ref().filter(|(limit, before)| {
            limit.counts().iter().zip(before).all(|(now, before)| now > before)
        });
        let of_files = room.map(|(size, free)| size - free);
        if let Some((Limit::Cgroup(_, bytes), _)) = reached {
            return Some(Whose::Container.out_of_memory(*bytes, of_files));
        }
        if alone_and_refused || reached.is_some() {
            let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
            let total = bytes(&text, "MemTotal:").unwrap_or_default();
            return Some(Whose::here().out_of_memory(total, of_files));
        }
        let (size, free) = room?;
        (free < LEAST_ROOM || error.contains(NO_ROOM)).then(|| files_full(size))
    }
}

/// Whose memory it is that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Guest,
    Container,
    DriverDomain,
}

impl Whose {
    fn here() -> Self {
        match super::under_xen::role() {
            Some(super::under_xen::Role::Driver) => Whose::DriverDomain,
            _ => Whose::Guest,
        }
    }

    /// `total`: bytes that the kernel found when it booted, or of the limit; `of_files`: of those, in files
    /// of the work.
    fn out_of_memory(self, total: u64, of_files: Option<u64>) -> String {
        let files = of_files.map(|size| format!(", and files in it take {}", mb(size)));
        let files = files.unwrap_or_default();
        let has = format!("has {} MB{files}; {}", mb(total), self.more());
        match self {
            Whose::Guest => format!("the work ran out of memory: the guest {has}"),
            Whose::Container => format!("the work ran out of memory: the container {has}"),
            Whose::DriverDomain => format!(
                "Xen's driver domain ran out of memory, which guests' packets, their peers and Xen's \
                 tools need: it {has}"
            ),
        }
    }

    fn more(self) -> &'static str {
        match self {
            Whose::Guest | Whose::Container => "give more with --memory (in a study: sut.memory)",
            Whose::DriverDomain => "give it more (in a study: sut.driver_memory)",
        }
    }
}

fn files_full(size: u64) -> String {
    format!(
        "the work ran out of memory for files: what it writes is kept in memory, {} MB at most; {}",
        mb(size),
        Whose::here().more()
    )
}

/// Bytes in all, and those that are free.
fn room(place: &Path) -> Option<(u64, u64)> {
    let state = rustix::fs::statvfs(place).ok()?;
    Some((state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize))
}

/// Of a line of /proc/meminfo, which are in KiB.
pub fn bytes(text: &str, name: &str) -> Option<u64> {
    number(text, name)?.checked_mul(1 << 10)
}

/// The number after a word that begins a line.
pub fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok())?
    })
}

/// Whole MiB, rounded up.
pub fn mb(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        let text = "MemTotal:  2048 kB\nMemAvailable:\t1024 kB\noom_kill_x 9\noom_kill 3\n";
        assert_eq!(bytes(text, "MemTotal:"), Some(2 << 20));
        assert_eq!(bytes(text, "MemAvailable:"), Some(1 << 20));
        assert_eq!(bytes("MemTotal: 99999999999999999999 kB", "MemTotal:"), None);
        assert_eq!(number(text, "oom_kill"), Some(3));
        assert_eq!(number(text, "Mem"), None);
        assert_eq!(number("oom_kill many", "oom_kill"), None);
    }

    #[test]
    fn files_get_what_is_asked_for_or_half_of_what_is_free() {
        assert_eq!(room_for_files(1 << 20).unwrap(), 1 << 20);
        let most = room_for_files(u64::MAX).unwrap();
        assert!(most > 1 << 20 && most < u64::MAX / 2, "{most}");
    }

    #[test]
    fn a_task_that_failed_for_want_of_room_is_reported_so() {
        let shortage = Shortage::watch(&std::env::temp_dir(), false);
        assert_eq!(shortage.explain("`make` ended with exit status 2"), None);
        let reported = shortage.explain("cp: error writing 'a': No space left on device").unwrap();
        assert!(reported.contains("ran out of memory for files"), "{reported}");
        assert!(reported.contains("--memory") && reported.contains("sut.memory"), "{reported}");
    }

    #[test]
    fn a_kill_since_the_beginning_is_the_reason() {
        let place = std::env::temp_dir();
        let before = Shortage { place: Some(place), limit: Some((Limit::Machine, [u64::MAX; 2])) };
        assert_eq!(before.explain("killed by SIGKILL"), None);
        let reported = Whose::Guest.out_of_memory(200 << 20, Some((96 << 20) + 1));
        assert!(reported.contains("has 200 MB, and files in it take 97; give more"), "{reported}");
    }

    #[test]
    fn a_container_s_limit_is_the_reason_where_it_was_reached() {
        let group = tempfile::tempdir().unwrap();
        let events = |text: &str| fs::write(group.path().join("memory.events"), text).unwrap();
        let limit = Limit::Cgroup(group.path().to_owned(), 32 << 20);
        let shortage = Shortage { place: None, limit: Some((limit, [1, 1])) };
        // The machine itself had no memory.
        events("max 7\noom 1\noom_kill 2\n");
        assert_eq!(shortage.explain("killed by SIGKILL"), None);
        // Memory was freed before anything was killed.
        events("max 8\noom 2\noom_kill 1\n");
        assert_eq!(shortage.explain("ended with exit status 1"), None);
        events("max 9\noom 2\noom_kill 2\n");
        let reported = shortage.explain("killed by SIGKILL").unwrap();
        assert!(reported.contains("the container has 32 MB; give more"), "{reported}");
    }

    #[test]
    fn of_a_machine_of_one_s_own_a_refusal_is_the_reason_too() {
        let machine = Shortage { place: None, limit: Some((Limit::Machine, [u64::MAX; 2])) };
        assert_eq!(machine.explain("No space left on device"), None);
        let reported = machine.explain("mmap: Cannot allocate memory (os error 12)").unwrap();
        assert!(reported.contains("the guest has") && !reported.contains("files"), "{reported}");
        let reported = Whose::DriverDomain.out_of_memory(400 << 20, None);
        assert!(
            reported.contains("driver domain") && reported.contains("has 400 MB; give it"),
            "{reported}"
        );
        assert!(reported.contains("sut.driver_memory"), "{reported}");
    }
}
