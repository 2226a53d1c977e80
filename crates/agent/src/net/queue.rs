//! Queues in which packets wait to be sent: the discipline at the root of an interface, and how many
//! may wait.
//!
//! Source: tc(8), rtnetlink(7); `struct tcmsg` and TCA_* of linux/rtnetlink.h.

use anyhow::{Context, Result, bail, ensure};
use hypertare_plan::{Discipline, Queue};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption, TcQdiscFqCodelOption};

use super::link::{Links, is};
use super::netlink::Netlink;
use crate::values::spelt;

/// # Errors
/// The kernel lacks the discipline, refuses the length, or has something else afterwards.
pub fn set(links: &Links, interface: &str, queue: &Queue) -> Result<()> {
    // First, because a discipline takes over the length when it is attached.
    if let Some(packets) = queue.length {
        links.set_queue_length(interface, packets)?;
    }
    let before = links.get(interface)?;
    let discipline = queue.discipline.map_or(before.discipline, spelt);
    if let Some(chosen) = queue.discipline {
        let message = message(before.index, chosen, queue.length)?;
        let message = RouteNetlinkMessage::NewQueueDiscipline(message);
        match Netlink::route()?.execute(message, NLM_F_CREATE | NLM_F_REPLACE) {
            // The kernel names disciplines as plans do.
            Err(error) if is(&error, libc::ENOENT) => bail!(
                "the kernel has no queue discipline {discipline}: load its module (`modprobe \
                 sch_{discipline}`), or choose another"
            ),
            outcome => outcome
                .with_context(|| format!("giving {interface} the queue discipline {discipline}"))?,
        }
    }
    let now = links.get(interface)?;
    let length = queue.length.unwrap_or(now.queue_length);
    ensure!(
        now.discipline == discipline && now.queue_length == length,
        "{interface} was to have the queue {discipline} of {length} packets, and has {} of {}",
        now.discipline,
        now.queue_length
    );
    Ok(())
}

fn message(index: u32, discipline: Discipline, length: Option<u32>) -> Result<TcMessage> {
    let mut message = TcMessage::with_index(i32::try_from(index)?);
    message.header.parent = TcHandle::ROOT;
    message.attributes.push(TcAttribute::Kind(spelt(discipline)));
    // The others go by the interface's length.
    if let (Discipline::FqCodel, Some(packets)) = (discipline, length) {
        let limit = TcOption::FqCodel(TcQdiscFqCodelOption::Limit(packets));
        message.attributes.push(TcAttribute::Options(vec![limit]));
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};

    use super::*;

    fn bytes(discipline: Discipline, length: Option<u32>) -> Vec<u8> {
        let inner =
            RouteNetlinkMessage::NewQueueDiscipline(message(7, discipline, length).unwrap());
        let mut whole =
            NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(inner));
        whole.finalize();
        let mut bytes = vec![0; whole.buffer_len()];
        whole.serialize(&mut bytes);
        bytes
    }

    #[test]
    fn a_discipline_on_the_wire() {
        let tcmsg: Vec<u8> = [0, 7, 0, u32::MAX, 0].map(u32::to_ne_bytes).concat();
        let bytes = bytes(Discipline::Pfifo, Some(500));
        assert_eq!(bytes[4..6], 36u16.to_ne_bytes(), "RTM_NEWQDISC");
        assert_eq!(bytes[16..36], tcmsg);
        assert_eq!(bytes[36..], *b"\x0a\0\x01\0pfifo\0\0\0");
    }

    #[test]
    fn a_limit_of_its_own_goes_with_it() {
        let bytes = bytes(Discipline::FqCodel, Some(500));
        // TCA_OPTIONS with TCA_FQ_CODEL_LIMIT in it.
        assert_eq!(bytes[bytes.len() - 12..], *b"\x0c\0\x02\0\x08\0\x02\0\xf4\x01\0\0");
    }
}
