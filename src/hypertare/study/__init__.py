"""A study: a question, and everything needed to answer it. Read from TOML; no I/O but that."""

from hypertare.platforms.registry import BASELINE
from hypertare.study.builtin import builtin_folder, builtin_names, find
from hypertare.study.design import DesignSettings
from hypertare.study.factors import combinations
from hypertare.study.file import StudyFile, put
from hypertare.study.study import Study

__all__ = [
    "BASELINE",
    "DesignSettings",
    "Study",
    "StudyFile",
    "builtin_folder",
    "builtin_names",
    "combinations",
    "find",
    "put",
]
