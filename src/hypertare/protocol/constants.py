"""What both sides have to know and neither decides alone.

Made from `schema/` by `python -m tests.protocol`: change `crates/plan`, not this.
"""

from __future__ import annotations

PROTOCOL = 1
"""Version of the protocol. Both sides refuse a partner that speaks another one."""

MAX_LINE = 1048576
"""Longest line of a plan and of records, in bytes, newline included. What a guest sends is
untrusted, so every reader enforces this: a longer line fails the node that sent it.
"""

MAX_TRIAL_BYTES = 67108864
"""Most bytes of records that one node may send during one trial. More fails the trial."""

MAX_OUTPUT = 65536
"""Bytes kept of a command's standard output and of its standard error: the last ones."""

MAX_CONSOLE_LINES = 40
"""Lines kept of a guest's console: the last ones."""

HUGE_PAGE = 2097152
"""Bytes of a page of `2M`."""

MOST_NICS = 184
"""NICs of an emulated PC: eight functions of each of its 23 free slots."""

LEAST_DOMAIN_MEMORY = 117440512
"""Bytes with which a guest of Xen boots, with an initramfs of the size of ours."""

REFUSED = 3
"""Exit status of an agent that may not have the user namespaces that it needs."""

AGENT_PREFIX = "hypertare-agent: "
"""How everything begins that an agent prints for people."""

CONSOLE_PREFIX = "hypertare: "
"""How everything begins that an agent prints on a guest's console."""

RUN_FILE = "run.sqlite"
"""File of a run, in the run's directory."""

RUN_APPLICATION = 1952543333
"""By which SQLite's header says that a file is one of a run ("tare")."""

PLAN_FILE = "/plan.jsonl"
"""The plan that an emulated machine finds in its initramfs."""

VIRTIOFSD = "/usr/lib/qemu/virtiofsd"
"""What serves a guest's files by virtiofs, where Debian's qemu-system-common has it."""

MODULES_DIRECTORY = "/modules"
"""Where kernel modules and their index are in an initramfs."""

MODULES_PARAMETER = "hypertare.modules="
"""Parameter of the kernel's command line: the modules to load, separated by commas."""

SEED_PARAMETER = "hypertare.seed="
"""Parameter: what the kernel's random numbers of an emulated machine start from."""

NAPI_MODULE = "hypertare_napi"
"""The project's own kernel module, which sets NAPI weights."""

NAPI_WEIGHT_FILE = "/sys/module/hypertare_napi/parameters/weight"
"""File in which this module has its weight."""

XEN_RELEASE = "4.17"
"""Release of Xen whose programs an image holds."""

XEN_VIF_SCRIPT = "/xen/vif"
"""Script of an image that joins the interface of a guest of Xen."""

XEN_BLOCK_SCRIPT = "/xen/block"
"""Script of an image that says on which device the disk of a guest of Xen stands."""
