"""Checks for what usually breaks a long run, made before it starts: each says what it found, and what mends it."""
