//! /proc/net/snmp and /proc/net/netstat: the protocols' counters, named as nstat(8) does but with a
//! dot (`Tcp.RetransSegs`, `TcpExt.TCPTimeouts`); and /proc/net/softnet_stat: what each CPU took from
//! its backlog. The former are of this process's network namespace, the latter of the machine.

use anyhow::{Context, Result, bail};

use super::counters::{Kind, Sample};
use super::{HAS_NO_NETWORK, ProbeKind, Source};
use crate::values::Definition;

/// Those of softnet also by CPU: `cpu0.softnet_processed`.
const VALUES: &[Definition] = &[
    ("*softnet_processed", "packets", "taken from the CPU's backlog or polled"),
    ("*softnet_dropped", "packets", "dropped because the CPU's backlog was full"),
    ("*softnet_time_squeeze", "times", "polling ended with work left (netdev_budget)"),
    ("*softnet_received_rps", "times", "woken to take packets steered from another CPU"),
    ("*softnet_flow_limit", "packets", "dropped by the flow limit"),
    ("TcpExt.TCPMemoryPressuresChrono", "ms", "time under memory pressure"),
    ("*Octets", "B", "bytes by the kernel's name, for example IpExt.InOctets"),
    ("*.*", "events", "protocol and counter by the kernel's names, for example Tcp.RetransSegs"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind {
    values: VALUES,
    source: Source::Files(
        &[
            ("net/snmp", HAS_NO_NETWORK),
            ("net/netstat", HAS_NO_NETWORK),
            ("net/softnet_stat", HAS_NO_NETWORK),
        ],
        |texts| parse(&texts[0], &texts[1], &texts[2]),
    ),
};

/// Settings and amounts among the counters.
const NOT_COUNTERS: [&str; 8] = [
    "Ip.Forwarding",
    "Ip.DefaultTTL",
    "Tcp.RtoAlgorithm",
    "Tcp.RtoMin",
    "Tcp.RtoMax",
    "Tcp.MaxConn",
    "Tcp.CurrEstab",
    "MPTcpExt.MPCurrEstab",
];

/// Columns of softnet_stat (`softnet_seq_show` in net/core/net-procfs.c), hexadecimal, 32 bits.
const SOFTNET: [(usize, &str); 5] = [
    (0, "softnet_processed"),
    (1, "softnet_dropped"),
    (2, "softnet_time_squeeze"),
    (9, "softnet_received_rps"),
    (10, "softnet_flow_limit"),
];
/// The CPU's number; before Linux 5.10 there is none.
const SOFTNET_CPU: usize = 12;

pub fn parse(snmp: &str, netstat: &str, softnet: &str) -> Result<Sample> {
    let mut sample = Sample::default();
    protocols(&mut sample, snmp)?;
    protocols(&mut sample, netstat)?;
    backlogs(&mut sample, softnet)?;
    Ok(sample)
}

/// Lines come in pairs: `Tcp: names...`, `Tcp: numbers...`.
fn protocols(sample: &mut Sample, text: &str) -> Result<()> {
    let mut lines = text.lines();
    while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
        let (protocol, names) = names.split_once(':').context("a line without a protocol")?;
        let numbers = numbers
            .strip_prefix(protocol)
            .and_then(|rest| rest.strip_prefix(':'))
            .with_context(|| format!("no numbers follow the names of {protocol}"))?;
        for (name, number) in names.split_whitespace().zip(numbers.split_whitespace()) {
            let name = format!("{protocol}.{name}");
            if !NOT_COUNTERS.contains(&name.as_str()) {
                let count = number.parse().with_context(|| format!("{name} is {number:?}"))?;
                sample.count(&name, count, Kind::Counter, 1.0);
            }
        }
    }
    Ok(())
}

fn backlogs(sample: &mut Sample, text: &str) -> Result<()> {
    for (index, line) in text.lines().enumerate() {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .map(|word| {
                u64::from_str_radix(word, 16)
                    .with_context(|| format!("/proc/net/softnet_stat holds {word:?}"))
            })
            .collect::<Result<_>>()?;
        if numbers.len() < 3 {
            bail!("/proc/net/softnet_stat has a line of {} numbers", numbers.len());
        }
        let cpu = numbers.get(SOFTNET_CPU).copied().unwrap_or(index as u64);
        for (column, name) in SOFTNET {
            if let Some(&count) = numbers.get(column) {
                let own = format!("cpu{cpu}.{name}");
                sample.share(&own, &[&own, name], count, Kind::Counter32, 1.0);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::counters::difference;
    use super::*;

    pub(crate) const SNMP: &str = "\
Ip: Forwarding DefaultTTL InReceives
Ip: 2 64 7318
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens CurrEstab InSegs OutSegs RetransSegs
Tcp: 1 200 120000 -1 47 2 7221 4131 5
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors
Udp: 96 0 10 97 10
";
    pub(crate) const NETSTAT: &str = "\
TcpExt: SyncookiesSent TCPTimeouts TCPOrigDataSent
TcpExt: 0 2 589
IpExt: InNoRoutes InOctets
IpExt: 0 9000000000
";
    pub(crate) const SOFTNET: &str = "\
0000000f 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
ffffffff 00000002 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000003 00000000 00000000 00000003 00000000 00000000
";

    #[test]
    fn protocols_and_backlogs_are_differences() {
        let before = parse(SNMP, NETSTAT, SOFTNET).unwrap();
        let after = parse(
            &SNMP.replace("4131 5", "4141 8").replace("96 0 10 97 10", "106 0 17 97 16"),
            &NETSTAT.replace("9000000000", "9000001500"),
            &SOFTNET.replace("ffffffff 00000002", "00000010 00000006"),
        )
        .unwrap();
        let mut notes = Vec::new();
        let values = difference(&before, &after, &mut notes).unwrap();
        assert_eq!(values["Tcp.OutSegs"], 10.0);
        assert_eq!(values["Tcp.RetransSegs"], 3.0);
        assert_eq!(values["Udp.InErrors"], 7.0);
        assert_eq!(values["Udp.RcvbufErrors"], 6.0);
        assert_eq!(values["IpExt.InOctets"], 1500.0);
        assert_eq!(values["TcpExt.TCPTimeouts"], 0.0);
        assert_eq!(values["cpu3.softnet_processed"], 17.0);
        assert_eq!(values["cpu3.softnet_dropped"], 4.0);
        assert_eq!(values["softnet_processed"], 17.0);
        assert!(!values.contains_key("Tcp.CurrEstab"));
        assert!(notes.is_empty());
    }

    #[test]
    fn an_old_softnet_table_has_no_cpu_numbers() {
        let mut sample = Sample::default();
        backlogs(&mut sample, "0000000a 00000000 00000001\n0000000b 00000000 00000000\n").unwrap();
        assert_eq!(sample.entries[3].key, "cpu1.softnet_processed");
        assert_eq!(sample.entries[3].raw, 11);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(parse("Tcp: A\nUdp: 1\n", "", "").is_err());
        assert!(parse("Tcp: A\nTcp: x\n", "", "").is_err());
        assert!(parse("", "", "xyz 1 2\n").is_err());
        assert!(parse("", "", "1 2\n").is_err());
    }
}
