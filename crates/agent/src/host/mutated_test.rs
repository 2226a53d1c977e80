//! Whatever stands in a plan, and whatever nodes report: it is refused with a reason or carried out, and
//! nothing panics.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use std::sync::{Arc, Mutex};

use super::*;
use crate::host::event::read_plan;
use crate::host::member::{Heard, Member};
use crate::links::{Inbox, News};

#[path = "../../tests/common/mutations.rs"]
mod mutations;
use mutations::{corpus, damage, damaged, mutated, mutations, right_steps, searched};

/// Longer than any plan of good nodes takes, on a loaded machine.
const PATIENCE_S: f64 = 20.0;

/// Carries out a plan on nodes that do whatever they are asked.
fn carried_out(lines: &[Vec<u8>]) -> Reported {
    let (post, events) = sync_channel(256);
    read_plan(lines.join(&b'\n').as_slice(), true, None, &post);
    drop(post);
    let reported = play(Pretence::default(), events.into_iter().collect());
    assert!(reported.seconds < PATIENCE_S, "{} s", reported.seconds);
    if let Ending::BadPlan(why) = &reported.ending {
        assert!(!why.is_empty());
    }
    reported
}

fn line(step: &Value) -> Vec<u8> {
    step.to_string().into_bytes()
}

/// Each step of a plan behind those that it needs; a trial's are the greeting and the bench before it.
fn plan_with(steps: &[Value], number: usize, last: Vec<u8>) -> Vec<Vec<u8>> {
    let kind = |step: &Value| step["step"].as_str().unwrap().to_owned();
    let bench = steps[..number].iter().rev().find(|step| kind(step) == "bench");
    let needed = bench.filter(|_| matches!(kind(&steps[number]).as_str(), "trial" | "teardown"));
    let greeting = (number > 0).then(|| line(&steps[0]));
    greeting.into_iter().chain(needed.map(line)).chain([last]).collect()
}

#[test]
fn plans_that_mutated_ones_begin_with_are_carried_out() {
    let steps = right_steps();
    let lines: Vec<_> = steps.iter().filter(|step| step["step"] != "teardown").map(line).collect();
    for number in 0..steps.len() {
        let reported = carried_out(&plan_with(&steps, number, line(&steps[number])));
        assert_eq!(reported.ending, Ending::Complete, "{}", steps[number]);
    }
    assert!(matches!(carried_out(&lines[1..]).ending, Ending::BadPlan(_)));
}

#[test]
fn the_corpus_of_mutated_plans() {
    for (name, content) in corpus("plans") {
        println!("{name}");
        let lines: Vec<_> = content.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
        carried_out(&lines);
        let greeted = [vec![line(&right_steps()[0])], lines].concat();
        carried_out(&greeted);
    }
}

proptest! {
    #![proptest_config(searched(500))]

    #[test]
    fn mutated_plans_are_refused_or_carried_out(which: Index, wrong in mutations(3)) {
        let steps = right_steps();
        let number = which.index(steps.len());
        let last = line(&mutated(steps[number].clone(), &wrong));
        carried_out(&plan_with(&steps, number, last));
    }

    #[test]
    fn mutated_bytes_of_plans_are_refused_or_carried_out(which: Index, damaged in damaged()) {
        let steps = right_steps();
        let number = which.index(steps.len());
        let last = damage(&steps[number].to_string(), &damaged);
        carried_out(&plan_with(&steps, number, last));
    }

    #[test]
    fn mutated_records_are_refused_or_are_of_the_node_itself(
        which in prop::collection::vec((any::<Index>(), mutations(2)), 1..6),
        trial in prop::option::of(0_u64..10),
    ) {
        let mut member = listening();
        for (index, wrong) in which {
            let records = right_records();
            let reported = mutated(index.get(&records).clone(), &wrong);
            hear(&mut member, &line(&reported), trial);
        }
    }

    #[test]
    fn mutated_bytes_of_records_are_refused_or_are_of_the_node_itself(
        which: Index,
        damaged in damaged(),
    ) {
        let reported = damage(&which.get(&right_records()).to_string(), &damaged);
        hear(&mut listening(), &reported, Some(3));
    }
}

proptest! {
    #![proptest_config(searched(500))]

    /// What comes through a link, of a machine that was given or of any other: 100,000 lines as it is.
    #[test]
    fn mutated_lines_of_a_link_are_records_or_its_end(
        lines in prop::collection::vec((any::<Index>(), damaged()), 200),
    ) {
        let records = right_records();
        let mut member = listening();
        for (which, damaged) in lines {
            let mut line = damage(&which.get(&records).to_string(), &damaged);
            line.push(b'\n');
            for news in heard_through_a_link(&line) {
                match news {
                    News::Record(record, bytes) => {
                        // Whatever it is taken for, nobody panics.
                        let _ = member.hear(*record, bytes, Some(3));
                    }
                    News::Gone(why) => assert!(!why.is_empty()),
                }
            }
        }
    }
}

