//! Reports to the model of page walks which part of this program is measured, where the model runs it.

use anyhow::Result;
use walk::Mark;

use super::{Context, standalone};

/// The work of this task alone, with marks where `elapsed_s` begins and ends.
pub fn around<T>(task: &str, work: impl FnOnce(&Context) -> Result<T>) -> Result<()> {
    let context = standalone::context(task, standalone::stop_by_signal()?, || report(Mark::Begin));
    let _worked = work(&context)?;
    report(Mark::End);
    Ok(())
}

/// Every kernel refuses the call, so that it does nothing without the model.
fn report(mark: Mark) {
    let (option, which) = mark.arguments();
    // SAFETY: no kernel has such an option; its arguments are numbers.
    unsafe { libc::prctl(option, which, 0, 0, 0) };
}
