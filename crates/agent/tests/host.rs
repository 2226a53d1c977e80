//! The host agent through its binary: real namespaces, links, processes and files, and what is left
//! of them when something is killed, which must be nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const AGENT: &str = env!("CARGO_BIN_EXE_hypertare-agent");
/// Inherited by every process of a run that is an agent's, so that it can be found.
const MARK: &str = "HYPERTARE_TEST_MARK";
const KINDS: [&str; 6] = ["net", "mnt", "pid", "user", "uts", "ipc"];
const PATIENCE: Duration = Duration::from_secs(20);

/// A run of `hypertare-agent host`, and what belongs to it.
struct Run {
    child: Child,
    input: Option<ChildStdin>,
    records: Receiver<Value>,
    mark: String,
    temporary: PathBuf,
}

static RUNS: AtomicU32 = AtomicU32::new(0);

impl Run {
    fn start() -> Self {
        Run::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Self {
        let mark = format!("{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let temporary = std::env::temp_dir().join(format!("hypertare-host-{mark}"));
        fs::create_dir_all(&temporary).unwrap();
        let mut child = Command::new(AGENT)
            .arg("host")
            .args(arguments)
            .env(MARK, &mark)
            .env("TMPDIR", &temporary)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, records) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let record = serde_json::from_str(&line).expect("every line is a record");
                if sender.send(record).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        let mut run = Run { child, input, records, mark, temporary };
        run.step(&json!({"step": "hello", "protocol": 1}));
        run
    }

    fn on(bench: &Value) -> Self {
        let mut run = Run::start();
        run.step(&json!({"step": "bench", "bench": bench}));
        let made = run.until("bench");
        assert_eq!(made.last().unwrap()["error"], Value::Null, "{made:?}");
        run
    }

    fn step(&mut self, step: &Value) {
        let mut line = step.to_string();
        line.push('\n');
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// All records up to the first one of a kind.
    fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.records.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(record) => seen.push(record),
                Err(error) => panic!("no record {kind} ({error}) after {seen:?}"),
            }
            if seen.last().unwrap()["record"] == kind {
                return seen;
            }
        }
    }

    /// Executes a trial of one phase; gives its results by task, and its error.
    fn trial(&mut self, id: u64, tasks: &Value) -> (Vec<Value>, Value) {
        self.begin(id, tasks);
        let seen = self.until("trial_end");
        let error = seen.last().unwrap()["error"].clone();
        (seen.into_iter().filter(|record| record["record"] == "result").collect(), error)
    }

    fn begin(&mut self, id: u64, tasks: &Value) {
        let phases = json!([{"name": "p", "limit_s": 10, "tasks": tasks}]);
        self.step(&json!({"step": "trial", "trial": {"id": id, "phases": phases}}));
    }

    /// Waits until a process of this run has this word among its arguments.
    fn await_process(&self, word: &str) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = marked(&self.mark)
                .into_iter()
                .find(|(_, arguments)| arguments.iter().any(|argument| argument == word));
            if let Some((pid, _)) = found {
                return pid;
            }
            assert!(Instant::now() < deadline, "no process {word}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn close(&mut self) {
        self.input = None;
    }

    fn wait(&mut self) -> (ExitStatus, String) {
        let status = wait_for(&mut self.child);
        let mut text = String::new();
        std::io::Read::read_to_string(self.child.stderr.as_mut().unwrap(), &mut text).unwrap();
        (status, text)
    }

    /// What is to be gone when this run has ended.
    fn belongings(&self) -> Belongings {
        let processes: BTreeSet<i32> = marked(&self.mark).into_iter().map(|(pid, _)| pid).collect();
        let mut namespaces = BTreeMap::new();
        for pid in &processes {
            for kind in KINDS {
                let path = PathBuf::from(format!("/proc/{pid}/ns/{kind}"));
                if let (Ok(name), Ok(file)) = (fs::read_link(&path), fs::File::open(&path)) {
                    namespaces.insert(name, file);
                }
            }
        }
        for kind in KINDS {
            namespaces.remove(&fs::read_link(format!("/proc/self/ns/{kind}")).unwrap());
        }
        assert!(namespaces.len() >= 6, "{namespaces:?}");
        let belongings = Belongings {
            mark: self.mark.clone(),
            scope: format!("hypertare-{}-", self.child.id()),
            namespaces,
            temporary: self.temporary.clone(),
        };
        assert!(belongings.left().len() >= 6, "{:?}", belongings.left());
        belongings
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir(&self.temporary);
    }
}

