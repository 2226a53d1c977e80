//! Checks that a node's clock runs as fast as the host's: a node measures all its times by its own clock.
//!
//! Each answer to an order carries the node's monotonic clock. It was read after the order was sent and
//! before the answer was heard, so two answers bound how much time passed in between by the host's clock,
//! however long the messages took: a busy host makes the bounds wider and never wrong. What the node's
//! clock says must lie within them, but for half a per cent or 2 ms: a kernel that counted its TSC's
//! frequency while its VMM did not run may have a clock that is many times too fast, and nothing else
//! notices.

use std::time::Instant;

/// Two correct clocks may differ by this share.
const TOLERATED: f64 = 0.005;
const TOLERATED_S: f64 = 0.002;

/// A node's clock at one moment, which lies between two of the host's.
#[derive(Clone, Copy)]
struct Reading {
    node_s: f64,
    earliest: Instant,
    latest: Instant,
}

impl Reading {
    fn doubt_s(&self) -> f64 {
        self.latest.duration_since(self.earliest).as_secs_f64()
    }
}

/// The readings of one node.
#[derive(Default)]
pub struct NodeClock {
    /// The most precise of the early readings: over the long time since then even a small error shows.
    anchor: Option<Reading>,
    last: Option<Reading>,
}

impl NodeClock {
    /// Takes a reading of a node's clock, made between two moments of the host.
    ///
    /// # Errors
    /// The clock is wrong, with both figures.
    pub fn take(&mut self, node_s: f64, earliest: Instant, latest: Instant) -> Result<(), String> {
        let now = Reading { node_s, earliest, latest };
        if !node_s.is_finite() {
            return Err("its clock is no number".to_owned());
        }
        for before in [self.anchor, self.last].into_iter().flatten() {
            compare(&before, &now)?;
        }
        if self.anchor.is_none_or(|anchor| anchor.doubt_s() > 2.0 * now.doubt_s()) {
            self.anchor = Some(now);
        }
        self.last = Some(now);
        Ok(())
    }
}

/// Refuses a guest whose kernel has been up for longer than its VMM: its clock ran too fast while it
/// booted.
///
/// # Errors
/// With both figures.
pub fn check_uptime(uptime_s: f64, begun: Instant) -> Result<(), String> {
    let most = begun.elapsed().as_secs_f64();
    if uptime_s <= most + tolerated(most) {
        return Ok(());
    }
    Err(wrong(uptime_s, most))
}

fn compare(before: &Reading, now: &Reading) -> Result<(), String> {
    let by_node = now.node_s - before.node_s;
    let most = now.latest.duration_since(before.earliest).as_secs_f64();
    // Negative where both orders were open at once: a node's threads answer for themselves, so the clock
    // of the answer that is heard last may have been read first.
    let least = now.earliest.saturating_duration_since(before.latest).as_secs_f64()
        - before.latest.saturating_duration_since(now.earliest).as_secs_f64();
    if by_node > most + tolerated(most) {
        return Err(wrong(by_node, most));
    }
    if by_node < least - tolerated(least) {
        return Err(wrong(by_node, least));
    }
    Ok(())
}

fn tolerated(seconds: f64) -> f64 {
    (TOLERATED * seconds).max(TOLERATED_S)
}

fn wrong(by_node: f64, by_host: f64) -> String {
    format!(
        "its clock is wrong: {by_node:.4} s passed by it, {by_host:.4} s by this host's clock, so \
         nothing that it measured is to be believed"
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A node whose clock runs at a rate, asked every second, with answers that take `late` seconds.
    fn asked(rate: f64, late: f64, times: u32) -> Result<(), String> {
        let begun = Instant::now();
        let mut clock = NodeClock::default();
        for second in 0..times {
            let sent = f64::from(second);
            // Read late in the window and early in it, by turns: the worst for who compares.
            let read = sent + if second % 2 == 0 { late } else { 0.0 };
            let at = |seconds| begun + Duration::from_secs_f64(seconds);
            clock.take(7.0 + read * rate, at(sent), at(sent + late))?;
        }
        Ok(())
    }

    #[test]
    fn a_clock_that_is_right_is_believed_however_late_its_answers() {
        for late in [0.0, 0.001, 0.3, 0.9] {
            asked(1.0, late, 600).unwrap();
            asked(1.0004, late, 600).unwrap();
        }
    }

    #[test]
    fn answers_that_overtake_one_another_are_believed() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs_f64(seconds);
        let mut clock = NodeClock::default();
        // Both were asked at 0; the thread that read the clock at 10 ms had to wait before it could answer.
        clock.take(7.050, at(0.0), at(0.051)).unwrap();
        clock.take(7.010, at(0.0), at(0.052)).unwrap();
        // A clock that goes back by more than that is wrong still.
        let why = clock.take(6.990, at(0.0), at(0.053)).unwrap_err();
        assert!(why.contains("-0.0600 s passed by it"), "{why}");
    }

    #[test]
    fn one_that_is_wrong_is_found_with_both_figures() {
        for rate in [52.0, 2.0, 1.01, 0.99, 0.1, 0.0, -1.0] {
            let why = asked(rate, 0.001, 3).unwrap_err();
            assert!(why.starts_with("its clock is wrong: "), "{why}");
        }
        let why = asked(52.0, 0.0, 2).unwrap_err();
        assert!(why.contains("52.0000 s passed by it, 1.0000 s by this host's"), "{why}");
    }

    #[test]
    fn on_a_busy_host_an_error_shows_over_a_longer_time() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs_f64(seconds);
        let mut clock = NodeClock::default();
        let found = (0..200)
            .map(f64::from)
            .position(|sent| clock.take(1.01 * (sent + 0.15), at(sent), at(sent + 0.3)).is_err());
        assert!((10..70).contains(&found.unwrap()), "{found:?}");
    }

    #[test]
    fn what_is_no_number_is_no_clock() {
        let now = Instant::now();
        assert!(NodeClock::default().take(f64::NAN, now, now).is_err());
    }

    #[test]
    fn no_kernel_is_older_than_its_machine() {
        let begun = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
        check_uptime(4.9, begun).unwrap();
        check_uptime(0.2, begun).unwrap();
        assert!(check_uptime(118.7, begun).is_err());
    }
}
