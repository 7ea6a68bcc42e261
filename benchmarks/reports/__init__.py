"""Kept results as pages."""
