"""Loads what a run and a report load, for commands that are forked from here (`tests.commands`)."""

import gc
import importlib
import pkgutil

import hypertare
from hypertare.base import loading

# Threads do not survive a fork.
loading.have_one_blas_thread()

# The modules of extras bring what few commands need.
_OF_EXTRAS = ("hypertare.machines.cluster", "hypertare.tune")

for _found in pkgutil.walk_packages(hypertare.__path__, "hypertare."):
    if not _found.name.startswith(_OF_EXTRAS) and not _found.name.endswith("__main__"):
        importlib.import_module(_found.name)
# What the product loads late.
for _name in ("scipy.special", "scipy.optimize", "rich.progress", "rich.table", "zstandard"):
    importlib.import_module(_name)

gc.collect()
# A collection in the child would touch, and so copy, all of these.
gc.freeze()
