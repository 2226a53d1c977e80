//! Frames from a generator to a capture program, past the IP stacks of both: what comes, what is lost,
//! what it costs. They are a stream's numbered messages (`workload/stream`) without datagrams round
//! them, and counted as those are.
//!
//! - `numbered`: what stands in a frame
//! - `send`, `receive`: the two ends; `feed`: a machine that hands on what is for a guest; `relay`: one that
//!   also takes what the guest answers
//! - `generate`, `capture`: the ends as tools alone

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
