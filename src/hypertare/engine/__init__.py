"""Runs trials: blocks that somebody asks for, on a machine, written down as they end."""
