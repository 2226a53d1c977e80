//! Refuses impossible results of tasks: the last check of figures before they are believed. A node's clock
//! may be wrong, and the program under test may try to write its own figures.

use hypertare_plan::Values;

/// CPU time is counted by ticks in some kernels, each of up to 10 ms, on every CPU.
const TICK_S: f64 = 0.01;

/// Beyond that, how much more CPU time than there was may be an error of counting, as a share.
const COUNTED_OVER: f64 = 0.05;

/// # Errors
/// Which value is impossible, with both figures: `given_s` passed by this host's clock from the order to the
/// result, on a node with so many CPUs.
pub fn check(values: &Values, given_s: f64, cpus: u32) -> Result<(), String> {
    if let Some((name, _)) = values.iter().find(|(_, value)| !value.is_finite()) {
        return Err(format!("its {name} is no number"));
    }
    let Some(&elapsed_s) = values.get("elapsed_s") else { return Ok(()) };
    if elapsed_s <= 0.0 || elapsed_s > given_s * 1.005 + 0.002 {
        return Err(format!(
            "it took {elapsed_s} s by its own account, and at most {given_s:.4} s by this host's clock"
        ));
    }
    let spent = ["user_s", "system_s"].iter().filter_map(|name| values.get(*name)).sum::<f64>();
    let cpus = f64::from(cpus);
    // `elapsed_s` of a receiver ends with the last arrival, its CPU time with the stream's end: if it polls,
    // it works in between.
    let counted_s = if values.contains_key("received_packets") { given_s } else { elapsed_s };
    let most = counted_s * cpus * (1.0 + COUNTED_OVER) + TICK_S * (cpus + 1.0);
    if spent > most {
        return Err(format!(
            "it used {spent:.3} s of CPU time in {counted_s:.3} s, more than {cpus} CPU{} give: a program \
             that sets its own CPUs (taskset, OpenMP, DPDK, numactl) had some that a guest lacks; take \
             that out, or give it as many (--cpus)",
            if cpus == 1.0 { "" } else { "s" }
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, f64)], given_s: f64, cpus: u32) -> Result<(), String> {
        let values = values.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        check(&values, given_s, cpus)
    }

    #[test]
    fn what_can_be_is_believed() {
        of(&[], 0.0, 1).unwrap();
        of(&[("elapsed_s", 1.0), ("user_s", 0.9), ("system_s", 0.1)], 1.001, 1).unwrap();
        of(&[("elapsed_s", 1.0), ("user_s", 3.9)], 1.1, 4).unwrap();
        // It polled until its sender said that this was all.
        let late = ("received_packets", 9.0);
        of(&[("elapsed_s", 0.782), ("user_s", 1.031), late], 1.25, 1).unwrap();
        // Ticks: a program of 1 ms that was seen by two of them.
        of(&[("elapsed_s", 0.001), ("user_s", 0.02)], 0.01, 1).unwrap();
    }

    #[test]
    fn what_cannot_be_says_both_figures() {
        let why = of(&[("elapsed_s", 1160.0)], 22.5, 1).unwrap_err();
        assert_eq!(
            why,
            "it took 1160 s by its own account, and at most 22.5000 s by this host's clock"
        );
        for never in [0.0, -1.0] {
            assert!(of(&[("elapsed_s", never)], 1.0, 1).is_err());
        }
        assert!(of(&[("elapsed_s", f64::NAN)], 1.0, 1).unwrap_err().contains("no number"));
        let why = of(&[("elapsed_s", 0.56), ("user_s", 1.07)], 0.6, 1).unwrap_err();
        assert!(why.starts_with("it used 1.070 s of CPU time in 0.560 s, more than 1 CPU give"));
        let received = [("elapsed_s", 0.56), ("user_s", 1.07), ("received_packets", 9.0)];
        let why = of(&received, 0.6, 1).unwrap_err();
        assert!(why.starts_with("it used 1.070 s of CPU time in 0.600 s"), "{why}");
    }
}
