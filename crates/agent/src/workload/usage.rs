//! What a process and the children that it waited for have used so far, or one thread (getrusage(2)).

use super::Outcome;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    user_us: i64,
    system_us: i64,
    minor_faults: i64,
    major_faults: i64,
    switches: i64,
}

impl Usage {
    /// Of this process and of its children.
    pub fn now() -> Self {
        let [own, children] = [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].map(Self::of);
        Usage {
            user_us: own.user_us + children.user_us,
            system_us: own.system_us + children.system_us,
            minor_faults: own.minor_faults + children.minor_faults,
            major_faults: own.major_faults + children.major_faults,
            switches: own.switches + children.switches,
        }
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
        Usage {
            user_us: self.user_us - before.user_us,
            system_us: self.system_us - before.system_us,
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
            switches: self.switches - before.switches,
        }
    }

    pub fn user_s(&self) -> f64 {
        self.user_us as f64 / 1e6
    }

    pub fn system_s(&self) -> f64 {
        self.system_us as f64 / 1e6
    }

    /// Context switches, by waiting and by preemption.
    pub fn switches(&self) -> i64 {
        self.switches
    }

    pub fn faults(&self) -> i64 {
        self.minor_faults + self.major_faults
    }

    /// Into the values that every workload calls the same.
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
