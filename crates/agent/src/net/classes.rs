//! Classes of traffic at an interface. They share a rate: one class for packets with a mark in their header
//! (DSCP, RFC 2474) and one for all others, or a single class.
//!
//! A hierarchical token bucket does it (tc-htb(8)): each class may send at its own rate, and borrows the
//! rate that others leave. Of the classes that may send, the one with the lower priority number is served
//! first. The rate has to be below the line's: otherwise packets wait in the NIC's ring, where no class
//! passes another.
//!
//! Source: `struct tc_htb_glob`, `struct tc_htb_opt` and TCA_HTB_* of linux/pkt_sched.h, `struct tc_u32_sel` and
//! TCA_U32_* of linux/pkt_cls.h, net/sched/sch_htb.c.

use anyhow::{Context, Result, bail};
use hypertare_plan::MarkedClass;
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcFilterU32Option, TcHandle, TcMessage, TcOption};

use super::link::{Links, is};
use super::netlink::Netlink;
use super::tc;

/// The text of an interface without classes: its queue is the kernel's choice.
pub const NONE: &str = "none";

const KIND: &str = "htb";
const FILTER: &str = "u32";
/// Frames that wait in a class, a tenth of the kernel's own limit: on a slow line more would be seconds.
const WAITING: u32 = 100;
const FRAME: u64 = 1514;
/// For so long a class may send at once: timers are sometimes even later.
const BURST_NS: u64 = 2_000_000;
/// The kernel counts time in ticks of so many ns (PSCHED_SHIFT).
const TICK_NS: u64 = 64;

const ROOT: u16 = 1;
const WHOLE: u16 = 1;
const MARKED: u16 = 0x10;
const OTHERS: u16 = 0x20;

const HTB_PARMS: u16 = 1;
const HTB_INIT: u16 = 2;
const OPTIONS: u16 = 2;
const U32_CLASSID: u16 = 1;
const U32_SEL: u16 = 5;
const IPV4: u16 = 0x0800;

type Route = Netlink<RouteNetlinkMessage>;

/// A rate, and the classes that share it. Rates count bits on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    pub rate_bps: u64,
    pub marked: Option<MarkedClass>,
}

/// One class as the kernel has it, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Class {
    minor: u16,
    rate: u64,
    ceiling: u64,
    priority: u32,
}

impl Classes {
    /// The text that [`read`] returns once they are set.
    pub fn text(&self) -> String {
        text(&self.leaves(), self.marked.as_ref().map(|marked| marked.dscp))
    }

    fn leaves(&self) -> Vec<Class> {
        let whole = self.rate_bps / 8;
        let leaf = |minor, rate, priority| Class { minor, rate, ceiling: whole, priority };
        let Some(marked) = &self.marked else { return vec![leaf(OTHERS, whole, 0)] };
        let own = marked.rate_bps / 8;
        let later = u32::from(marked.first);
        vec![leaf(MARKED, own, 0), leaf(OTHERS, whole.saturating_sub(own), later)]
    }
}

/// # Errors
/// The kernel lacks the discipline or the filter, or refuses them.
pub fn set(links: &Links, interface: &str, classes: &Classes) -> Result<()> {
    let index = i32::try_from(links.get(interface)?.index)?;
    let netlink = Netlink::route()?;
    let new = NLM_F_CREATE | NLM_F_REPLACE;
    ask(&netlink, RouteNetlinkMessage::NewQueueDiscipline(discipline(index)), new)?;
    let rate = classes.rate_bps / 8;
    let root = Class { minor: WHOLE, rate, ceiling: rate, priority: 0 };
    let parent = TcHandle { major: ROOT, minor: 0 };
    add(&netlink, class(index, parent, root)?)?;
    for leaf in classes.leaves() {
        add(&netlink, class(index, TcHandle { major: ROOT, minor: WHOLE }, leaf)?)?;
        ask(&netlink, RouteNetlinkMessage::NewQueueDiscipline(waiting(index, leaf.minor)), new)?;
    }
    if let Some(marked) = &classes.marked {
        let message = RouteNetlinkMessage::NewTrafficFilter(filter(index, marked.dscp));
        ask(&netlink, message, NLM_F_CREATE | NLM_F_EXCL)?;
    }
    Ok(())
}

/// Gives the interface its default queue again, the kernel's choice.
///
/// # Errors
/// The kernel refuses that.
pub fn clear(links: &Links, interface: &str) -> Result<()> {
    let mut message = TcMessage::with_index(i32::try_from(links.get(interface)?.index)?);
    message.header.parent = TcHandle::ROOT;
    ask(&Netlink::route()?, RouteNetlinkMessage::DelQueueDiscipline(message), 0)
}

