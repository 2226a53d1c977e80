//! The usage of a process and of the children that it waited for, or of one thread (getrusage(2)).

use std::ops::{Add, Sub};

use super::Outcome;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    user_us: i64,
    system_us: i64,
    minor_faults: i64,
    major_faults: i64,
    /// Context switches, by waiting and by preemption.
    pub switches: i64,
}

impl Usage {
    /// Of this process and of its children.
    pub fn now() -> Self {
        Self::of(libc::RUSAGE_SELF).each_with(&Self::of(libc::RUSAGE_CHILDREN), i64::add)
    }

    /// Of this thread since it began, so that a flow's share is exactly its own.
    pub fn of_thread() -> Self {
        Self::of(libc::RUSAGE_THREAD)
    }

    fn of(who: libc::c_int) -> Self {
        let usage = asked(who);
        Usage {
            user_us: microseconds(usage.ru_utime),
            system_us: microseconds(usage.ru_stime),
            minor_faults: usage.ru_minflt,
            major_faults: usage.ru_majflt,
            switches: usage.ru_nvcsw + usage.ru_nivcsw,
        }
    }

    pub fn since(&self, before: &Self) -> Self {
        self.each_with(before, i64::sub)
    }

    fn each_with(&self, other: &Self, operation: fn(i64, i64) -> i64) -> Self {
        Usage {
            user_us: operation(self.user_us, other.user_us),
            system_us: operation(self.system_us, other.system_us),
            minor_faults: operation(self.minor_faults, other.minor_faults),
            major_faults: operation(self.major_faults, other.major_faults),
            switches: operation(self.switches, other.switches),
        }
    }

    pub fn user_s(&self) -> f64 {
        self.user_us as f64 / 1e6
    }

    pub fn system_s(&self) -> f64 {
        self.system_us as f64 / 1e6
    }

    pub fn faults(&self) -> i64 {
        self.minor_faults + self.major_faults
    }

    /// Sets the values that have the same names in every workload.
    pub fn report(&self, outcome: &mut Outcome) {
        outcome
            .set("user_s", self.user_s())
            .set("system_s", self.system_s())
            .set("minor_faults", self.minor_faults as f64)
            .set("major_faults", self.major_faults as f64);
    }
}

/// Of this process's resident set so far.
pub fn peak_memory_bytes() -> i64 {
    asked(libc::RUSAGE_SELF).ru_maxrss * 1024
}

fn asked(who: libc::c_int) -> libc::rusage {
    // SAFETY: `rusage` is plain numbers, and the call writes one of them.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &raw mut usage);
        usage
    }
}

fn microseconds(time: libc::timeval) -> i64 {
    time.tv_sec * 1_000_000 + time.tv_usec
}
