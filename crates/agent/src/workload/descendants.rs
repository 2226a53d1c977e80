//! The descendants of a process, found in /proc, and how to end them.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};

use super::clock::now_ns;

/// A killed process is gone at once, unless it waits for a device.
const LIMIT_NS: u64 = 2_000_000_000;

const PAUSE: Duration = Duration::from_millis(1);

/// Makes orphans among this process's descendants its own children, so that none escapes by forking twice
/// or by a session of its own (PR_SET_CHILD_SUBREAPER).
pub fn adopt() -> Result<()> {
    rustix::process::set_child_subreaper(Some(getpid())).context("cannot become the subreaper")
}

/// Kills and reaps every descendant of this process, which must have called [`adopt`].
pub fn end() -> Result<()> {
    end_but(&[])
}

/// The same except for the `spared` processes, which have no descendants.
pub fn end_but(spared: &[Pid]) -> Result<()> {
    let limit = now_ns() + LIMIT_NS;
    // Without children there are no descendants: the usual end needs no look into /proc.
    while has_children() {
        if kill_all(getpid(), spared)? == 0 && !spared.is_empty() {
            return Ok(());
        }
        if now_ns() > limit {
            bail!("processes that the command left behind do not die, not even by SIGKILL");
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// The names of this process's living descendants, as far as they can be read.
pub fn left() -> Vec<String> {
    if !has_children() {
        return Vec::new();
    }
    let name = |pid: Pid| std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
    let living = living_below(getpid()).unwrap_or_default();
    let mut names: Vec<String> = living
        .into_iter()
        .filter_map(|pid| name(pid).ok())
        .map(|one| one.trim().to_owned())
        .collect();
    names.sort();
    names
}

/// Sends SIGKILL to every descendant of this process, once.
pub fn kill_own() -> Result<()> {
    kill_all(getpid(), &[]).map(|_| ())
}

/// Kills `ancestor`, a child of this process, and all its descendants. It is stopped first, so that it can
/// neither start more nor release those that it adopted.
pub fn kill_with(ancestor: Pid) -> Result<()> {
    let limit = now_ns() + LIMIT_NS;
    let _ = kill_process(ancestor, Signal::STOP);
    while kill_all(ancestor, &[])? > 0 && now_ns() < limit {
        std::thread::sleep(PAUSE);
    }
    match kill_process(ancestor, Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context("cannot kill a task's process"),
    }
}

/// Reaps children that have ended, and reports whether others are left.
fn has_children() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Returns how many were alive.
fn kill_all(ancestor: Pid, spared: &[Pid]) -> Result<usize> {
    let mut living = living_below(ancestor)?;
    living.retain(|pid| !spared.contains(pid));
    for &pid in &living {
        // Gone in between, most likely; if not, the next round shows it.
        let _ = kill_process(pid, Signal::KILL);
    }
    Ok(living.len())
}

fn living_below(ancestor: Pid) -> Result<Vec<Pid>> {
    let mut children: HashMap<i32, Vec<(i32, bool)>> = HashMap::new();
    let all = std::fs::read_dir("/proc").context("/proc is needed to find processes")?;
    for entry in all.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid else { continue };
        // A process may end between being listed and being read.
        let Ok(stat) = std::fs::read(entry.path().join("stat")) else { continue };
        if let Some((parent, dead)) = parent_and_dead(&stat) {
            children.entry(parent).or_default().push((pid, dead));
        }
    }
    let mut living = Vec::new();
    let mut unseen = vec![ancestor.as_raw_nonzero().get()];
    while let Some(parent) = unseen.pop() {
        for (pid, dead) in children.remove(&parent).unwrap_or_default() {
            unseen.push(pid);
            living.extend(Pid::from_raw(pid).filter(|_| !dead));
        }
    }
    Ok(living)
}

/// From /proc/PID/stat (proc(5)): `pid (name) state ppid ...`, where the name may hold anything.
fn parent_and_dead(stat: &[u8]) -> Option<(i32, bool)> {
    let after_name = stat.iter().rposition(|&byte| byte == b')')? + 1;
    let mut fields = str::from_utf8(&stat[after_name..]).ok()?.split_ascii_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    Some((fields.next()?.parse().ok()?, dead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        assert_eq!(parent_and_dead(b"7 (a) Z 1 (b) S 41 7 7 0"), Some((41, false)));
        assert_eq!(parent_and_dead(b"7 (\xff\n) Z 3 7"), Some((3, true)));
        assert_eq!(parent_and_dead(b"7 (a"), None);
        assert_eq!(parent_and_dead(b"7 (a) S"), None);
    }

    #[test]
    fn sees_a_grandchild() {
        // The shell may not replace itself: there is a second command.
        let mut shell =
            std::process::Command::new("/bin/sh").args(["-c", "sleep 30; exit 3"]).spawn().unwrap();
        let pid = Pid::from_child(&shell);
        let limit = now_ns() + 5_000_000_000;
        while living_below(pid).unwrap().len() != 1 {
            assert!(now_ns() < limit, "the shell's child never showed");
            std::thread::sleep(PAUSE);
        }
        kill_with(pid).unwrap();
        shell.wait().unwrap();
        assert!(living_below(pid).unwrap().is_empty());
    }
}
