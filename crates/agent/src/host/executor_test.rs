//! The executor with nodes that only pretend: their records take the same way as those of real
//! ones, through a pipe, but what they send is up to the test.

use std::collections::BTreeMap;
use std::io::{PipeWriter, Write};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use anyhow::bail;
use hypertare_plan::{
    Burn, Direction, Disk, Domain, DurableWrites, Interval, Knob, KnobSetting, Life, MAX_LINE,
    Node, NumberedOrder, Phase, PingProtocol, PingReply, PowerCut, Probe, ProbeRequest, Purpose,
    Reached, Task, TaskResult, TscMode, Values, Workload,
};

use super::*;
use crate::host::machine::Started;
use crate::links::{Inbox, NodeLink};
use crate::node::hello::hello;
use crate::probe::Outside;
use crate::workload::clock::{now_ns, to_seconds};

#[path = "mutated_test.rs"]
mod mutated;

/// What a node does with an order, if it does not do what a good one does. `None` is as usual.
type Script = Box<dyn FnMut(&NumberedOrder, &mut Actor) -> Option<()> + Send>;

/// A pretended node: it speaks through a pipe.
struct Actor {
    name: String,
    out: Option<PipeWriter>,
    trial: (u64, String),
    running: Vec<String>,
    /// By how much its clock is ahead.
    ahead_s: f64,
}

impl Actor {
    fn raw(&mut self, bytes: &[u8]) {
        if let Some(out) = &mut self.out {
            let _ = out.write_all(bytes);
        }
    }

    fn say(&mut self, record: &Record) {
        let mut line = serde_json::to_vec(record).unwrap();
        line.push(b'\n');
        self.raw(&line);
    }

    fn done(&mut self, number: u64, error: Option<&str>) {
        let (node, error) = (self.name.clone(), error.map(str::to_owned));
        let clock_s = to_seconds(now_ns()) + self.ahead_s;
        self.say(&Record::Done { node, number, error, clock_s });
    }

    fn result(&mut self, task: &str, error: Option<&str>) {
        let result = self.result_of(task, error);
        self.running.retain(|running| running != task);
        self.say(&Record::Result(result));
    }

    fn result_of(&self, task: &str, error: Option<&str>) -> TaskResult {
        TaskResult {
            node: self.name.clone(),
            trial: self.trial.0,
            phase: self.trial.1.clone(),
            task: task.to_owned(),
            error: error.map(str::to_owned),
            ..TaskResult::default()
        }
    }

    fn die(&mut self) {
        self.out = None;
    }

    /// Speaks in its name, later.
    fn twin(&self) -> Self {
        Actor {
            name: self.name.clone(),
            out: self.out.as_ref().map(|out| out.try_clone().unwrap()),
            trial: self.trial.clone(),
            running: self.running.clone(),
            ahead_s: self.ahead_s,
        }
    }

    /// What a good node does.
    fn behave(&mut self, order: &NumberedOrder) {
        let number = order.number;
        match &order.order {
            Order::Setup { .. } => self.say(&Record::Hello(hello(&self.name.clone()))),
            Order::Start { trial, phase, task } => {
                self.trial = (*trial, phase.clone());
                if task.background || crate::workload::prepares(&task.workload) {
                    self.running.push(task.id.clone());
                } else {
                    self.result(&task.id, None);
                }
            }
            Order::Stop { task } => self.result(task, None),
            Order::Kill { reason } => {
                for task in self.running.clone() {
                    self.result(&task, Some(reason));
                }
            }
            Order::End => {
                self.done(number, None);
                return self.die();
            }
            _ => {}
        }
        self.done(number, None);
    }
}

struct Link {
    actor: Arc<Mutex<Actor>>,
    script: Script,
    orders: Arc<Mutex<Vec<String>>>,
}

impl NodeLink for Link {
    fn send(&mut self, order: &NumberedOrder) {
        let mut actor = self.actor.lock().unwrap();
        let kind = serde_json::to_value(&order.order).unwrap();
        let kind = kind["type"].as_str().unwrap();
        self.orders.lock().unwrap().push(format!("{} {kind}", actor.name));
        if (self.script)(order, &mut actor).is_none() {
            actor.behave(order);
        }
    }

    fn about(&mut self) -> anyhow::Result<NodeReady> {
        Ok(NodeReady::default())
    }

    fn failure(&mut self) -> Option<String> {
        None
    }

    fn console(&mut self) -> Vec<String> {
        vec!["its last words".to_owned()]
    }

    fn outside(&mut self) -> Option<Outside> {
        None
    }

    fn ended(&mut self, _deadline: Instant) -> bool {
        self.actor.lock().unwrap().out.is_none()
    }

    fn kill(&mut self) {
        self.actor.lock().unwrap().die();
    }
}

#[derive(Default)]
struct Pretence {
    scripts: BTreeMap<String, Script>,
    orders: Arc<Mutex<Vec<String>>>,
    standing: Arc<Mutex<usize>>,
    discarded: Arc<Mutex<Vec<String>>>,
    mute: bool,
}

impl Machine for Pretence {
    fn prepare(&mut self, _bench: &Bench) -> anyhow::Result<()> {
        *self.standing.lock().unwrap() += 1;
        Ok(())
    }

    fn start(
        &mut self,
        bench: &Bench,
        index: usize,
        _state: Option<std::fs::File>,
        inbox: Inbox,
    ) -> anyhow::Result<Started> {
        let name = bench.nodes[index].name.clone();
        if name == "impossible" {
            bail!("no such thing");
        }
        let (input, out) = std::io::pipe().unwrap();
        std::thread::spawn(move || inbox.read(input));
        let mut actor = Actor {
            name: name.clone(),
            out: Some(out),
            trial: (0, String::new()),
            ahead_s: 0.0,
            running: vec![],
        };
        if !self.mute {
            actor.say(&Record::Hello(hello("")));
        }
        let link = Link {
            actor: Arc::new(Mutex::new(actor)),
            script: self.scripts.remove(&name).unwrap_or_else(|| Box::new(|_, _| None)),
            orders: self.orders.clone(),
        };
        Ok(Started { link: Box::new(link), interfaces: vec![], mtu: 1500, warnings: vec![] })
    }

