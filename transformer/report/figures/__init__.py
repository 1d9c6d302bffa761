"""Figures: a function of files and parameters makes a `style.Drawing`, without pyplot's state."""

# 3 : 1 against white at least, as WCAG asks of lines: of Okabe and Ito's those that have it, then darker ones.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6A4CFF", "#7F0000", "#8A6D3B", "#000000")
