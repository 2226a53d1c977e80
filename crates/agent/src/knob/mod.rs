//! Settings that can be probed, applied and put back.
//!
//! A knob is one or more [`KnobTarget`]s, each with the value that it should hold. All kinds share these
//! precautions: every target is read before anything is written; a value that was written is read back and
//! has to be the requested one; if a target fails, those before it are put back; and a [`Ledger`] puts all
//! knobs back, the last one first, whatever ends the trial.
//!
//! A kind of knob is a module with a [`KnobKind`], and a line of the table below. Nothing else names it.
//!
//! A driver or kernel that lacks a knob is an error with the reason, never silence.

mod busy_poll;
mod defer_hard_irqs;
mod dev_weight;
mod driver_parameter;
mod file;
mod halt_poll_ns;
mod interrupt_coalescing;
mod interrupt_cpus;
pub mod keeper;
mod ksm;
mod mtu;
mod napi_budget;
mod napi_weight;
mod offload;
mod receive_steering;
mod ring_sizes;
mod scheduler_weight;
mod socket_buffers;
pub mod standalone;
mod sysctls;
mod thp;
mod traffic_classes;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use hypertare_plan::{Knob, KnobAction, KnobOutcome};

pub use scheduler_weight::Schedulers;

/// A setting that holds one value, as text in one form: equal values are equal texts.
pub trait KnobTarget {
    /// Its name for people, unique in its knob.
    fn name(&self) -> &str;
    fn read(&self) -> Result<String>;
    fn write(&self, value: &str) -> Result<()>;
}

/// A target and the value that it should hold.
pub struct Wanted {
    target: Box<dyn KnobTarget>,
    value: String,
}

/// Where knobs look for their targets.
struct Around {
    /// `/proc/sys/net`, but for tests.
    sysctls: PathBuf,
    /// `/sys/kernel/mm`, but for tests.
    mm: PathBuf,
    /// `/sys/module`, but for tests.
    modules: PathBuf,
    schedulers: Schedulers,
}

impl Default for Around {
    fn default() -> Self {
        Around {
            sysctls: PathBuf::from("/proc/sys/net"),
            mm: PathBuf::from("/sys/kernel/mm"),
            modules: PathBuf::from("/sys/module"),
            schedulers: Schedulers::default(),
        }
    }
}

const OTHER_KIND: &str = "it is a knob of another kind";

/// One kind of knob.
trait KnobKind: Sync {
    /// Its targets, and the value that each should hold.
    ///
    /// # Errors
    /// This node lacks them, and why.
    fn targets(&self, knob: &Knob, around: &Around) -> Result<Vec<Wanted>>;

    /// Knobs whose targets show its present values, by name. The values in these knobs do not matter,
    /// except that a CPU has to exist.
    fn shown(&self, _interface: &str) -> Vec<(String, Knob)> {
        Vec::new()
    }
}

/// The names of the kinds in plans, and the module of each.
macro_rules! knobs {
    ($($knob:ident => $module:ident),+ $(,)?) => {
        const ALL: &[&dyn KnobKind] = &[$(&$module::Kind),+];

        fn kind(knob: &Knob) -> &'static dyn KnobKind {
            match knob {
                $(Knob::$knob { .. } => &$module::Kind,)+
            }
        }
    };
}

knobs! {
    Mtu => mtu,
    InterruptCpus => interrupt_cpus,
    ReceiveSteering => receive_steering,
    SocketBuffers => socket_buffers,
    Sysctls => sysctls,
    NapiWeight => napi_weight,
    NapiBudget => napi_budget,
    DevWeight => dev_weight,
    SchedulerWeight => scheduler_weight,
    RingSizes => ring_sizes,
    InterruptCoalescing => interrupt_coalescing,
    BusyPoll => busy_poll,
    DeferHardIrqs => defer_hard_irqs,
    Thp => thp,
    Ksm => ksm,
    HaltPollNs => halt_poll_ns,
    Offload => offload,
    TrafficClasses => traffic_classes,
}

