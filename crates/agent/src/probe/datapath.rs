//! What the process that moves a guest's packets beside its VMM counts: read from its counters, at no cost
//! for it.

use std::fs::File;

use anyhow::{Context, Result};
use datapath::counters::{self, NAMES};

use super::counters::{Kind, Sample};
use super::{ProbeContext, ProbeKind, Source, kvm};
use crate::values::Definition;

const VALUES: &[Definition] = &[
    ("kicks", "kicks", "times that the guest said that there is work; an exit each under KVM"),
    ("calls", "calls", "interrupts that the guest had asked for"),
    ("polls", "polls", "looks at the guest's rings and its TAP"),
    ("empty_polls", "polls", "of those, the ones that found nothing"),
    ("frames_out", "frames", "frames that the guest sent"),
    ("bytes_out", "B", "bytes of those, from the Ethernet header on"),
    ("frames_in", "frames", "frames that the guest was given"),
    ("bytes_in", "B", "bytes of those, from the Ethernet header on"),
    ("full", "times", "looks at which the guest had given too little room for the next frame"),
    ("refused", "frames", "frames of the guest that the kernel did not take"),
];

/// The probe.
pub const KIND: ProbeKind = ProbeKind { values: VALUES, source: Source::Numbers(sample) };

fn sample(probe_context: &ProbeContext) -> Result<Sample> {
    let backend = kvm::vmm(probe_context)?.backend.as_ref();
    let backend = backend.context("no process beside its VMM moves its packets (sut.datapath)")?;
    let identity = Some(format!("cards of process {}", backend.pid));
    let mut sample = Sample { identity, ..Sample::default() };
    for (card, path) in backend.counters.iter().enumerate() {
        let page = File::open(path).context("the counters of its cards")?;
        for (name, count) in NAMES.into_iter().zip(counters::read(&page)?) {
            sample.share(&format!("card {card} {name}"), &[name], count, Kind::Counter, 1.0);
        }
    }
    Ok(sample)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};

    use ::datapath::counters::{Count, Counters as Written, page};

    use super::super::counters::difference;
    use super::super::{Outside, Processes, VhostUserBackend};
    use super::*;

    fn guest(cards: &[OwnedFd]) -> ProbeContext {
        let path = |card: &OwnedFd| format!("/proc/self/fd/{}", card.as_raw_fd()).into();
        let counters = cards.iter().map(path).collect();
        let backend = Some(VhostUserBackend { pid: 7, guests: 1, in_cgroup: true, counters });
        let outside = Some(Outside::Processes(Processes { backend, ..Processes::default() }));
        ProbeContext { outside, ..ProbeContext::default() }
    }

    pub(crate) fn captured() -> Sample {
        sample(&guest(&[page().unwrap()])).unwrap()
    }

    #[test]
    fn the_cards_of_a_guest_are_added_up() {
        let cards = [page().unwrap(), page().unwrap()];
        let written: Vec<_> = cards.iter().map(|card| Written::new(card).unwrap()).collect();
        written[0].add(Count::Kicks, 5);
        let probe_context = guest(&cards);
        let read = || sample(&probe_context).unwrap();
        let before = read();
        written.iter().for_each(|card| card.add(Count::Kicks, 2));
        let values = difference(&before, &read(), &mut Vec::new()).unwrap();
        assert_eq!((values["kicks"], values["frames_in"]), (4.0, 0.0));
    }

    #[test]
    fn a_guest_whose_vmm_moves_them_says_so() {
        let outside = Some(Outside::Processes(Processes::default()));
        let own = ProbeContext { outside, ..ProbeContext::default() };
        let error = sample(&own).unwrap_err().to_string();
        assert!(error.contains("sut.datapath"), "{error}");
    }
}
