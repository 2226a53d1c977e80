"""Tuning: which settings win back what virtualisation costs, and whether they really do."""

FILE_NAME = "tune.json"
"""Of what a tuning found, in its directory."""

OVER_FILE = "over.json"
"""Of tunings of every level of a factor, in the directory of all of them."""
