//! The layout of our frames, and how long they may be.

use anyhow::{Result, ensure};

use super::ETHER_TYPE;

/// Two addresses and the type.
pub const ETHERNET: usize = 14;

/// Shortest frame without its FCS.
pub const SHORTEST: u32 = 60;

/// Longest frame of any interface: the largest possible MTU, with the header.
pub const LONGEST: u32 = 65_535 + ETHERNET as u32;

pub type Mac = [u8; 6];

/// A frame of so many bytes whose contents are zeros.
pub fn blank(length: usize, to: Mac, from: Mac) -> Vec<u8> {
    let mut frame = vec![0; length.max(ETHERNET)];
    frame[0..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    frame
}

/// Exchanges the addresses, so that the frame goes back to its sender.
pub fn turn_round(frame: &mut [u8]) {
    if let Some((to, from)) = frame.get_mut(..12).map(|both| both.split_at_mut(6)) {
        to.swap_with_slice(from);
    }
}

/// # Errors
/// No interface, or not this one, carries a frame of so many bytes.
pub fn check_length(frame: u32, mtu: u32) -> Result<()> {
    let longest = (mtu + ETHERNET as u32).min(LONGEST);
    ensure!(
        (SHORTEST..=longest).contains(&frame),
        "frame is {frame} bytes: it must be from {SHORTEST} to {longest} (the MTU and {ETHERNET} of header)"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_goes_back_where_it_came_from() {
        let mut frame = blank(60, [1; 6], [2; 6]);
        turn_round(&mut frame);
        assert_eq!(frame, blank(60, [2; 6], [1; 6]));
        turn_round(&mut frame[..5]);
    }

    #[test]
    fn lengths_are_bounded() {
        for good in [60, 1514] {
            check_length(good, 1500).unwrap();
        }
        for bad in [0, 59, 1515] {
            assert!(check_length(bad, 1500).unwrap_err().to_string().contains("60 to 1514"));
        }
    }
}
