//! The context of a workload: where its records go, and when it must stop.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use hypertare_plan::{Histogram, Interval, Level, Record, TaskResult, Values};

use super::orders::Orders;
use crate::emit::Emitter;

/// The measurements of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub values: Values,
    pub histograms: BTreeMap<String, Histogram>,
    pub text: BTreeMap<String, String>,
}

impl Outcome {
    pub fn of<const N: usize>(values: [(&str, f64); N]) -> Self {
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        Outcome { values, ..Outcome::default() }
    }

    /// The value of this name; zero where there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(0.0)
    }

    pub fn set(&mut self, name: &str, value: f64) -> &mut Self {
        self.values.insert(name.to_owned(), value);
        self
    }
}

/// Given to every workload.
pub struct Context {
    pub node: String,
    pub trial: u64,
    pub phase: String,
    pub task: String,
    emitter: Arc<Emitter>,
    stop: Arc<AtomicBool>,
    orders: Option<Mutex<Orders>>,
    word: Option<Mutex<Receiver<()>>>,
    ready: Box<dyn Fn() + Send + Sync>,
    tells_intervals: bool,
}

impl Context {
    pub fn new(
        (node, trial, phase, task): (&str, u64, &str, &str),
        emitter: Arc<Emitter>,
        stop: Arc<AtomicBool>,
        ready: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Context {
            node: node.to_owned(),
            trial,
            phase: phase.to_owned(),
            task: task.to_owned(),
            emitter,
            stop,
            orders: None,
            word: None,
            ready: Box::new(ready),
            tells_intervals: true,
        }
    }

    /// For a workload that seldom asks whether it is stopped: each time it looks for orders itself, so that
    /// no other thread has to read them.
    pub fn heeding(mut self, orders: Orders) -> Self {
        self.orders = Some(Mutex::new(orders));
        self
    }

    /// For a workload that prepares: the channel by which the word to begin comes. Without it, the workload
    /// begins when it is ready.
    pub fn awaiting(mut self, word: Receiver<()>) -> Self {
        self.word = Some(Mutex::new(word));
        self
    }

    /// Only the result is reported.
    pub fn without_intervals(mut self) -> Self {
        self.tells_intervals = false;
        self
    }

    /// For a background workload: it listens, the others may start.
    pub fn ready(&self) {
        (self.ready)();
    }

    /// For a workload that prepares: says that it is ready, and returns when it is to begin.
    ///
    /// # Errors
    /// It was asked to stop before that.
    pub fn ready_to_go(&self) -> Result<()> {
        self.ready();
        let Some(word) = &self.word else { return Ok(()) };
        let word = word.lock().unwrap_or_else(PoisonError::into_inner);
        // A stop drops the sender.
        word.recv().context("it was stopped before it began")
    }

    /// For a workload that prepares: says that its work is done, and returns when it is asked to stop.
    pub fn worked(&self) {
        let Some(word) = &self.word else { return };
        self.ready();
        let word = word.lock().unwrap_or_else(PoisonError::into_inner);
        while word.recv().is_ok() {}
    }

    /// Whether the workload was asked to stop. Check at least every 50 ms, also while waiting.
    pub fn stopped(&self) -> bool {
        let stopped = self.stop.load(Ordering::Relaxed);
        let Some(orders) = self.orders.as_ref().filter(|_| !stopped) else { return stopped };
        let stopped = orders.lock().unwrap_or_else(PoisonError::into_inner).say_stop();
        self.stop.store(stopped, Ordering::Relaxed);
        stopped
    }

    /// Reports the values of one interval; seconds count from the task's own start of counting.
    pub fn interval(&self, begin_s: f64, end_s: f64, values: Values) {
        if !self.tells_intervals {
            return;
        }
        self.emit(&Record::Interval(Interval {
            node: self.node.clone(),
            trial: self.trial,
            phase: self.phase.clone(),
            task: self.task.clone(),
            begin_s,
            end_s,
            values,
            heard_s: None,
            purpose: None,
        }));
    }

    pub fn warn(&self, text: String) {
        self.emit(&Record::Log { node: self.node.clone(), level: Level::Warning, text });
    }

    pub fn result(&self, outcome: Result<Outcome>) -> TaskResult {
        let (error, outcome) = match outcome {
            Ok(outcome) => (None, outcome),
            Err(error) => (Some(format!("{error:#}")), Outcome::default()),
        };
        TaskResult {
            node: self.node.clone(),
            trial: self.trial,
            phase: self.phase.clone(),
            task: self.task.clone(),
            error,
            values: outcome.values,
            histograms: outcome.histograms,
            text: outcome.text,
            purpose: None,
        }
    }

    fn emit(&self, record: &Record) {
        // A reader that stopped reading will also stop this task.
        let _ = self.emitter.emit(record);
    }
}
