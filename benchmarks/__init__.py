"""The laboratory: measurements of parts, of papers, and beside cuGraph; run from the checkout's root.

``python -m benchmarks.papers --help``. It measures with :mod:`dynstore.bench`. No wheel has it.
"""
