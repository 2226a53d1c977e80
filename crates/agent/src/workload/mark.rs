//! Informs the model of page walks, where it is what runs this program, which part of it is measured.

use walk::Mark;

/// Every kernel refuses the call, and without the model nothing comes of it.
pub fn report(mark: Mark) {
    let (option, which) = mark.arguments();
    // SAFETY: no kernel has such an option; its arguments are numbers.
    unsafe { libc::prctl(option, which, 0, 0, 0) };
}