/// The news of one line, behind which nothing follows: they end, and with the end of the link.
fn heard_through_a_link(line: &[u8]) -> Vec<News> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = heard.clone();
    let inbox = Inbox::new(move |news| {
        kept.lock().unwrap().push(news);
        true
    });
    inbox.read(line);
    drop(inbox);
    let news = Arc::try_unwrap(heard).unwrap().into_inner().unwrap();
    assert!(matches!(news.last(), Some(News::Gone(_))));
    assert!(news.iter().filter(|one| matches!(one, News::Gone(_))).count() == 1);
    news
}

#[test]
fn the_corpus_of_mutated_records() {
    for (name, content) in corpus("records") {
        println!("{name}");
        let mut member = listening();
        for line in content.split(|&byte| byte == b'\n') {
            hear(&mut member, line, Some(3));
        }
    }
}

/// A node that has said who it is, and to which two orders went.
fn listening() -> Member {
    let (post, _events) = sync_channel(16);
    let inbox = inbox(1, post);
    let whole = bench(&["a"]);
    let started =
        Pretence { mute: true, ..Pretence::default() }.start(&whole, 0, None, inbox).unwrap();
    let mut member = Member::new(1, whole.nodes[0].clone(), started, Instant::now());
    member.hear(Record::Hello(hello("")), 10, None).unwrap();
    let start = |task| Order::Start { trial: 3, phase: "p".to_owned(), task };
    member.order("start", start(task("work", "a", false)));
    member.order("load", start(task("load", "a", true)));
    member
}

/// As the executor does with a line of a node. What is passed on is of this node and this trial.
fn hear(member: &mut Member, line: &[u8], trial: Option<u64>) {
    let Ok(record) = serde_json::from_slice::<Record>(line) else { return };
    match member.hear(record, line.len(), trial) {
        Err(why) => assert!(!why.is_empty()),
        Ok(Heard::Record(record) | Heard::Failed(record, _)) => {
            let reported = serde_json::to_value(&record).unwrap();
            assert_eq!(reported["node"], "a", "{reported}");
            let about = ["result", "interval", "probe", "knob"];
            if about.contains(&reported["record"].as_str().unwrap()) {
                assert_eq!(reported["trial"].as_u64(), trial, "{reported}");
            }
        }
        Ok(Heard::Refused(..) | Heard::Late(_) | Heard::Nothing) => {}
    }
}

/// A record of every kind, and of nodes beside this one.
fn right_records() -> Vec<Value> {
    let values = json!({"elapsed_s": 1.5, "goodput_bps": 1e9});
    let buckets = json!({"rtt": {"unit": "ns", "buckets": [[40000, 5], [50000, 1]]}});
    let task = |record: &str, node: &str| {
        let (trial, phase, task) = (3, "p", "work");
        json!({"record": record, "node": node, "trial": trial, "phase": phase,
                           "task": task, "values": values})
    };
    let with = |mut reported: Value, more: Value| {
        reported.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        reported
    };
    vec![
        serde_json::to_value(Record::Hello(hello("a"))).unwrap(),
        json!({"record": "done", "node": "a", "number": 1}),
        json!({"record": "done", "node": "a", "number": 2, "error": "why"}),
        with(task("result", "a"), json!({"histograms": buckets, "text": {"stdout": "x"}})),
        with(task("result", "a"), json!({"task": "load", "error": "why"})),
        with(task("interval", "a"), json!({"begin_s": 0.0, "end_s": 0.5})),
        task("result", "b"),
        json!({"record": "probe", "node": "a", "trial": 3, "phase": "p", "probe": "stat",
                                "elapsed_s": 1.0, "values": values}),
        json!({"record": "knob", "node": "a", "trial": 3, "action": "applied",
                                "knob": {"type": "mtu", "interface": "eth0", "bytes": 1400}}),
        json!({"record": "log", "node": "a", "level": "warning", "text": "x"}),
        json!({"record": "interface", "node": "a", "interface": "eth0", "mtu": 1500,
                                "offloads": {}, "rx_queues": 1, "tx_queues": 1}),
        json!({"record": "console", "node": "a", "lines": ["x"]}),
        json!({"record": "trial_end", "trial": 3, "t_s": 1.0, "elapsed_s": 1.0}),
    ]
}
