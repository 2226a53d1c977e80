"""The judgements of a study's claims, in one line."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.report.verdict import Sentence, Tone
from hypertare.runs.summary import JudgedClaim, Judgement

JUDGEMENT_TONES: dict[Judgement, Tone] = {
    "fails": "costs",
    "undecided": "unknown",
    "not judged": "unknown",
    "holds": "gains",
}
"""By judgement, the worst first."""


def of_claims(claims: Sequence[JudgedClaim]) -> Sentence | None:
    """For example: claims: 5 of 8 hold, 1 undecided, 2 not judged"""
    if not claims:
        return None
    judgements = [claim.judgement for claim in claims]
    others = (
        f"{judgements.count(one)} {'fail' if one == 'fails' else one}"
        for one in JUDGEMENT_TONES
        if one != "holds" and one in judgements
    )
    held = f"{judgements.count('holds')} of {len(claims)} hold"
    worst = next(one for one in JUDGEMENT_TONES if one in judgements)
    return Sentence(JUDGEMENT_TONES[worst], ", ".join((f"claims: {held}", *others)))