/// A knob that can be turned here.
pub struct Setting {
    knob: Knob,
    wanted: Vec<Wanted>,
}

/// A knob that was turned. Dropping it leaves the knob as it is: a [`Ledger`] does not.
#[must_use = "nothing is put back without it"]
pub struct KnobChange {
    pub knob: Knob,
    pub before: String,
    pub after: String,
    held: Vec<Held>,
}

/// A target and the value that it held.
struct Held {
    target: Box<dyn KnobTarget>,
    value: String,
}

impl Setting {
    /// Finds the targets of a knob.
    ///
    /// # Errors
    /// This node lacks them, and why.
    pub fn of(knob: &Knob) -> Result<Self> {
        Self::among(knob, &Around::default())
    }

    fn among(knob: &Knob, around: &Around) -> Result<Self> {
        Ok(Setting { knob: knob.clone(), wanted: kind(knob).targets(knob, around)? })
    }

    /// How it is now.
    pub fn probe(&self) -> Result<String> {
        Ok(text(self.targets().zip(self.read()?)))
    }

    /// Turns it, wholly or not at all.
    ///
    /// # Errors
    /// A target could not be written, or holds another value afterwards. All targets are then as they were,
    /// or the error names those that are not.
    pub fn apply(self) -> Result<KnobChange> {
        let values = self.read()?;
        let before = text(self.targets().zip(values.iter().cloned()));
        let mut held = Vec::new();
        for (wanted, value) in self.wanted.into_iter().zip(values) {
            let written = write(&*wanted.target, &wanted.value);
            // Also after a failure: a write may have done half of its work.
            held.push(Held { target: wanted.target, value });
            if let Err(error) = written {
                return Err(roll_back(&held, error));
            }
        }
        let after = now(&held).map(text).map_err(|error| roll_back(&held, error))?;
        Ok(KnobChange { knob: self.knob, before, after, held })
    }

    fn targets(&self) -> impl Iterator<Item = &dyn KnobTarget> {
        self.wanted.iter().map(|wanted| &*wanted.target)
    }

    fn read(&self) -> Result<Vec<String>> {
        self.targets().map(KnobTarget::read).collect()
    }
}

impl KnobChange {
    /// Puts every target back, even if one fails, and returns the values that they hold then.
    pub fn put_back(self) -> Result<String> {
        restore(&self.held)?;
        Ok(text(now(&self.held)?))
    }
}

/// The knobs that were turned, to be put back in the reverse order. Dropping it puts them back too, as far
/// as possible.
#[derive(Default)]
pub struct Ledger {
    changes: Vec<KnobChange>,
    around: Around,
}

impl Ledger {
    /// A ledger of a bench in which guests' CPU weights can be changed.
    pub fn with(schedulers: Schedulers) -> Self {
        Ledger { changes: Vec::new(), around: Around { schedulers, ..Around::default() } }
    }

    /// Turns a knob and remembers its values before. The outcome names an error.
    pub fn apply(&mut self, node: &str, trial: u64, knob: &Knob) -> KnobOutcome {
        let mut outcome = outcome(node, trial, knob, KnobAction::Applied);
        let setting = match Setting::among(knob, &self.around) {
            Ok(setting) => setting,
            Err(error) => return failed(outcome, &error.context("not available here")),
        };
        outcome.before = setting.probe().ok();
        match setting.apply() {
            Ok(change) => {
                outcome.after = Some(change.after.clone());
                self.changes.push(change);
                outcome
            }
            Err(error) => failed(outcome, &error),
        }
    }

    /// Puts every knob back, the last one first, even if one of them fails.
    pub fn put_back(&mut self, node: &str, trial: u64) -> Vec<KnobOutcome> {
        let changes = std::mem::take(&mut self.changes).into_iter().rev();
        changes.map(|change| put_back(node, trial, change)).collect()
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // Nobody is left to hear of an error.
        self.put_back("", 0);
    }
}

