"""`polls_traced`: polls where the kernel module does not count them, in trials that count for nothing."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind


class PollsTraced(ProbeKind):
    """Its values are those of `napi`, which has them in none of its own then."""

    name = "polls_traced"
    places = ("machine",)
    in_warmups_with = "napi"
    is_of_network = True


POLLS_TRACED = PollsTraced()
