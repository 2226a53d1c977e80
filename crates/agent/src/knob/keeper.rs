//! Settings of another person's machine that a run was allowed to change. A process of root on that
//! machine changes them, and puts them back when its input ends.
//!
//! The kernel closes that pipe whatever ends the agent, its connection or the run. If this process is
//! killed too, the journal stays in /run, which a reboot clears together with the settings. The next keeper
//! on the machine takes the journal up; until then `--look` shows the changes.
//!
//! An [`Ask`] comes in, one JSON object a line, and outcomes go out, one JSON list a line.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use hypertare_plan::{Knob, KnobAction, KnobOutcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{Held, KnobChange, Schedulers, Setting, failed, now, outcome, put_back, text};
use crate::net::Links;

/// The subcommand that starts a keeper, which no person uses.
pub const VERB: &str = "keep-settings";

/// The folder of the journal; its lock means that a keeper looks after the settings.
const FOLDER: &str = "/run/hypertare-settings";
const JOURNAL: &str = "before.json";
/// A journal has one entry for each knob of a trial.
const MOST_BYTES: u64 = 1 << 20;
/// Time for the keeper of a bench that has just ended to put settings back.
const PATIENCE: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(20);
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Pipes in the directory of a machine that was given, where its shell makes them.
const ASK: &str = "ask";
const ANSWER: &str = "answer";

#[derive(clap::Args)]
pub struct Arguments {
    /// Print what is changed and looked after by nobody, and change nothing
    #[arg(long)]
    look: bool,
    /// Put back what is changed and looked after by nobody, print it, and end
    #[arg(long, conflicts_with = "look")]
    put_back: bool,
}

pub fn main(arguments: &Arguments) -> Result<()> {
    let folder = Path::new(FOLDER);
    match arguments {
        Arguments { look: true, .. } => report(&left(folder)),
        Arguments { put_back: true, .. } => report(&Journal::open(folder, PATIENCE)?.take_up()?),
        _ => serve(folder),
    }
}

fn report(changed: &[String]) -> Result<()> {
    let line = changed.join("; ");
    if !line.is_empty() {
        println!("{line}");
    }
    Ok(())
}

/// It ignores signals that would end it: the end of its input is its order to end.
fn serve(folder: &Path) -> Result<()> {
    let _ = rustix::process::setsid();
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGPIPE] {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // Without a journal the reason is the answer to all that is asked.
    let mut journal = Journal::open(folder, PATIENCE);
    if let Ok(journal) = &mut journal {
        journal.take_up()?;
    }
    for line in io::stdin().lock().lines() {
        // The agent may end in the middle of a line: then it has ended.
        let Some(ask) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { break };
        let mut answer = serde_json::to_vec(&answer(ask, &mut journal))?;
        answer.push(b'\n');
        // Without a reader the input is about to end, too.
        let _ = io::stdout().write_all(&answer).and_then(|()| io::stdout().flush());
    }
    journal?.end()
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Ask {
    Apply { node: String, trial: u64, knob: Knob },
    PutBack { node: String, trial: u64 },
}

fn answer(ask: Ask, journal: &mut Result<Journal>) -> Vec<KnobOutcome> {
    match (ask, journal) {
        (Ask::Apply { node, trial, knob }, Ok(journal)) => {
            vec![journal.apply(&node, trial, &knob)]
        }
        (Ask::Apply { node, trial, knob }, Err(error)) => {
            vec![failed(outcome(&node, trial, &knob, KnobAction::Applied), error)]
        }
        (Ask::PutBack { node, trial }, Ok(journal)) => journal.put_back(&node, trial),
        (Ask::PutBack { .. }, Err(_)) => Vec::new(),
    }
}

/// The values that a knob's targets held before it was turned, by the targets' names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    knob: Knob,
    held: Vec<(String, String)>,
}

impl Entry {
    fn of(setting: &Setting) -> Result<Self> {
        let names = setting.targets().map(|target| target.name().to_owned());
        let held = names.zip(setting.read()?).collect();
        Ok(Entry { knob: setting.knob.clone(), held })
    }

    /// # Errors
    /// Its targets are not there any more.
    fn change(&self) -> Result<KnobChange> {
        let mut there = Setting::of(&self.knob)?.wanted;
        let take = |(name, value): &(String, String)| {
            let at = there.iter().position(|wanted| wanted.target.name() == name);
            let at = at.with_context(|| format!("{name} is not there any more"))?;
            Ok(Held { target: there.remove(at).target, value: value.clone() })
        };
        let held = self.held.iter().map(take).collect::<Result<Vec<_>>>()?;
        let after = text(now(&held)?);
        let before = text(held.iter().map(|one| (&*one.target, one.value.clone())));
        Ok(KnobChange { knob: self.knob.clone(), before, after, held })
    }
}

