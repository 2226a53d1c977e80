"""`napi`: how a node took packets from its NIC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypertare.base.response import Found, Response
from hypertare.probes.probe import ProbeKind
from hypertare.probes.stat import STAT
from hypertare.protocol.phase import Phase
from hypertare.protocol.records import Record


class Napi(ProbeKind):
    name = "napi"
    places = ("machine",)
    topic = "polling"
    responses = (
        Response(
            "driver_packet_rate", "packets/s", "higher", "packets that the NIC's driver delivered"
        ),
        Response("poll_rate", "polls/s", "lower", "times that the NIC's driver was polled"),
        Response("packets_per_poll", "packets/poll", "higher", "mean packets of a poll", "mean"),
        Response("interrupt_rate", "interrupts/s", "lower", "hardware interrupts of the NIC"),
        Response("softirq_cpu", "share", "lower", "share of one CPU that softirqs took"),
        Response("ksoftirqd_share", "share", "lower", "share of one CPU that ksoftirqd took"),
    )
    is_optional = True
    is_of_network = True

    def measure(self, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
        """Of the first node."""
        node = nodes[0]
        polls = phase.sum_over_interfaces(node, self.name, "polls")
        packets = phase.sum_over_interfaces(node, self.name, "polled_packets")
        interrupts = phase.sum_over_interfaces(node, self.name, "interrupts")
        ksoftirqd = phase.probe(node, self.name, "ksoftirqd_s")
        return {
            "driver_packet_rate": phase.rate(node, self.name, packets),
            "poll_rate": phase.rate(node, self.name, polls),
            "packets_per_poll": packets / polls if packets is not None and polls else None,
            "interrupt_rate": phase.rate(node, self.name, interrupts),
            "softirq_cpu": STAT.softirq_share(phase, node),
            "ksoftirqd_share": phase.rate(node, self.name, ksoftirqd),
        }

    def histogram(self, records: Iterable[Record], node: str) -> dict[int, int]:
        """Polls by the packets that they found, of all interfaces of a node in the measured phase.

        Empty where they were not counted.
        """
        reading = Phase.of(records).probes.get((node, self.name))
        polls: dict[int, int] = {}
        for name, found in (reading.histograms if reading else {}).items():
            if name.endswith(".packets_per_poll"):
                for packets, count in found.buckets:
                    polls[packets] = polls.get(packets, 0) + count
        return dict(sorted(polls.items()))


NAPI = Napi()
