"""Benchmarks of this project against its peers, with equal data, model sizes and hardware. See README.md."""
