"""What parts of the library cost, one measurement a module: ``python -m benchmarks.costs.pins``."""
