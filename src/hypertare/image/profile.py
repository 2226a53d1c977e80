"""What an initramfs is for, and so what it holds beside the agent."""

from __future__ import annotations

from dataclasses import dataclass

from hypertare.errors import InputError


@dataclass(frozen=True)
class Profile:
    """`required` modules must be there; of the `wanted` ones what the kernel offers is taken.

    `own` are the project's own modules (`kernel/`), built where that is possible. `programs` are
    those that a command finds there. With `guests`, the machine has guests of its own and holds what
    they boot from, whose initramfs is of that profile; with `xen` it is Xen's driver domain, and holds
    the tools, too.
    """

    name: str
    required: tuple[str, ...]
    wanted: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    guests: Profile | None = None
    xen: bool = False
    directories: tuple[str, ...] = ("dev", "host", "modules", "proc", "run", "sys", "tmp")


GUEST = Profile(
    name="guest",
    required=("virtio_pci", "virtio_console"),
    wanted=(
        *("virtio_net", "e1000", "e1000e", "vmxnet3", "8139cp", "8139too", "pcnet32"),
        *("9pnet_virtio", "9p", "overlay"),
        *("af_packet", "veth", "bridge"),
        *("pvpanic", "pvpanic_pci"),
    ),
    own=("hypertare_napi",),
)

EMULATED = Profile(
    name="emulated",
    required=("virtio_pci", "virtio_console"),
    wanted=(
        *("virtio_net", "e1000", "e1000e", "vmxnet3", "8139cp", "pcnet32"),
        *("af_packet", "veth", "bridge"),
    ),
    own=("hypertare_napi",),
    programs=("hypertare-agent",),
)
"""A whole PC that carries out a plan by itself; the plan comes as a second archive."""

DOMAIN = Profile(name="domain", required=("xen_netfront",), wanted=("af_packet", "veth", "bridge"))
"""A PV guest of Xen; its console is built in."""

XEN = Profile(
    name="xen",
    required=(
        *("virtio_pci", "virtio_console"),
        *("xen_evtchn", "xen_gntdev", "xen_gntalloc", "xen_privcmd", "xenfs", "xen_netback"),
        "bridge",
    ),
    wanted=EMULATED.wanted,
    guests=DOMAIN,
    xen=True,
)
"""The same PC under Xen, as its driver domain."""

NESTED = Profile(name="nested", required=("virtio_pci", "virtio_console"))
"""A guest of KVM on an emulated machine; it has no network."""

KVM = Profile(
    name="kvm",
    required=(*EMULATED.required, "kvm_amd"),
    wanted=EMULATED.wanted,
    own=EMULATED.own,
    programs=EMULATED.programs,
    guests=NESTED,
)
"""The same PC as a host of KVM, whose guests are of the agent's own VMM."""

PROFILES = {profile.name: profile for profile in (GUEST, EMULATED, XEN, KVM)}


def find_profile(name: str) -> Profile:
    """The profile of this name.

    Raises:
        InputError: there is none.
    """
    if name not in PROFILES:
        raise InputError(
            f"There is no image profile {name!r}.", f"Choose from: {', '.join(PROFILES)}."
        )
    return PROFILES[name]