/// The lock of the journal's folder, which this process then has alone. `None` while another process has
/// the folder, or when that one has just removed it.
fn locked(folder: &Path) -> Result<Option<File>> {
    let made = DirBuilder::new().mode(0o755).create(folder);
    if let Err(error) = made
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error).with_context(|| {
            format!("{} cannot be made, where it is noted how settings were", folder.display())
        });
    }
    let lock = match File::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.with_context(|| format!("opening {}", folder.display()))?,
    };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    let ours = lock.metadata()?;
    let is_there = fs::metadata(folder)
        .is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
    Ok(is_there.then_some(lock))
}

/// The changes, each written down before it is made. Locked as long as a keeper looks after them.
struct Journal {
    path: PathBuf,
    entries: Vec<Entry>,
    _lock: File,
}

impl Journal {
    /// # Errors
    /// This process is not root's, or another run's changes are under way.
    fn open(folder: &Path, patience: Duration) -> Result<Self> {
        let deadline = Instant::now() + patience;
        let lock = loop {
            if let Some(lock) = locked(folder)? {
                break lock;
            }
            ensure!(
                Instant::now() < deadline,
                "another run has changed settings of this machine and will put them back: wait for its end"
            );
            std::thread::sleep(GLANCE);
        };
        let path = folder.join(JOURNAL);
        let entries = read(&path)?;
        let journal = Journal { path, entries, _lock: lock };
        // Before any change, to see that the journal can be written.
        journal.write()?;
        Ok(journal)
    }

    fn apply(&mut self, node: &str, trial: u64, knob: &Knob) -> KnobOutcome {
        let mut apply = || {
            let setting = Setting::of(&located(knob)?).context("not available here")?;
            self.entries.push(Entry::of(&setting)?);
            self.write()?;
            // A failed change is put back like all others: a write may have done half of its work.
            setting.apply()
        };
        let outcome = outcome(node, trial, knob, KnobAction::Applied);
        match apply() {
            Ok(KnobChange { before, after, .. }) => {
                KnobOutcome { before: Some(before), after: Some(after), ..outcome }
            }
            Err(error) => failed(outcome, &error),
        }
    }

    /// Puts every change back, the last one first. A change that cannot be put back stays in the journal.
    fn put_back(&mut self, node: &str, trial: u64) -> Vec<KnobOutcome> {
        let mut outcomes = Vec::new();
        let mut left = Vec::new();
        for entry in std::mem::take(&mut self.entries).into_iter().rev() {
            let became = match entry.change() {
                Ok(change) => put_back(node, trial, change),
                Err(error) => {
                    failed(outcome(node, trial, &entry.knob, KnobAction::PutBack), &error)
                }
            };
            if became.error.is_some() {
                left.insert(0, entry);
            }
            outcomes.push(became);
        }
        self.entries = left;
        if let (Err(error), Some(last)) = (self.write(), outcomes.last_mut())
            && last.error.is_none()
        {
            last.error = Some(format!("{error:#}"));
        }
        outcomes
    }

    /// Puts back the changes that an earlier keeper has left.
    ///
    /// # Errors
    /// A change cannot be put back: which one, and why.
    fn take_up(&mut self) -> Result<Vec<String>> {
        let outcomes = self.put_back("", 0);
        let wrong = outcomes.iter().find_map(|one| Some((one, one.error.as_ref()?)));
        if let Some((one, error)) = wrong {
            bail!(
                "{:?}, changed by an earlier run, cannot be put back ({error}): set it as {} has it, and \
                 remove that file",
                one.knob,
                self.path.display()
            );
        }
        let became = |one: &KnobOutcome| {
            let (before, after) = (one.before.as_deref(), one.after.as_deref());
            format!("{:?}: {} is {} again", one.knob, before.unwrap_or("?"), after.unwrap_or("?"))
        };
        Ok(outcomes.iter().map(became).collect())
    }

    fn end(mut self) -> Result<()> {
        self.take_up()?;
        let _ = fs::remove_file(&self.path);
        let _ = self.path.parent().map(fs::remove_dir);
        Ok(())
    }

