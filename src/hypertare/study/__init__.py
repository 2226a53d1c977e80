"""A study: a question, and everything needed to answer it. Read from TOML; no I/O but that."""

from hypertare.platforms.registry import BASELINE as BASELINE
from hypertare.study.design import DesignSettings as DesignSettings
from hypertare.study.factors import combinations as combinations
from hypertare.study.file import StudyFile as StudyFile
from hypertare.study.file import builtin_folder as builtin_folder
from hypertare.study.file import builtin_names as builtin_names
from hypertare.study.file import find as find
from hypertare.study.file import put as put
from hypertare.study.study import Study as Study
