//! The workloads alone, as a person calls them.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hypertare_plan::Record;
use rustix::process::{Pid, Signal, kill_process};

const AGENT: &str = env!("CARGO_BIN_EXE_hypertare-agent");

fn agent(arguments: &[&str]) -> Output {
    Command::new(AGENT).args(arguments).output().unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

/// A listener that is ready, and its port.
fn listener() -> (Child, String) {
    let port = common::free_port();
    let mut child = Command::new(AGENT)
        .args(["ping", "--listen", "--port", &port.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("UDP and TCP"), "{line}");
    (child, port.to_string())
}

#[test]
fn ping_listens_and_asks() {
    let (listener, port) = listener();
    let common = ["--port", &port, "--count", "20", "--interval", "0"];
    for (protocol, host) in [(None, "127.0.0.1"), (Some("--tcp"), "localhost")] {
        let arguments: Vec<&str> =
            ["ping", host].into_iter().chain(common).chain(protocol).collect();
        let output = agent(&arguments);
        let text = said(&output.stdout);
        assert!(output.status.success(), "{}", said(&output.stderr));
        assert!(text.contains("20 answered, 0 lost"), "{text}");
        assert!(text.contains("p99") && text.contains("####"), "{text}");
    }
    let output = agent(&[&["ping", "127.0.0.1", "--json"][..], &common].concat());
    let Record::Result(result) = serde_json::from_slice(&output.stdout).unwrap() else { panic!() };
    assert_eq!(result.values["replies"], 20.0);
    interrupt(&listener);
    let ended = listener.wait_with_output().unwrap();
    assert!(ended.status.success());
    assert!(said(&ended.stdout).contains("40 requests over UDP and 20 over TCP"));
}

#[test]
fn an_interrupt_gives_the_summary_so_far() {
    let (listener, port) = listener();
    let asker = Command::new(AGENT)
        .args(["ping", "127.0.0.1", "--port", &port, "--time", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let asked = Instant::now();
    interrupt(&asker);
    let output = asker.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(1));
    assert!(output.status.success());
    assert!(said(&output.stdout).contains(" 0 lost"), "{}", said(&output.stdout));
    interrupt(&listener);
    listener.wait_with_output().unwrap();
}

#[test]
fn command_and_burn_tell_what_they_measured() {
    let output = agent(&["command", "--", "sh", "-c", "exit 0"]);
    assert!(said(&output.stdout).contains("elapsed_s"));
    let output = agent(&["command", "--json", "--", "echo", "hello"]);
    let Record::Result(result) = serde_json::from_slice(&output.stdout).unwrap() else { panic!() };
    assert_eq!(result.text["stdout"], "hello\n");
    let output = agent(&["burn", "--share", "0.5", "--time", "0.1"]);
    assert!(said(&output.stdout).contains("of CPU time"));
}

fn values_of(arguments: &[&str]) -> std::collections::BTreeMap<String, f64> {
    let output = agent(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output.stderr));
    let Record::Result(result) = serde_json::from_slice(&output.stdout).unwrap() else { panic!() };
    result.values
}

/// Each program faults once for each page that it writes to; the rest of its faults is the same
/// whatever it writes to.
#[test]
fn fork_executes_so_many_programs_and_each_touches_its_pages() {
    const FORKS: f64 = 20.0;
    let faults = |touch: &str| {
        let values = values_of(&["fork", "--count", "20", "--touch", touch, "--json"]);
        assert_eq!(values["forks"], FORKS);
        assert!(values["elapsed_s"] > 0.0);
        (values["minor_faults"] / FORKS, values["touched_bytes"])
    };
    let (none, nothing) = faults("0");
    let (some, bytes) = faults("1M");
    assert_eq!((nothing, bytes), (0.0, 1_048_576.0));
    let pages = some - none;
    assert!((246.0..266.0).contains(&pages), "{pages} page faults of 256 pages ({none} of none)");
    let (_, rounded) = faults("5000");
    assert_eq!(rounded, 8192.0);
    let said = said(&agent(&["fork", "--count", "2"]).stdout);
    assert!(said.starts_with("2 forks in "), "{said}");
}

#[test]
fn touch_reads_as_often_as_asked_in_the_pages_asked_for() {
    let count = ["touch", "--memory", "4M", "--count", "100000", "--json"];
    let small = values_of(&[&count[..], &["--pages", "4K"]].concat());
    assert_eq!((small["accesses"], small["memory_bytes"]), (100_000.0, 4_194_304.0));
    assert_eq!(small["huge_bytes"], 0.0);
    assert!(small["setup_faults"] >= 1024.0, "{small:?}");
    // All of it was there before the reads began.
    assert!(small["minor_faults"] < 20.0, "{small:?}");
    let huge = values_of(&[&count[..], &["--pages", "thp"]].concat());
    let pages = huge["huge_bytes"] / 2_097_152.0;
    // As many huge pages as the kernel had, each in place of 512 faults.
    assert!(huge["setup_faults"] <= small["setup_faults"] - 500.0 * pages, "{huge:?} {small:?}");
    let said = said(&agent(&["touch", "--memory", "1M", "--time", "0.05"]).stdout);
    assert!(said.contains(" reads in 0.") && said.contains("% of the memory"), "{said}");
}

#[test]
fn sleep_reports_how_late_it_woke() {
    let values = values_of(&["sleep", "--interval", "0.001", "--time", "0.1", "--json"]);
    assert_eq!(values["wakeups"] + values["missed"], 100.0, "{values:?}");
    let said = said(&agent(&["sleep", "--time", "0.05"]).stdout);
    assert!(said.contains(" wake-ups in 0.") && said.contains("p999"), "{said}");
}

#[test]
fn cpuid_reports_what_one_takes() {
    let values = values_of(&["cpuid", "--count", "2500", "--json"]);
    assert_eq!(values["cpuids"], 2500.0);
    assert!(values["elapsed_s"] > 0.0, "{values:?}");
    let said = said(&agent(&["cpuid", "--count", "1000"]).stdout);
    assert!(said.contains("1000 CPUIDs in 0.") && said.contains("s each"), "{said}");
}

#[test]
fn wrong_calls_are_answered_with_a_sentence() {
    for (arguments, status, word) in [
        (&["ping", "no.such.name"][..], 1, "getent"),
        (&["ping", "127.0.0.1", "--port", "9", "--tcp"], 1, "127.0.0.1:9"),
        (&["ping", "127.0.0.1", "--message", "3"], 1, "16 to"),
        (&["ping"], 2, "HOST"),
        (&["ping", "127.0.0.1", "--listen"], 2, "--listen"),
        (&["command"], 2, "ARGV"),
        (&["command", "--", "no-such-program"], 1, "`no-such-program`"),
        (&["burn", "--share", "2"], 1, "share"),
        (&["fork", "--count", "0"], 1, "count"),
        (&["fork", "--touch", "much"], 2, "number"),
        (&["touch", "--memory", "5000"], 1, "4096"),
        (&["touch", "--count", "5", "--time", "1"], 2, "--time"),
        (&["touch", "--pages", "1G"], 2, "thp"),
        (&["sleep", "--interval", "0"], 1, "interval_s"),
        (&["cpuid", "--count", "0"], 1, "count"),
        (&["touch", "--memory", "65536G", "--pages", "2M"], 1, "hugepages="),
    ] {
        let output = agent(arguments);
        let text = said(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
        assert!(text.contains(word), "{arguments:?}: {text}");
    }
}

#[test]
fn values_are_json() {
    let values: serde_json::Value =
        serde_json::from_slice(&agent(&["values", "--json"]).stdout).unwrap();
    assert_eq!(values["tasks"]["ping_request"][0]["name"], "elapsed_s");
    assert_eq!(values["probes"]["net_dev"][0]["unit"], "B");
    for of in ["tasks", "probes"] {
        let reported = values[of].as_object().unwrap();
        assert!(
            reported.values().all(|values| !values.as_array().unwrap().is_empty()),
            "{reported:?}"
        );
    }
}
