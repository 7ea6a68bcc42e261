"""Results as tables, pages and charts."""
