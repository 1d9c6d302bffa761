"""Figures, drawn without pyplot's state: modules by subject, and style.py for what they share.

A figure is a function of its files and its parameters, two namespaces, that returns a `style.Drawing`.
"""

# 3 : 1 against white at least, as WCAG asks of lines: of Okabe and Ito's those that have it, then darker ones.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6A4CFF", "#7F0000", "#8A6D3B", "#000000")