fn put_back(node: &str, trial: u64, change: KnobChange) -> KnobOutcome {
    let mut outcome = outcome(node, trial, &change.knob, KnobAction::PutBack);
    outcome.before = Some(change.after.clone());
    match change.put_back() {
        Ok(after) => {
            outcome.after = Some(after);
            outcome
        }
        Err(error) => failed(outcome, &error),
    }
}

fn outcome(node: &str, trial: u64, knob: &Knob, action: KnobAction) -> KnobOutcome {
    KnobOutcome {
        node: node.to_owned(),
        trial,
        knob: knob.clone(),
        action,
        before: None,
        after: None,
        error: None,
    }
}

fn failed(mut outcome: KnobOutcome, error: &anyhow::Error) -> KnobOutcome {
    outcome.error = Some(format!("{error:#}"));
    outcome
}

/// Writes a value unless the target holds it already, and reads it back. A target that holds the value
/// already need not be writable: `lro: off` succeeds on a driver that has no LRO.
fn write(target: &dyn KnobTarget, value: &str) -> Result<()> {
    if target.read()? == value {
        return Ok(());
    }
    target.write(value).with_context(|| format!("setting {} to {value}", target.name()))?;
    let now = target.read()?;
    ensure!(
        now == value,
        "{} was set to {value} and the kernel took it, but it is {now}: the driver has its own \
         mind about it",
        target.name()
    );
    Ok(())
}

fn roll_back(held: &[Held], error: anyhow::Error) -> anyhow::Error {
    match restore(held) {
        Ok(()) => error,
        Err(second) => error.context(format!("and it could not be undone ({second:#})")),
    }
}

/// Puts every target back, the last one first.
fn restore(held: &[Held]) -> Result<()> {
    let tries = held.iter().rev().map(|held| write(&*held.target, &held.value));
    let errors: Vec<String> =
        tries.filter_map(Result::err).map(|error| format!("{error:#}")).collect();
    ensure!(errors.is_empty(), "{}", errors.join("; "));
    Ok(())
}

fn now(held: &[Held]) -> Result<Vec<(&dyn KnobTarget, String)>> {
    held.iter().map(|held| Ok((&*held.target, held.target.read()?))).collect()
}

