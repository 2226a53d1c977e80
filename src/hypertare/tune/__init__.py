"""Tuning: which settings win back what virtualisation costs, and whether they really do."""
