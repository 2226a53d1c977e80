"""`napi` and `polls_traced`: how a node took packets from its NIC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypertare.base.variables import Found, Response
from hypertare.probes.cpu_time import STAT
from hypertare.probes.probe import ProbeKind
from hypertare.protocol.phase import Phase
from hypertare.protocol.records import Record


class PollsTraced(ProbeKind):
    """Its values are those of `napi`, which has them in none of its own then."""

    name = "polls_traced"
    places = ("machine",)
    in_warmups_with = "napi"
    is_of_network = True


POLLS_TRACED = PollsTraced()


_COUNTING = ("napi", POLLS_TRACED.name)
OF_POLLS = ("driver_packet_rate", "poll_rate", "packets_per_poll")
"""Responses that are made of counted polls."""


class Napi(ProbeKind):
    """How a node took packets from its NIC, with the polls of `POLLS_TRACED` if it has none itself."""

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
        """Returns the responses of the first node."""
        node = nodes[0]
        counted = next(
            (one for one in _COUNTING if phase.sum_over_interfaces(node, one, "polls") is not None),
            self.name,
        )
        polls = phase.sum_over_interfaces(node, counted, "polls")
        packets = phase.sum_over_interfaces(node, counted, "polled_packets")
        interrupts = phase.sum_over_interfaces(node, self.name, "interrupts")
        softirqs = phase.probe(node, STAT.name, "softirq_s")
        ksoftirqd = phase.probe(node, self.name, "ksoftirqd_s")
        return {
            "driver_packet_rate": phase.rate(node, counted, packets),
            "poll_rate": phase.rate(node, counted, polls),
            "packets_per_poll": packets / polls if packets is not None and polls else None,
            "interrupt_rate": phase.rate(node, self.name, interrupts),
            "softirq_cpu": phase.rate(node, STAT.name, softirqs),
            "ksoftirqd_share": phase.rate(node, self.name, ksoftirqd),
        }

    def histogram(self, records: Iterable[Record], node: str) -> dict[int, int]:
        """Polls by the packets that they found, of all interfaces of a node in the measured phase.

        Empty where they were not counted.
        """
        phase = Phase.of(records)
        polls: dict[int, int] = {}
        for reading in filter(None, (phase.probes.get((node, one)) for one in _COUNTING)):
            for name, found in reading.histograms.items():
                if name.endswith(".packets_per_poll"):
                    for packets, count in found.buckets:
                        polls[packets] = polls.get(packets, 0) + count
        return dict(sorted(polls.items()))


NAPI = Napi()
