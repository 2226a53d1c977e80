"""Platforms: how the system under test runs."""
