"""Renews what is made of the agent's types: `schema/`, Python's side of the protocol, and the steps
that the agent's tests begin with.
"""

from __future__ import annotations

from tests.protocol import generator

if __name__ == "__main__":
    generator.renew()
    # Only now: what is imported here needs the types that were just written.
    from tests.protocol.test_protocol import PLANS, every_kind_of_step

    PLANS.write_text("".join(f"{line}\n" for line in every_kind_of_step()))
