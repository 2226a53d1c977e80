//! Marks: how a program says which part of it is to count.
//!
//! What a program measures of itself has its preparation before it (a working set is filled, caches
//! warm up) and is joined with what is modelled of the same part. So a program may say where this part
//! begins and ends. Everything goes through the model all the same: what a part finds in TLBs and
//! caches is what came before it.

use crate::Counts;

/// What a program says by a system call that every kernel refuses: `prctl` with an option of our own.
/// Without anyone who listens it does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// From here on it counts.
    Begin,
    /// It does no more.
    End,
}

impl Mark {
    /// Of `prctl`, far from the kernel's own: "htwm" as a number.
    const OPTION: i32 = 0x6874_776d;
    const BEGIN: u64 = 1;
    const END: u64 = 2;

    /// The first two arguments of `prctl`.
    pub const fn arguments(self) -> (i32, u64) {
        match self {
            Self::Begin => (Self::OPTION, Self::BEGIN),
            Self::End => (Self::OPTION, Self::END),
        }
    }

    /// The mark that `prctl` was called for, if for one. `option` as the register has it: its upper
    /// half means nothing.
    pub const fn of(option: u64, which: u64) -> Option<Self> {
        match (option as i32, which) {
            (Self::OPTION, Self::BEGIN) => Some(Self::Begin),
            (Self::OPTION, Self::END) => Some(Self::End),
            _ => None,
        }
    }
}

/// What counts of a program, from the marks that it made: without any, all of it; else the parts
/// between a beginning and the next end, of all its threads. A beginning within a part and an end
/// outside of one say nothing; a part without end goes on to the program's.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// What was counted before the part that is going on.
    begun: Option<Counts>,
    /// Of the parts that ended; none before the first beginning.
    ended: Option<Counts>,
}

impl Marks {
    /// `now`: what was counted since the program's start.
    pub fn take(&mut self, mark: Mark, now: Counts) {
        match mark {
            Mark::Begin => {
                self.begun.get_or_insert(now);
                self.ended.get_or_insert_default();
            }
            Mark::End => {
                if let Some(before) = self.begun.take() {
                    self.ended = self.ended.take().map(|parts| parts.plus(&now.since(&before)));
                }
            }
        }
    }

    /// Those of a forked child, which counts from nothing. Until it makes marks of its own it is where
    /// its parent was: what a part forks belongs to the part, for who measures the part's time waits
    /// for it.
    pub fn of_child(&self) -> Self {
        Self {
            begun: self.begun.as_ref().map(|_| Counts::default()),
            ended: self.ended.as_ref().map(|_| Counts::default()),
        }
    }

    /// Whether the program made any, or its parent had when it was forked.
    pub fn any(&self) -> bool {
        self.ended.is_some()
    }

    /// What counts, if the program ends now.
    pub fn counted(&self, now: Counts) -> Counts {
        let mut closed = self.clone();
        closed.take(Mark::End, now.clone());
        closed.ended.unwrap_or(now)
    }
}

#[cfg(test)]
#[path = "marks_test.rs"]
mod tests;
