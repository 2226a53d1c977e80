"""Changes this host's settings to what a bench needs, and back. The journal is written first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.machines.host import journal, kvm
from hypertare.machines.host.huge_pages import find_huge_pages, set_huge_pages
from hypertare.machines.host.needs import Needs
from hypertare.protocol.constants import HUGE_PAGE
from hypertare.protocol.plan import Paging

_GLANCE_S = 0.2

PUT_BACK = "hypertare doctor --put-back"
"""The command that puts back settings which no keeper looks after any more."""


class HostSettings:
    """Settings of a host that runs change, and put back. The journal's lock must be held."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.before = journal.read(host)

    def provide(self, needs: Needs) -> None:
        """Makes the host have what a bench needs; what that does not need is as it was.

        Raises:
            MachineError: it cannot be had.
        """
        self._provide_paging(needs.paging)
        self._provide_huge_pages(needs.huge_pages)

    def put_back(self, patience_s: float = 0.0) -> None:
        """Puts everything back, each thing whatever becomes of the others.

        Args:
            patience_s: how long to wait for guests that are about to end.

        Raises:
            MachineError: something is not as it was; the journal keeps how it was.
        """
        backs = (self._huge_pages_back, self._paging_back)
        failed = [self._patiently(back, patience_s) for back in backs]
        errors = [error for error in failed if error is not None]
        if errors:
            raise MachineError(
                "Putting this host's settings back as they were before the run went wrong. "
                + " ".join(error.what for error in errors),
                "\n".join(
                    [
                        *(error.do for error in errors if error.do),
                        f"When that is settled, as root: {PUT_BACK}",
                    ]
                ),
            )

    def _patiently(self, back: Callable[[], None], patience_s: float) -> MachineError | None:
        while True:
            try:
                back()
            except MachineError as error:
                if patience_s <= 0:
                    return error
            else:
                return None
            self.host.sleep(_GLANCE_S)
            patience_s -= _GLANCE_S

    def _provide_paging(self, paging: Paging | None) -> None:
        before = self.before.module
        if paging is None or (before is not None and before.paging == paging):
            self._paging_back()
            return
        module = kvm.find(self.host)
        if module is None:
            raise MachineError(
                f"{paging} page tables are not to be had: {kvm.why_missing(self.host)}."
            )
        if module.paging == paging:
            return
        kvm.check_free(self.host, module)
        if before is None:
            self._note(replace(self.before, module=kvm.State.of(self.host, module)))
        kvm.switch(self.host, module, paging)

    def _paging_back(self) -> None:
        if self.before.module is not None:
            kvm.put_back(self.host, self.before.module)
            self._note(replace(self.before, module=None))

    def _provide_huge_pages(self, count: int) -> None:
        if not count:
            self._huge_pages_back()
            return
        found = find_huge_pages(self.host)
        if found is None:
            raise MachineError("this host's kernel has no pages of 2 MB.")
        if found.free >= count:
            return
        if self.before.huge_pages is None:
            self._note(replace(self.before, huge_pages=found.total))
        set_huge_pages(self.host, found.total + count - found.free)
        got = find_huge_pages(self.host) or found
        if got.free < count:
            self._huge_pages_back()
            raise MachineError(
                f"of {count} pages of 2 MB ({human_size(count * HUGE_PAGE)}) the kernel found "
                f"{got.free}: memory lies in pieces.",
                "As root: echo 1 > /proc/sys/vm/compact_memory, or set them aside at boot with "
                f"hugepages={found.total + count} on the kernel's command line.",
            )

    def _huge_pages_back(self) -> None:
        total = self.before.huge_pages
        if total is None:
            return
        set_huge_pages(self.host, total)
        found = find_huge_pages(self.host)
        if found is not None and found.total != total:
            raise MachineError(
                f"{total} pages of 2 MB were set aside, and {found.total} are now: some are in use."
            )
        self._note(replace(self.before, huge_pages=None))

    def _note(self, before: journal.Before) -> None:
        journal.write(self.host, before)
        self.before = before