/// The interface's classes, as a text of one form; [`NONE`] without any.
///
/// # Errors
/// The kernel does not list them.
pub fn read(links: &Links, interface: &str) -> Result<String> {
    let link = links.get(interface)?;
    if link.discipline != KIND {
        return Ok(NONE.to_owned());
    }
    let index = i32::try_from(link.index)?;
    let netlink = Netlink::route()?;
    let message = RouteNetlinkMessage::GetTrafficClass(TcMessage::with_index(index));
    let answers = netlink.dump(message).context("listing the classes of traffic")?;
    let mut leaves: Vec<Class> = answers
        .iter()
        .filter_map(|answer| match answer {
            RouteNetlinkMessage::NewTrafficClass(one) if one.header.index == index => class_in(one),
            _ => None,
        })
        .filter(|one| one.minor != WHOLE)
        .collect();
    leaves.sort_by_key(|one| one.minor);
    let mut message = TcMessage::with_index(index);
    message.header.parent = TcHandle { major: ROOT, minor: 0 };
    let answers = netlink
        .dump(RouteNetlinkMessage::GetTrafficFilter(message))
        .context("listing the filters of traffic")?;
    let mark = answers.iter().find_map(|answer| match answer {
        RouteNetlinkMessage::NewTrafficFilter(one) if one.header.index == index => mark_in(one),
        _ => None,
    });
    Ok(text(&leaves, mark))
}

fn text(leaves: &[Class], mark: Option<u8>) -> String {
    let each = leaves.iter().map(|one| {
        let who = if one.minor == MARKED { "marked" } else { "others" };
        format!("{who} {} of {} B/s priority {}", one.rate, one.ceiling, one.priority)
    });
    let mark = mark.map(|dscp| format!("DSCP {dscp}"));
    mark.into_iter().chain(each).collect::<Vec<_>>().join(", ")
}

fn ask(netlink: &Route, message: RouteNetlinkMessage, flags: u16) -> Result<()> {
    match netlink.execute(message, flags) {
        Err(error) if is(&error, libc::ENOENT) => bail!(
            "the kernel has no classes of traffic: load their modules (`modprobe sch_{KIND} cls_{FILTER}`), or \
             leave knobs.traffic_classes out"
        ),
        outcome => outcome.context("making classes of traffic"),
    }
}

fn add(netlink: &Route, class: TcMessage) -> Result<()> {
    ask(netlink, RouteNetlinkMessage::NewTrafficClass(class), NLM_F_CREATE | NLM_F_EXCL)
}

fn discipline(index: i32) -> TcMessage {
    let mut message = TcMessage::with_index(index);
    message.header.parent = TcHandle::ROOT;
    message.header.handle = TcHandle { major: ROOT, minor: 0 };
    // struct tc_htb_glob: version, rate2quantum, defcls, debug, direct_pkts.
    let values = [3, 10, u32::from(OTHERS), 0, 0].map(u32::to_ne_bytes).concat();
    message.attributes = vec![
        TcAttribute::Kind(KIND.to_owned()),
        TcAttribute::Options(vec![TcOption::Other(DefaultNla::new(HTB_INIT, values))]),
    ];
    message
}

fn class(index: i32, parent: TcHandle, of: Class) -> Result<TcMessage> {
    let mut message = TcMessage::with_index(index);
    message.header.parent = parent;
    message.header.handle = TcHandle { major: ROOT, minor: of.minor };
    message.attributes = vec![
        TcAttribute::Kind(KIND.to_owned()),
        TcAttribute::Options(vec![TcOption::Other(DefaultNla::new(HTB_PARMS, parms(of)?))]),
    ];
    Ok(message)
}

/// `struct tc_htb_opt`: rate, ceiling, how long each may send at once, quantum, level, priority.
fn parms(of: Class) -> Result<Vec<u8>> {
    let spec = |rate: u64| -> Result<Vec<u8>> {
        Ok(tc::rate_spec(u32::try_from(rate).context("a class of more than 34 Gb/s")?))
    };
    let at_once = |rate: u64| -> Result<u32> {
        let frame_ns = FRAME * 1_000_000_000 / rate.max(1);
        Ok(u32::try_from(frame_ns.max(BURST_NS) / TICK_NS)?)
    };
    let words = [
        at_once(of.rate)?,
        at_once(of.ceiling)?,
        // A frame: classes of one priority take turns of this size at the rate that no class uses.
        u32::try_from(FRAME)?,
        0,
        of.priority,
    ];
    let words = words.map(u32::to_ne_bytes).concat();
    Ok([spec(of.rate)?, spec(of.ceiling)?, words].concat())
}

/// The queue in which the frames of a class wait.
fn waiting(index: i32, minor: u16) -> TcMessage {
    let mut message = TcMessage::with_index(index);
    message.header.parent = TcHandle { major: ROOT, minor };
    message.header.handle = TcHandle { major: minor, minor: 0 };
    message.attributes = vec![
        TcAttribute::Kind("pfifo".to_owned()),
        // Not nested: struct tc_fifo_qopt itself.
        TcAttribute::Other(DefaultNla::new(OPTIONS, WAITING.to_ne_bytes().to_vec())),
    ];
    message
}

