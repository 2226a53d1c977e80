"""Campaigns of batches on a machine that is made up."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hypertare.base.errors import InputError
from hypertare.design.design import make
from hypertare.design.planner import MachineResources
from hypertare.design.trials import FinishedTrial
from hypertare.engine.expected import expected_boots, expected_boots_s
from hypertare.engine.prepare import Prepared, RunOptions
from hypertare.engine.session import Session
from hypertare.engine.waves import Waves
from hypertare.machines.batch import Batch
from hypertare.machines.emulated import Output
from hypertare.protocol.plan import Purpose
from hypertare.protocol.records import (
    BenchReady,
    Record,
    TaskResult,
    Teardown,
    TrialBegin,
    TrialEnd,
)
from hypertare.study import StudyFile

TEXT = """
name = "tiny"
question = "?"
machine = "emulated"
[workloads.work]
type = "burn"
[factors]
"sut.nic" = ["e1000", "pcnet"]
"workloads.work.share" = ["50%", "100%"]
[design]
min_trials = 4
max_trials = 12
blocks_per_boot = 2
precision = "1%"
"""
IMAGE = SimpleNamespace(
    kernel=Path("/k"), initramfs=Path("/i"), modules=frozenset({"hypertare_napi"})
)
ON = MachineResources((0,), "tcg", {("debian", "guest"): IMAGE}, {})


class MadeUp:
    """Work rates follow from the seed alone, as they do in virtual time."""

    def __init__(self, spread: float = 0.0, fate: Callable[[Batch], str | None] | None = None):
        self.jobs = 1
        self.spread = spread
        self.fate = fate or (lambda batch: None)
        self.batches: list[Batch] = []

    def run(self, batches: Sequence[Batch]) -> Generator[Output, None, None]:
        for batch in batches:
            self.batches.append(batch)
            why = self.fate(batch)
            records = () if why else tuple(self._records(batch))
            yield Output(records, why, ("last words",) if why else (), "f" * 64, 1.0)

    def _records(self, batch: Batch) -> Iterator[Record]:
        chance = random.Random(batch.pc.seed)
        yield BenchReady(bench="b", seconds_s=1)
        for trial in batch.trials:
            yield TrialBegin(trial=trial.id, t_s=1)
            yield TaskResult(
                node="host", trial=trial.id, phase="measure", task="burn",
                values={"loops": 1000 * chance.lognormvariate(0, self.spread), "elapsed_s": 1.0},
                purpose=Purpose(role="burn"),
            )  # fmt: skip
            yield TrialEnd(trial=trial.id, t_s=2, elapsed_s=1)
        yield Teardown(seconds_s=1)


class Journal:
    def __init__(self, trials: Sequence[FinishedTrial] = ()) -> None:
        self.kept = list(trials)
        self.added: list[FinishedTrial] = []
        self.records: list[tuple[Record, ...]] = []
        self.events: list[str] = []
        self.boots: list[int] = []

    def append(self, finished: FinishedTrial, records: Sequence[Record]) -> None:
        self.added.append(finished)
        self.records.append(tuple(records))

    def add_bench(self, boot: int, records: Sequence[Record]) -> None:
        self.boots.append(boot)

    def benches(self) -> Iterator[tuple[int, Sequence[Record]]]:
        return iter([(trial.planned.boot, ()) for trial in self.kept])

    def add_other_programs(self, others: object) -> None:
        pass

    def add_event(self, text: str) -> None:
        self.events.append(text)

    def trials(self) -> list[FinishedTrial]:
        return self.kept


class Nobody:
    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None


def campaign(machine: MadeUp, journal: Journal, text: str = TEXT) -> Waves:
    file = StudyFile(text, "tiny.toml")
    study = file.study()
    prepared = Prepared(file, study, make(study, 1), ON.cpus, None)
    session = Session(prepared, ON, journal, Nobody(), RunOptions())
    return Waves(session, machine, clock=lambda: 0.0)


def test_cells_are_measured_until_they_are_precise() -> None:
    machine, journal = MadeUp(), Journal()
    assert campaign(machine, journal).run()
    assert len(machine.batches) == 2 * 3
    assert len(journal.added) == 2 * 3 * 2 * 2
    assert all(finished.status == "ok" and finished.fingerprint for finished in journal.added)


def test_scatter_asks_for_more_up_to_the_limit() -> None:
    machine, journal = MadeUp(spread=0.5), Journal()
    assert campaign(machine, journal).run()
    counts = [
        sum(f.planned.cell == finished.planned.cell for f in journal.added)
        for finished in journal.added
    ]
    assert set(counts) == {12}


def test_numbers_are_the_run_s_own_and_in_order() -> None:
    journal = Journal()
    campaign(MadeUp(), journal).run()
    assert [finished.planned.id for finished in journal.added] == list(range(24))
    for finished, records in zip(journal.added, journal.records, strict=True):
        assert {r.trial for r in records if hasattr(r, "trial")} == {finished.planned.id}
    boots = {finished.planned.boot for finished in journal.added}
    assert boots == set(range(6))


def test_replicates_have_seeds_of_their_own() -> None:
    machine = MadeUp()
    campaign(machine, Journal()).run()
    assert len({batch.pc.seed for batch in machine.batches}) == 6


def test_an_interrupted_run_goes_on_to_the_same_end() -> None:
    whole = Journal()
    campaign(MadeUp(spread=0.02), whole).run()
    for kept in (0, 3, 4, 9, len(whole.added)):
        machine, rest = MadeUp(spread=0.02), Journal(whole.added[:kept])
        campaign(machine, rest).run()
        assert [*rest.kept, *rest.added] == whole.added
        # Of a boot that was half written down, its bench is there already.
        known = {finished.planned.boot for finished in rest.kept}
        assert sorted([*known, *rest.boots]) == whole.boots
        if kept == len(whole.added):
            assert machine.batches == []


def test_a_machine_that_fails_fails_its_trials_with_the_reason() -> None:
    journal = Journal()
    fate = lambda batch: "it was stopped" if batch.pc.nics == () and batch.boot == 1 else None  # noqa: E731
    campaign(MadeUp(fate=fate), journal).run()
    failed = [finished for finished in journal.added if finished.status == "failed"]
    assert failed and {finished.error for finished in failed} == {"it was stopped"}
    assert failed[0].console == ("last words",)


CUT = TEXT.replace('"50%", "100%"', '"25%", "50%", "100%"').replace(
    "blocks_per_boot = 2", "blocks_per_boot = 2\ntrials_per_boot = 4"
)
"""Three cells of two trials each in a boot that may have four."""


def test_a_round_of_many_cells_is_cut_into_boots() -> None:
    machine, journal = MadeUp(), Journal()
    asked = campaign(machine, journal, CUT)
    assert asked.run()
    # Two plots in three replicates, each cut in two: natively of two cells and of one.
    assert len(machine.batches) == 2 * 3 * 2 == expected_boots(asked.study, asked.design)[0]
    assert {len(batch.trials) for batch in machine.batches} == {2, 4}
    assert len({batch.pc.seed for batch in machine.batches}) == 12
    for batch in machine.batches:
        # All blocks of a cell stand in one boot.
        shares = [place.planned.cell["workloads.work.share"] for place in batch.places]
        assert all(shares.count(share) == 2 for share in shares)
    alone = {
        str(batch.places[0].planned.cell["workloads.work.share"])
        for batch in machine.batches
        if len(batch.trials) == 2
    }
    assert len(alone) > 1, "which cells stand together is drawn anew"


def test_a_lost_boot_costs_the_trials_of_one_part() -> None:
    journal = Journal()
    campaign(MadeUp(fate=lambda batch: "lost" if batch.boot == 0 else None), journal, CUT).run()
    assert sum(finished.status == "failed" for finished in journal.added) <= 4


def test_a_run_in_parts_goes_on_to_the_same_end() -> None:
    whole = Journal()
    campaign(MadeUp(spread=0.02), whole, CUT).run()
    for kept in (1, 5, 9):
        rest = Journal(whole.added[:kept])
        campaign(MadeUp(spread=0.02), rest, CUT).run()
        assert [*rest.kept, *rest.added] == whole.added


def test_without_a_limit_seeds_are_what_they_were() -> None:
    machine, roomy = MadeUp(), MadeUp()
    campaign(machine, Journal()).run()
    campaign(roomy, Journal(), TEXT + "trials_per_boot = 100\n").run()
    assert [b.pc.seed for b in machine.batches] == [b.pc.seed for b in roomy.batches]


class Watcher(Nobody):
    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int, float]] = []

    def boots(self, *seen: int) -> None:
        self.seen.append(seen)


def test_boots_are_counted_and_the_remaining_time_shrinks() -> None:
    watcher = Watcher()
    asked = campaign(MadeUp(spread=0.5), Journal())
    asked.observer = watcher
    assert asked.run()
    first = [seen for seen in watcher.seen if seen[1] == watcher.seen[0][1]]
    assert [done for done, *_ in first[:7]] == list(range(7))
    assert watcher.seen[0][1] == expected_boots(asked.study, asked.design)[0] == 2 * 3
    # Twelve boots of a second each at most, one at a time.
    assert [remaining for *_, remaining in first[1:7]] == [11, 10, 9, 8, 7, 6]
    assert watcher.seen[-1][3] == 0


def test_the_time_that_is_expected_follows_from_boots_and_jobs() -> None:
    asked = campaign(MadeUp(), Journal())
    least, most = expected_boots(asked.study, asked.design)
    assert (least, most) == (6, 12)
    one, four = (expected_boots_s(asked.study, asked.design, most, jobs) for jobs in (1, 4))
    assert one == 4 * four > 0


def test_a_cell_that_always_fails_is_given_up() -> None:
    journal = Journal()
    machine = MadeUp(fate=lambda batch: "it never ends")
    assert campaign(machine, journal).run()
    assert len(machine.batches) <= 8
    assert any("given up" in text for text in journal.events)


# --- platforms that need another PC

XEN = TEXT.replace("[workloads.work]", "[sut]\nplatforms = ['native', 'xen']\n[workloads.work]")


class BothWays(MadeUp):
    """Guests of Xen do half of the work."""

    def _records(self, batch: Batch) -> Iterator[Record]:
        for record in super()._records(batch):
            if isinstance(record, TaskResult) and batch.pc.profile == "xen":
                half = {**record.values, "loops": record.values["loops"] / 2}
                record = record.model_copy(update={"values": half})
            yield record


def test_a_block_pairs_trials_of_two_pcs() -> None:
    machine, journal = BothWays(), Journal()
    assert campaign(machine, journal, XEN).run()
    # Replicate by replicate, with both plots in each, and what takes longest first.
    turns = ["xen", "xen", "emulated", "emulated"]
    assert [batch.pc.profile for batch in machine.batches[:12]] == turns * 3
    pairs: dict[int, dict[str, FinishedTrial]] = {}
    for finished in journal.added:
        pairs.setdefault(finished.planned.block, {})[finished.planned.platform] = finished
    assert all(set(pair) == {"native", "xen"} for pair in pairs.values())
    for pair in pairs.values():
        assert pair["native"].planned.boot == pair["xen"].planned.boot
        assert pair["xen"].values["work_rate"] == pair["native"].values["work_rate"] / 2
    seeds = {}
    for batch in machine.batches:
        seeds.setdefault(batch.boot, set()).add(batch.pc.seed)
    assert all(len(of_boot) == 1 for of_boot in seeds.values())
    assert [finished.planned.id for finished in journal.added] == list(range(len(journal.added)))


def test_a_run_of_two_pcs_that_was_interrupted_goes_on_to_the_same_end() -> None:
    whole = Journal()
    campaign(BothWays(spread=0.02), whole, XEN).run()
    for kept in (1, 4, 5, 8, 11):
        rest = Journal(whole.added[:kept])
        reported = [f.planned.platform == "native" for f in whole.added[:kept]]
        benches = {(f.planned.boot, f.planned.platform) for f in rest.kept}
        rest.benches = lambda known=benches: iter([(boot, ()) for boot, _ in sorted(known)])  # type: ignore[method-assign]
        campaign(BothWays(spread=0.02), rest, XEN).run()
        assert [*rest.kept, *rest.added] == whole.added, reported
        assert len(benches) + len(rest.boots) == len(whole.boots)


def test_a_run_that_was_planned_otherwise_does_not_go_on() -> None:
    whole = Journal()
    campaign(BothWays(), whole, XEN).run()
    native = next(f for f in whole.added if f.planned.platform == "native")
    other = replace(native, planned=replace(native.planned, id=0))
    with pytest.raises(InputError, match="another version"):
        campaign(BothWays(), Journal([other]), XEN).run()


def test_one_pc_that_fails_leaves_the_other_s_trials() -> None:
    journal = Journal()
    fate = lambda batch: "no Xen here" if batch.pc.profile == "xen" else None  # noqa: E731
    assert campaign(BothWays(fate=fate), journal, XEN).run()
    assert {f.status for f in journal.added if f.planned.platform == "native"} == {"ok"}
    assert {f.error for f in journal.added if f.planned.platform == "xen"} == {"no Xen here"}


def test_both_pcs_count_in_what_a_run_takes() -> None:
    plain, both = campaign(MadeUp(), Journal()), campaign(MadeUp(), Journal(), XEN)
    least, most = expected_boots(plain.study, plain.design)
    assert expected_boots(both.study, both.design) == (2 * least, 2 * most)


PAGING = TEXT.replace(
    "[workloads.work]", "[sut]\nplatforms = ['native', 'guest']\n[workloads.work]"
).replace('"sut.nic" = ["e1000", "pcnet"]', '"sut.paging" = ["nested", "shadow"]')


def test_the_baseline_of_what_only_guests_know_of_is_one_machine() -> None:
    machine, journal = MadeUp(spread=0.5), Journal()
    asked = campaign(machine, journal, PAGING)
    assert asked.run()
    by_kind = {
        profile: [batch for batch in machine.batches if batch.pc.profile == profile]
        for profile in ("emulated", "kvm")
    }
    # Two plots of three boots each.
    assert [len(found) for found in by_kind.values()] == [6, 6]
    assert [len({one.machine for one in found}) for found in by_kind.values()] == [3, 6]
    assert len({batch.pc.seed for batch in machine.batches}) == 3
    # Both plots meet the same chance, in the same order.
    orders = [
        [(p.planned.cell["workload"], p.levels["workloads.work.share"]) for p in batch.places]
        for batch in by_kind["kvm"]
    ]
    assert all(orders.count(order) % 2 == 0 for order in orders)
    # What a PC is expected to be booted for is counted once.
    assert expected_boots(asked.study, asked.design) == (3 + 6, 6 + 12)
    assert len(journal.added) == 2 * 2 * 2 * 6


def test_the_baseline_of_what_it_does_know_of_is_not() -> None:
    machine = MadeUp()
    campaign(
        machine,
        Journal(),
        PAGING.replace('"sut.paging" = ["nested", "shadow"]', '"sut.nic" = ["e1000", "pcnet"]'),
    ).run()
    native = [batch for batch in machine.batches if batch.pc.profile == "emulated"]
    assert len({one.machine for one in native}) == len(native) > 4
