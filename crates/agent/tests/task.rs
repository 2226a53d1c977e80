//! The process of one task, through the built binary.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

use agent::node::own_root;
use agent::workload::WorkloadKind;
use agent::workload::confine::Confinement;
use agent::workload::process::{Child, spawn_from};
use hypertare_plan::{
    Assignment, Burn, Command, MAX_OUTPUT, PingProtocol, PingReply, PingRequest, Record, Serve,
    Task, TaskResult, Workload,
};

const AGENT: &str = env!("CARGO_BIN_EXE_hypertare-agent");

fn start(workload: Workload, confinement: Option<Confinement>) -> Child {
    start_from(Path::new(AGENT), workload, confinement)
}

fn start_from(agent: &Path, workload: Workload, confinement: Option<Confinement>) -> Child {
    let task = Task {
        id: "task".to_owned(),
        node: "node".to_owned(),
        background: false,
        cpus: vec![],
        purpose: None,
        workload,
    };
    let assignment = Assignment { trial: 7, phase: "phase".to_owned(), task };
    spawn_from(agent, &assignment, confinement).unwrap()
}

fn result(child: &mut Child) -> TaskResult {
    let mut text = String::new();
    child.records.read_to_string(&mut text).unwrap();
    let last = text.lines().last().expect("a task's process ends with a record");
    let Record::Result(result) = serde_json::from_str(last).unwrap() else {
        panic!("the last record is no result: {last}")
    };
    assert_eq!((result.node.as_str(), result.trial, result.task.as_str()), ("node", 7, "task"));
    result
}

fn execute(workload: Workload) -> TaskResult {
    let mut child = start(workload, None);
    let result = result(&mut child);
    assert!(child.wait().unwrap().success());
    result
}

fn command(argv: &[&str]) -> Command {
    Command {
        argv: argv.iter().map(|&argument| argument.to_owned()).collect(),
        env: BTreeMap::new(),
        cwd: None,
        in_files: false,
        warmup: false,
        watch_syncs: false,
        tty: false,
        prepare: None,
        input: None,
    }
}

fn shell(script: &str) -> Command {
    command(&["/bin/sh", "-c", script])
}

fn run(command: Command) -> TaskResult {
    execute(Workload::Command(command))
}

fn error(command: Command) -> String {
    run(command).error.expect("this command must fail")
}