    fn cut_power(&mut self, node: &str) -> anyhow::Result<()> {
        self.orders.lock().unwrap().push(format!("{node} cut power"));
        Ok(())
    }

    fn discard(&mut self, node: &str) -> anyhow::Result<()> {
        self.discarded.lock().unwrap().push(node.to_owned());
        Ok(())
    }

    fn remove(&mut self) {
        // Removing what is not there does nothing: a plan may ask for it.
        let mut standing = self.standing.lock().unwrap();
        *standing = standing.saturating_sub(1);
    }
}

/// What came of a plan.
struct Reported {
    records: Vec<Record>,
    orders: Vec<String>,
    ending: Ending,
    seconds: f64,
}

impl Reported {
    fn bench_error(&self) -> Option<&str> {
        self.records.iter().find_map(|record| match record {
            Record::Bench { error, .. } => Some(error.as_deref()),
            _ => None,
        })?
    }

    fn trial_error(&self, id: u64) -> Option<&str> {
        let found = self.records.iter().find_map(|record| match record {
            Record::TrialEnd { trial, error, .. } if *trial == id => Some(error.as_deref()),
            _ => None,
        });
        found.expect("the trial has ended")
    }

    /// The orders of the trials, and of the end.
    fn course(&self) -> Vec<&str> {
        let setup = |order: &&str| !order.ends_with(" setup");
        self.orders.iter().map(String::as_str).filter(setup).collect()
    }

    fn results(&self, id: u64) -> Vec<&str> {
        let results = self.records.iter().filter_map(|record| match record {
            Record::Result(result) if result.trial == id => Some(result.task.as_str()),
            _ => None,
        });
        results.collect()
    }

    fn has_console_of(&self, name: &str) -> bool {
        self.records
            .iter()
            .any(|record| matches!(record, Record::Console { node, .. } if node == name))
    }

    fn warnings(&self) -> Vec<&str> {
        let logs = self.records.iter().filter_map(|record| match record {
            Record::Log { text, .. } => Some(text.as_str()),
            _ => None,
        });
        logs.collect()
    }
}

fn play(machine: Pretence, events: Vec<Event>) -> Reported {
    play_to(machine, events, |executor| executor)
}

/// For somebody who gives the steps one by one.
fn play_conversing(machine: Pretence, events: Vec<Event>) -> Reported {
    play_to(machine, events, Executor::conversing)
}

fn play_to(
    machine: Pretence,
    events: Vec<Event>,
    whom: impl Fn(Executor<Pretence>) -> Executor<Pretence>,
) -> Reported {
    let begun = Instant::now();
    let (post, queue) = sync_channel(256);
    for event in events {
        post.send(event).unwrap();
    }
    let reported = Arc::new(Mutex::new(Vec::new()));
    let (standing, orders) = (machine.standing.clone(), machine.orders.clone());
    let out = reported.clone();
    let executor = Executor::new(machine, hello(""), (post, queue), move |record| {
        out.lock().unwrap().push(record);
    });
    let ending = whom(executor).run();
    assert_eq!(*standing.lock().unwrap(), 0, "a bench still stands");
    let records = std::mem::take(&mut *reported.lock().unwrap());
    let orders = orders.lock().unwrap().clone();
    Reported { records, orders, ending, seconds: begun.elapsed().as_secs_f64() }
}

/// A bench of `a` and `b`, of which `a` is as the script says, and then these trials.
fn with_script(
    script: impl FnMut(&NumberedOrder, &mut Actor) -> Option<()> + Send + 'static,
    trials: Vec<Trial>,
) -> Reported {
    let mut machine = Pretence::default();
    machine.scripts.insert("a".to_owned(), Box::new(script));
    play(machine, plan(&["a", "b"], trials))
}

fn plan(nodes: &[&str], trials: Vec<Trial>) -> Vec<Event> {
    let mut events = vec![
        Event::Step(Step::Hello { protocol: PROTOCOL }),
        Event::Step(Step::Bench { bench: bench(nodes) }),
    ];
    events.extend(trials.into_iter().map(|trial| Event::Step(Step::Trial { trial })));
    events.push(Event::PlanEnd);
    events
}

fn bench(nodes: &[&str]) -> Bench {
    let kind = |name: &str| match name.starts_with("guest") {
        true => NodeKind::Domain(Domain {
            cpus: 1,
            memory: 128 << 20,
            weight: None,
            tsc: TscMode::Native,
            kernel: "/kernel".into(),
            initramfs: vec!["/initramfs".into()],
            kernel_args: vec![],
            boot_limit_s: 10.0,
        }),
        false => NodeKind::Host,
    };
    let node = |name: &&str| Node {
        name: (*name).to_owned(),
        kind: kind(name),
        cpus: vec![],
        interfaces: vec![],
        routes: vec![],
        router: None,
        files: None,
        disk: None,
    };
    Bench {
        name: "bench".to_owned(),
        nodes: nodes.iter().map(node).collect(),
        links: vec![],
        weights: false,
        scheduler: None,
        driver: None,
        datapath_cpu: None,
    }
}

fn purpose(role: &str) -> Purpose {
    Purpose { role: role.to_owned(), pair: Some(2), direction: Some(Direction::Out) }
}

fn task(id: &str, node: &str, background: bool) -> Task {
    Task {
        id: id.to_owned(),
        node: node.to_owned(),
        background,
        cpus: vec![],
        purpose: Some(purpose(id)),
        workload: Workload::Burn(Burn { share: 0.1, duration_s: 1.0, threads: 1 }),
    }
}

fn trial(id: u64, tasks: Vec<Task>) -> Trial {
    let phase = Phase { name: "p".to_owned(), tasks, probes: vec![], lives: vec![], limit_s: 5.0 };
    Trial { id, knobs: vec![], phases: vec![phase] }
}

