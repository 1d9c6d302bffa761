"""Figures, drawn without pyplot's state: modules by subject, and style.py for what they share.

A figure is a function of its files and its parameters, two namespaces, that returns a `style.Drawing`.
"""

FIGURES = {  # titles on the page, in its order
    "figure1": "Figure 1: the model",
    "figure2": "Figure 2: attention",
    "figure3": "Figure 3: attention over a long distance",
    "figure4": "Figure 4: attention and anaphora",
    "figure5": "Figure 5: attention and structure",
    "positions": "Positional encoding",
    "schedule": "Learning rate",
    "curves": "Learning curves",
    "bleu_parameters": "BLEU and parameters",
    "bleu_flops": "BLEU and the cost of training",
    "timing": "Time of a layer",
    "head_importance": "Heads: importance and distance",
    "bleu_length": "BLEU and sentence length",
}

# 3 : 1 against white at least, as WCAG asks of lines: of Okabe and Ito's those that have it, then darker ones.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6A4CFF", "#7F0000", "#8A6D3B", "#000000")
