//! The end of a line: an interface sends frame after frame at the line's rate, not at the CPU's.
//!
//! A token bucket does it (tc-tbf(8)), which counts a frame's length on the wire: IEEE 802.3 adds a
//! preamble of 8 bytes, a check of 4 and a gap of 12. A packet that is larger than a frame is cut before it
//! waits, as a NIC cuts it before it sends.
//!
//! A NIC sends from its ring without its machine's CPU; here the CPU has to act for each frame. So a bucket
//! that was delayed may catch up to [`LATENESS_US`], at twice the rate.
//!
//! Source: `struct tc_tbf_qopt` and TCA_TBF_* of linux/pkt_sched.h, net/sched/sch_tbf.c.

use anyhow::{Context, Result, bail, ensure};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};

use super::link::{Link, Links, is};
use super::netlink::Netlink;
use super::tc;

const KIND: &str = "tbf";
/// Bytes of a frame's header, which the kernel counts.
const HEADER: u32 = 14;
const LATENESS_US: u64 = 2000;
/// The most frames that wait for the line, as in a NIC's ring or a switch's port.
const WAITING: u32 = 256;

const PARMS: u16 = 1;
const RATE64: u16 = 4;
const PRATE64: u16 = 5;
const BURST: u16 = 6;
const PBURST: u16 = 7;

/// # Errors
/// The kernel has no token bucket, refuses the rate, or has another one afterwards.
pub fn limit(links: &Links, interface: &str, rate_bps: u64) -> Result<()> {
    let link = links.get(interface)?;
    let netlink = Netlink::route()?;
    let wanted = RouteNetlinkMessage::NewQueueDiscipline(message(&link, rate_bps)?);
    match netlink.execute(wanted, NLM_F_CREATE | NLM_F_REPLACE) {
        Err(error) if is(&error, libc::ENOENT) => bail!(
            "the kernel has no token bucket, which a line of a limited rate is made of: load its \
             module (`modprobe sch_tbf`), or leave bench.line_rate out"
        ),
        outcome => outcome.with_context(|| format!("limiting {interface} to {rate_bps} b/s"))?,
    }
    let index = i32::try_from(link.index)?;
    let all = netlink
        .dump(RouteNetlinkMessage::GetQueueDiscipline(TcMessage::with_index(index)))
        .context("listing the queue disciplines")?;
    // Bytes per second that the link's token bucket lets through.
    let has = all.iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewQueueDiscipline(one) if one.header.index == index => rate_in(one),
        _ => None,
    });
    ensure!(
        has == Some(rate_bps / 8),
        "{interface} was to send {} bytes per second, and the kernel says {has:?}",
        rate_bps / 8
    );
    Ok(())
}

fn message(link: &Link, rate_bps: u64) -> Result<TcMessage> {
    let rate = rate_bps / 8;
    let frame = link.mtu + HEADER;
    let burst = u32::try_from(rate * LATENESS_US / 1_000_000)?.max(frame);
    let mut message = TcMessage::with_index(i32::try_from(link.index)?);
    message.header.parent = TcHandle::ROOT;
    let options = [
        // In this order: the first byte of each field is where the kernel looks for it.
        (PARMS, parms(rate, WAITING * frame)),
        (RATE64, rate.to_ne_bytes().to_vec()),
        (PRATE64, (2 * rate).to_ne_bytes().to_vec()),
        (BURST, burst.to_ne_bytes().to_vec()),
        (PBURST, frame.to_ne_bytes().to_vec()),
    ];
    message.attributes = vec![
        TcAttribute::Kind(KIND.to_owned()),
        TcAttribute::Options(
            options.map(|(kind, value)| TcOption::Other(DefaultNla::new(kind, value))).to_vec(),
        ),
    ];
    Ok(message)
}

/// `struct tc_tbf_qopt`: rate, peak rate, limit, and the two bursts, which come as attributes.
fn parms(rate: u64, limit: u32) -> Vec<u8> {
    let spec = |rate: u64| tc::rate_spec(u32::try_from(rate).unwrap_or(u32::MAX));
    [spec(rate), spec(2 * rate), limit.to_ne_bytes().to_vec(), vec![0; 8]].concat()
}

fn rate_in(message: &TcMessage) -> Option<u64> {
    let value = |kind: u16| tc::option(message, kind);
    // The long form is sent only where the short one, the third word of the rate, is too short.
    let long = value(RATE64).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
    let short = || {
        let parms = value(PARMS)?;
        Some(u64::from(u32::from_ne_bytes(parms.get(8..12)?.try_into().ok()?)))
    };
    long.or_else(short)
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload, Nla};

    use super::*;

    fn of(rate_bps: u64) -> TcMessage {
        let link = Link { index: 7, mtu: 1500, ..Link::default() };
        message(&link, rate_bps).unwrap()
    }

    /// What the kernel would report if it had taken the message.
    fn reported(rate_bps: u64) -> Option<u64> {
        let inner = RouteNetlinkMessage::NewQueueDiscipline(of(rate_bps));
        let mut whole =
            NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(inner));
        whole.finalize();
        let mut bytes = vec![0; whole.buffer_len()];
        whole.serialize(&mut bytes);
        let back = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes).unwrap();
        match back.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(one)) => {
                rate_in(&one)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_rate_is_read_back_in_either_form() {
        assert_eq!(reported(60_000_000), Some(7_500_000));
        assert_eq!(reported(100_000_000_000), Some(12_500_000_000), "beyond 32 bits");
    }

    #[test]
    fn the_kernel_s_structure() {
        let bytes = parms(7_500_000, 1000);
        assert_eq!(bytes.len(), 36, "struct tc_tbf_qopt");
        assert_eq!(bytes[2..4], 24u16.to_ne_bytes(), "preamble, check and gap");
        assert_eq!(bytes[8..12], 7_500_000u32.to_ne_bytes());
        assert_eq!(bytes[20..24], 15_000_000u32.to_ne_bytes(), "at most twice the rate");
        assert_eq!(bytes[24..28], 1000u32.to_ne_bytes());
    }

    #[test]
    fn nothing_larger_than_a_frame_leaves_as_one() {
        let TcAttribute::Options(options) = &of(60_000_000).attributes[1] else { panic!() };
        let value = |kind| {
            let one = options.iter().find(|one| one.kind() == kind).unwrap();
            let mut bytes = [0; 4];
            one.emit_value(&mut bytes);
            u32::from_ne_bytes(bytes)
        };
        assert_eq!(value(PBURST), 1514);
        assert_eq!(value(BURST), 15_000, "2 ms");
    }
}
