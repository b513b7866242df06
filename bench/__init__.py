"""The benchmarks of Toolscout: `python -m bench` runs them all and writes one report."""
