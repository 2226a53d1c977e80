"""A Dask scheduler and workers on this host, each a process with a home and a cache of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.integration.lab import until

_KEPT = ("PATH", "LANG", "PYTHONPATH", "HYPERTARE_AGENT")
_PATIENCE_S = 60.0
_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")


class MadeCluster:
    """Use as a context manager; whatever it started is ended at its end."""

    def __init__(self, place: Path, mark: Mapping[str, str] | None = None) -> None:
        self.place = place
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._mark = dict(mark or {})
        self._scheduler: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MadeCluster:
        self.place.mkdir(parents=True, exist_ok=True)
        self._scheduler = self._start(
            "scheduler",
            "--host=127.0.0.1",
            "--port=0",
            "--no-dashboard",
            f"--scheduler-file={self._file}",
        )
        until(self._file.exists, "the scheduler", _PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all of it."""
        self.end()
        for process in self.workers.values():
            process.kill()
            process.wait()

    @property
    def _file(self) -> Path:
        return self.place / "scheduler.json"

    @property
    def address(self) -> str:
        address: str = json.loads(self._file.read_text())["address"]
        return address

    def home(self, name: str) -> Path:
        return self.place / name

    def cache(self, name: str) -> Path:
        return self.home(name) / ".cache" / "hypertare"

    def log(self, name: str) -> str:
        return (self.place / f"{name}.log").read_text(errors="replace")

    def add(self, name: str, *, preload: str | None = None) -> None:
        """A worker of one thread. `preload` is Python that it executes before it works."""
        more = []
        if preload is not None:
            script = self.place / f"{name}.py"
            script.write_text(preload)
            more = [f"--preload={script}"]
        self.workers[name] = self._start(
            "worker",
            *("--nthreads=1", "--no-nanny", "--no-dashboard", f"--name={name}"),
            *(f"--scheduler-file={self._file}", "--host=127.0.0.1", *more),
            name=name,
        )
        until(lambda: "Registered to" in self.log(name), f"worker {name}", _PATIENCE_S)

    def kill(self, name: str) -> None:
        self.workers[name].kill()
        self.workers[name].wait()

    def end(self) -> None:
        """Of the scheduler, as if its host had gone."""
        assert self._scheduler is not None
        self._scheduler.kill()
        self._scheduler.wait()

    def _start(self, kind: str, *options: str, name: str | None = None) -> subprocess.Popen[bytes]:
        home = self.home(name or kind)
        home.mkdir()
        kept = {key: os.environ[key] for key in _KEPT if key in os.environ}
        with (self.place / f"{name or kind}.log").open("wb") as log:
            return subprocess.Popen(
                # A test that is killed leaves none of them.
                [*_DIES_WITH_US, sys.executable, "-m", f"distributed.cli.dask_{kind}", *options],
                cwd=home,
                env={**kept, "HOME": str(home), "TMPDIR": str(home), **self._mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
