//! The agent of a machine that was given. Nothing of that machine is changed: commands work in a directory
//! of their own, in the environment that its user has there, and both end with the connection.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hypertare_plan::Workload;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::workload::clock::now_ns;

/// Of the directory in which everything is: the work directory as it came, as it is worked in, and the one
/// for temporary files.
pub const PRISTINE: &str = "pristine";
pub const WORK: &str = "work";
pub const TEMPORARY: &str = "tmp";

/// The controller sends a line every five seconds. A cut network reports no error, it is only silent.
const SILENCE: Duration = Duration::from_secs(15);
/// Before its first line the controller may be busy with other machines: it copies files to one after the
/// other.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_secs(1);

/// When the controller was last heard, of an agent that it reaches over a connection; 0 before its first word.
#[derive(Clone, Default)]
pub struct Heard(Arc<AtomicU64>);

impl Heard {
    pub fn again(&self) {
        self.0.store(now_ns(), Ordering::Relaxed);
    }

    /// Whether the controller has been silent for too long; before its first line, since this process
    /// began.
    fn is_over(&self, begun_ns: u64, now_ns: u64) -> bool {
        let (since_ns, most) = match self.0.load(Ordering::Relaxed) {
            0 => (begun_ns, PATIENCE),
            heard_ns => (heard_ns, SILENCE),
        };
        Duration::from_nanos(now_ns.saturating_sub(since_ns)) > most
    }

    /// Calls `end` once the controller has been silent for too long: tasks end with this process, as their
    /// orders do.
    pub fn or_else(&self, end: impl FnOnce() + Send + 'static) {
        let (heard, begun_ns) = (self.clone(), now_ns());
        std::thread::spawn(move || {
            while !heard.is_over(begun_ns, now_ns()) {
                std::thread::sleep(LOOK);
            }
            end();
        });
    }
}

/// Keeps this process, and all that it starts, to the first CPUs of those that it may use.
pub fn bind_to_first(count: u32) -> Result<()> {
    let allowed = sched_getaffinity(None).context("which CPUs there are")?;
    let first: Vec<usize> =
        (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).take(count as usize).collect();
    if first.len() < count as usize {
        bail!(
            "{count} CPUs are asked for (sut.cpus, --cpus), and this machine has {}",
            first.len()
        );
    }
    let mut own = CpuSet::new();
    first.into_iter().for_each(|cpu| own.set(cpu));
    sched_setaffinity(None, &own).context("its CPUs cannot be chosen")
}

/// The processor, as its kernel calls it.
pub fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Where commands work on this machine, in place of the directory that they work in elsewhere.
pub struct Home {
    place: PathBuf,
    workdir: PathBuf,
    environment: BTreeMap<String, String>,
}

impl Home {
    pub fn new(place: &Path, workdir: &Path) -> Self {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| !name.starts_with("SSH_"))
            .collect();
        Home { place: place.to_owned(), workdir: workdir.to_owned(), environment }
    }

    pub fn temporary(&self) -> PathBuf {
        self.place.join(TEMPORARY)
    }

    /// Has a command work here: with this user's environment, not the controller's.
    ///
    /// # Errors
    /// It needs a file that is not here.
    pub fn take_in(&self, workload: &mut Workload) -> Result<()> {
        let (env, cwd, input) = match workload {
            Workload::Command(one) => (&mut one.env, &mut one.cwd, Some(&mut one.input)),
            Workload::Serve(one) => (&mut one.env, &mut one.cwd, None),
            _ => return Ok(()),
        };
        *env = self.environment.clone();
        env.insert("TMPDIR".into(), self.temporary().to_string_lossy().into_owned());
        if let Some(cwd) = cwd {
            *cwd = self.here(cwd)?;
        }
        if let Some(input) = input.and_then(Option::as_mut) {
            *input = self.here(input)?;
        }
        Ok(())
    }

    fn here(&self, path: &Path) -> Result<PathBuf> {
        let inside = path.strip_prefix(&self.workdir).ok().with_context(|| {
            format!(
                "{} is not on this machine: only {} was brought here",
                path.display(),
                self.workdir.display()
            )
        })?;
        Ok(self.place.join(WORK).join(inside))
    }
}

#[cfg(test)]
mod tests {
    use hypertare_plan::Command;

    use super::*;

    fn command(cwd: &str, input: Option<&str>) -> Workload {
        Workload::Command(Command {
            argv: vec!["true".into()],
            env: BTreeMap::from([("SECRET".into(), "of the controller".into())]),
            cwd: Some(cwd.into()),
            in_files: true,
            prepare: None,
            input: input.map(PathBuf::from),
            warmup: false,
            watch_syncs: false,
            tty: false,
        })
    }

    #[test]
    fn a_command_works_in_its_copy_and_knows_nothing_of_the_controllers_environment() {
        let home = Home::new(Path::new("/dev/shm/x"), Path::new("/home/a/project"));
        let mut workload = command("/home/a/project/sub", Some("/home/a/project/data"));
        home.take_in(&mut workload).unwrap();
        let Workload::Command(taken) = workload else { unreachable!() };
        assert_eq!(taken.cwd.unwrap(), Path::new("/dev/shm/x/work/sub"));
        assert_eq!(taken.input.unwrap(), Path::new("/dev/shm/x/work/data"));
        assert_eq!(taken.env["TMPDIR"], "/dev/shm/x/tmp");
        assert!(!taken.env.contains_key("SECRET"));
    }

    #[test]
    fn a_file_that_was_not_brought_is_named() {
        let home = Home::new(Path::new("/dev/shm/x"), Path::new("/home/a/project"));
        let error = home.take_in(&mut command("/home/a/project", Some("/etc/hosts"))).unwrap_err();
        assert!(error.to_string().contains("/etc/hosts is not on this machine"), "{error}");
    }

    #[test]
    fn silence_is_borne_longer_before_the_first_word() {
        const S: u64 = 1_000_000_000;
        let heard = Heard::default();
        assert!(!heard.is_over(S, 500 * S) && heard.is_over(S, 700 * S));
        heard.0.store(700 * S, Ordering::Relaxed);
        assert!(!heard.is_over(S, 714 * S) && heard.is_over(S, 716 * S));
    }

    #[test]
    fn more_cpus_than_there_are_is_an_error() {
        let error = bind_to_first(100_000).unwrap_err().to_string();
        assert!(error.contains("and this machine has "), "{error}");
    }
}