/// A trial in which nodes of these names live, all like `a`.
fn lives(id: u64, names: &[&str]) -> Trial {
    let mut trial = trial(id, vec![]);
    let life = |node: &Node| Life {
        id: format!("life.{}", node.name),
        of: "a".to_owned(),
        node: node.clone(),
        work: Some(task(&format!("work.{}", node.name), &node.name, false)),
        reached: None,
        most: None,
        restored: false,
        power_cut: None,
        purpose: Some(purpose("life")),
    };
    trial.phases[0].lives = bench(names).nodes.iter().map(life).collect();
    trial
}

fn starts(order: &NumberedOrder) -> bool {
    matches!(order.order, Order::Start { .. })
}

fn on_a(id: u64) -> Trial {
    trial(id, vec![task("work", "a", false)])
}

fn on_b(id: u64) -> Trial {
    trial(id, vec![task("work", "b", false)])
}

fn echo(id: &str, node: &str) -> Task {
    let reply = PingReply {
        protocol: PingProtocol::Udp,
        on: "0.0.0.0:7000".to_owned(),
        message: 64,
        via: None,
    };
    Task { workload: Workload::PingReply(reply), ..task(id, node, true) }
}

fn probes(trial: &mut Trial, wanted: &[(&str, Probe)]) {
    let request = |&(node, probe): &(&str, Probe)| ProbeRequest { node: node.to_owned(), probe };
    trial.phases[0].probes = wanted.iter().map(request).collect();
}

#[test]
fn a_trial_takes_its_course() {
    let mut whole = trial(
        7,
        vec![
            task("load", "a", true),
            task("work", "a", false),
            echo("echo", "b"),
            task("more", "b", false),
        ],
    );
    probes(&mut whole, &[("a", Probe::Stat), ("a", Probe::Drops)]);
    let knob = Knob::Mtu { interface: "eth0".to_owned(), bytes: 1400 };
    whole.knobs = vec![KnobSetting { node: "b".to_owned(), knob }];
    let reported = play(Pretence::default(), plan(&["a", "b"], vec![whole]));

    assert_eq!(reported.ending, Ending::Complete);
    assert_eq!(reported.bench_error(), None);
    assert_eq!(reported.trial_error(7), None);
    let expected = [
        "b apply",
        // What listens, and then what disturbs.
        "b start",
        "a start",
        "a probe_begin",
        "a start",
        "b start",
        "a probe_end",
        "a stop",
        "b stop",
        // What was still under way has arrived, or was dropped.
        "a probe_end",
        "b put_back",
        "a end",
        "b end",
    ];
    assert_eq!(reported.course(), expected);
    assert_eq!(reported.results(7)[2..], ["load", "echo"]);
    assert!(matches!(reported.records.last(), Some(Record::Teardown { .. })));
}

#[test]
fn nodes_that_had_tasks_get_ready_for_others_before_a_trial_begins() {
    let slow: Script = Box::new(|order, actor| {
        (order.order == Order::Anticipate).then(|| {
            let (mut later, number) = (actor.twin(), order.number);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                later.done(number, None);
            });
        })
    });
    let mut machine = Pretence::default();
    machine.scripts.insert("a".to_owned(), slow);
    let mut second = on_b(2);
    probes(&mut second, &[("b", Probe::Stat)]);
    let reported = play_conversing(machine, plan(&["a", "b"], vec![on_a(1), second]));
    assert_eq!((reported.trial_error(1), reported.trial_error(2)), (None, None));
    let course = ["a start", "a anticipate", "b probe_begin", "b start", "b probe_end"];
    assert_eq!(reported.course()[..5], course);
    assert_eq!(reported.course()[5], "b anticipate");
    let second = reported.records.iter().find_map(|record| match record {
        Record::TrialEnd { trial: 2, elapsed_s, .. } => Some(*elapsed_s),
        _ => None,
    });
    assert!(second.unwrap() >= 0.1, "it waited for who was getting ready");
}

#[test]
fn a_node_whose_clock_is_wrong_is_lost_with_its_trial() {
    let mut machine = Pretence::default();
    let fast: Script = Box::new(|order, actor| {
        if matches!(order.order, Order::ProbeEnd { .. }) {
            actor.ahead_s = 7.0;
        }
        None
    });
    machine.scripts.insert("a".to_owned(), fast);
    let mut first = on_a(1);
    probes(&mut first, &[("a", Probe::Stat)]);
    let reported = play_conversing(machine, plan(&["a", "b"], vec![first, on_b(2)]));
    let why = reported.trial_error(1).unwrap();
    assert!(why.starts_with("node a failed: its clock is wrong: 7.0"), "{why}");
    assert!(why.contains(" s by this host's clock"), "{why}");
    let lost = reported.records.iter().find_map(|record| match record {
        Record::TrialEnd { trial: 1, lost, .. } => Some(lost.clone()),
        _ => None,
    });
    assert_eq!(lost.unwrap().as_deref(), Some("a"));
    assert_eq!(reported.trial_error(2), None);
}

