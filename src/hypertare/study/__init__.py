"""A study: a question, and everything needed to answer it. Read from TOML; no I/O but that."""

from hypertare.platforms.registry import BASELINE
from hypertare.study.bench import BenchSettings
from hypertare.study.builtin import builtin_folder, builtin_names, find
from hypertare.study.design import DesignSettings
from hypertare.study.emulated import LEAST_EMULATED, Emulated
from hypertare.study.factors import combinations
from hypertare.study.file import StudyFile, put
from hypertare.study.study import Study
from hypertare.study.sut import (
    LEAST_DRIVER_DOMAIN,
    MOST_GUESTS,
    OF_GUESTS,
    Network,
    Sut,
)

__all__ = [
    "BASELINE",
    "LEAST_DRIVER_DOMAIN",
    "LEAST_EMULATED",
    "MOST_GUESTS",
    "OF_GUESTS",
    "BenchSettings",
    "DesignSettings",
    "Emulated",
    "Network",
    "Study",
    "StudyFile",
    "Sut",
    "builtin_folder",
    "builtin_names",
    "combinations",
    "find",
    "put",
]
