"""The papers' experiments: data, contestants, what is measured, the papers' figures, tables and page."""
