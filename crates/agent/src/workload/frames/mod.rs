//! Frames from a generator to a capture program, past the IP stacks of both: how many arrive, how many are
//! lost, and the cost. They are numbered messages of a stream (`workload/stream`) without datagrams around
//! them, and are counted in the same way.
//!
//! - `numbered`: the contents of a frame
//! - `send`, `receive`: the two ends; `feed`: a machine that hands frames on to a guest; `relay`: one that
//!   also takes the guest's answers
//! - `generate`, `capture`: the two ends as stand-alone tools

pub mod capture;
mod feed;
pub mod generate;
mod numbered;
mod receive;
mod relay;
mod send;

use anyhow::{Result, ensure};

const MOST_RING: u32 = 256 << 20;

/// # Errors
/// The kernel could not share such a ring.
pub fn check_ring(ring: u32) -> Result<()> {
    let page = rustix::param::page_size() as u32;
    ensure!(
        (page..=MOST_RING).contains(&ring) && ring.is_multiple_of(page),
        "ring is {ring} bytes: it must be whole pages of {page} bytes, at most {MOST_RING} bytes"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_whole_pages() {
        for good in [4096, 4 << 20, MOST_RING] {
            check_ring(good).unwrap();
        }
        for bad in [0, 1, 4097, MOST_RING + 4096, u32::MAX] {
            assert!(check_ring(bad).unwrap_err().to_string().contains("whole pages"), "{bad}");
        }
    }
}
