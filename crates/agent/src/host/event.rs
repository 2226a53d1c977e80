//! What the executor waits for: steps of the plan, lines of nodes, and the end.

use std::io::{ErrorKind, Read};
use std::sync::mpsc::SyncSender;

use hypertare_plan::{Record, Step};

use crate::lines::Lines;

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    Step(Step),
    /// A line of the plan that is not a step.
    BadStep(String),
    /// The plan is complete: carry it out and end.
    PlanEnd,
    /// End now, and why.
    End(Why),
    Node {
        member: MemberId,
        news: News,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Nobody is there any more to say what to do.
    ControllerGone,
    Signal(i32),
}

/// Tells the nodes of one bench from those of the bench before.
pub type MemberId = u64;

#[derive(Debug)]
pub enum News {
    /// A record, and how many bytes it took.
    Record(Box<Record>, usize),
    /// Nothing more will come, because of this.
    Gone(String),
}

/// Where one node's lines arrive.
#[derive(Clone)]
pub struct Inbox {
    pub member: MemberId,
    pub events: SyncSender<Event>,
}

impl Inbox {
    /// Reads a node's records until it ends or sends what is not a record.
    pub fn read(&self, input: impl Read) {
        let mut lines = Lines::new(input);
        let why = loop {
            match lines.read() {
                Ok(Some(line)) if line.whole => match serde_json::from_slice(&line.bytes) {
                    Ok(record) => {
                        let news = News::Record(Box::new(record), line.bytes.len() + 1);
                        if !self.tell(news) {
                            return;
                        }
                    }
                    Err(error) => break format!("it sent a line that is not a record ({error})"),
                },
                Ok(_) => break "its agent has ended".to_owned(),
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    break format!("it sent too much: {error}");
                }
                Err(error) => break format!("its agent cannot be heard any more: {error}"),
            }
        };
        self.tell(News::Gone(why));
    }

    /// False when nobody listens any more.
    pub fn tell(&self, news: News) -> bool {
        self.events.send(Event::Node { member: self.member, news }).is_ok()
    }
}

/// Reads the plan. The end of a pipe means that whoever wrote the plan is gone or has had enough; a
/// file ends where its plan does.
pub fn read_plan(input: impl Read, is_file: bool, events: &SyncSender<Event>) {
    let mut lines = Lines::new(input);
    loop {
        let event = match lines.read() {
            Ok(Some(line)) if line.bytes.trim_ascii().is_empty() => continue,
            Ok(Some(line)) => match serde_json::from_slice(&line.bytes) {
                Ok(step) => Event::Step(step),
                Err(error) => Event::BadStep(format!("a line of the plan is not a step: {error}")),
            },
            Ok(None) => break,
            Err(error) => Event::BadStep(format!("the plan cannot be read: {error}")),
        };
        let last = matches!(event, Event::BadStep(_));
        if events.send(event).is_err() {
            return;
        }
        if last {
            return;
        }
    }
    let end = if is_file { Event::PlanEnd } else { Event::End(Why::ControllerGone) };
    let _ = events.send(end);
}
