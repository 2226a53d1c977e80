"""Searches for the highest rate that a setting takes without loss."""
