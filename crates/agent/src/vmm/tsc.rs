//! How fast the TSC of an emulated guest counts, so that its kernel need not find out.
//!
//! TCG gives the host's TSC to its guests. Their kernels would measure its rate against an emulated timer
//! while they boot: if their VMM is not scheduled meanwhile, the rate is wrong, and so are their clocks
//! from then on. The host's TSC runs at one rate on all CPUs and in all power states, where its CPU flags
//! say so.

use std::arch::x86_64::_rdtsc;
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time over which the rate is measured: the TSC and the clock are read within some 50 ns of each
/// other.
const COUNTED: Duration = Duration::from_millis(20);

/// Readings, of which the most precise one counts.
const READINGS: usize = 50;

/// Thousands of cycles a second, where they come at a constant rate.
pub fn khz() -> Option<u64> {
    static KHZ: OnceLock<Option<u64>> = OnceLock::new();
    *KHZ.get_or_init(|| {
        let known = fs::read_to_string("/proc/cpuinfo").ok()?;
        is_constant(&known).then(count)
    })
}

fn is_constant(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    ["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.split(' ').any(|one| one == *flag))
}

fn count() -> u64 {
    let (first, begun) = reading();
    std::thread::sleep(COUNTED);
    let (last, ended) = reading();
    let seconds = ended.duration_since(begun).as_secs_f64();
    (last.wrapping_sub(first) as f64 / seconds / 1e3).round() as u64
}

/// The TSC at a moment: the middle of the shortest of several looks.
fn reading() -> (u64, Instant) {
    let look = |_| {
        let before = tsc();
        let now = Instant::now();
        let after = tsc();
        (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), now)
    };
    let sharpest = (0..READINGS).map(look).min_by_key(|&(width, ..)| width);
    sharpest.map_or_else(|| (tsc(), Instant::now()), |(_, at, now)| (at, now))
}

fn tsc() -> u64 {
    // SAFETY: it reads a register that every program may read here; under a kernel that forbids it, QEMU
    // could not emulate it either.
    unsafe { _rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_constant_where_both_flags_are() {
        assert!(is_constant("model\t: x\nflags\t\t: fpu constant_tsc nonstop_tsc sse\n"));
        assert!(!is_constant("flags\t\t: fpu constant_tsc sse\n"));
        assert!(!is_constant("flags\t\t: fpu constant_tscx nonstop_tsc\n"));
        assert!(!is_constant(""));
    }

    #[test]
    fn two_counts_agree() {
        let (a, b) = (count() as f64, count() as f64);
        assert!(a > 1e5 && (a / b - 1.0).abs() < 1e-3, "{a} and {b}");
    }
}