/// Puts IPv4 packets with this mark into the class for them.
fn filter(index: i32, dscp: u8) -> TcMessage {
    let mut message = TcMessage::with_index(index);
    message.header.parent = TcHandle { major: ROOT, minor: 0 };
    message.header.info = 1 << 16 | u32::from(IPV4.to_be());
    let class = u32::from(ROOT) << 16 | u32::from(MARKED);
    // struct tc_u32_sel: terminal, one key, and nothing of varying offsets; then struct tc_u32_key: the upper
    // six bits of the header's second byte.
    let selector = [1u8, 0, 1, 0].into_iter().chain([0; 12]);
    let key = [0, 0xfc, 0, 0].into_iter().chain([0, dscp << 2, 0, 0]).chain([0; 8]);
    let selector = selector.chain(key).collect();
    message.attributes = vec![
        TcAttribute::Kind(FILTER.to_owned()),
        TcAttribute::Options(vec![
            TcOption::Other(DefaultNla::new(U32_CLASSID, class.to_ne_bytes().to_vec())),
            TcOption::Other(DefaultNla::new(U32_SEL, selector)),
        ]),
    ];
    message
}

fn class_in(message: &TcMessage) -> Option<Class> {
    let parms = tc::option(message, HTB_PARMS)?;
    let word = |at: usize| Some(u32::from_ne_bytes(parms.get(at..at + 4)?.try_into().ok()?));
    Some(Class {
        minor: message.header.handle.minor,
        rate: word(8)?.into(),
        ceiling: word(20)?.into(),
        priority: word(40)?,
    })
}

fn mark_in(message: &TcMessage) -> Option<u8> {
    let options = message.attributes.iter().find_map(|attribute| match attribute {
        TcAttribute::Options(options) => Some(options),
        _ => None,
    })?;
    options.iter().find_map(|option| match option {
        TcOption::U32(TcFilterU32Option::Selector(selector)) => {
            selector.keys.first().map(|key| key.val.to_be_bytes()[1] >> 2)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};

    use super::*;

    fn classes(first: bool) -> Classes {
        let marked = MarkedClass { dscp: 46, rate_bps: 4_000_000, first };
        Classes { rate_bps: 7_600_000, marked: Some(marked) }
    }

    /// What the kernel would say if it had taken the message.
    fn reported(inner: RouteNetlinkMessage) -> RouteNetlinkMessage {
        let mut whole =
            NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(inner));
        whole.finalize();
        let mut bytes = vec![0; whole.buffer_len()];
        whole.serialize(&mut bytes);
        let back = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes).unwrap();
        let NetlinkPayload::InnerMessage(inner) = back.payload else { panic!() };
        inner
    }

    #[test]
    fn a_class_is_read_back() {
        for leaf in classes(true).leaves() {
            let sent = class(7, TcHandle { major: ROOT, minor: WHOLE }, leaf).unwrap();
            let RouteNetlinkMessage::NewTrafficClass(back) =
                reported(RouteNetlinkMessage::NewTrafficClass(sent))
            else {
                panic!()
            };
            assert_eq!(class_in(&back), Some(leaf));
        }
    }

    #[test]
    fn the_kernel_s_structures() {
        let bytes = parms(classes(true).leaves()[1]).unwrap();
        assert_eq!(bytes.len(), 44, "struct tc_htb_opt");
        assert_eq!(bytes[8..12], 450_000u32.to_ne_bytes());
        assert_eq!(bytes[20..24], 950_000u32.to_ne_bytes());
        assert_eq!(bytes[40..44], 1u32.to_ne_bytes());
        // One frame at the lower rate takes longer than the shortest burst.
        assert_eq!(bytes[24..28], (3_364_444u32 / 64).to_ne_bytes());
    }

    #[test]
    fn a_mark_is_read_back() {
        let sent = RouteNetlinkMessage::NewTrafficFilter(filter(7, 46));
        let RouteNetlinkMessage::NewTrafficFilter(back) = reported(sent) else { panic!() };
        assert_eq!(mark_in(&back), Some(46));
        assert_eq!(back.header.info.to_ne_bytes()[..2], [8, 0], "IPv4 in network order");
    }

    #[test]
    fn without_a_mark_all_wait_in_one_class() {
        let one = Classes { rate_bps: 8_000_000, marked: None };
        assert_eq!(one.text(), "others 1000000 of 1000000 B/s priority 0");
        let two = "DSCP 46, marked 500000 of 950000 B/s priority 0, others 450000 of 950000 B/s priority 1";
        assert_eq!(classes(true).text(), two);
        assert_eq!(classes(false).text(), two.replace("priority 1", "priority 0"));
    }
}
