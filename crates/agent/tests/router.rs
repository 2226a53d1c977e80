//! A router through the agent's binary: containers in namespaces, with the agent's own streams
//! through one that forwards, over IPv4 and IPv6.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// Carries a plan out to its end and gives its records.
fn carry_out(steps: &[Value]) -> Vec<Value> {
    let mut plan = tempfile::tempfile().unwrap();
    for step in steps {
        writeln!(plan, "{step}").unwrap();
    }
    std::io::Seek::rewind(&mut plan).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hypertare-agent"))
        .arg("host")
        .stdin(Stdio::from(plan))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}{text}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn container(name: &str, interfaces: &[(&str, &str)], routes: &Value, router: &Value) -> Value {
    let interfaces: Vec<Value> = interfaces
        .iter()
        .enumerate()
        .map(|(index, (link, host))| {
            let number = if *link == "left" { 1 } else { 2 };
            json!({"name": format!("eth{index}"), "link": link,
                   "address": format!("10.78.{number}.{host}/24"),
                   "more_addresses": [format!("fd78:{number}::{host}/64")]})
        })
        .collect();
    json!({"name": name, "kind": {"type": "container"}, "interfaces": interfaces,
           "routes": routes, "router": router})
}

fn bench(router: &Value) -> Value {
    let way = |number: u32, from: u32| {
        json!([{"to": format!("10.78.{number}.0/24"), "via": format!("10.78.{from}.1")},
               {"to": format!("fd78:{number}::/64"), "via": format!("fd78:{from}::1")}])
    };
    let nodes = json!([
        container("a", &[("left", "2")], &way(2, 1), &Value::Null),
        container("router", &[("left", "1"), ("right", "1")], &json!([]), router),
        container("b", &[("right", "2")], &way(1, 2), &Value::Null),
    ]);
    json!({"step": "bench", "bench": {
        "name": "routed", "nodes": nodes, "links": [{"name": "left"}, {"name": "right"}]}})
}

fn stream(id: u64, protocol: &str, on: &str, to: &str) -> Value {
    let tasks = json!([
        {"id": "receive", "node": "b", "background": true,
         "workload": {"type": "stream_receive", "protocol": protocol, "on": on,
                      "message": 1200}},
        {"id": "send", "node": "a",
         "workload": {"type": "stream_send", "protocol": protocol, "to": to, "message": 1200,
                      "duration_s": 0.3, "rate_bps": 2e7, "interval_s": 0.1}},
    ]);
    let probes = json!([{"node": "router", "probe": "net_dev"}]);
    json!({"step": "trial", "trial": {"id": id, "phases": [
        {"name": "p", "limit_s": 10, "tasks": tasks, "probes": probes}]}})
}

fn echo(id: u64, to: &str) -> Value {
    let workload = json!({"type": "ping_request", "protocol": "icmp", "to": to, "count": 1,
                          "duration_s": 1, "timeout_s": 0.5});
    let tasks = json!([{"id": "echo", "node": "a", "workload": workload}]);
    json!({"step": "trial", "trial": {"id": id, "phases": [
        {"name": "p", "limit_s": 10, "tasks": tasks}]}})
}

const HELLO: &str = r#"{"step": "hello", "protocol": 1}"#;

fn find<'a>(records: &'a [Value], trial: u64, task: &str) -> &'a Value {
    let of_task = |r: &&Value| r["record"] == "result" && r["trial"] == trial && r["task"] == task;
    let found = records.iter().find(of_task);
    found.unwrap_or_else(|| panic!("no result of {task} in trial {trial}: {records:?}"))
}

#[test]
fn streams_pass_a_container_that_forwards() {
    let router = json!({"queue": {"discipline": "pfifo", "length": 200}});
    let records = carry_out(&[
        serde_json::from_str(HELLO).unwrap(),
        bench(&router),
        stream(1, "tcp", "0.0.0.0:5201", "10.78.2.2:5201"),
        stream(2, "udp", "0.0.0.0:5201", "10.78.2.2:5201"),
        stream(3, "tcp", "[::]:5201", "[fd78:2::2]:5201"),
        stream(4, "udp", "[::]:5201", "[fd78:2::2]:5201"),
    ]);
    for trial in 1..=4 {
        let sent = find(&records, trial, "send")["values"]["sent_bytes"].as_f64().unwrap();
        let received = &find(&records, trial, "receive")["values"];
        let got = received["received_bytes"].as_f64().unwrap();
        let lost = received["lost_packets"].as_f64().unwrap_or(0.0) * 1200.0;
        assert!(sent > 1e5 && got + lost == sent, "trial {trial}: {sent}, {received}");
        let probe = records.iter().find(|r| r["record"] == "probe" && r["trial"] == trial);
        let values = &probe.unwrap()["values"];
        for column in ["eth0.rx_bytes", "eth1.tx_bytes"] {
            assert!(values[column].as_f64().unwrap() > got, "{trial}: {values}");
        }
    }
}

#[test]
fn nobody_else_forwards() {
    let records = carry_out(&[
        serde_json::from_str(HELLO).unwrap(),
        bench(&json!({"ipv6": false})),
        echo(1, "10.78.2.2"),
        echo(2, "fd78:2::2"),
        json!({"step": "teardown"}),
        bench(&Value::Null),
        echo(3, "10.78.1.1"),
        echo(4, "10.78.2.2"),
    ]);
    for (trial, answered) in [(1, true), (2, false), (3, true), (4, false)] {
        let end = records.iter().find(|r| r["record"] == "trial_end" && r["trial"] == trial);
        let error = &end.unwrap()["error"];
        assert_eq!(error.is_null(), answered, "{trial}: {error}");
    }
}

#[test]
fn what_cannot_be_routed_is_reported() {
    let refused = |change: fn(&mut Value)| {
        let mut bench = bench(&json!({}));
        change(&mut bench["bench"]["nodes"]);
        let records = carry_out(&[serde_json::from_str(HELLO).unwrap(), bench]);
        let made = records.into_iter().find(|r| r["record"] == "bench").unwrap();
        made["error"].as_str().expect("the bench was made").to_owned()
    };
    let error = refused(|nodes| nodes[0]["routes"][0]["via"] = json!("10.99.0.1"));
    assert!(error.contains("no way to 10.78.2.0/24 via 10.99.0.1"), "{error}");
    let error = refused(|nodes| nodes[0]["routes"][0]["via"] = json!("fd78:1::1"));
    assert!(error.contains("of another family"), "{error}");
    let error = refused(|nodes| nodes[0]["router"] = json!({}));
    assert!(error.contains("node a: it is to forward and has 1 interfaces"), "{error}");
    let error = refused(|nodes| nodes[1]["router"] = json!({"queue": {"length": 0}}));
    assert!(error.contains("1 to 1000000"), "{error}");
    let error = refused(|nodes| nodes[1]["interfaces"][0]["more_addresses"] = json!(["fd78:1::1"]));
    assert!(error.contains("not an address with a prefix length"), "{error}");
}