#[test]
fn a_task_cannot_have_taken_longer_than_it_was_given() {
    for (values, part) in [
        ([("elapsed_s", 1160.0)], "took 1160 s by its own account, and at most 0."),
        ([("elapsed_s", -1.0)], "took -1 s by its own account"),
        ([("elapsed_s", 0.0)], "took 0 s by its own account"),
    ] {
        let mut machine = Pretence::default();
        let lies: Script = Box::new(move |order, actor| {
            let Order::Start { trial, phase, task } = &order.order else { return None };
            actor.trial = (*trial, phase.clone());
            let values = values.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
            let result = TaskResult { values, ..actor.result_of(&task.id, None) };
            actor.say(&Record::Result(result));
            actor.done(order.number, None);
            Some(())
        });
        machine.scripts.insert("a".to_owned(), lies);
        let reported = play_conversing(machine, plan(&["a"], vec![on_a(1)]));
        let why = reported.trial_error(1).unwrap();
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn a_node_that_dies_while_it_gets_ready_is_lost_to_the_next_trial() {
    let mut machine = Pretence::default();
    let dies: Script =
        Box::new(|order, actor| (order.order == Order::Anticipate).then(|| actor.die()));
    machine.scripts.insert("a".to_owned(), dies);
    let reported = play_conversing(machine, plan(&["a", "b"], vec![on_a(1), on_b(2), on_a(3)]));
    assert_eq!((reported.trial_error(1), reported.trial_error(2)), (None, None));
    assert!(
        reported.trial_error(3).unwrap().contains("node a is gone"),
        "{:?}",
        reported.trial_error(3)
    );
}

#[test]
fn what_prepares_starts_with_what_listens_and_goes_last() {
    let io = serde_json::from_value(serde_json::json!({
        "type": "io", "pattern": "random", "block": 4096, "span": 65536, "depth": 1, "read_share": 1.0,
        "duration_s": 1.0,
    }));
    let work = Task { workload: io.unwrap(), ..task("work", "a", false) };
    let mut whole = trial(7, vec![work, echo("echo", "b")]);
    probes(&mut whole, &[("a", Probe::Stat)]);
    let reported = play(Pretence::default(), plan(&["a", "b"], vec![whole]));
    assert_eq!(reported.trial_error(7), None);
    let course = ["b start", "a start", "a probe_begin", "a go", "a probe_end", "a stop", "b stop"];
    assert_eq!(reported.course()[..7], course);
}

#[test]
fn what_lives_for_a_phase_is_made_and_ended_in_it() {
    let trials = vec![lives(1, &["x", "y"]), lives(2, &["x"]), on_a(3)];
    let reported = play(Pretence::default(), plan(&["a", "b"], trials));
    for id in [1, 2, 3] {
        assert_eq!(reported.trial_error(id), None);
    }
    let course = ["x start", "y start", "x end", "y end", "x start", "x end", "a start"];
    assert_eq!(reported.course()[..7], course);
    assert_eq!(
        (reported.results(1), reported.results(2)),
        (vec!["life.x", "life.y"], vec!["life.x"])
    );
    for record in &reported.records {
        let Record::Result(result) = record else { continue };
        if result.trial == 3 {
            continue;
        }
        assert_eq!((result.node.as_str(), &result.purpose), ("a", &Some(purpose("life"))));
        let value = |name: &str| result.values[name];
        assert!(0.0 < value("start_s") && value("start_s") <= value("answer_s"), "{result:?}");
        assert!(value("answer_s") <= value("work_s"), "{result:?}");
        assert!(value("stop_s") >= 0.0 && !result.values.contains_key("restore_s"));
    }
    // What they say is for the executor alone.
    let names = reported.records.iter().filter_map(|record| match record {
        Record::Hello(hello) => Some(hello.node.as_str()),
        _ => None,
    });
    assert!(names.clone().all(|name| name != "x" && name != "y"), "{:?}", reported.records);
}

/// A trial in which `x` lives, and is asked by `b`.
fn reached(id: u64, answer_on: &str) -> Trial {
    let mut trial = lives(id, &["x"]);
    let ask = task("ask", "b", false);
    let answer = task("serve", answer_on, true);
    trial.phases[0].lives[0].reached = Some(Reached { answer, ask });
    trial
}

#[test]
fn a_first_answer_is_as_late_as_listening_and_a_round_trip() {
    let mut machine = Pretence::default();
    let answers: Script = Box::new(|order, actor| {
        let Order::Start { trial, phase, task } = &order.order else { return None };
        actor.trial = (*trial, phase.clone());
        let mut result = actor.result_of(&task.id, None);
        if *trial == 1 {
            result.values.insert("rtt_max_ns".to_owned(), 3e9);
        }
        actor.say(&Record::Result(result));
        actor.done(order.number, None);
        Some(())
    });
    machine.scripts.insert("b".to_owned(), answers);
    let trials = vec![reached(1, "x"), reached(2, "x"), reached(3, "a"), on_a(4)];
    let reported = play(machine, plan(&["a", "b"], trials));
    assert_eq!(reported.trial_error(1), None);
    assert_eq!(reported.course()[..5], ["x start", "x start", "b start", "x stop", "x end"]);
    assert_eq!(reported.results(1), ["life.x"]);
    let values = reported.records.iter().find_map(|record| match record {
        Record::Result(result) => Some(&result.values),
        _ => None,
    });
    let values = values.unwrap();
    assert!(values["work_s"] <= values["served_s"] && values["served_s"] < 3.0, "{values:?}");
    assert!((values["reply_s"] - values["served_s"] - 3.0).abs() < 1e-9, "{values:?}");
    assert_eq!(reported.trial_error(2).unwrap(), "task ask has measured no round trip");
    assert_eq!(reported.trial_error(3).unwrap(), "task serve of the life of x is not for a");
    assert_eq!(reported.trial_error(4), None);
}

#[test]
fn others_live_beside_one_for_as_long_as_there_is_room() {
    let many = |id, most| {
        let mut trial = lives(id, &["x"]);
        trial.phases[0].lives[0].most = Some(most);
        trial
    };
    let reported =
        play(Pretence::default(), plan(&["a", "b"], vec![many(1, 3), many(2, 1), on_a(3)]));
    assert_eq!(reported.trial_error(1), None);
    assert_eq!(reported.results(1), ["life.x"]);
    for record in &reported.records {
        let Record::Result(result) = record else { continue };
        if let Some(fitted) = result.values.get("fitted") {
            // How many is up to this machine's memory.
            assert!((1.0..=3.0).contains(fitted) && result.values["slowest"] >= 1.0, "{result:?}");
        }
    }
    assert_eq!(reported.trial_error(2).unwrap(), "1 like x are to live at once: 2 to 4096 can");
    assert_eq!(reported.trial_error(3), None);
}

#[test]
fn a_life_that_fails_fails_its_trial_and_nothing_is_left_of_it() {
    let mut machine = Pretence::default();
    let dies: Script =
        Box::new(|order, actor| matches!(order.order, Order::Setup { .. }).then(|| actor.die()));
    machine.scripts.insert("x".to_owned(), dies);
    let stays: Script = Box::new(|order, actor| {
        (order.order == Order::End).then(|| actor.done(order.number, None))
    });
    machine.scripts.insert("y".to_owned(), stays);
    let names = ["impossible", "x", "y", "b"];
    let trials = names.iter().zip(1..).map(|(name, id)| lives(id, &[name]));
    let reported =
        play(machine, plan(&["a", "b"], trials.chain([lives(5, &["x"]), on_b(6)]).collect()));
    let error = |id| reported.trial_error(id).unwrap();
    assert_eq!(error(1), "node impossible cannot be started: no such thing");
    assert!(error(2).starts_with("node x failed: "), "{}", error(2));
    assert_eq!(error(3), "node y did not end when it was asked to");
    assert_eq!(error(4), "there is a node b already");
    assert_eq!((reported.trial_error(5), reported.trial_error(6)), (None, None));
    assert!([1, 2, 3, 4].iter().all(|&id| reported.results(id).is_empty()));
}

/// The same with a disk whose power is cut.
fn power_cut(id: u64, name: &str) -> Trial {
    let mut trial = lives(id, &[name]);
    let life = &mut trial.phases[0].lives[0];
    life.work = None;
    life.node.disk = Some(Disk {
        bytes: 1 << 20,
        directory: None,
        is_file: false,
        write_cache: true,
        latency_ns: 0,
    });
    let writes =
        DurableWrites { block: 4096, span: 1 << 20, jobs: 2, sync_every: 8, direct: true, seed: 1 };
    life.power_cut = Some(PowerCut { writes, after_s: 0.2 });
    trial
}

#[test]
fn power_is_cut_while_it_writes_and_who_comes_after_looks_for_what_was_durable() {
    let mut machine = Pretence::default();
    let discarded = machine.discarded.clone();
    let writes: Script = Box::new(|order, _| {
        // It goes on writing, and does not say that its work is done.
        matches!(order.order, Order::Go { .. }).then_some(())
    });
    machine.scripts.insert("x".to_owned(), writes);
    let reported = play(machine, plan(&["a"], vec![power_cut(1, "x"), on_a(2)]));
    assert_eq!((reported.trial_error(1), reported.trial_error(2)), (None, None));
    let fill_and_write = ["x start", "x stop", "x start", "x go"];
    let and_look = ["x cut power", "x start", "x end"];
    assert_eq!(reported.course()[..7], [fill_and_write.as_slice(), and_look.as_slice()].concat());
    assert_eq!(reported.results(1), ["life.x"]);
    let restarted = |record: &Record| matches!(record, Record::Result(one) if one.values.contains_key("restart_s"));
    assert!(reported.records.iter().any(restarted));
    assert_eq!(*discarded.lock().unwrap(), ["x"]);
    assert!(reported.warnings().is_empty(), "{:?}", reported.warnings());
}

#[test]
fn who_stops_writing_before_the_cut_fails_the_trial_and_its_disk_is_removed() {
    let mut machine = Pretence::default();
    let discarded = machine.discarded.clone();
    let fails: Script = Box::new(|order, actor| {
        let Order::Go { task } = &order.order else { return None };
        actor.result(task, Some("the disk is gone"));
        Some(())
    });
    machine.scripts.insert("x".to_owned(), fails);
    let reported = play(machine, plan(&["a"], vec![power_cut(1, "x")]));
    assert!(reported.trial_error(1).unwrap().ends_with("failed: the disk is gone"));
    assert!(!reported.course().contains(&"x cut power"));
    assert_eq!(*discarded.lock().unwrap(), ["x"]);
    assert!(reported.results(1).is_empty());
}

#[test]
fn what_lives_for_a_phase_has_a_disk_only_for_a_power_cut() {
    let mut without = power_cut(1, "x");
    without.phases[0].lives[0].power_cut = None;
    let mut not_lasting = power_cut(2, "x");
    not_lasting.phases[0].lives[0].node.disk.as_mut().unwrap().write_cache = false;
    let mut never = power_cut(3, "x");
    never.phases[0].lives[0].power_cut.as_mut().unwrap().after_s = f64::NAN;
    let reported = play(Pretence::default(), plan(&["a"], vec![without, not_lasting, never]));
    assert!(reported.trial_error(1).unwrap().contains("can have no disk"));
    assert!(reported.trial_error(2).unwrap().contains("with a disk that outlives it"));
    assert!(reported.trial_error(3).unwrap().contains("after_s is NaN"));
}

#[test]
fn a_guest_reads_before_the_load_that_may_starve_it_and_all_others_once_it_runs() {
    let mut whole = trial(7, vec![task("load", "b", true), task("work", "b", false)]);
    probes(&mut whole, &[("guest1", Probe::Stat), ("b", Probe::Stat), ("guest2", Probe::Stat)]);
    let reported = play(Pretence::default(), plan(&["guest1", "guest2", "b"], vec![whole]));
    assert_eq!(reported.trial_error(7), None);
    let expected = [
        "guest1 probe_begin",
        "guest2 probe_begin",
        "b start",
        "b probe_begin",
        "b start",
        // The machine that they stand on, so that their reading is not in its counters.
        "b probe_end",
        "guest1 probe_end",
        "guest2 probe_end",
        "b stop",
    ];
    assert_eq!(reported.course()[..9], expected);
}

/// Nodes of which each does what it is asked only once the other was asked the same.
fn each_awaits_the_other(kind: fn(&Order) -> bool) -> Pretence {
    let waiting: Arc<Mutex<Vec<(Actor, NumberedOrder)>>> = Arc::default();
    let mut machine = Pretence::default();
    for name in ["a", "b"] {
        let waiting = waiting.clone();
        let script: Script = Box::new(move |order, actor| {
            if let Order::Start { trial, phase, .. } = &order.order {
                actor.trial = (*trial, phase.clone());
            }
            kind(&order.order).then(|| {
                let mut waiting = waiting.lock().unwrap();
                waiting.push((actor.twin(), order.clone()));
                if waiting.len() == 2 {
                    for (mut actor, order) in waiting.drain(..) {
                        actor.behave(&order);
                    }
                }
            })
        });
        machine.scripts.insert(name.to_owned(), script);
    }
    machine
}

#[test]
fn what_does_not_need_the_other_is_ordered_at_once() {
    let is_load = |order: &Order| matches!(order, Order::Start { task, .. } if task.background);
    let kinds: [fn(&Order) -> bool; 4] = [
        is_load,
        |order| matches!(order, Order::ProbeBegin { .. }),
        |order| matches!(order, Order::ProbeEnd { .. }),
        |order| matches!(order, Order::Stop { .. }),
    ];
    for kind in kinds {
        let tasks =
            vec![task("one", "a", true), task("other", "b", true), task("work", "a", false)];
        let mut both = trial(1, tasks);
        probes(&mut both, &[("a", Probe::Stat), ("b", Probe::Stat)]);
        both.phases[0].limit_s = 1.0;
        let reported = play(each_awaits_the_other(kind), plan(&["a", "b"], vec![both]));
        assert_eq!(reported.trial_error(1), None);
        assert!(reported.seconds < 1.0, "{}", reported.seconds);
    }
}

#[test]
fn a_guest_that_the_load_starves_reads_when_the_load_has_ended() {
    let mut starved = trial(1, vec![task("load", "b", true), task("work", "b", false)]);
    probes(&mut starved, &[("guest1", Probe::Stat), ("b", Probe::Stat)]);
    // Answered by the guest once the load is asked to stop.
    let owed: Arc<Mutex<Option<(Actor, NumberedOrder)>>> = Arc::default();
    let mut machine = Pretence::default();
    let late = owed.clone();
    let guest: Script = Box::new(move |order, actor| {
        matches!(order.order, Order::ProbeEnd { .. }).then(|| {
            *late.lock().unwrap() = Some((actor.twin(), order.clone()));
        })
    });
    let load: Script = Box::new(move |order, _| {
        if matches!(order.order, Order::Stop { .. })
            && let Some((mut guest, order)) = owed.lock().unwrap().take()
        {
            guest.behave(&order);
        }
        None
    });
    machine.scripts.insert("guest1".to_owned(), guest);
    machine.scripts.insert("b".to_owned(), load);
    let reported = play(machine, plan(&["guest1", "b"], vec![starved]));
    assert_eq!(reported.trial_error(1), None);
    assert!(reported.seconds < 1.0, "{}", reported.seconds);
}

#[test]
fn a_guest_among_several_that_does_not_start_its_load_in_time_is_named() {
    let mut short = trial(1, vec![task("load.2", "guest2", true), task("work", "guest1", false)]);
    short.phases[0].limit_s = 0.1;
    let mut machine = Pretence::default();
    machine.scripts.insert("guest2".to_owned(), Box::new(|order, _| starts(order).then_some(())));
    let reported = play(machine, plan(&["guest1", "guest2"], vec![short]));
    let error = reported.trial_error(1).unwrap();
    let expected =
        "phase p took longer than its limit of 0.1 s: task load.2 on guest2 did not start";
    assert!(error.starts_with(expected), "{error}");
    assert!(error.contains("got no CPU") && error.contains("knobs.driver_weight"), "{error}");
}

#[test]
fn a_task_that_fails_is_named_with_its_reason() {
    let reported = with_script(
        |order, actor| {
            starts(order).then(|| {
                actor.trial = (1, "p".to_owned());
                actor.result("work", Some("no such file"));
                actor.done(order.number, None);
            })
        },
        vec![on_a(1), on_b(2)],
    );
    assert_eq!(reported.trial_error(1), Some("task work on a failed: no such file"));
    assert_eq!(reported.trial_error(2), None);
}

#[test]
fn a_node_that_dies_fails_its_trial_and_others_go_on() {
    let reported = with_script(
        |order, actor| starts(order).then(|| actor.die()),
        vec![on_a(1), on_a(2), on_b(3)],
    );
    assert_eq!(reported.trial_error(1), Some("node a failed: its agent has ended"));
    assert_eq!(reported.trial_error(2), Some("node a is gone: its agent has ended"));
    assert_eq!(reported.trial_error(3), None);
    assert!(reported.has_console_of("a"));
    assert!(reported.seconds < 2.0);
}

#[test]
fn the_other_nodes_are_put_in_order_when_one_dies() {
    let both = trial(1, vec![task("echo", "b", true), task("work", "a", false)]);
    let reported =
        with_script(|order, actor| starts(order).then(|| actor.die()), vec![both, on_b(2)]);
    assert!(reported.orders.contains(&"b kill".to_owned()));
    assert_eq!(reported.results(1), ["echo"]);
    assert_eq!(reported.trial_error(2), None);
}

#[test]
fn what_is_not_a_record_fails_the_node() {
    for (bytes, reason) in [
        (&b"{\"record\":\"done\"\n"[..], "not a record"),
        (b"\xff\xfe\n", "not a record"),
        (b"\n", "not a record"),
        (
            b"{\"record\":\"done\",\"node\":\"b\",\"number\":2,\"error\":null,\"clock_s\":1}\n",
            "in the name of \"b\"",
        ),
        (
            b"{\"record\":\"done\",\"node\":\"a\",\"number\":99,\"error\":null,\"clock_s\":1}\n",
            "not given",
        ),
        (b"{\"record\":\"teardown\",\"seconds_s\":1}\n", "may not send: teardown"),
        (b"{\"record\":\"console\",\"node\":\"a\",\"lines\":[]}\n", "may not send: console"),
        (
            b"{\"record\":\"trial_end\",\"trial\":1,\"t_s\":0,\"elapsed_s\":0,\"error\":null}\n",
            "may not",
        ),
    ] {
        let reported = with_script(
            move |order, actor| starts(order).then(|| actor.raw(bytes)),
            vec![on_a(1), on_b(2)],
        );
        let error = reported.trial_error(1).unwrap();
        assert!(error.starts_with("node a failed:") && error.contains(reason), "{error}");
        assert_eq!(reported.trial_error(2), None);
        // It is not passed on either: the one teardown is the executor's own.
        let teardowns = reported.records.iter().filter(|r| matches!(r, Record::Teardown { .. }));
        assert_eq!(teardowns.count(), 1);
        let ends = reported.records.iter().filter(|r| matches!(r, Record::TrialEnd { .. }));
        assert_eq!(ends.count(), 2);
    }
}

#[test]
fn an_oversized_line_fails_the_node() {
    let reported = with_script(
        |order, actor| starts(order).then(|| actor.raw(&vec![b'x'; MAX_LINE + 1])),
        vec![on_a(1)],
    );
    assert!(
        reported.trial_error(1).unwrap().contains("longer than"),
        "{:?}",
        reported.trial_error(1)
    );
}

#[test]
fn a_node_that_never_stops_sending_fails_its_trial() {
    let reported = with_script(
        |order, actor| {
            starts(order).then(|| {
                let mut out = actor.out.as_ref().unwrap().try_clone().unwrap();
                let text = "x".repeat(MAX_LINE / 2);
                let record = Record::Log { node: "a".to_owned(), level: Level::Info, text };
                let mut line = serde_json::to_vec(&record).unwrap();
                line.push(b'\n');
                std::thread::spawn(move || while out.write_all(&line).is_ok() {});
            })
        },
        vec![on_a(1), on_b(2)],
    );
    assert!(reported.trial_error(1).unwrap().contains("bytes during one trial"));
    assert_eq!(reported.trial_error(2), None);
}

#[test]
fn a_task_that_does_not_end_is_killed_at_the_limit() {
    let mut short = on_a(1);
    short.phases[0].limit_s = 0.1;
    let reported = with_script(
        |order, actor| match &order.order {
            Order::Start { trial, phase, task } if *trial == 1 => {
                actor.trial = (*trial, phase.clone());
                actor.running.push(task.id.clone());
                actor.done(order.number, None);
                Some(())
            }
            _ => None,
        },
        vec![short, on_a(2)],
    );
    let expected = "phase p took longer than its limit of 0.1 s: task work on a did not end";
    assert_eq!(reported.trial_error(1), Some(expected));
    assert_eq!(reported.results(1), ["work"]);
    assert_eq!(reported.trial_error(2), None);
    assert!(reported.seconds < 1.0);
}

#[test]
fn a_node_that_does_not_even_answer_kill_is_dead() {
    let mut short = on_a(1);
    short.phases[0].limit_s = 0.1;
    let reported = with_script(
        |order, _| (!matches!(order.order, Order::Setup { .. })).then_some(()),
        vec![short, on_a(2), on_b(3)],
    );
    assert!(reported.trial_error(1).unwrap().starts_with("phase p took longer"));
    let error = reported.trial_error(2).unwrap();
    assert!(error.starts_with("node a is gone: it did not answer"), "{error}");
    assert_eq!(reported.trial_error(3), None);
    assert!(reported.seconds < 4.0, "{}", reported.seconds);
}

#[test]
fn a_background_task_that_does_not_stop_fails_the_trial() {
    let both = trial(1, vec![task("echo", "a", true), task("work", "b", false)]);
    let reported = with_script(
        |order, actor| match &order.order {
            Order::Stop { .. } => {
                actor.result("echo", Some("it broke"));
                actor.done(order.number, None);
                Some(())
            }
            _ => None,
        },
        vec![both],
    );
    assert_eq!(reported.trial_error(1), Some("task echo on a failed: it broke"));
}

#[test]
fn what_comes_too_late_is_left_out() {
    let reported = with_script(
        |order, actor| match &order.order {
            Order::Start { trial: 2, .. } => {
                actor.trial = (1, "p".to_owned());
                actor.result("work", None);
                let old = Interval {
                    node: "a".to_owned(),
                    trial: 1,
                    phase: "p".to_owned(),
                    task: "work".to_owned(),
                    begin_s: 0.0,
                    end_s: 1.0,
                    values: Values::new(),
                    heard_s: None,
                    purpose: None,
                };
                actor.say(&Record::Interval(old));
                None
            }
            _ => None,
        },
        vec![on_a(1), on_a(2)],
    );
    assert_eq!(reported.trial_error(2), None);
    assert_eq!((reported.results(1).len(), reported.results(2).len()), (1, 1));
    assert_eq!(reported.warnings().iter().filter(|text| text.contains("too late")).count(), 2);
}

#[test]
fn when_an_interval_was_heard_and_what_its_task_is_for_the_host_agent_says() {
    let reported = with_script(
        |order, actor| match &order.order {
            Order::Start { trial, .. } => {
                actor.trial = (*trial, "p".to_owned());
                actor.say(&Record::Interval(Interval {
                    node: "a".to_owned(),
                    trial: *trial,
                    phase: "p".to_owned(),
                    task: "work".to_owned(),
                    begin_s: 0.0,
                    end_s: 1.0,
                    values: Values::new(),
                    heard_s: Some(1e9),
                    purpose: Some(purpose("another")),
                }));
                None
            }
            _ => None,
        },
        vec![on_a(1)],
    );
    let interval = reported.records.iter().find_map(|record| match record {
        Record::Interval(interval) => Some(interval),
        _ => None,
    });
    let Interval { heard_s, purpose: said, .. } = interval.unwrap();
    assert!(heard_s.is_some_and(|heard| (0.0..=reported.seconds).contains(&heard)), "{heard_s:?}");
    assert_eq!(said, &Some(purpose("work")));
    let result = reported.records.iter().find_map(|record| match record {
        Record::Result(result) => Some(&result.purpose),
        _ => None,
    });
    assert_eq!(result, Some(&Some(purpose("work"))));
}

#[test]
fn knobs_are_put_back_after_a_failure_and_one_that_cannot_be_applied_is_a_failure() {
    let mut with_knob = on_a(1);
    let knob = Knob::Mtu { interface: "eth9".to_owned(), bytes: 1400 };
    with_knob.knobs = vec![KnobSetting { node: "a".to_owned(), knob }];
    let reported = with_script(
        |order, actor| {
            matches!(order.order, Order::Apply { .. })
                .then(|| actor.done(order.number, Some("there is no eth9")))
        },
        vec![with_knob],
    );
    assert_eq!(reported.trial_error(1), Some("a knob on a failed: there is no eth9"));
    assert!(reported.orders.contains(&"a put_back".to_owned()));
    assert!(!reported.orders.contains(&"a start".to_owned()));
}

#[test]
fn a_bench_with_a_node_that_cannot_start_is_removed() {
    let reported = play(Pretence::default(), plan(&["a", "impossible"], vec![on_a(1)]));
    assert_eq!(reported.bench_error(), Some("node impossible cannot be started: no such thing"));
    assert!(reported.orders.contains(&"a end".to_owned()));
    assert_eq!(reported.trial_error(1), Some("there is no bench to execute the trial on"));
}

#[test]
fn a_bench_whose_setup_fails_reports_why() {
    let reported = with_script(
        |order, actor| {
            matches!(order.order, Order::Setup { .. }).then(|| {
                actor.say(&Record::Hello(hello("a")));
                actor.done(order.number, Some("the disk is on fire"));
            })
        },
        vec![],
    );
    assert_eq!(reported.bench_error(), Some("its setup on a failed: the disk is on fire"));
}

#[test]
fn an_agent_of_another_protocol_is_refused() {
    let machine = Pretence { mute: true, ..Pretence::default() };
    let mut events = plan(&["a"], vec![]);
    events.pop();
    let mut other = hello("");
    other.protocol = PROTOCOL + 1;
    let news = News::Record(Box::new(Record::Hello(other)), 100);
    events.push(Event::Node { member: 0, news });
    events.push(Event::PlanEnd);
    let reported = play(machine, events);
    // The first member's id is 0.
    let error = reported.bench_error().unwrap();
    assert!(error.contains("speaks version"), "{error}");
}

#[test]
fn a_plan_that_is_not_one_ends_with_a_reason() {
    let not_a_step = vec![
        Event::Step(Step::Hello { protocol: PROTOCOL }),
        Event::BadStep("a line of the plan is not a step".to_owned()),
    ];
    let no_hello = vec![Event::Step(Step::Teardown)];
    let other = vec![Event::Step(Step::Hello { protocol: PROTOCOL + 1 })];
    for (events, reason) in
        [(not_a_step, "not a step"), (no_hello, "not hello"), (other, "version")]
    {
        let reported = play(Pretence::default(), events);
        let Ending::BadPlan(why) = &reported.ending else { panic!("{:?}", reported.ending) };
        assert!(why.contains(reason), "{why}");
        assert!(reported.warnings()[0].contains(reason));
    }
}

#[test]
fn the_end_of_the_controller_interrupts_a_trial() {
    let mut events = plan(&["a", "b"], vec![on_a(1)]);
    events.pop();
    let mut machine = Pretence::default();
    let ended: Arc<Mutex<Option<SyncSender<Event>>>> = Arc::default();
    let post = ended.clone();
    let script: Script = Box::new(move |order, actor| match &order.order {
        Order::Start { task, .. } => {
            actor.running.push(task.id.clone());
            actor.trial = (1, "p".to_owned());
            actor.done(order.number, None);
            let post = post.lock().unwrap().take().unwrap();
            std::thread::spawn(move || post.send(Event::End(Why::Signal(libc::SIGINT))));
            Some(())
        }
        _ => None,
    });
    machine.scripts.insert("a".to_owned(), script);
    let (post, queue) = sync_channel(256);
    *ended.lock().unwrap() = Some(post.clone());
    for event in events {
        post.send(event).unwrap();
    }
    let reported = Arc::new(Mutex::new(Vec::new()));
    let out = reported.clone();
    let executor = Executor::new(machine, hello(""), (post, queue), move |record| {
        out.lock().unwrap().push(record);
    });
    let begun = Instant::now();
    assert_eq!(executor.run(), Ending::Ended(Why::Signal(libc::SIGINT)));
    assert!(begun.elapsed() < Duration::from_secs(2));
    let reported = reported.lock().unwrap();
    let error = reported.iter().find_map(|record| match record {
        Record::TrialEnd { error, .. } => error.clone(),
        _ => None,
    });
    assert_eq!(error.as_deref(), Some("interrupted by SIGINT"));
    assert!(matches!(reported.last(), Some(Record::Teardown { .. })));
}

#[test]
fn a_trial_that_makes_no_sense_is_refused_before_it_starts() {
    let unknown = trial(1, vec![task("work", "c", false)]);
    let double = trial(2, vec![task("work", "a", false), task("work", "b", false)]);
    let endless = trial(3, vec![task("work", "a", true)]);
    let mut timeless = on_a(4);
    timeless.phases[0].limit_s = f64::INFINITY;
    let reported =
        play(Pretence::default(), plan(&["a", "b"], vec![unknown, double, endless, timeless]));
    assert_eq!(reported.trial_error(1), Some("the bench has no node c"));
    assert!(reported.trial_error(2).unwrap().contains("two tasks"));
    assert!(reported.trial_error(3).unwrap().contains("no foreground task"));
    assert!(reported.trial_error(4).unwrap().contains("limit_s"));
    assert!(!reported.orders.iter().any(|order| order.ends_with("start")));
}
