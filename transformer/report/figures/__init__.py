"""Figures. A function of files and parameters returns a `style.Drawing` without pyplot's global state."""

# WCAG requires a contrast of 3 : 1 for lines. These are Okabe and Ito's colours with this contrast, then darker ones.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6A4CFF", "#7F0000", "#8A6D3B", "#000000")
