//! What this process and the children that it waited for have used so far (getrusage(2)).

use super::Outcome;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    user_us: i64,
    system_us: i64,
    minor_faults: i64,
    major_faults: i64,
}

impl Usage {
    pub fn now() -> Self {
        let mut sum = Usage::default();
        for who in [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN] {
            // SAFETY: `rusage` is plain numbers, and the call writes one of them.
            let usage = unsafe {
                let mut usage: libc::rusage = std::mem::zeroed();
                libc::getrusage(who, &raw mut usage);
                usage
            };
            sum.user_us += microseconds(usage.ru_utime);
            sum.system_us += microseconds(usage.ru_stime);
            sum.minor_faults += usage.ru_minflt;
            sum.major_faults += usage.ru_majflt;
        }
        sum
    }

    pub fn since(&self, before: &Self) -> Self {
        Usage {
            user_us: self.user_us - before.user_us,
            system_us: self.system_us - before.system_us,
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
        }
    }

    pub fn faults(&self) -> i64 {
        self.minor_faults + self.major_faults
    }

    /// Into the values that every workload calls the same.
    pub fn tell(&self, outcome: &mut Outcome) {
        outcome
            .set("user_s", self.user_us as f64 / 1e6)
            .set("system_s", self.system_us as f64 / 1e6)
            .set("minor_faults", self.minor_faults as f64)
            .set("major_faults", self.major_faults as f64);
    }
}

fn microseconds(time: libc::timeval) -> i64 {
    time.tv_sec * 1_000_000 + time.tv_usec
}