/// Gone again with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hypertare-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    /// A process number that a script wrote here.
    fn pid(&self, file: &str) -> u32 {
        let limit = Instant::now() + Duration::from_secs(5);
        loop {
            let text = std::fs::read_to_string(self.0.join(file)).unwrap_or_default();
            if let Some(pid) = text.strip_suffix('\n').and_then(|text| text.parse().ok()) {
                return pid;
            }
            assert!(Instant::now() < limit, "{file} was never written");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lives(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn a_command_reports_every_value_but_that_of_one_that_is_watched() {
    let result = run(shell("x=$(head -c 20000000 /dev/zero | tr '\\0' a); :"));
    assert_eq!(result.error, None);
    let mut expected: Vec<&str> = Command::VALUES.iter().map(|&(name, ..)| name).collect();
    expected.retain(|&name| name != "syncs");
    expected.sort_unstable();
    assert_eq!(result.values.keys().collect::<Vec<_>>(), expected);
    assert_eq!(result.values["exit_status"], 0.0);
}

#[test]
fn what_it_leaves_running_is_named_and_gone() {
    let left = run(shell("sleep 1234 & sleep 0.1"));
    assert_eq!(left.error, None);
    assert_eq!(left.text["left"], "sleep");
    assert!(!run(shell("sleep 0.1 & wait")).text.contains_key("left"));
}

#[test]
fn with_a_terminal_it_has_one_of_its_own() {
    let look =
        "test -t 0 && test -t 1 && test -t 2 && stty size && : </dev/tty && ps -o tty= $$; exit 0";
    let seen = run(Command { tty: true, ..shell(look) });
    assert_eq!(seen.error, None);
    assert!(seen.text["stdout"].contains("24 80\r\n"), "{:?}", seen.text);
    assert!(seen.text["stdout"].contains("pts/"), "{:?}", seen.text);
    assert_eq!(seen.text["stderr"], "");
    let failed = error(Command { tty: true, ..shell("echo oops; exit 3") });
    assert!(failed.contains("exit status 3") && failed.contains("oops"), "{failed}");
    // What is behind a session's terminal hangs up with its leader; another session stays, and is named.
    let left = run(Command { tty: true, ..shell("setsid sleep 1234 & sleep 0.1") });
    assert_eq!(left.text["left"], "sleep");
}

#[test]
fn the_values_are_the_commands() {
    let sleep = run(command(&["sleep", "0.2"]));
    assert!((0.2..0.6).contains(&sleep.values["elapsed_s"]), "{:?}", sleep.values);
    assert!(sleep.values["user_s"] + sleep.values["system_s"] < 0.1);

    let busy = run(shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"));
    assert!(busy.values["user_s"] > 0.02, "{:?}", busy.values);
    assert!(busy.values["user_s"] <= busy.values["elapsed_s"] * 1.1);

    let large = run(shell("x=$(head -c 20000000 /dev/zero | tr '\\0' a); :"));
    assert!(large.values["peak_memory_bytes"] > 20e6, "{:?}", large.values);
    assert!(large.values["minor_faults"] > 4000.0);
    // It took less than the agent itself, whose figure it would be.
    assert!(!sleep.values.contains_key("peak_memory_bytes"), "{:?}", sleep.values);
}

#[test]
fn failures_are_reported() {
    let failed = error(command(&["false"]));
    assert!(failed.contains("`false` ended with exit status 1"), "{failed}");
    let killed = error(shell("kill -9 $$"));
    assert!(killed.contains("killed by SIGKILL"), "{killed}");
    let loud =
        error(shell("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i >&2; done; exit 3"));
    assert!(loud.contains("exit status 3") && loud.ends_with("line 12"), "{loud}");
    assert!(!loud.contains("line 2\n"), "only the last lines: {loud}");
}

#[test]
fn what_cannot_be_started_is_named() {
    let missing = error(command(&["no-such-program", "x"]));
    assert!(missing.contains("`no-such-program`") && missing.contains("/usr/bin"), "{missing}");
    let path = error(command(&["/nowhere/program"]));
    assert_eq!(path, "/nowhere/program does not exist");
    let data = error(command(&["/etc/passwd"]));
    assert_eq!(data, "/etc/passwd is not an executable file");
    let directory = error(command(&["/usr"]));
    assert_eq!(directory, "/usr is not an executable file");
    assert!(error(command(&[])).contains("empty"));
    assert!(error(command(&[""])).contains("empty"));
    assert!(error(command(&["true", "a\0b"])).contains("zero byte"));
    let cwd = Command { cwd: Some("/nowhere".into()), ..command(&["true"]) };
    assert!(error(cwd).contains("/nowhere"));
    let env = [("A=B".to_owned(), String::new())].into();
    assert!(error(Command { env, ..command(&["true"]) }).contains("`A=B`"));
}

#[test]
fn a_program_without_a_format_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new("format");
    let file = directory.0.join("program");
    std::fs::write(&file, "not a program").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    let error = error(command(&[file.to_str().unwrap()]));
    assert!(error.contains("cannot be executed") && error.contains("format"), "{error}");
}

#[test]
fn environment_and_directory_are_the_plans() {
    let directory = Directory::new("probe_context");
    let result = run(Command {
        env: [("GREETING".to_owned(), "hello".to_owned())].into(),
        cwd: Some(directory.0.clone()),
        ..command(&["env"])
    });
    let mut lines: Vec<&str> = result.text["stdout"].lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "GREETING=hello");
    assert!(lines[1].starts_with("PATH="));
    let result = run(Command { cwd: Some(directory.0.clone()), ..command(&["pwd"]) });
    let directory = directory.0.canonicalize().unwrap();
    assert_eq!(result.text["stdout"].trim_end(), directory.to_str().unwrap());
}

#[test]
fn a_command_reads_nothing_and_has_default_signals() {
    assert_eq!(run(command(&["cat"])).error, None);
    // With SIGPIPE ignored, `yes` would complain about its closed pipe.
    let result = run(shell("yes | head -n 1; grep SigIgn /proc/self/status"));
    assert_eq!(result.text["stderr"], "");
    assert_eq!(ignored(&result), 0, "{:?}", result.text);
}

/// As in SigIgn of `/proc`, without signals 32 to 34: these are the C library's own, and its
/// `posix_spawn` leaves them ignored.
fn ignored(result: &TaskResult) -> u64 {
    let mask = result.text["stdout"].split_whitespace().last().unwrap();
    u64::from_str_radix(mask, 16).unwrap() & !(0b111 << 31)
}

/// As by `nohup`, or by a shell that starts a command with `&`.
#[test]
fn a_command_has_default_signals_though_its_agent_was_started_without() {
    let directory = Directory::new("ignoring");
    let agent = directory.0.join("agent");
    let script = format!("#!/bin/sh\ntrap '' HUP INT QUIT TERM USR1 64\nexec {AGENT} \"$@\"\n");
    // By a process of its own: what other tests start meanwhile would inherit a descriptor of ours, and
    // a file that is open for writing cannot be executed.
    let write = r#"printf %s "$1" > "$2" && chmod 755 "$2""#;
    let mut writer = std::process::Command::new("/bin/sh");
    let written = writer.args(["-c", write, "sh", &script]).arg(&agent).status().unwrap();
    assert!(written.success());
    let sigign = "grep SigIgn /proc/self/status";
    let spec = Command { prepare: Some("kill -TERM $$; true".to_owned()), ..shell(sigign) };
    let mut child = start_from(&agent, Workload::Command(spec), None);
    let prepared = result(&mut child);
    assert!(prepared.error.is_some_and(|error| error.contains("SIGTERM")));
    let mut child = start_from(&agent, Workload::Command(shell(sigign)), None);
    let result = result(&mut child);
    assert_eq!(ignored(&result), 0, "{:?}", result.text);
}

#[test]
fn of_megabytes_the_last_part_is_kept() {
    let result = run(shell(
        "head -c 50000000 /dev/zero | tr '\\0' x; echo end; head -c 50000000 /dev/zero >&2",
    ));
    assert_eq!(result.error, None);
    assert_eq!(result.text["stdout"].len(), MAX_OUTPUT);
    assert!(result.text["stdout"].ends_with("xxxend\n"));
    assert_eq!(result.text["stderr"].len(), MAX_OUTPUT);
}

#[test]
fn output_that_is_not_text_is_reported_as_text() {
    let result = run(shell("head -c 100000 /dev/urandom"));
    assert_eq!(result.error, None);
    assert!(!result.text["stdout"].is_empty());
}

#[test]
fn what_it_leaves_behind_is_gone() {
    let directory = Directory::new("daemon");
    // A session of its own, its parent gone, its output still ours: and it writes, endlessly.
    let script = "(setsid sh -c 'echo $$ > pid; trap \"\" TERM HUP; while :; do echo x; done' &) & \
                  while [ ! -s pid ]; do sleep 0.01; done; echo done >&2";
    let begin = Instant::now();
    let result = run(Command { cwd: Some(directory.0.clone()), ..shell(script) });
    assert_eq!(result.error, None);
    assert_eq!(result.text["stderr"], "done\n");
    assert!(!lives(directory.pid("pid")));
    assert!(begin.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_stopped_command_reports_that_it_was() {
    let directory = Directory::new("stop");
    for script in [
        "echo $$ > pid; exec sleep 100",
        "echo $$ > pid; exec yes",
        "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done",
        "setsid sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.05; done'",
    ] {
        let _ = std::fs::remove_file(directory.0.join("pid"));
        let command = Command { cwd: Some(directory.0.clone()), ..shell(script) };
        let mut child = start(Workload::Command(command), None);
        let pid = directory.pid("pid");
        let asked = Instant::now();
        child.stop();
        let result = result(&mut child);
        assert_eq!(result.error.as_deref(), Some("stopped"), "{script}");
        assert!(asked.elapsed() < Duration::from_millis(1500), "{script}: {:?}", asked.elapsed());
        assert!(!lives(pid), "{script}");
        child.wait().unwrap();
    }
}

#[test]
fn a_killed_task_leaves_nothing() {
    let directory = Directory::new("kill");
    let script = "setsid sh -c 'echo $$ > one; exec sleep 100' & echo $$ > two; exec sleep 100";
    let command = Command { cwd: Some(directory.0.clone()), ..shell(script) };
    let mut child = start(Workload::Command(command), None);
    let pids =
        [directory.pid("one"), directory.pid("two"), child.pid().as_raw_nonzero().get() as u32];
    assert!(pids.iter().all(|&pid| lives(pid)));
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    let limit = Instant::now() + Duration::from_secs(2);
    // The killed orphans are reaped by whatever is the host's init.
    while pids.iter().any(|&pid| lives(pid) && !is_zombie(pid)) {
        assert!(Instant::now() < limit);
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z"))
}

#[test]
fn prepare_comes_before_and_does_not_count() {
    let directory = Directory::new("prepare");
    let prepare = "sleep 0.5; printf '#!/bin/sh\\necho made' > made; chmod +x made".to_owned();
    let result = run(Command {
        cwd: Some(directory.0.clone()),
        prepare: Some(prepare),
        ..command(&["./made"])
    });
    assert_eq!(result.error, None);
    assert_eq!(result.text["stdout"], "made\n");
    assert!(result.values["elapsed_s"] < 0.45, "{:?}", result.values);
    let error =
        error(Command { prepare: Some("echo no >&2; exit 4".to_owned()), ..command(&["true"]) });
    assert!(error.starts_with("prepare command failed: "), "{error}");
    assert!(error.contains("exit status 4") && error.ends_with("no"), "{error}");
}

fn serve(argv: &[&str]) -> Workload {
    let Command { argv, env, cwd, in_files, .. } = command(argv);
    Workload::Serve(Serve { argv, env, cwd, in_files })
}

#[test]
fn a_server_is_ready_once_it_listens_and_ends_when_reported_to() {
    let port = common::free_port();
    let mut server = start(serve(&[AGENT, "ping", "--listen", "--port", &port.to_string()]), None);
    assert!(server.ready.is_ready());
    server.stop();
    let result = result(&mut server);
    assert_eq!(result.error, None);
    assert!((0.0..10.0).contains(&result.values["listens_s"]), "{:?}", result.values);
    assert_eq!(result.text.keys().collect::<Vec<_>>(), ["stderr", "stdout"]);
    assert!(server.wait().unwrap().success());
}

/// Other tests open sockets in the same network namespace, so that it may count as ready before its end.
#[test]
fn a_server_that_ends_by_itself_is_an_error_with_its_last_words() {
    let failed = execute(serve(&["/bin/sh", "-c", "echo no luck >&2; exit 3"])).error.unwrap();
    assert!(failed.starts_with("the server on the peer ended with exit status 3"), "{failed}");
    assert!(failed.ends_with("the end of its standard error:\nno luck"), "{failed}");
    let missing = execute(serve(&["no-such-server"])).error.unwrap();
    assert!(missing.contains("`no-such-server` was not found"), "{missing}");
}

#[test]
fn ping_between_two_processes() {
    for protocol in [PingProtocol::Udp, PingProtocol::Tcp] {
        let on = format!("127.0.0.1:{}", common::free_port());
        let spec = PingReply { protocol, on: on.clone(), message: 64, via: None };
        let mut replier = start(Workload::PingReply(spec), None);
        assert!(replier.ready.is_ready());
        let asked = execute(Workload::PingRequest(PingRequest {
            protocol,
            to: on.clone(),
            message: 64,
            count: Some(100),
            duration_s: 5.0,
            interval_s: 0.0,
            timeout_s: 1.0,
            omit: 0,
            via: None,
            past_card: false,
            dscp: None,
        }));
        assert_eq!(asked.error, None);
        let mut expected: Vec<&str> = PingRequest::VALUES.iter().map(|&(name, ..)| name).collect();
        expected.sort_unstable();
        assert_eq!(asked.values.keys().collect::<Vec<_>>(), expected);
        assert_eq!(asked.histograms["rtt"].unit, "ns");
        replier.stop();
        assert_eq!(result(&mut replier).values["replies"], 100.0);
        replier.wait().unwrap();
    }
}

#[test]
fn who_cannot_be_ready_never_says_so() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let on = taken.local_addr().unwrap().to_string();
    let spec = PingReply { protocol: PingProtocol::Udp, on, message: 64, via: None };
    let mut replier = start(Workload::PingReply(spec), None);
    assert!(!replier.ready.is_ready());
    assert!(result(&mut replier).error.unwrap().contains("in use"));
    replier.wait().unwrap();
}

#[test]
fn the_line_stop_ends_a_task_too() {
    let mut child = Program::new(AGENT)
        .arg("task")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let burn = Workload::Burn(Burn { share: 0.1, duration_s: 60.0, threads: 1 });
    let task = Task {
        id: "t".into(),
        node: "n".into(),
        background: true,
        cpus: vec![],
        purpose: None,
        workload: burn,
    };
    let assignment = Assignment { trial: 1, phase: "p".to_owned(), task };
    // Both lines may well come at once.
    let lines = serde_json::to_string(&assignment).unwrap() + "\nstop\n";
    input.write_all(lines.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let Record::Result(result) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
    assert_eq!(result.error, None);
    assert!(result.values["elapsed_s"] < 5.0);
    assert!(child.wait().unwrap().success());
}

#[test]
fn malformed_input_is_refused_in_one_sentence() {
    for (input, arguments, word) in [
        ("", &["task"][..], "ended before"),
        ("{}\n", &["task"], "missing field"),
        ("nonsense\n", &["task"], "malformed"),
        ("{\"trial\":1,\"phase\":\"p\",\"task\":7}\n", &["task"], "malformed"),
        ("{}\n", &["task", "--ready-fd", "1"], "--ready-fd 1"),
        ("{}\n", &["task", "--ready-fd", "99"], "--ready-fd 99"),
    ] {
        let mut child = Program::new(AGENT)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It may have refused its arguments already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{said}");
        assert!(output.stdout.is_empty());
    }
}

/// Who may not make a mount namespace has no view to be confined to.
#[test]
fn a_confined_task_has_another_root_and_no_way_out() {
    let directory = Directory::new("root");
    for inside in ["bin", "dev", "proc"] {
        std::fs::create_dir_all(directory.0.join(inside)).unwrap();
    }
    std::fs::write(directory.0.join("dev/null"), "").unwrap();
    // Static, so it is all that it needs.
    // Written by another process: a thread of this one that forks meanwhile would hold the file
    // open for writing, and a file that is being written cannot be executed.
    let copied = Program::new("cp").arg(AGENT).arg(directory.0.join("bin/agent")).status();
    assert!(copied.unwrap().success());
    let namespace = match own_root::rooted_at(&directory.0) {
        Ok(namespace) => namespace,
        Err(error) => {
            assert!(!rustix::process::geteuid().is_root(), "{error:#}");
            return;
        }
    };
    for as_container in [false, true] {
        let confinement = Confinement { namespace: namespace.as_fd(), as_container };
        let work = Workload::Command(command(&["agent", "values"]));
        let mut child = start(work, Some(confinement));
        let outcome = result(&mut child);
        assert_eq!(outcome.error, None);
        assert!(outcome.text["stdout"].contains("wakeup_p50_ns"));
        child.wait().unwrap();
    }
    // What was mounted for it is seen by nobody else.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(directory.0.to_str().unwrap()), "{mounts}");
}
