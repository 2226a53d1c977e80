"""A trial_runner of batches on a machine that is made up: seeds, numbers, and what is not run again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypertare.design.trials import Ask, FinishedTrial
from hypertare.engine.batch_backend import BatchBackend
from hypertare.engine.trial_recorder import TrialRecorder
from hypertare.engine.trial_runner import Asking, TrialRunner
from hypertare.machines.batch import Batch
from hypertare.protocol.records import Record, TrialEnd
from hypertare.study import StudyFile
from tests.engine.test_waves import ON, TEXT, Journal, MadeUp, Nobody

PLAIN = TEXT.replace("[factors]", "[spare]").split("[spare]")[0]
COMMAND = PLAIN.replace('type = "burn"', 'type = "command"\ncommand = ["true"]')
HALF = Ask({"workloads.work.share": "50%"}, {"share": "50%"})
WHOLE = Ask({}, {"share": "100%"})
GONE = Ask({"workloads.work.prepare": "halt"}, {"prepare": "halt"})
OTHER = Ask({"sut.nic": "pcnet"}, {"nic": "pcnet"})


def trial_runner(machine: MadeUp, journal: Journal, text: str = PLAIN) -> TrialRunner:
    recorder = TrialRecorder(StudyFile(text, "tiny.toml"), journal, Nobody())
    asking = Asking("work", "native", recorder, ON, 1)
    return BatchBackend(asking, machine, clock=lambda: 0.0)


def rates(answers: list[FinishedTrial]) -> list[float]:
    return [answer.values["work_rate"] for answer in answers]


def test_answers_stand_in_the_order_of_the_asks() -> None:
    machine, journal = MadeUp(), Journal()
    with trial_runner(machine, journal) as lab:
        (answers,) = lab.blocks([[HALF, WHOLE, OTHER]])
    assert [a.planned.cell for a in answers] == [
        {"workload": "work", **ask.cell} for ask in (HALF, WHOLE, OTHER)
    ]
    assert [finished.planned.id for finished in journal.added] == [0, 1, 2]
    half, whole, other = (a.planned.boot for a in answers)
    assert half == whole != other, "who needs another machine has one"
    assert lab.trials == 3 and len(machine.batches) == 2


def test_a_block_has_as_few_boots_as_hold_it_and_they_are_alike_in_size() -> None:
    machine = MadeUp()
    with trial_runner(machine, Journal()) as lab:
        lab.block([HALF, WHOLE] * 2)
    assert [len(batch.places) for batch in machine.batches] == [2, 2]
    one_each = PLAIN + "[design]\nblocks_per_boot = 1\ntrials_per_boot = 1\n"
    with trial_runner(alone := MadeUp(), Journal(), one_each) as lab:
        lab.block([HALF, WHOLE] * 2)
    assert [len(batch.places) for batch in alone.batches] == [1] * 4


def test_a_block_shares_its_seed_and_the_next_has_another() -> None:
    machine = MadeUp(spread=0.5)
    with trial_runner(machine, Journal()) as lab:
        one, two = lab.blocks([[WHOLE, OTHER], [WHOLE]])
    assert rates(one)[0] == rates(one)[1] != rates(two)[0]
    assert one[0].planned.boot != one[1].planned.boot


def test_blocks_at_once_are_the_same_as_one_by_one() -> None:
    together, alone = Journal(), Journal()
    with trial_runner(MadeUp(spread=0.5), together) as lab:
        lab.blocks([[HALF, WHOLE]] * 3)
    with trial_runner(MadeUp(spread=0.5), alone) as lab:
        for _ in range(3):
            lab.block([HALF, WHOLE])
    assert together.added == alone.added


def test_a_boot_that_fails_is_an_answer() -> None:
    machine, journal = MadeUp(fate=lambda batch: "no KVM on Mars"), Journal()
    with trial_runner(machine, journal) as lab:
        (answer,) = lab.block([WHOLE])
    assert (answer.status, answer.error) == ("failed", "no KVM on Mars")
    assert answer.console == ("last words",)


def test_trials_of_searches_share_no_boot() -> None:
    """What one finds does not depend on which others run beside it."""
    machine = MadeUp(spread=0.5)
    asks = [replace(ask, replicate=number) for ask, number in ((HALF, 0), (WHOLE, 0), (WHOLE, 1))]
    with trial_runner(machine, Journal()) as lab:
        half, whole, other = rates(lab.block(asks, "search"))
    assert [len(batch.places) for batch in machine.batches] == [1, 1, 1]
    assert half == whole != other


def test_of_a_boot_that_is_lost_each_trial_is_measured_alone() -> None:
    """Only the setting that ends its machine fails, and nothing of the boot that it spoilt is recorded."""

    def fate(batch: Batch) -> str | None:
        shares = [place.levels.get("workloads.work.share") for place in batch.places]
        return "the machine stopped" if "50%" in shares else None

    machine, journal = MadeUp(spread=0.5, fate=fate), Journal()
    with trial_runner(machine, journal) as lab:
        half, whole = lab.block([HALF, WHOLE])
        (after,) = lab.block([WHOLE])
    assert (half.status, half.error) == ("failed", "the machine stopped")
    assert whole.status == after.status == "ok"
    assert half.planned.block == whole.planned.block != after.planned.block
    assert [len(batch.places) for batch in machine.batches] == [2, 1, 1, 1]
    assert [finished.planned.id for finished in journal.added] == [2, 3, 4]
    seeds = [batch.pc.seed for batch in machine.batches]
    assert seeds[0] == seeds[1] == seeds[2] != seeds[3]


class Fragile(MadeUp):
    """Its guest is gone after a trial of half the share, and the host goes on."""

    def _records(self, batch: Batch) -> Iterator[Record]:
        gone = False
        for record in super()._records(batch):
            if isinstance(record, TrialEnd):
                place = batch.places[record.trial]
                if gone:
                    record = TrialEnd(trial=record.trial, t_s=2, elapsed_s=1, error="it is gone")
                elif {"50%", "halt"} & set(place.levels.values()):
                    gone = True
                    record = TrialEnd(
                        trial=record.trial, t_s=2, elapsed_s=1, error="it ended", lost="g"
                    )
            yield record


def test_a_guest_that_is_lost_spoils_none_of_the_trials_after_it() -> None:
    journal = Journal()
    with trial_runner(Fragile(), journal) as lab:
        answers = lab.blocks([[HALF, WHOLE]] * 4)
    assert {(half.error, whole.error) for half, whole in answers} == {("it ended", None)}
    assert journal.events and all("measured again by itself" in text for text in journal.events)


def test_a_boot_that_ends_in_its_last_trial_is_measured_again_too() -> None:
    """Those before it may have used up the time of all."""

    class Slow(MadeUp):
        def _records(self, batch: Batch) -> Iterator[Record]:
            records = list(super()._records(batch))
            return iter(records[:-2] if len(batch.places) > 1 else records)

    machine, journal = Slow(spread=0.5), Journal()
    with trial_runner(machine, journal) as lab:
        answers = lab.block([HALF, WHOLE])
    assert {answer.status for answer in answers} == {"ok"}
    assert [len(batch.places) for batch in machine.batches] == [2, 1, 1]


def test_a_trial_that_is_alone_in_its_boot_is_not_measured_again() -> None:
    machine, journal = Fragile(), Journal()
    with trial_runner(machine, journal, COMMAND) as lab:
        lab.blocks([[GONE]], apart=True)
    assert len(machine.batches) == 1 and not journal.events


def test_a_run_that_is_interrupted_after_a_loss_goes_on_as_it_would_have() -> None:
    """Blocks are recorded in their order, so that the one that is taken anew is the last."""
    asks = [[HALF, WHOLE]] * 3
    first = Journal()
    with trial_runner(Fragile(spread=0.5), first) as lab:
        whole = [rates(block[1:]) for block in lab.blocks(asks)]
    numbers = [finished.planned.block for finished in first.added]
    assert numbers == sorted(numbers) and len(numbers) == 6
    for kept in range(6):
        with trial_runner(Fragile(spread=0.5), Journal(first.added[:kept])) as lab:
            assert [rates(block[1:]) for block in lab.blocks(asks)] == whole, kept


def test_where_blocks_are_apart_every_trial_is_the_first_of_its_boot() -> None:
    machine = MadeUp(spread=0.5)
    with trial_runner(machine, Journal()) as lab:
        half, whole = lab.blocks([[HALF, WHOLE]], apart=True)[0]
    assert [len(batch.places) for batch in machine.batches] == [1, 1]
    assert rates([half]) == rates([whole])


def test_who_needs_another_number_of_guests_has_another_machine() -> None:
    machine = MadeUp()
    text = PLAIN.replace(
        'machine = "emulated"', 'machine = "emulated"\n[sut]\nplatforms = ["native", "container"]'
    )
    with trial_runner(machine, Journal(), text) as lab:
        lab.block([Ask({"sut.guests": guests}, {"guests": guests}) for guests in (1, 2, 1)])
    assert sorted(len(batch.places) for batch in machine.batches) == [1, 2]


def test_what_an_interrupted_run_left_is_not_measured_again() -> None:
    """The block that was under way is taken anew, with the seed that it had."""
    first = Journal()
    with trial_runner(MadeUp(spread=0.5), first) as lab:
        whole = [lab.block([HALF, WHOLE]) for _ in range(3)]
    machine, again = MadeUp(spread=0.5), Journal(first.added[:-1])
    with trial_runner(machine, again) as lab:
        resumed = [lab.block([HALF, WHOLE]) for _ in range(3)]
    assert len(machine.batches) == 1
    assert [rates(block) for block in resumed] == [rates(block) for block in whole]
    ids = [finished.planned.id for finished in again.kept + again.added]
    assert len(set(ids)) == len(ids) == 7


def test_warm_ups_of_commands_share_the_boot() -> None:
    machine, journal = MadeUp(), Journal()
    with trial_runner(machine, journal, COMMAND) as lab:
        other = Ask({"workloads.work.prepare": "sync"}, {"prepare": "sync"})
        (answer, _) = lab.block([WHOLE, other])
    assert lab.trials == 2, "a budget is of trials that were asked for"
    kinds = ["warmup", "warmup", "measured", "measured"]
    assert [f.planned.kind for f in journal.added] == kinds
    assert answer.planned.kind == "measured" and len(machine.batches) == 1
    warmups = [replace(f.planned, id=0) for f in journal.added[:2]]
    assert replace(answer.planned, id=0, kind="warmup") in warmups and warmups[0] != warmups[1]
