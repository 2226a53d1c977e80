"""`power-cut`: what it asks of an agent, what is made of its records, and what is refused."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.design import pc, planner
from hypertare.design.design import make
from hypertare.protocol import plan
from hypertare.study import StudyFile
from hypertare.workloads import responses
from tests.made_guests import result

STUDY = """
name = "cut"
question = "?"
machine = "{machine}"
[sut]
platforms = {platforms}
memory = "192M"
{sut}
[workloads.cut]
type = "power-cut"
{keys}
"""


def study(
    keys: str = "",
    sut: str = "",
    machine: str = "emulated",
    platforms: str = '["native"]',
) -> StudyFile:
    text = STUDY.format(platforms=platforms, sut=sut, keys=keys, machine=machine)
    return StudyFile(text, "cut.toml")


def lives(file: StudyFile, seed: int, id: int) -> tuple[plan.Life, ...]:
    (plot,) = make(file.study(), 1).plots
    on = planner.MachineResources((0,), "kvm", {}, {}, chance=planner.Chance(seed))
    trial = planner.make_trial(id, file.study(), "cut", plot.variants[0], plot, on)
    return trial.phases[-1].lives


def test_each_trial_has_an_instant_of_its_own_that_the_seed_chooses() -> None:
    file = study(keys='within = "2s"\nspan = "1M"\njobs = 3')
    found = [lives(file, seed, id) for seed, id in ((1, 1), (1, 1), (1, 2), (2, 1))]
    ((first,), (again,), (other,), (elsewhere,)) = found
    assert first == again
    assert first.node == plan.Node(
        name="host-cut1",
        kind=plan.Host(),
        cpus=first.node.cpus,
        disk=plan.Disk(bytes=1 << 20, write_cache=True),
    )
    cuts = [life.power_cut for life in (first, other, elsewhere)]
    assert all(cut is not None and cut.writes.jobs == 3 for cut in cuts)
    instants = [cut.after_s for cut in cuts if cut is not None]
    assert len(set(instants)) == 3 and all(0.2 <= instant <= 2 for instant in instants)


def test_its_memory_is_counted_beforehand() -> None:
    sizes = [pc.memory(study(keys=f'span = "{span}M"').study()) for span in (4, 8)]
    # In the cache of the disk, and on it.
    assert sizes[1] - sizes[0] == 2 * 4 << 20


def test_figures_are_what_was_found_on_the_disk() -> None:
    reported = [result("cut", {"lost_blocks": 0.0, "durable_writes": 640.0, "restart_s": 4.0})]
    values = responses.measure("power-cut", "guest", ("guest1",), reported)
    assert values["lost_blocks"] == 0 and values["durable_writes"] == 640 and values["restart"] == 4


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("block = 1000", "a multiple of 512"),
        ('span = "6K"', "must be a multiple of 'block'"),
        ('span = "8K"', "two blocks or more for each of the 2 'jobs'"),
        ("jobs = 0", "jobs"),
        ("sync_every = 0", "sync_every"),
        ('within = "0s"', "within"),
    ],
)
def test_nonsense_is_refused(keys: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(keys).study()


def test_no_disk_of_this_host_has_its_power_cut() -> None:
    with pytest.raises(InputError, match="take machine = 'emulated'"):
        study(machine="local").study()
    with pytest.raises(InputError, match="that of xen is a block device"):
        study(sut='files = "9p"', platforms='["native", "guest", "xen"]').study()
    study(platforms='["native", "xen"]').study()


def test_what_loses_data_is_never_a_choice_of_a_tuning() -> None:
    keys = '[tune]\nknobs = { "sut.disk_cache" = ["none", "unsafe"] }'
    with pytest.raises(InputError, match="'unsafe' loses data in a power cut"):
        study(keys, platforms='["native", "guest"]').study()
    study(keys.replace("unsafe", "writeback"), platforms='["native", "guest"]').study()
