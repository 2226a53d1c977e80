"""Boots of emulated machines on the workers of a Dask cluster."""
