//! Where a node's records arrive.

use std::io::{ErrorKind, Read};
use std::sync::Arc;

use hypertare_plan::{Line, Record};

use crate::lines::Lines;

#[derive(Debug)]
pub enum News {
    /// A record, and how many bytes it took.
    Record(Box<Record>, usize),
    /// Nothing more will come, because of this.
    Gone(String),
}

/// Where one node's lines arrive.
#[derive(Clone)]
pub struct Inbox(Arc<dyn Fn(News) -> bool + Send + Sync>);

impl Inbox {
    /// `report` returns false when nobody listens any more.
    pub fn new(report: impl Fn(News) -> bool + Send + Sync + 'static) -> Self {
        Inbox(Arc::new(report))
    }

    /// Reads a node's records until it ends or sends what is not a record.
    pub fn read(&self, input: impl Read) {
        let mut lines = Lines::new(input);
        let why = loop {
            match lines.read() {
                Ok(Some(line)) if line.whole => match Record::from_line(&line.bytes) {
                    Ok(record) => {
                        let news = News::Record(Box::new(record), line.bytes.len() + 1);
                        if !self.report(news) {
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
        self.report(News::Gone(why));
    }

    /// False when nobody listens any more.
    pub fn report(&self, news: News) -> bool {
        (self.0)(news)
    }
}
