"""What parts of the library cost, one measurement a module: ``python -m dynstore.benchmarks.costs.pins``."""