    fn write(&self) -> Result<()> {
        let new = self.path.with_extension("new");
        let text = serde_json::to_vec(&self.entries)?;
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path));
        written.with_context(|| {
            format!("{}, which says how settings were, cannot be written", self.path.display())
        })
    }
}

fn read(path: &Path) -> Result<Vec<Entry>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened.with_context(|| format!("opening {}", path.display()))?,
    };
    let mut text = String::new();
    file.take(MOST_BYTES).read_to_string(&mut text)?;
    serde_json::from_str(&text).with_context(|| {
        format!(
            "{}, which says how settings of this machine were, cannot be read: see to them, and remove it",
            path.display()
        )
    })
}

/// The changes that no keeper looks after.
fn left(folder: &Path) -> Vec<String> {
    let Ok(lock) = File::open(folder) else { return Vec::new() };
    if flock(&lock, FlockOperation::NonBlockingLockShared).is_err() {
        return Vec::new();
    }
    match read(&folder.join(JOURNAL)) {
        Ok(entries) => entries.iter().map(changed).collect(),
        Err(error) => vec![format!("{error:#}")],
    }
}

fn changed(entry: &Entry) -> String {
    let held: Vec<String> =
        entry.held.iter().map(|(name, value)| format!("{name} was {value}")).collect();
    let is = Setting::of(&entry.knob).and_then(|setting| setting.probe());
    format!("{}, now it is {}", held.join(", "), is.unwrap_or_else(|error| format!("{error:#}")))
}

/// The knob with an interface's name in place of its address: only the machine knows its interfaces' names.
fn located(knob: &Knob) -> Result<Knob> {
    let mut knob = knob.clone();
    if let Some(interface) = knob.interface_mut()
        && let Ok(address) = interface.parse()
    {
        *interface = Links::open()?.holding(address)?.name;
    }
    Ok(knob)
}

/// The agent's end: it asks the keeper for the changes that it may not make itself.
pub struct Asked {
    ask: File,
    answers: BufReader<File>,
}

impl Asked {
    /// # Errors
    /// The pipes are not there.
    pub fn open(directory: &Path) -> Result<Self> {
        let open = |name: &str, write: bool| {
            let path = directory.join(name);
            let opened = File::options().read(!write).write(write).open(&path);
            opened.with_context(|| format!("opening {}", path.display()))
        };
        // The shell that made them holds an end of each, so that none of these waits.
        Ok(Asked { ask: open(ASK, true)?, answers: BufReader::new(open(ANSWER, false)?) })
    }

    pub fn apply(&mut self, node: &str, trial: u64, knob: &Knob) -> KnobOutcome {
        let ask = Ask::Apply { node: node.to_owned(), trial, knob: knob.clone() };
        let answered = self.asked(&ask).and_then(|mut outcomes| {
            outcomes.pop().context("whoever changes settings here answered nothing")
        });
        answered
            .unwrap_or_else(|error| failed(outcome(node, trial, knob, KnobAction::Applied), &error))
    }

    /// # Errors
    /// The keeper does not answer: the next run on this machine puts the settings back.
    pub fn put_back(&mut self, node: &str, trial: u64) -> Result<Vec<KnobOutcome>> {
        self.asked(&Ask::PutBack { node: node.to_owned(), trial })
    }

    fn asked(&mut self, ask: &Ask) -> Result<Vec<KnobOutcome>> {
        let mut line = serde_json::to_vec(ask)?;
        line.push(b'\n');
        let gone =
            "whoever changes settings here has ended; what is changed the next run puts back";
        self.ask.write_all(&line).context(gone)?;
        let limit = Timespec { tv_sec: ANSWER_LIMIT.as_secs() as i64, tv_nsec: 0 };
        let ready =
            poll(&mut [PollFd::new(&self.answers.get_ref().as_fd(), PollFlags::IN)], Some(&limit))?;
        ensure!(ready > 0, "{gone}");
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        serde_json::from_str(&answer).context(gone)
    }
}

/// How a node's knobs are turned.
pub enum Turning {
    Itself(super::Ledger),
    /// On another person's machine, with that person's permission.
    Asked(Asked),
    /// On such a machine, without permission.
    Refused,
}

impl Turning {
    pub fn at(schedulers: Schedulers) -> Self {
        Turning::Itself(super::Ledger::with(schedulers))
    }

