"""The shipped test kit: check a store, an algorithm or an adapter against a simple model."""