struct Belongings {
    mark: String,
    scope: String,
    /// Held open: the kernel gives the number of one that is gone to the next one.
    namespaces: BTreeMap<PathBuf, fs::File>,
    temporary: PathBuf,
}

impl Belongings {
    fn left(&self) -> Vec<String> {
        let mut left: Vec<String> =
            marked(&self.mark).into_iter().map(|process| format!("process {process:?}")).collect();
        for pid in processes() {
            for kind in KINDS {
                let namespace = fs::read_link(format!("/proc/{pid}/ns/{kind}"));
                if namespace.is_ok_and(|found| self.namespaces.contains_key(&found)) {
                    left.push(format!("process {pid} in a {kind} namespace of the run"));
                }
            }
        }
        left.extend(cgroups(&self.scope).into_iter().map(|path| format!("cgroup {path:?}")));
        let files = fs::read_dir(&self.temporary).unwrap().flatten();
        left.extend(files.map(|file| format!("file {:?}", file.path())));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let scratch = mounts.lines().filter(|line| line.contains(" /sys/firmware "));
        left.extend(scratch.map(|line| format!("mount {line}")));
        let interfaces = fs::read_to_string("/proc/self/net/dev").unwrap();
        let ours = interfaces.lines().filter(|line| line.trim_start().starts_with("tlink0:"));
        left.extend(ours.map(|line| format!("interface {line}")));
        left
    }

