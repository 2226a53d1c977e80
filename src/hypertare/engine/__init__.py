"""Runs blocks of trials on a machine and writes each trial down when it ends."""
