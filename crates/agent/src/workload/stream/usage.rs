//! CPU time of one thread, so that a flow's share is exactly its own.

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub user_s: f64,
    pub system_s: f64,
}

impl Usage {
    /// Of this thread since it began.
    pub fn of_thread() -> Self {
        // SAFETY: a zeroed rusage is a valid one, and the kernel fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage
        };
        Usage { user_s: seconds(usage.ru_utime), system_s: seconds(usage.ru_stime) }
    }

    pub fn since(self, before: Usage) -> Usage {
        Usage { user_s: self.user_s - before.user_s, system_s: self.system_s - before.system_s }
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}
