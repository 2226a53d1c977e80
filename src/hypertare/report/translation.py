"""What guests under KVM left for, and how their memory was mapped: counts in parts, and their names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hypertare.protocol.records import ProbeValues, Record

EXITS, FAULTS, MAPPINGS = "exits", "faults", "mappings"

TITLES = {
    EXITS: "Exits by reason",
    FAULTS: "Page faults that came to the hypervisor, by error code",
    MAPPINGS: "Pages that map the guest, by size",
}
NOTES = {
    EXITS: "Exits to the hypervisor of a trial, the mean over its counted trials, by the kernel's names.",
    FAULTS: "Page faults of a trial, the mean over its counted trials, by what the processor said of them "
    "(Intel SDM 3A, 4.7; AMD APM 2, 15.25.6).",
    MAPPINGS: "Pages by which the hypervisor maps the guest when a trial ends, the mean over its counted "
    "trials. A large page maps 512 times as much as a small one.",
}
UNITS = {EXITS: "exits a trial", FAULTS: "page faults a trial", MAPPINGS: "pages"}

_MOST_PARTS = 8
"""More colours no eye separates: what is smaller is added up."""

OTHER = "other"


@dataclass(frozen=True)
class MeanCount:
    """How much of a kind a trial had, the mean over `trials`."""

    kind: str
    platform: str
    cell: str
    workload: str
    part: str
    count: float
    trials: int


class Tally:
    """Adds up what the trials of a platform in a cell counted."""

    def __init__(self) -> None:
        self._sums: defaultdict[tuple[str, str, str], dict[tuple[str, str], float]]
        self._sums = defaultdict(dict)
        self._trials: Counter[tuple[tuple[str, str, str], str]] = Counter()

    def add(self, platform: str, cell: str, workload: str, records: Iterable[Record]) -> None:
        """The records of one trial's measured phase."""
        place = (platform, cell, workload)
        sums = self._sums[place]
        for record in records:
            if not isinstance(record, ProbeValues):
                continue
            for kind, counts in _counts(record):
                self._trials[place, kind] += bool(counts)
                for part, count in counts.items():
                    sums[kind, part] = sums.get((kind, part), 0.0) + count

    def parts(self) -> Iterator[MeanCount]:
        for place, sums in self._sums.items():
            for (kind, part), count in sums.items():
                trials = self._trials[place, kind]
                yield MeanCount(kind, *place, part, count / trials, trials)


def _counts(record: ProbeValues) -> Iterator[tuple[str, dict[str, float]]]:
    if record.probe == "kvm_exits":
        prefix = "exits_"
        reasons = {
            n.removeprefix(prefix): v for n, v in record.values.items() if n.startswith(prefix)
        }
        yield EXITS, reasons
        found = record.histograms.get("page_faults")
        yield FAULTS, {fault(code): float(count) for code, count in found.buckets} if found else {}
    if record.probe == "kvm":
        sizes = {"4 KB": "pages_4k_level", "2 MB": "pages_2m_level"}
        yield MAPPINGS, {n: record.values[v] for n, v in sizes.items() if v in record.values}


_BITS = ((3, "reserved bit"), (5, "protection key"), (32, "of the page"), (33, "of a page table"))


def fault(code: int) -> str:
    """An error code in words.

    >>> fault(0x100000006)
    'user write, not present, of the page'
    """
    what = "fetch" if code >> 4 & 1 else "write" if code >> 1 & 1 else "read"
    words = [
        f"{'user' if code >> 2 & 1 else 'kernel'} {what}",
        "protection" if code & 1 else "not present",
        *(word for bit, word in _BITS if code >> bit & 1),
    ]
    return ", ".join(words)


def largest(parts: Sequence[MeanCount]) -> list[MeanCount]:
    """The parts that are worth a colour, by size, and the others added up for each bar."""
    sizes: dict[str, float] = {}
    for one in parts:
        sizes[one.part] = max(sizes.get(one.part, 0.0), one.count)
    named = sorted(sizes, key=lambda name: -sizes[name])
    kept = named if len(named) <= _MOST_PARTS else named[: _MOST_PARTS - 1]
    found = sorted((p for p in parts if p.part in kept), key=lambda p: kept.index(p.part))
    rest: dict[tuple[str, str], MeanCount] = {}
    for one in parts:
        if one.part not in kept:
            place = (one.platform, one.cell)
            count = one.count + (rest[place].count if place in rest else 0.0)
            rest[place] = replace(rest.get(place, one), part=OTHER, count=count)
    return [*found, *rest.values()]
