//! The agent of one node: takes orders, emits records. It is a process of the bench on a host or in
//! a container, or what a guest's init starts.
//!
//! One loop takes orders and ends of tasks. Long work is done by a task's own thread and process, so that
//! an order to kill is always answered.

pub mod hello;

mod bird;
mod copy;
mod devices;
mod files;
pub mod given;
mod interfaces;
mod keep;
mod kernel_files;
mod likeness;
mod mounts;
mod node_emitter;
mod opened;
pub mod own_root;
mod router;
mod share;
mod spare;
mod task;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, Result, anyhow, bail};
use hypertare_plan::{
    Assignment, Files, Hello, Interface, Line, NumberedOrder, Order, Record, Router,
};

use crate::boot_contract::DISK_VARIABLE;
use crate::emit::Emitter;
use crate::knob::Schedulers;
use crate::knob::keeper::{Asked, Turning};
use crate::lines::Lines;
use crate::probe::{self, ProbeContext, Reading};
use crate::process::cgroup::Scope;
use crate::process::namespaces;
use crate::process::shortage::spare_this_process;
use crate::process::weights::Groups;
use crate::workload::descendants;

use bird::Bird;
use files::View;
use given::Heard;
use hello::hello;
use node_emitter::NodeEmitter;
use spare::Spare;
use task::Running;

/// Of the disk of a process's node.
const DISK_FD: i32 = 3;

/// Where a guest keeps its view of the files: its root is in memory already.
const GUEST_PLACE: &str = "/run/hypertare";

/// Runs the agent of a guest: the machine's files come over the share.
pub fn run(input: OwnedFd, output: OwnedFd) -> Result<()> {
    fs::create_dir_all(GUEST_PLACE).with_context(|| format!("making {GUEST_PLACE}"))?;
    spare_this_process()?;
    Node::new(output, Origin::Share, GUEST_PLACE.into()).work(input)
}

/// Work as the agent of one node; started by `hypertare-agent host`
#[derive(clap::Args)]
pub struct Arguments {
    /// Empty directory in memory, for the view of the files
    #[arg(long, value_name = "DIR")]
    place: PathBuf,
    /// Confine commands as common runtimes of containers do
    #[arg(long)]
    as_container: bool,
    /// In a container of an engine, whose files are shown already: where the work directory's are
    #[arg(long, value_name = "DIR", conflicts_with = "as_container")]
    in_engine: Option<PathBuf>,
    /// On a machine that was given, of whose CPUs the work may use so many
    #[arg(long, value_name = "CPUS", conflicts_with_all = ["as_container", "in_engine"])]
    given: Option<u32>,
    /// There its settings may be changed, by the keeper whose pipes are in its place
    #[arg(long, requires = "given")]
    settings: bool,
    /// Its disk is the descriptor after those of standard input, output and error
    #[arg(long)]
    disk: bool,
    /// Where the groups of guests' CPU weights are
    #[arg(long, value_name = "DIR")]
    weights: Option<PathBuf>,
    /// What this run's guests of Xen are called after
    #[arg(long)]
    scope: Option<String>,
}

/// Runs the agent of a host or container node, as the first process of its PID namespace.
pub fn main(arguments: Arguments) -> ExitCode {
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hypertare-agent node: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: Arguments) -> Result<()> {
    let Arguments { place, as_container, in_engine, given, settings, disk, weights, scope } =
        arguments;
    use rustix::mount::{MountFlags, mount};
    if disk {
        // Tasks inherit the descriptor, and what they start.
        // SAFETY: there is one thread.
        unsafe { std::env::set_var(DISK_VARIABLE, format!("/proc/self/fd/{DISK_FD}")) };
    }
    let mut probe_context = ProbeContext::default();
    let machine_proc: OwnedFd;
    if std::process::id() == 1 && in_engine.is_none() && given.is_none() {
        // Kernel threads are in the machine's PID namespace only.
        machine_proc = File::open("/proc").context("cannot open /proc")?.into();
        let path = format!("/proc/self/fd/{}", machine_proc.as_raw_fd());
        probe_context.machine_proc = Some(path.into());
        namespaces::make_private()?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", flags, None).context("cannot mount /proc")?;
    }
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let origin = match (in_engine, given) {
        (Some(pristine), _) => Origin::Engine(pristine),
        (_, Some(cpus)) => {
            given::bind_to_first(cpus)?;
            let heard = Heard::default();
            let place = place.clone();
            heard.or_else(move || {
                let _ = fs::remove_dir_all(&place);
                std::process::exit(1);
            });
            Origin::Given(heard)
        }
        _ => Origin::Own,
    };
    let mut node = Node::new(output, origin, place);
    node.probe_context = probe_context;
    node.as_container = as_container;
    node.turning = match (given, settings) {
        (Some(_), true) => Turning::Asked(Asked::open(&node.place)?),
        (Some(_), false) => Turning::Refused,
        _ => Turning::at(Schedulers {
            groups: weights.map(Groups::at),
            scope: scope.as_deref().map(Scope::named),
        }),
    };
    node.work(input)
}

