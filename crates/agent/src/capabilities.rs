//! Capabilities that no program can get back that is started from here on.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

/// Leaves these in the bounding set and no others. It makes system calls only, so that it may be called
/// between fork and exec.
///
/// # Errors
/// The kernel refuses, for example because the process lacks `CAP_SETPCAP`.
pub fn narrow_bounding_set(kept: CapabilitySet) -> Result<(), Errno> {
    for bit in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        if kept.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // The kernel knows no more of them.
            Err(Errno::INVAL) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
