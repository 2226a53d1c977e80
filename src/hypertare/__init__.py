"""hypertare weighs virtualisation."""

__version__ = "0.1.0"
