//! The agent's processes given what is wrong: they say why, and never panic.

use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

#[path = "common/mutations.rs"]
mod mutations;
use mutations::{corpus, damage, damaged, mutated, mutations, right_steps, searched};

const AGENT: &str = env!("CARGO_BIN_EXE_hypertare-agent");
/// From the end of its input, at which a process ends what it does.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a process says to this input, with which it is then left alone.
fn reported(verb: &str, input: &[u8]) -> Output {
    let mut child = Command::new(AGENT)
        .arg(verb)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut errors = child.stderr.take().unwrap();
    let said = std::thread::spawn(move || {
        let mut said = vec![];
        output.read_to_end(&mut said).map(|_| said).unwrap()
    });
    // It may have ended already, of what the first lines are.
    let _ = child.stdin.take().unwrap().write_all(input);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{verb} went on after its input's end: {}", String::from_utf8_lossy(input));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut stderr = vec![];
    errors.read_to_end(&mut stderr).unwrap();
    Output { status, stdout: said.join().unwrap(), stderr }
}

/// Neither a panic nor an end by a signal; where the input is refused, a sentence. Gives the status.
fn in_good_order(verb: &str, input: &[u8]) -> i32 {
    let output = reported(verb, input);
    let errors = String::from_utf8_lossy(&output.stderr);
    let what = || format!("{:?}\n{errors}\nof {}", output.status, String::from_utf8_lossy(input));
    assert!(!errors.contains("panicked"), "{}", what());
    let status = output.status.code().unwrap_or_else(|| panic!("{}", what()));
    assert!(status <= 2, "{}", what());
    assert!(status != 2 || errors.starts_with("hypertare-agent"), "{}", what());
    status
}

/// A task of every kind, which ends at once; what sends, sends to nobody.
fn right_tasks() -> Vec<Value> {
    let steps = right_steps();
    let phases = steps.iter().filter_map(|step| step["trial"]["phases"].as_array()).flatten();
    let mut found: Vec<Value> = vec![];
    for task in phases.flat_map(|phase| phase["tasks"].as_array().unwrap()) {
        let kind = |task: &Value| task["workload"]["type"].clone();
        if found.iter().all(|known| kind(&known["task"]) != kind(task)) {
            let mut task = task.clone();
            task["cpus"] = json!([]);
            task["workload"]["in_files"].take();
            for (key, value) in [("cwd", json!("/")), ("in_files", json!(false))] {
                if kind(&task) == "command" {
                    task["workload"][key] = value;
                }
            }
            let workload = task["workload"].as_object_mut().unwrap();
            workload.retain(|_, value| !value.is_null());
            for (key, value) in [("to", "127.0.0.1:9"), ("on", "127.0.0.1:0")] {
                if let Some(address) = workload.get_mut(key) {
                    *address = json!(value);
                }
            }
            found.push(json!({"trial": 1, "phase": "measure", "task": task}));
        }
    }
    found.push(json!({"trial": 1, "phase": "measure", "task": after_a_power_cut()}));
    found
}

/// What the host agent asks by itself: no plan has it.
fn after_a_power_cut() -> Value {
    let writes = json!({
        "block": 4096, "span": 1 << 20, "jobs": 2, "sync_every": 8, "direct": true, "seed": 1,
    });
    let workload = json!({"type": "io_verify", "writes": writes, "durable": [8, 0]});
    json!({"id": "verify", "node": "a", "background": false, "cpus": [], "workload": workload})
}

fn line(value: &Value) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

#[test]
fn tasks_that_mutated_ones_begin_with_are_executed() {
    let values = Command::new(AGENT).args(["values", "--json"]).output().unwrap().stdout;
    let values: Value = serde_json::from_slice(&values).unwrap();
    let tasks = right_tasks();
    assert_eq!(tasks.len(), values["tasks"].as_object().unwrap().len(), "one of every kind");
    for task in tasks {
        assert_eq!(in_good_order("task", &line(&task)), 0, "{task}");
    }
}

#[test]
fn the_corpus_of_mutated_tasks_and_plans() {
    for (name, content) in corpus("tasks") {
        println!("{name}");
        in_good_order("task", &content);
    }
    for (name, content) in corpus("plans") {
        println!("{name}");
        in_good_order("host", &content);
    }
}

#[test]
fn a_plan_that_is_none_is_refused_with_a_sentence() {
    for content in ["{}\n", "what is this\n", "{\"step\":\"hello\",\"protocol\":99}\n"] {
        assert_eq!(in_good_order("host", content.as_bytes()), 2, "{content}");
    }
}

proptest! {
    #![proptest_config(searched(120))]

    #[test]
    fn mutated_tasks_are_refused_or_executed(which: Index, wrong in mutations(3)) {
        let task = which.get(&right_tasks()).clone();
        in_good_order("task", &line(&mutated(task, &wrong)));
    }
}

proptest! {
    #![proptest_config(searched(40))]

    #[test]
    fn mutated_bytes_of_tasks_are_refused_or_executed(which: Index, damaged in damaged()) {
        let text = which.get(&right_tasks()).to_string();
        in_good_order("task", &damage(&text, &damaged));
    }
}

proptest! {
    #![proptest_config(searched(12))]

    #[test]
    fn mutated_plans_are_refused_or_carried_out(which: Index, wrong in mutations(3)) {
        let steps = right_steps();
        let last = mutated(which.get(&steps).clone(), &wrong);
        in_good_order("host", &[line(&steps[0]), line(&last)].concat());
    }
}
