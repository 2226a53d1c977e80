"""For every test."""

from hypothesis import settings

# How long an example takes says something about the machine's load, nothing about the code.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")
