"""Counters that are read before and after the work of a trial."""