    #[track_caller]
    fn assert_gone_within(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.left().is_empty() {
            assert!(Instant::now() < deadline, "left behind: {:#?}", self.left());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn wait_for(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < deadline, "the agent does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn processes() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Processes that carry the mark, with their arguments.
fn marked(mark: &str) -> Vec<(i32, Vec<String>)> {
    let wanted = format!("{MARK}={mark}");
    let has_mark = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    let arguments = |pid: i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = line.split(|&byte| byte == 0);
        (pid, words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    };
    processes().into_iter().filter(has_mark).map(arguments).collect()
}

/// Directories of cgroups whose name begins like this, wherever they are mounted.
fn cgroups(prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut unseen = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = unseen.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(prefix) {
                    found.push(entry.path());
                }
                unseen.push(entry.path());
            }
        }
    }
    found
}

fn kill(pid: i32, signal: i32) {
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

fn pair() -> Value {
    json!({
        "name": "pair",
        "nodes": [
            {"name": "host", "kind": {"type": "host"},
             "interfaces": [{"name": "any", "link": "tlink0", "address": "10.77.0.1/24"}]},
            {"name": "box", "kind": {"type": "container", "memory": 268435456},
             "interfaces": [{"name": "eth0", "link": "tlink0", "address": "10.77.0.2/24",
                             "mac": "02:00:00:00:77:02", "offloads": {"tso": false}}]},
        ],
        "links": [{"name": "tlink0", "mtu": 1400}],
    })
}

fn command(id: &str, node: &str, script: &str) -> Value {
    let workload = json!({"type": "command", "argv": ["/bin/sh", "-c", script],
                          "env": {"PATH": "/usr/bin:/bin"}});
    json!({"id": id, "node": node, "workload": workload})
}

fn long(node: &str) -> Value {
    json!([command("long", node, "sleep 30")])
}

#[test]
fn commands_get_this_hosts_network_when_it_is_asked_for() {
    let nodes = json!([
        {"name": "host", "kind": {"type": "host"}, "interfaces": []},
        {"name": "box", "kind": {"type": "container", "memory": 268435456}, "interfaces": []},
    ]);
    let mut run = Run::start_with(&["--network", "host"]);
    run.step(&json!({"step": "bench", "bench": {"name": "alone", "nodes": nodes, "links": []}}));
    let made = run.until("bench");
    assert_eq!(made.last().unwrap()["error"], Value::Null, "{made:?}");
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    let script = format!("test \"$(readlink /proc/self/ns/net)\" = '{}'", own.display());
    for (id, node) in ["host", "box"].into_iter().enumerate() {
        let (_, error) = run.trial(id as u64, &json!([command("look", node, &script)]));
        assert_eq!(error, Value::Null, "{node}");
    }
    let mut run = Run::start_with(&["--network", "host"]);
    run.step(&json!({"step": "bench", "bench": pair()}));
    let refused = run.until("bench").last().unwrap()["error"].to_string();
    assert!(refused.contains("in this host's own network"), "{refused}");
}

#[test]
fn a_host_and_a_container_work_on_a_link() {
    let mut run = Run::start();
    run.step(&json!({"step": "bench", "bench": pair()}));
    let seen = run.until("bench");
    let find = |kind: &str, node: &str| {
        let found = seen.iter().find(|record| record["record"] == kind && record["node"] == node);
        found.unwrap_or_else(|| panic!("no {kind} of {node}")).clone()
    };
    assert_eq!(find("hello", "box")["protocol"], 1);
    let interface = find("interface", "box");
    assert_eq!((&interface["mtu"], &interface["driver"]), (&json!(1400), &json!("veth")));
    assert_eq!(interface["offloads"]["tso"], false);
    assert!(find("node", "box")["ready_s"].as_f64().unwrap() > 0.0);
    let has_cgroup = find("node", "box")["cgroup"].is_string();
    assert_eq!(has_cgroup, !cgroups(&format!("hypertare-{}-", run.child.id())).is_empty());
    assert_eq!(find("interface", "host")["interface"], "tlink0");

    let ping = json!([
        {"id": "echo", "node": "box", "background": true,
         "workload": {"type": "ping_reply", "protocol": "udp", "on": "0.0.0.0:7000"}},
        {"id": "ping", "node": "host",
         "workload": {"type": "ping_request", "protocol": "udp", "to": "10.77.0.2:7000",
                      "count": 50, "duration_s": 5}},
    ]);
    let (results, error) = run.trial(1, &ping);
    assert_eq!(error, Value::Null);
    assert_eq!(results[0]["values"]["replies"], 50.0);
    assert_eq!(results[1]["values"]["replies"], 50.0);

    let stream = json!([
        {"id": "sink", "node": "box", "background": true,
         "workload": {"type": "stream_receive", "protocol": "tcp", "on": "0.0.0.0:5201",
                      "message": 65536}},
        {"id": "source", "node": "host",
         "workload": {"type": "stream_send", "protocol": "tcp", "to": "10.77.0.2:5201",
                      "message": 65536, "duration_s": 0.3, "interval_s": 0.1}},
    ]);
    let (results, error) = run.trial(4, &stream);
    assert_eq!(error, Value::Null);
    let bytes = |task: &str, name: &str| {
        let result = results.iter().find(|result| result["task"] == task).unwrap();
        result["values"][name].as_f64().unwrap()
    };
    assert!(bytes("source", "sent_bytes") > 1e6);
    assert_eq!(bytes("source", "sent_bytes"), bytes("sink", "received_bytes"));

    let (results, error) = run.trial(2, &json!([command("sh", "box", "cat /proc/net/dev")]));
    assert_eq!(error, Value::Null);
    let seen = results[0]["text"]["stdout"].as_str().unwrap();
    assert!(seen.contains("eth0:") && !seen.contains("tlink0:"), "{seen}");
    let (_, error) = run.trial(3, &json!([command("sh", "host", "echo oh >&2; exit 3")]));
    assert!(error.as_str().unwrap().starts_with("task sh on host failed"), "{error}");

    let belongings = run.belongings();
    run.step(&json!({"step": "teardown"}));
    run.until("teardown");
    // Another bench of the same names follows at once.
    run.step(&json!({"step": "bench", "bench": pair()}));
    assert_eq!(run.until("bench").last().unwrap()["error"], Value::Null);
    run.close();
    let (status, text) = run.wait();
    assert!(status.success(), "{status} {text}");
    belongings.assert_gone_within(Duration::ZERO);
}

#[test]
fn probes_and_knobs_of_a_phase_are_reported() {
    let mut run = Run::on(&pair());
    run.step(&json!({"step": "trial", "trial": {
        "id": 1,
        "knobs": [{"node": "box", "knob": {"type": "mtu", "interface": "eth0", "bytes": 1300}}],
        "phases": [{"name": "p", "limit_s": 5, "tasks": [command("sh", "box", "true")],
                    "probes": [{"node": "box", "probe": "stat"}, {"node": "box", "probe": "outside"},
                               {"node": "host", "probe": "outside"}]}]}}));
    let seen = run.until("trial_end");
    assert_eq!(seen.last().unwrap()["error"], Value::Null, "{seen:?}");
    let probe = |node: &str, probe: &str| {
        seen.iter()
            .find(|r| r["record"] == "probe" && r["node"] == node && r["probe"] == probe)
            .unwrap_or_else(|| panic!("no {probe} of {node}"))
    };
    assert!(probe("box", "stat")["values"]["context_switches"].as_f64().unwrap() > 0.0);
    assert!(probe("box", "outside")["values"]["cpu_s"].as_f64().unwrap() > 0.0);
    assert!(probe("host", "outside")["unavailable"].is_string());
    let knobs: Vec<(&Value, &Value)> = seen
        .iter()
        .filter(|record| record["record"] == "knob")
        .map(|record| (&record["action"], &record["after"]))
        .collect();
    assert_eq!(knobs, [(&json!("applied"), &json!("1300")), (&json!("put_back"), &json!("1400"))]);
}

#[test]
fn nothing_is_left_when_the_controllers_pipe_closes() {
    let mut run = Run::on(&pair());
    run.begin(1, &long("box"));
    run.await_process("task");
    let belongings = run.belongings();
    run.close();
    let begun = Instant::now();
    run.wait();
    assert!(begun.elapsed() < Duration::from_secs(3));
    belongings.assert_gone_within(Duration::ZERO);
}

#[test]
fn nothing_is_left_when_the_outside_is_killed() {
    let mut run = Run::on(&pair());
    run.begin(1, &long("box"));
    run.await_process("task");
    let belongings = run.belongings();
    run.child.kill().unwrap();
    belongings.assert_gone_within(Duration::from_secs(4));
}

#[test]
fn nothing_is_left_when_the_inside_is_killed() {
    let mut run = Run::on(&pair());
    run.begin(1, &long("host"));
    run.await_process("task");
    let belongings = run.belongings();
    kill(run.await_process("host-inside"), libc::SIGKILL);
    let (status, text) = run.wait();
    assert_eq!(status.code(), Some(137), "{text}");
    assert!(text.contains("was killed by SIGKILL"), "{text}");
    belongings.assert_gone_within(Duration::ZERO);
}

#[test]
fn what_is_left_when_both_are_killed_at_once_is_removed_by_the_next_run() {
    let mut run = Run::on(&pair());
    let belongings = run.belongings();
    let inside = run.await_process("host-inside");
    kill(run.child.id().cast_signed(), libc::SIGSTOP);
    kill(inside, libc::SIGKILL);
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    // What still lives is not swept away.
    let deadline = Instant::now() + PATIENCE;
    while belongings.left().iter().any(|left| left.starts_with("process")) {
        assert!(Instant::now() < deadline, "{:?}", belongings.left());
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(Run::on(&pair()));
    belongings.assert_gone_within(Duration::from_secs(2));
}

#[test]
fn nothing_is_left_when_a_stuck_inside_has_to_be_killed() {
    let mut run = Run::on(&pair());
    let belongings = run.belongings();
    kill(run.await_process("host-inside"), libc::SIGSTOP);
    let begun = Instant::now();
    run.close();
    run.wait();
    assert!(begun.elapsed() < Duration::from_secs(5));
    belongings.assert_gone_within(Duration::ZERO);
}

#[test]
fn a_node_agent_that_is_killed_fails_its_trial_only() {
    let mut run = Run::on(&pair());
    // The nodes are started in the order of the plan: the second one is the container.
    let agents: Vec<i32> = marked(&run.mark)
        .into_iter()
        .filter(|(_, arguments)| arguments.iter().any(|word| word == "node"))
        .map(|(pid, _)| pid)
        .collect();
    run.begin(1, &long("box"));
    run.await_process("task");
    kill(*agents.iter().max().unwrap(), libc::SIGKILL);
    let seen = run.until("trial_end");
    let error = seen.last().unwrap()["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("node box failed") && error.contains("SIGKILL"), "{error}");
    let (_, error) = run.trial(2, &json!([command("again", "box", "true")]));
    assert!(error.as_str().unwrap().starts_with("node box is gone"), "{error}");
    let (_, error) = run.trial(3, &json!([command("other", "host", "true")]));
    assert_eq!(error, Value::Null);
}

#[test]
fn a_task_that_is_killed_fails_its_trial_only() {
    let mut run = Run::on(&pair());
    run.begin(1, &long("box"));
    kill(run.await_process("task"), libc::SIGKILL);
    let seen = run.until("trial_end");
    let error = seen.last().unwrap()["error"].as_str().unwrap();
    assert_eq!(error, "task long on box failed: the task's process was killed by SIGKILL");
    let (_, error) =
        run.trial(2, &json!([command("again", "box", "test $(ps ax | grep -c '[s]leep 30') = 0")]));
    assert_eq!(error, Value::Null);
}

/// In hundredths of a second: how long ago the process above a command's own was started.
const AGE: &str = "set -- $(cat /proc/$PPID/stat) && s=${22} && read now _ </proc/uptime && \
                   echo $(($(echo $now | tr -d .) - s))";

#[test]
fn the_next_tasks_process_waits_for_it_if_it_is_of_the_same_kind() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = pair();
    bench["nodes"][0]["files"] = json!({"workdir": directory.path(), "memory": 1_000_000});
    let mut run = Run::on(&bench);
    let with = |node: &str, in_files: bool| {
        let mut task = command("age", node, AGE);
        task["workload"]["in_files"] = json!(in_files);
        json!([task])
    };
    let mut age = |id: u64, task: Value| {
        std::thread::sleep(Duration::from_millis(500));
        let (results, error) = run.trial(id, &task);
        assert_eq!(error, Value::Null);
        let text = results[0]["text"]["stdout"].as_str().unwrap();
        text.trim().parse::<i64>().unwrap_or_else(|_| panic!("no age: {text}"))
    };
    assert!(age(0, with("box", false)) < 40, "nobody knew of the first task");
    assert!(age(1, with("box", false)) >= 40, "its process was started after the trial before");
    assert!(age(2, with("host", true)) < 40, "another node's did not wait");
    assert!(age(3, with("host", true)) >= 40);
    assert!(age(4, with("host", false)) < 40, "one that sees other files does not do");
    assert!(age(5, with("box", false)) >= 40, "it waits for as long as it takes");
    let (_, error) =
        run.trial(6, &json!([command("ps", "box", "test $(ps ax | grep -c '[r]eady-fd') = 1")]));
    assert_eq!(error, Value::Null, "there is none beside a task");
}

#[test]
fn a_process_that_does_not_wait_any_more_is_not_missed() {
    let mut run = Run::on(&pair());
    let again = json!([command("again", "box", "true")]);
    assert_eq!(run.trial(1, &again).1, Value::Null);
    let spare = run.await_process("task");
    kill(spare, libc::SIGKILL);
    // Its command line is gone before whoever started it can know of its end.
    while !has_ended(spare) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(run.trial(2, &again).1, Value::Null);
    run.await_process("task");
    let belongings = run.belongings();
    run.close();
    assert!(run.wait().0.success());
    belongings.assert_gone_within(Duration::ZERO);
}

/// Whether it can be waited for, or was.
fn has_ended(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |text| text.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

#[test]
fn a_task_that_never_ends_is_killed_at_its_limit() {
    let mut run = Run::on(&pair());
    let phases = json!([{"name": "p", "limit_s": 0.3, "tasks": long("box")}]);
    run.step(&json!({"step": "trial", "trial": {"id": 1, "phases": phases}}));
    let seen = run.until("trial_end");
    let error = seen.last().unwrap()["error"].as_str().unwrap();
    assert!(error.contains("longer than its limit of 0.3 s: task long on box"), "{error}");
    assert!(seen.last().unwrap()["elapsed_s"].as_f64().unwrap() < 2.0);
    let (_, error) = run.trial(2, &json!([command("again", "box", "true")]));
    assert_eq!(error, Value::Null);
}

#[test]
fn an_interrupt_ends_everything_in_good_order() {
    let mut run = Run::on(&pair());
    run.begin(1, &long("host"));
    run.await_process("task");
    let belongings = run.belongings();
    let begun = Instant::now();
    kill(run.child.id().cast_signed(), libc::SIGINT);
    let (status, _) = run.wait();
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert_eq!(status.code(), Some(130));
    let seen = run.until("teardown");
    let end = seen.iter().find(|record| record["record"] == "trial_end").unwrap();
    assert_eq!(end["error"], "interrupted by SIGINT");
    belongings.assert_gone_within(Duration::ZERO);
}

#[test]
fn two_at_once_do_not_disturb_each_other() {
    let mut runs = [Run::on(&pair()), Run::on(&pair())];
    let [one, other] = &mut runs;
    one.begin(1, &json!([command("wait", "box", "sleep 0.3")]));
    let (_, error) = other.trial(1, &json!([command("sh", "box", "true")]));
    assert_eq!(error, Value::Null);
    let belongings = other.belongings();
    other.close();
    other.wait();
    belongings.assert_gone_within(Duration::ZERO);
    assert_eq!(one.until("trial_end").last().unwrap()["error"], Value::Null);
    let (_, error) = one.trial(2, &json!([command("sh", "box", "true")]));
    assert_eq!(error, Value::Null);
}

#[test]
fn without_user_namespaces_it_says_what_to_do() {
    let script = format!("echo 0 > /proc/sys/user/max_user_namespaces; exec {AGENT} host");
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", &script])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("sysctl user.max_user_namespaces"), "{text}");
}

#[test]
fn an_ordinary_user_needs_no_more() {
    // The binary's own directory may not be open to others.
    let place = std::env::temp_dir().join(format!("hypertare-user-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    let agent = place.join("agent");
    fs::copy(AGENT, &agent).unwrap();
    let work = place.join("work");
    fs::create_dir_all(&work).unwrap();
    for path in [&place, &work] {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut bench = pair();
    bench["nodes"][1]["files"] = json!({"workdir": work, "memory": 16 << 20});
    let mut sh = command("sh", "box", "id -u; touch here /usr/there && echo written");
    sh["workload"]["in_files"] = json!(true);
    sh["workload"]["cwd"] = json!(work);
    let phases = json!([{"name": "p", "limit_s": 10, "tasks": [sh]}]);
    let plan = [
        json!({"step": "hello", "protocol": 1}),
        json!({"step": "bench", "bench": bench}),
        json!({"step": "trial", "trial": {"id": 1, "phases": phases}}),
    ];
    let lines: Vec<String> = plan.iter().map(Value::to_string).collect();
    fs::write(place.join("plan"), lines.join("\n")).unwrap();
    let mut start = Command::new(&agent);
    start.arg("host").stdin(fs::File::open(place.join("plan")).unwrap());
    // SAFETY: it has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        start.uid(65534).gid(65534);
    }
    let output = start.output().unwrap();
    fs::remove_dir_all(&place).unwrap();
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{reported} {}", String::from_utf8_lossy(&output.stderr));
    assert!(reported.contains(r#""stdout":"0\nwritten\n""#), "{reported}");
}

#[test]
fn a_plan_that_is_not_one_ends_with_a_sentence() {
    for (line, word) in [
        ("nonsense", "not a step"),
        ("{\"step\":\"dance\"}", "dance"),
        ("{\"step\":\"hello\",\"protocol\":99}", "version 99"),
    ] {
        let mut child = Command::new(AGENT)
            .arg("host")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(input);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(word) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn the_files_are_there_and_writes_stay_in_memory() {
    let work = std::env::temp_dir().join(format!("hypertare-work-{}", std::process::id()));
    fs::create_dir_all(work.join("deep")).unwrap();
    fs::write(work.join("deep/file"), "as it was").unwrap();
    let files = json!({"workdir": work, "memory": 64 << 20});
    let mut bench = pair();
    bench["nodes"][0]["files"] = files.clone();
    bench["nodes"][1]["files"] = files;
    let mut run = Run::on(&bench);
    for (trial, node) in [(1, "host"), (2, "host"), (3, "box"), (4, "box")] {
        let script = "cat deep/file; echo changed > deep/file; touch new /usr/bin/new; \
            rm -r /etc/passwd; test -w \"$TMPDIR\" && test -z \"$(ls $TMPDIR)\" && touch $TMPDIR/t; \
            test -e /dev/null && test -r /proc/self/stat && ls | wc -l";
        let mut task = command("sh", node, script);
        task["workload"]["in_files"] = json!(true);
        task["workload"]["cwd"] = json!(work);
        // What a task has written outside of the work directory stays until the bench ends.
        task["workload"]["prepare"] = json!("test -e /etc/passwd || : > /etc/passwd");
        let (results, error) = run.trial(trial, &json!([task]));
        assert_eq!(error, Value::Null);
        assert_eq!(results[0]["text"]["stdout"], "as it was2\n");
    }
    assert_eq!(fs::read_to_string(work.join("deep/file")).unwrap(), "as it was");
    assert!(!work.join("new").exists() && !fs::exists("/usr/bin/new").unwrap());
    assert!(fs::metadata("/etc/passwd").unwrap().len() > 0);
    fs::remove_dir_all(work).unwrap();
}

#[test]
fn a_work_directory_that_is_too_large_fails_the_bench_with_both_sizes() {
    let work = std::env::temp_dir().join(format!("hypertare-large-{}", std::process::id()));
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("file"), vec![7; 3 << 20]).unwrap();
    let mut bench = pair();
    bench["nodes"][1]["files"] = json!({"workdir": work, "memory": 4 << 20});
    let mut run = Run::start();
    run.step(&json!({"step": "bench", "bench": bench}));
    let seen = run.until("bench");
    let error = seen.last().unwrap()["error"].as_str().unwrap();
    assert!(error.contains("takes 4 MB") && error.contains("4 MB given"), "{error}");
    fs::remove_dir_all(work).unwrap();
}

/// Needs a guest: its kernel and initramfs come from HYPERTARE_KERNEL and HYPERTARE_INITRAMFS.
fn with_guest() -> Value {
    let path = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let mut bench = pair();
    bench["nodes"][1] = json!({
        "name": "guest0",
        "kind": {"type": "guest", "cpus": 1, "memory": 256 << 20, "accelerator": "tcg",
                 "kernel": path("HYPERTARE_KERNEL"), "initramfs": [path("HYPERTARE_INITRAMFS")],
                 "boot_limit_s": 30},
        "interfaces": [{"name": "net7", "link": "tlink0", "address": "10.77.0.2/24"}],
    });
    bench
}

#[test]
#[ignore = "needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_guest_works_on_a_link_and_on_the_machines_files() {
    let work = std::env::temp_dir().join(format!("hypertare-guest-{}", std::process::id()));
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("file"), "as it was").unwrap();
    let mut bench = with_guest();
    bench["nodes"][1]["files"] = json!({"workdir": work, "memory": 64 << 20});
    let mut run = Run::on(&bench);
    for trial in [1, 2] {
        let mut task =
            command("sh", "guest0", "cat file; echo more >> file; cat /sys/class/net/net7/mtu");
        task["workload"]["in_files"] = json!(true);
        task["workload"]["cwd"] = json!(work);
        let (results, error) = run.trial(trial, &json!([task]));
        assert_eq!(error, Value::Null);
        assert_eq!(results[0]["text"]["stdout"], "as it was1400\n");
    }
    let belongings = run.belongings();
    run.close();
    assert!(run.wait().0.success());
    belongings.assert_gone_within(Duration::ZERO);
    assert_eq!(fs::read_to_string(work.join("file")).unwrap(), "as it was");
    fs::remove_dir_all(work).unwrap();
}

#[test]
#[ignore = "needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_guest_whose_vmm_is_killed_fails_its_trial_only() {
    let bench = with_guest();
    let mut run = Run::on(&bench);
    let burn = json!([{"id": "burn", "node": "guest0",
                       "workload": {"type": "burn", "share": 0.5, "duration_s": 20}}]);
    run.begin(1, &burn);
    run.until("trial_begin");
    kill(run.await_process("qemu-system-x86_64"), libc::SIGKILL);
    let seen = run.until("trial_end");
    let error = seen.last().unwrap()["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("node guest0 failed") && error.contains("signal 9"), "{error}");
    let (_, error) = run.trial(2, &json!([command("other", "host", "true")]));
    assert_eq!(error, Value::Null);
    let belongings = run.belongings();
    run.close();
    run.wait();
    belongings.assert_gone_within(Duration::ZERO);
}

#[test]
#[ignore = "needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_guest_that_hangs_is_given_up_and_ended() {
    let mut run = Run::on(&with_guest());
    kill(run.await_process("qemu-system-x86_64"), libc::SIGSTOP);
    let burn = json!([{"id": "burn", "node": "guest0",
                       "workload": {"type": "burn", "share": 0.5, "duration_s": 0.1}}]);
    let phases = json!([{"name": "p", "limit_s": 0.5, "tasks": burn}]);
    run.step(&json!({"step": "trial", "trial": {"id": 1, "phases": phases}}));
    let seen = run.until("trial_end");
    let error = seen.last().unwrap()["error"].as_str().unwrap();
    assert!(error.starts_with("phase p took longer"), "{error}");
    assert!(seen.last().unwrap()["elapsed_s"].as_f64().unwrap() < 5.0);
    let (_, error) = run.trial(2, &burn);
    let error = error.as_str().unwrap();
    assert!(error.starts_with("node guest0 is gone: it did not answer"), "{error}");
    let belongings = run.belongings();
    run.close();
    run.wait();
    belongings.assert_gone_within(Duration::ZERO);
}

#[test]
#[ignore = "needs HYPERTARE_KERNEL and HYPERTARE_INITRAMFS"]
fn a_guest_that_boots_too_slowly_fails_the_bench() {
    let mut bench = with_guest();
    bench["nodes"][1]["kind"]["boot_limit_s"] = json!(0.2);
    let mut run = Run::start();
    run.step(&json!({"step": "bench", "bench": bench}));
    let seen = run.until("bench");
    let error = seen.last().unwrap()["error"].as_str().unwrap();
    let expected = "node guest0 failed: it was not heard within 0.2 s of its start";
    assert!(error.starts_with(expected), "{error}");
    assert!(seen.last().unwrap()["seconds_s"].as_f64().unwrap() < 4.0);
}

#[test]
fn a_controller_that_stops_reading_does_not_keep_the_agent() {
    let mut child = Command::new(AGENT)
        .arg("host")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"{\"step\":\"hello\",\"protocol\":1}\n").unwrap();
    let begun = Instant::now();
    wait_for(&mut child);
    assert!(begun.elapsed() < Duration::from_secs(3));
    drop(input);
}
