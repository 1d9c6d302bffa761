"""Benchmarks of this project and its peers on the same data, model sizes and machine. See README.md."""
