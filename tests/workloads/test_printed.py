"""Figures that commands print: the outputs are those of sysbench 1.0 and iperf3 3.12, shortened."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from hypertare.protocol.phase import PHASE, Phase
from hypertare.protocol.records import TaskResult
from hypertare.workloads.command import CommandSettings
from hypertare.workloads.printed import Printed
from tests.made_tasks import purpose_of

SYSBENCH = """Running the test with following options:
Number of threads: 1

CPU speed:
    events per second:  1234.56

General statistics:
    total time:                          2.0003s
"""
IPERF = json.dumps(
    {"end": {"streams": [{"udp": {"jitter_ms": 0.5}}], "sum_received": {"bits_per_second": 9.4e9}}}
)
# fio 3.33 in a guest, on its standard output.
FIO = "fio: cache invalidation of /dev/vda failed: Permission denied\n" + json.dumps(
    {"fio version": "fio-3.33", "jobs": [{"jobname": "job", "read": {"iops": 6123.5}}]}, indent=2
)


def found(text: str, stderr: str = "", **how: str) -> float:
    return Printed.model_validate(how).read({"stdout": text, "stderr": stderr})


@pytest.mark.parametrize(
    ("how", "text", "value"),
    [
        ({"find": r"events per second: +([0-9.]+)"}, SYSBENCH, 1234.56),
        ({"find": r"^\s*total time:\s+([0-9.]+)s"}, SYSBENCH, 2.0003),
        ({"find": r"\d+\.\d+"}, "a 1.5\nb 2.5\n", 2.5),
        ({"find": r"rate ([\d,.]+)"}, "rate 1,234,567.5 op/s", 1234567.5),
        ({"find": r"x=(\S+)"}, "x=-1.5e-3", -0.0015),
        ({"path": "end.sum_received.bits_per_second"}, IPERF, 9.4e9),
        ({"path": "end.streams.0.udp.jitter_ms"}, IPERF, 0.5),
        ({"path": "end.streams.-1.udp.jitter_ms"}, IPERF, 0.5),
        ({"path": "jobs.0.read.iops"}, FIO, 6123.5),
        ({"path": "ops"}, f"warming up\n{json.dumps({'ops': '12'})}\n", 12.0),
    ],
)
def test_a_figure_is_found(how: dict[str, str], text: str, value: float) -> None:
    assert found(text, **how) == value


def test_standard_error_is_read_where_standard_output_has_nothing() -> None:
    dd = "104857600 bytes (105 MB, 100 MiB) copied, 0.05 s, 2.1 GB/s"
    assert found("", dd, find=r"([0-9.]+) GB/s") == 2.1
    assert found("1.0 GB/s", dd, find=r"([0-9.]+) GB/s") == 1.0


@pytest.mark.parametrize(
    ("how", "text", "words"),
    [
        ({"find": "ops: ([0-9]+)"}, "ops/s: 3\nbye\n", "nothing that matches.*last line is: bye"),
        ({"find": "ops: ([0-9]+)"}, "", "it printed nothing"),
        ({"find": "ops: (.*)"}, "ops: many", "no number: many"),
        ({"find": "ops: (.*)"}, "ops: nan", "nothing can be compared with"),
        ({"find": "ops: (x)?"}, "ops: ", "no number"),
        ({"path": "end.sum"}, IPERF, "end has streams, sum_received"),
        ({"path": "end.streams.1"}, IPERF, "end.streams has a list of 1"),
        ({"path": "end.streams"}, IPERF, "no number"),
        ({"path": "end"}, "connect failed", "no JSON.*last line is: connect failed"),
        ({"path": "a"}, "[" * 50_000, "no JSON"),
        ({"path": "a"}, '{"a": true}', "no number: True"),
        ({"path": "a"}, '{"a": 1e999}', "nothing can be compared with"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(how: dict[str, str], text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        found(text, **how)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({}, "is found by 'find'"),
        ({"find": "a", "path": "b"}, "is found by 'find'"),
        ({"find": "("}, "no regular expression"),
        ({"find": "(a)(b)"}, "2 groups"),
        ({"path": ""}, "empty"),
        ({"find": "a", "name": "Two words"}, "pattern"),
        ({"find": "a", "unit": "b s"}, "pattern"),
    ],
)
def test_what_cannot_be_asked(how: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Printed.model_validate(how)


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ({"find": r"events per second:\s+([0-9.]+)"}, "events_per_second"),
        ({"find": r"([0-9.]+) GB/s"}, "value"),
        ({"path": "end.sum_received.bits_per_second"}, "bits_per_second"),
        ({"path": "end.streams.0"}, "streams"),
        ({"path": "elapsed"}, "printed_elapsed"),
        ({"find": "x(.)", "name": "transactions"}, "transactions"),
    ],
)
def test_its_name(how: dict[str, str], name: str) -> None:
    work = CommandSettings.model_validate({"type": "command", "command": "x", "value": how})
    assert work.headline == name
    assert work.responses[0].name == name


def test_of_guests_rates_add_up_and_times_do_not() -> None:
    def together(better: str) -> dict[str, float | None]:
        work = CommandSettings.model_validate(
            {"type": "command", "command": "x", "value": {"find": r"v=(\d+)", "better": better}}
        )
        return work.measure_asked(
            Phase.of(
                TaskResult(
                    node=f"guest{guest}",
                    trial=1,
                    phase=PHASE,
                    task=f"command.{guest}",
                    text={"stdout": f"v={10 * guest}"},
                    purpose=purpose_of(f"command.{guest}"),
                )
                for guest in (1, 2)
            )
        )

    assert together("higher") == {"v": 30.0}
    assert together("lower") == {"v": 15.0}
