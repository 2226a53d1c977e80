"""How a run ends: by itself, by Ctrl-C, or because its machine is gone. What it has is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypertare.base import interrupt
from hypertare.base.errors import writing
from hypertare.machines.host.settings_lease import NotPutBackError
from hypertare.machines.steps import AgentError
from hypertare.runs.store import INTERRUPTED, Store

if TYPE_CHECKING:
    from hypertare.runs.summary import Summary


@dataclass
class Ending:
    """How a run ended; `left` says which settings of this host could not be put back."""

    complete: bool = False
    interrupted: bool = False
    left: NotPutBackError | None = None


@contextmanager
def ending(store: Store, what: str, goes_on: str, kept: str) -> Iterator[Ending]:
    """Catches the exceptions that end a run early, and notes in the run's file how it ended.

    Ctrl-C, and settings of this host that could not be put back, end the block without an exception and
    are noted, so that the caller can sum up first. The block sets `complete` if nothing that was planned
    is missing.

    Args:
        store: the run's file.
        what: the run, in a sentence.
        goes_on: the command that goes on with it.
        kept: what follows `Every trial before is kept: ` when the agent is gone.

    Raises:
        AgentError: the agent is gone; it says what can be done with what there is.
    """
    end = Ending()
    try:
        yield end
    except KeyboardInterrupt:
        end.interrupted = True
        interrupt.heard()
        store.add_event(f"{what}{INTERRUPTED}{goes_on}` goes on with it")
    except NotPutBackError as error:
        end.left = error
        store.add_event(str(error))
    except AgentError as error:
        raise AgentError(error.what, f"Every trial before is kept: {kept}") from error
    finally:
        store.ended(end.complete)


@dataclass(frozen=True)
class Ended:
    """A run with its file written and summed up. `interrupted`: Ctrl-C ended it."""

    summary: Summary
    interrupted: bool


def sum_up(store: Store, folder: Path) -> Summary:
    """Writes `summary.json`, of an interrupted run too."""
    # A start need not wait for what only an end needs.
    from hypertare.findings.summarise import summarise

    summary = summarise(store)
    with writing(folder):
        (folder / "summary.json").write_text(summary.model_dump_json(indent=2) + "\n")
    return summary
