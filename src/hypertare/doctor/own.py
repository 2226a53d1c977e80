"""hypertare's own parts: the agent, the image, room for them; and KVM, which needs both to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypertare.base.errors import HypertareError
from hypertare.base.host_files import Host
from hypertare.base.paths import agent_binary
from hypertare.doctor.finding import Said
from hypertare.machines.host import settings
from hypertare.machines.host.keeper import PUT_BACK, left_behind
from hypertare.machines.host.kvm import best_accelerator, without_boot

if TYPE_CHECKING:
    from hypertare.machines.image.build import Image

_ROOM = 1 << 30
_BUILD = "hypertare image build"


def agent(host: Host) -> Said:
    """The agent does all work on the bench."""
    try:
        binary = agent_binary()
    except HypertareError as error:
        return Said("bad", error.what, error.do)
    ran = host.run((str(binary), "--version"), 10.0)
    if ran.ok:
        return Said("ok", f"{ran.out.strip()} ({binary})")
    return Said("bad", f"{binary} does not run: {ran.said}", "cargo build --release")


def image(host: Host) -> Said:
    """A kernel and an initramfs for guests."""
    try:
        found = cached_image(host)
    except HypertareError as error:
        return Said("bad", error.what, error.do)
    if found:
        return Said("ok", f"kernel {found.kernel_name} and its initramfs are cached")
    return Said("info", "no guest image is cached yet: the first run fetches a kernel", _BUILD)


def emulator(host: Host) -> Said:
    """What virtual time is made with."""
    from hypertare.machines.image.cache import Cache
    from hypertare.machines.image.emulator import AGAIN, find

    try:
        found = find(Cache(host.cache))
    except HypertareError as error:
        what = (
            f"{error.what.partition(chr(10))[0]} In virtual time a machine has one CPU, of the "
            "distribution's QEMU"
        )
        return Said("warn", what, error.do)
    if found:
        return Said("ok", "built: in virtual time a machine has up to 8 CPUs")
    return Said(
        "info", "not built yet: the first run in virtual time does it, in some four minutes", AGAIN
    )


def disk(host: Host) -> Said:
    """Room for kernels and runs."""
    free = host.free_bytes(host.cache)
    what = f"{free / 2**30:.1f} GiB are free for the cache in {host.cache}"
    if free >= _ROOM:
        return Said("ok", what)
    do = "hypertare image gc --all, or name another directory with HYPERTARE_CACHE"
    return Said("warn", f"{what}; a kernel's package needs 0.5 GiB", do)


def kvm(host: Host) -> Said:
    """Guests at full speed."""
    choice = without_boot(host)
    if choice is None:
        try:
            found, binary = cached_image(host), agent_binary()
        except HypertareError as error:
            return Said("info", f"not tried: {error.what}", error.do)
        if found is None:
            return Said("info", "not tried: no guest image is cached yet", _BUILD)
        choice = best_accelerator(found, binary, host)
    if choice.accelerator == "kvm":
        return Said("ok", choice.reason)
    what = f"{choice.reason}; guests are emulated (tcg), many times slower"
    return Said("warn", what, choice.do)


def host_settings(host: Host) -> Said:
    """Whether runs that were killed have left settings of this host changed."""
    try:
        left = left_behind(host)
    except HypertareError as error:
        return Said("warn", error.what, error.do)
    if left:
        what = f"a run that was killed has left this host changed: {'; '.join(left)}"
        return Said("warn", what, f"as root: {PUT_BACK}")
    if settings.is_held(host):
        return Said("info", "a run has changed settings of this host, for its time")
    return Said("ok", "no run has left a setting of this host changed")


def cached_image(host: Host) -> Image | None:
    """The default image when it is ready; makes nothing.

    Raises:
        HypertareError: there is no agent to make it of.
    """
    from hypertare.machines.image.build import ready
    from hypertare.machines.image.cache import Cache

    return ready(Cache(host.cache))
