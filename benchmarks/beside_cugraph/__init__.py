"""Measurements beside cuGraph; they need RAPIDS."""
