"""Kinds of machine that experiments run on, as a study sees them."""