    pub fn apply(&mut self, node: &str, trial: u64, knob: &Knob) -> KnobOutcome {
        match self {
            Turning::Itself(ledger) => ledger.apply(node, trial, knob),
            Turning::Asked(asked) => asked.apply(node, trial, knob),
            Turning::Refused => {
                let error = anyhow!("settings of this machine are not to be changed");
                failed(outcome(node, trial, knob, KnobAction::Applied), &error)
            }
        }
    }

    /// # Errors
    /// It is not known whether they were put back.
    pub fn put_back(&mut self, node: &str, trial: u64) -> Result<Vec<KnobOutcome>> {
        match self {
            Turning::Itself(ledger) => Ok(ledger.put_back(node, trial)),
            Turning::Asked(asked) => asked.put_back(node, trial),
            Turning::Refused => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knob() -> Knob {
        let values = [("net/ipv4/tcp_notsent_lowat".to_owned(), "16384".to_owned())].into();
        Knob::Sysctls { values }
    }

    fn entry() -> Entry {
        Entry {
            knob: knob(),
            held: vec![("net/ipv4/tcp_notsent_lowat".into(), "4294967295".into())],
        }
    }

    #[test]
    fn one_at_a_time_looks_after_settings() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("settings");
        let first = Journal::open(&folder, Duration::ZERO).unwrap();
        let error = Journal::open(&folder, Duration::ZERO).err().unwrap().to_string();
        assert!(error.contains("another run has changed settings"), "{error}");
        assert!(left(&folder).is_empty());
        drop(first);
        assert!(Journal::open(&folder, Duration::ZERO).is_ok());
    }

    #[test]
    fn who_waits_has_a_journal_where_the_one_before_removed_its_own() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("settings");
        let first = Journal::open(&folder, Duration::ZERO).unwrap();
        let waits = {
            let folder = folder.clone();
            std::thread::spawn(move || Journal::open(&folder, Duration::from_secs(60)).unwrap())
        };
        std::thread::sleep(2 * GLANCE);
        first.end().unwrap();
        let second = waits.join().unwrap();
        assert!(folder.join(JOURNAL).exists());
        second.end().unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn what_is_left_by_a_keeper_that_was_killed_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(root.path(), Duration::ZERO).unwrap();
        journal.entries.push(entry());
        journal.write().unwrap();
        assert!(left(root.path()).is_empty(), "somebody looks after it");
        drop(journal);
        let found = left(root.path());
        assert!(found[0].starts_with("net/ipv4/tcp_notsent_lowat was 4294967295"), "{found:?}");
        assert_eq!(read(&root.path().join(JOURNAL)).unwrap(), [entry()]);
    }

    #[test]
    fn a_journal_that_cannot_be_read_is_no_empty_one() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join(JOURNAL), "[{}]").unwrap();
        let error = Journal::open(root.path(), Duration::ZERO).err().unwrap().to_string();
        assert!(error.contains("cannot be read"), "{error}");
        assert!(left(root.path())[0].contains("cannot be read"));
    }

    #[test]
    fn what_cannot_be_put_back_stays_in_the_journal() {
        let root = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(root.path(), Duration::ZERO).unwrap();
        let knob = Knob::Sysctls { values: [("net/nowhere".to_owned(), "1".to_owned())].into() };
        journal.entries.push(Entry { knob, held: vec![("net/nowhere".into(), "0".into())] });
        let error = journal.take_up().unwrap_err().to_string();
        assert!(error.contains("cannot be put back") && error.contains(JOURNAL), "{error}");
        assert_eq!(read(&root.path().join(JOURNAL)).unwrap().len(), 1);
    }

    #[test]
    fn an_interface_is_found_by_an_address_of_it() {
        let of = |interface: &str| {
            let knob = Knob::InterruptCpus { interface: interface.into(), cpus: vec![0] };
            located(&knob)
        };
        assert_eq!(
            of("eth0").unwrap(),
            Knob::InterruptCpus { interface: "eth0".into(), cpus: vec![0] }
        );
        let error = of("192.0.2.77").unwrap_err().to_string();
        assert!(error.contains("no interface here has the address 192.0.2.77"), "{error}");
        assert_eq!(
            located(&Knob::DevWeight { packets: 1 }).unwrap(),
            Knob::DevWeight { packets: 1 }
        );
    }

    #[test]
    fn without_leave_nothing_is_changed() {
        let mut turning = Turning::Refused;
        let error = turning.apply("vm", 1, &knob()).error.unwrap();
        assert!(error.contains("not to be changed"), "{error}");
        assert!(turning.put_back("vm", 1).unwrap().is_empty());
    }
}
