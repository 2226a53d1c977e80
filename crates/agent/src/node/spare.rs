//! The process of the next task, started between two trials, while the controller computes. To start a
//! process and have it read its command line takes most of the time that a short trial needs beside its
//! work.

use std::time::Duration;

use rustix::process::Pid;

use super::files::View;
use crate::workload::process::{self, Child};

/// From starting it to its waiting for a task.
const LIMIT: Duration = Duration::from_secs(5);

/// Room for one such process.
#[derive(Default)]
pub struct Spare {
    waiting: Option<Child>,
    /// Whether the last task was confined to the view of the files, as the next one will be.
    confined: bool,
}

impl Spare {
    /// Where it cannot be had, the next task starts its own and says why that fails.
    pub fn make(&mut self, view: Option<&View>) {
        self.discard();
        let confinement = view.filter(|_| self.confined).and_then(View::confinement);
        self.waiting = process::spare(confinement, LIMIT).ok();
    }

    /// The process for a task, if there is one that fits. Another one does not outlive this.
    pub fn take(&mut self, confined: bool) -> Option<Child> {
        if self.confined != confined {
            self.confined = confined;
            self.discard();
        }
        let mut waiting = self.waiting.take()?;
        waiting.lives().then_some(waiting)
    }

    pub fn pid(&self) -> Option<Pid> {
        self.waiting.as_ref().map(Child::pid)
    }

    fn discard(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.discard();
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.discard();
    }
}
