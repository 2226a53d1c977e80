//! Informs the model of page walks, where it is what runs this program, which part of it is measured.

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

/// Every kernel refuses the call, and without the model nothing comes of it.
fn report(mark: Mark) {
    let (option, which) = mark.arguments();
    // SAFETY: no kernel has such an option; its arguments are numbers.
    unsafe { libc::prctl(option, which, 0, 0, 0) };
}
