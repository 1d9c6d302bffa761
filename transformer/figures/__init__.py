"""Figures, drawn without pyplot's state: a module each, and style.py for what they share."""
