"""`[jitter]`: how regularly messages come that are sent at regular times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypertare.analyses.analysis import Analysed, AnalysedRow, Analysis, Observed
from hypertare.base.closed import Settings
from hypertare.base.figures import did_you_mean
from hypertare.workloads.workload import WorkloadSettings

_OF_GAPS = ("jitter", "gap_p50", "gap_p99", "gap_p999", "gap_sd")
_OF_ROUND_TRIPS = ("rtt_jitter", "rtt_p50", "rtt_p99", "rtt_p999", "rtt_sd")
_NOTE = (
    "Jitter is RFC 3550's, the mean over a trial: how much the time on the way changes from one message to "
    "the next, smoothed; of round trips it is their mean change. The other columns are of the gaps between "
    "messages as they came, or of round trips. Means over trials, with intervals."
)


class JitterSettings(Settings):
    workloads: tuple[str, ...] = ()
    """Default: all that can."""


class Jitter(Analysis[JitterSettings]):
    name = "jitter"
    settings = JitterSettings
    asks_for_gaps = True

    def problem(
        self, settings: JitterSettings, workloads: Mapping[str, WorkloadSettings]
    ) -> str | None:
        for name in settings.workloads:
            if name not in workloads:
                hint = did_you_mean(name, workloads)
                return f"there is no workload '{name}'.{hint} There are: {', '.join(workloads)}"
            if not _can(workloads[name]):
                return f"'{name}' has no jitter: {_WHAT_HAS}"
        if not any(map(_can, workloads.values())):
            return f"no workload has jitter: {_WHAT_HAS}"
        return None

    def analyse(self, settings: JitterSettings, observed: Sequence[Observed]) -> Analysed:
        rows = []
        for one in observed:
            if settings.workloads and one.workload not in settings.workloads:
                continue
            for what, names in (("gaps", _OF_GAPS), ("round trips", _OF_ROUND_TRIPS)):
                if names[0] in one.figures:
                    figures = tuple(map(one.figures.get, names))
                    rows.append(AnalysedRow(one.platform, one.cell, what, figures))
        columns = ("jitter", "median", "99 %", "99.9 %", "standard deviation")
        return Analysed("Jitter", _NOTE, columns, tuple(rows))


_WHAT_HAS = "a ping has it, and a stream over UDP with a rate"


def _can(settings: WorkloadSettings) -> bool:
    names = {response.name for response in settings.responses}
    return _OF_ROUND_TRIPS[0] in names or settings.is_regular
