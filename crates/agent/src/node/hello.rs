//! What this agent runs on.

use std::fs;
use std::sync::OnceLock;

use hypertare_plan::{Hello, PROTOCOL};

/// When the first process of this machine began.
static BEGAN_S: OnceLock<f64> = OnceLock::new();

/// To be called by the first process of a machine as the first thing that it does.
pub fn begin() {
    BEGAN_S.get_or_init(uptime_s);
}

/// Seconds since the kernel started.
fn uptime_s() -> f64 {
    let uptime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    uptime.tv_sec as f64 + uptime.tv_nsec as f64 * 1e-9
}

/// What this node is.
pub fn hello(node: &str) -> Hello {
    let system = rustix::system::uname();
    let clocksource = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Hello {
        node: node.to_owned(),
        protocol: PROTOCOL,
        agent: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: system.release().to_string_lossy().into_owned(),
        architecture: system.machine().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        memory: rustix::system::sysinfo().totalram as u64,
        clocksource: fs::read_to_string(clocksource).unwrap_or_default().trim().to_owned(),
        processor: None,
        uptime_s: uptime_s(),
        began_s: BEGAN_S.get().copied(),
    }
}
