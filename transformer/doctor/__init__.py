"""Checks of a machine and of a Slurm cluster before a long run: each finding says what is wrong and how to fix it."""
