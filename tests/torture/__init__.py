"""Faults inflicted on real runs, at random moments that can be had again: see docs/torture.md."""
