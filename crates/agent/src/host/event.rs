//! What the executor waits for: steps of the plan, lines of nodes, and the end.

use std::io::Read;
use std::sync::mpsc::SyncSender;

use hypertare_plan::{Line, Step};

use crate::lines::Lines;
use crate::links::{Inbox, News};
use crate::node::given::Heard;

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
    ControllerGone,
    Signal(i32),
}

/// Distinguishes the nodes of one bench from those of the bench before.
pub type MemberId = u64;

/// Where one node's lines arrive among all other events.
pub fn inbox(member: MemberId, events: SyncSender<Event>) -> Inbox {
    Inbox::new(move |news| events.send(Event::Node { member, news }).is_ok())
}

/// Reads the plan. The end of a pipe means that the controller is gone or wants no more; a file ends where
/// its plan does. `heard` notes each line that comes over a connection: an empty line only shows that the
/// controller is still there.
pub fn read_plan(
    input: impl Read,
    is_file: bool,
    heard: Option<&Heard>,
    events: &SyncSender<Event>,
) {
    let mut lines = Lines::new(input);
    loop {
        let line = lines.read();
        heard.into_iter().for_each(Heard::again);
        let event = match line {
            Ok(Some(line)) if line.bytes.trim_ascii().is_empty() => continue,
            Ok(Some(line)) => match Step::from_line(&line.bytes) {
                Ok(step) => Event::Step(step),
                Err(error) => Event::BadStep(format!("a line of the plan is not a step: {error}")),
            },
            Ok(None) => break,
            Err(error) => Event::BadStep(format!("the plan cannot be read: {error}")),
        };
        let last = matches!(event, Event::BadStep(_));
        if events.send(event).is_err() || last {
            return;
        }
    }
    let end = if is_file { Event::PlanEnd } else { Event::End(Why::ControllerGone) };
    let _ = events.send(end);
}
