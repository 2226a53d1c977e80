"""`knobs.host_thp`: transparent huge pages of the machine below a guest."""

from __future__ import annotations

from hypertare.knobs.thp import kind_of

HOST_THP = kind_of("host_thp", "below", "host")