/// Where the machine's files are found.
enum Origin {
    Own,
    Share,
    /// They are shown already; where those of the work directory are.
    Engine(PathBuf),
    /// They are that machine's own, and the work directory's were brought.
    Given(Heard),
}

enum Event {
    Order(Box<NumberedOrder>),
    /// A line that is no order.
    Bad(String),
    /// Nobody gives orders any more.
    Closed,
    /// A task's thread has done its last.
    Ended(u64),
}

struct Node {
    emitter: Arc<Emitter>,
    origin: Origin,
    place: PathBuf,
    as_container: bool,
    node_emitter: Option<Arc<NodeEmitter>>,
    view: Option<Arc<View>>,
    turning: Turning,
    bird: Option<Bird>,
    reading: Option<Reading>,
    probe_context: ProbeContext,
    running: BTreeMap<u64, Arc<Running>>,
    spare: Spare,
    next_task: u64,
    /// Orders to kill that are answered once nothing runs.
    kills: Vec<u64>,
}

impl Node {
    fn new(output: OwnedFd, origin: Origin, place: PathBuf) -> Self {
        Node {
            emitter: Arc::new(Emitter::holding(File::from(output))),
            origin,
            place,
            as_container: false,
            node_emitter: None,
            view: None,
            turning: Turning::at(Schedulers::default()),
            bird: None,
            reading: None,
            probe_context: ProbeContext::default(),
            running: BTreeMap::new(),
            spare: Spare::default(),
            next_task: 0,
            kills: Vec::new(),
        }
    }

    fn work(mut self, input: OwnedFd) -> Result<()> {
        descendants::adopt()?;
        self.emitter.emit(&Record::Hello(self.hello("")))?;
        let (sender, events) = channel();
        let orders = sender.clone();
        let heard = match &self.origin {
            Origin::Given(heard) => Some(heard.clone()),
            _ => None,
        };
        std::thread::spawn(move || read_orders(input, heard.as_ref(), &orders));
        let outcome = self.take_orders(&events, &sender);
        self.leave();
        outcome
    }

    fn hello(&self, node: &str) -> Hello {
        let processor = match self.origin {
            Origin::Given(_) => given::processor(),
            _ => None,
        };
        Hello { processor, ..hello(node) }
    }

