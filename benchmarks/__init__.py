"""Measurements of this project's speed beside its peers', on the same data, sizes and machine. See README.md."""