/// A single target's value alone, those of several with their names.
fn text<'a>(values: impl IntoIterator<Item = (&'a dyn KnobTarget, String)>) -> String {
    let values: Vec<(&dyn KnobTarget, String)> = values.into_iter().collect();
    match &values[..] {
        [(_, value)] => value.clone(),
        _ => {
            let named = values.iter().map(|(target, value)| format!("{}={value}", target.name()));
            named.collect::<Vec<String>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::Path;
    use std::rc::Rc;

    use anyhow::bail;

    use super::*;

    /// A knob whose files are below a directory of the test's.
    pub fn below(root: &Path, knob: &Knob) -> Result<Setting> {
        let root = root.to_owned();
        let (mm, modules) = (root.clone(), root.clone());
        let schedulers = Schedulers::default();
        Setting::among(knob, &Around { sysctls: root, mm, modules, schedulers })
    }

    /// Cells that can be made to refuse a value, or to turn it into another.
    #[derive(Default)]
    struct Board {
        cells: RefCell<Vec<String>>,
        log: RefCell<Vec<String>>,
    }

    struct Cell {
        board: Rc<Board>,
        index: usize,
        name: String,
    }

    impl KnobTarget for Cell {
        fn name(&self) -> &str {
            &self.name
        }
        fn read(&self) -> Result<String> {
            Ok(self.board.cells.borrow()[self.index].clone())
        }
        fn write(&self, value: &str) -> Result<()> {
            self.board.log.borrow_mut().push(format!("{}={value}", self.name));
            match value {
                "refused" => bail!("no"),
                "bent" => self.board.cells.borrow_mut()[self.index] = "other".to_owned(),
                _ => self.board.cells.borrow_mut()[self.index] = value.to_owned(),
            }
            Ok(())
        }
    }

    fn board(values: &[&str]) -> Rc<Board> {
        let board = Board::default();
        board.cells.borrow_mut().extend(values.iter().map(|value| (*value).to_owned()));
        Rc::new(board)
    }

    fn setting(board: &Rc<Board>, values: &[&str]) -> Setting {
        let wanted = values.iter().enumerate().map(|(index, value)| Wanted {
            target: Box::new(Cell { board: board.clone(), index, name: format!("c{index}") }),
            value: (*value).to_owned(),
        });
        let knob = Knob::SocketBuffers { bytes: 1 };
        Setting { knob, wanted: wanted.collect() }
    }

    #[test]
    fn what_is_shown_is_of_its_own_kind() {
        for one in ALL {
            for (name, knob) in one.shown("lo") {
                if let Err(error) = one.targets(&knob, &Around::default()) {
                    assert!(error.to_string() != OTHER_KIND, "{name}");
                }
            }
        }
    }

    #[test]
    fn a_change_knows_before_and_after_and_goes_back() {
        let board = board(&["1", "2"]);
        let change = setting(&board, &["8", "9"]).apply().unwrap();
        assert_eq!((change.before.as_str(), change.after.as_str()), ("c0=1 c1=2", "c0=8 c1=9"));
        assert_eq!(change.put_back().unwrap(), "c0=1 c1=2");
        assert_eq!(*board.log.borrow(), ["c0=8", "c1=9", "c1=2", "c0=1"]);
    }

    #[test]
    fn what_is_there_already_is_not_written() {
        let board = board(&["1"]);
        let change = setting(&board, &["1"]).apply().unwrap();
        assert_eq!(change.put_back().unwrap(), "1");
        assert!(board.log.borrow().is_empty());
    }

    #[test]
    fn half_a_change_is_rolled_back() {
        for (bad, said) in
            [("refused", "no"), ("bent", "set to bent and the kernel took it, but it is other")]
        {
            let board = board(&["1", "2", "3"]);
            let error = setting(&board, &["8", bad, "9"]).apply().err().unwrap();
            assert!(format!("{error:#}").contains(said), "{error:#}");
            assert_eq!(*board.cells.borrow(), ["1", "2", "3"]);
        }
    }

    #[test]
    fn the_ledger_puts_back_the_last_one_first_also_when_dropped() {
        let board = board(&["1"]);
        let mut ledger = Ledger::default();
        for value in ["2", "3", "4"] {
            ledger.changes.push(setting(&board, &[value]).apply().unwrap());
        }
        board.log.borrow_mut().clear();
        drop(ledger);
        assert_eq!(*board.log.borrow(), ["c0=3", "c0=2", "c0=1"]);
    }

    #[test]
    fn a_knob_that_cannot_go_back_is_reported_and_keeps_no_other() {
        let board = board(&["refused", "1"]);
        let mut ledger = Ledger::default();
        ledger.changes.push(setting(&board, &["5"]).apply().unwrap());
        let mut second = setting(&board, &["5", "6"]);
        second.wanted.remove(0);
        ledger.changes.insert(0, second.apply().unwrap());
        let outcomes = ledger.put_back("sut", 4);
        assert!(outcomes[0].error.as_ref().unwrap().contains("setting c0 to refused"));
        assert_eq!((outcomes[1].error.as_ref(), outcomes[1].after.as_deref()), (None, Some("1")));
        assert_eq!(outcomes[1].before.as_deref(), Some("6"));
        assert!(outcomes.iter().all(|o| o.action == KnobAction::PutBack && o.trial == 4));
        assert!(ledger.changes.is_empty());
    }

    #[test]
    fn a_knob_without_a_place_is_not_available() {
        let knob = Knob::Mtu { interface: "no-such-if".into(), bytes: 1500 };
        let outcome = Ledger::default().apply("sut", 1, &knob);
        let error = outcome.error.unwrap();
        assert!(
            error.starts_with("not available here: there is no interface no-such-if"),
            "{error}"
        );
    }
}