    fn take_orders(&mut self, events: &Receiver<Event>, sender: &Sender<Event>) -> Result<()> {
        for event in events {
            match event {
                Event::Order(order) if order.order == Order::End => {
                    self.leave();
                    if let Some(node_emitter) = &self.node_emitter {
                        node_emitter.done(order.number, Ok(()));
                    }
                    return Ok(());
                }
                Event::Order(order) => self.carry_out(*order, sender)?,
                Event::Bad(why) => bail!("{why}"),
                Event::Closed => return Ok(()),
                Event::Ended(task) => self.ended(task),
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, order: NumberedOrder, sender: &Sender<Event>) -> Result<()> {
        let NumberedOrder { number, order } = order;
        if let Order::Setup { node, interfaces, routes, router, mtu, files } = order {
            if self.node_emitter.is_some() {
                bail!("the node was set up already");
            }
            let node_emitter = Arc::new(NodeEmitter::new(node, self.emitter.clone()));
            node_emitter.emit(&Record::Hello(self.hello(node_emitter.node())));
            self.node_emitter = Some(node_emitter.clone());
            let outcome = match self.origin {
                // Its network is the engine's, or that machine's own.
                Origin::Engine(_) | Origin::Given(_) => Ok(()),
                _ => interfaces::set_up(&node_emitter, &interfaces, mtu)
                    .and_then(|()| router::set_up(&interfaces, &routes, router.as_ref()))
                    .and_then(|()| self.start_daemon(&interfaces, router.as_ref())),
            };
            let outcome = outcome.and_then(|()| self.show_files(&node_emitter, files.as_ref()));
            node_emitter.done(number, outcome);
            return Ok(());
        }
        let Some(node_emitter) = self.node_emitter.clone() else {
            bail!("the first order was not its setup")
        };
        match order {
            Order::Apply { trial, knob } => {
                let outcome = self.turning.apply(node_emitter.node(), trial, &knob);
                node_emitter.done(number, node_emitter.knob(outcome));
            }
            Order::PutBack { trial } => {
                let outcome =
                    self.turning.put_back(node_emitter.node(), trial).and_then(|outcomes| {
                        let all = outcomes.into_iter().map(|outcome| node_emitter.knob(outcome));
                        all.fold(Ok(()), Result::and)
                    });
                node_emitter.done(number, outcome);
            }
            Order::ProbeBegin { probes, .. } => {
                self.reading = Some(probe::begin(&probes, &self.probe_context));
                node_emitter.done(number, Ok(()));
            }
            Order::ProbeEnd { trial, phase, probes } => {
                let reading = self.reading.as_mut();
                for one in reading.map(|reading| reading.end_some(&probes)).unwrap_or_default() {
                    one.notes.iter().for_each(|note| node_emitter.warn(note.clone()));
                    node_emitter.hold(&Record::Probe(one.record(
                        node_emitter.node(),
                        trial,
                        &phase,
                    )));
                }
                self.reading.take_if(|reading| !reading.is_open());
                node_emitter.done(number, Ok(()));
            }
            Order::Start { trial, phase, task } => {
                self.start(&node_emitter, number, Assignment { trial, phase, task }, sender);
            }
            Order::Go { task } => {
                match self.running.values().find(|running| running.task() == task) {
                    Some(running) => running.go(number),
                    None => node_emitter.done(number, Err(anyhow!("task {task} does not run"))),
                }
            }
            Order::Stop { task } => {
                for running in self.running.values().filter(|running| running.task() == task) {
                    running.stop();
                }
                node_emitter.done(number, Ok(()));
            }
            Order::Anticipate => {
                self.spare.make(self.view.as_deref());
                node_emitter.done(number, Ok(()));
            }
            Order::Kill { reason } => {
                for running in self.running.values() {
                    running.kill(&reason);
                }
                self.kills.push(number);
                self.answer_kills(&node_emitter);
            }
            Order::Setup { .. } | Order::End => {}
        }
        Ok(())
    }

    fn start_daemon(&mut self, interfaces: &[Interface], router: Option<&Router>) -> Result<()> {
        let Some((router, daemon)) = router.and_then(|one| Some((one, one.daemon.as_ref()?)))
        else {
            return Ok(());
        };
        self.bird = Some(Bird::start(&self.place, interfaces, router, daemon)?);
        Ok(())
    }

    fn show_files(&mut self, node_emitter: &NodeEmitter, files: Option<&Files>) -> Result<()> {
        let Some(files) = files else { return Ok(()) };
        let lower = match &self.origin {
            Origin::Own => PathBuf::from("/"),
            Origin::Share => {
                likeness::take_on(files)?;
                share::mount_share()?.to_owned()
            }
            Origin::Engine(pristine) => {
                self.view = Some(Arc::new(View::in_engine(files, &self.place, pristine)));
                return Ok(());
            }
            Origin::Given(_) => {
                self.view = Some(Arc::new(View::given(files, &self.place)?));
                return Ok(());
            }
        };
        let (view, warnings) = View::build(files, &self.place, &lower, self.as_container)?;
        warnings.into_iter().for_each(|warning| node_emitter.warn(warning));
        self.view = Some(Arc::new(view));
        Ok(())
    }

    fn start(
        &mut self,
        node_emitter: &Arc<NodeEmitter>,
        number: u64,
        assignment: Assignment,
        sender: &Sender<Event>,
    ) {
        let id = self.next_task;
        self.next_task += 1;
        let spare = self.spare.take(assignment.task.workload.in_files());
        let running =
            Running::new(node_emitter.clone(), number, assignment, self.view.clone(), spare);
        let running = Arc::new(running);
        self.running.insert(id, running.clone());
        let sender = sender.clone();
        std::thread::spawn(move || {
            running.run();
            // Without a receiver the agent is ending anyway.
            let _ = sender.send(Event::Ended(id));
        });
    }

    fn ended(&mut self, task: u64) {
        self.running.remove(&task);
        let Some(node_emitter) = self.node_emitter.clone() else { return };
        if self.running.is_empty() {
            // What a task that was killed from elsewhere has left behind.
            let ours = [self.bird.as_ref().and_then(Bird::pid), self.spare.pid()];
            if let Err(error) =
                descendants::end_but(&ours.into_iter().flatten().collect::<Vec<_>>())
            {
                node_emitter.warn(format!("{error:#}"));
            }
        }
        self.answer_kills(&node_emitter);
    }

    fn answer_kills(&mut self, node_emitter: &NodeEmitter) {
        if self.running.is_empty() {
            self.kills.drain(..).for_each(|number| node_emitter.done(number, Ok(())));
        }
    }

    /// Kills what runs, and puts knobs back, although the host agent may not be there to hear of it.
    fn leave(&mut self) {
        for running in self.running.values() {
            running.kill("the node ends");
        }
        self.spare = Spare::default();
        // Whoever was asked puts back when this process is gone.
        self.turning = Turning::Refused;
    }
}

/// `heard`, of a machine that was given, notes each line of the controller: an empty one is only a sign of
/// life.
fn read_orders(input: OwnedFd, heard: Option<&Heard>, events: &Sender<Event>) {
    let mut lines = Lines::new(File::from(input));
    loop {
        let read = lines.read();
        heard.into_iter().for_each(Heard::again);
        let event = match read {
            Ok(Some(line))
                if heard.is_some() && line.whole && line.bytes.trim_ascii().is_empty() =>
            {
                continue;
            }
            Ok(Some(line)) if line.whole => match NumberedOrder::from_line(&line.bytes) {
                Ok(order) => Event::Order(Box::new(order)),
                Err(error) => Event::Bad(format!("a line is not an order: {error}")),
            },
            Ok(_) => Event::Closed,
            Err(error) => Event::Bad(format!("orders cannot be read: {error}")),
        };
        let last = !matches!(event, Event::Order(_));
        if events.send(event).is_err() || last {
            return;
        }
    }
}
