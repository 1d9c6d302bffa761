"""§3.5: the positional encoding."""

from transformer.files import InputError
from transformer.model.transformer import Transformer
from transformer.report.figures.style import COLUMN_INCHES, Drawing, new

SHOWN = 100  # positions


def positions(model: Transformer, run: str) -> Drawing:
    """Draw a heat map of what is added to the embeddings at the first positions. Raises InputError if nothing is."""
    if model.embedding.position_table is None:
        raise InputError(f"{run}: expected positions sinusoid, learned or words, found 'none'")
    table = model.embedding.position_table.detach().cpu().numpy()[:SHOWN]
    figure, axes = new(COLUMN_INCHES, 2.6)
    most = abs(table).max()
    # Purple and orange: colour-blind readers tell them apart, and from white, which is zero.
    image = axes.imshow(table, cmap="PuOr", vmin=-most, vmax=most, aspect="auto", interpolation="none")
    axes.set(xlabel="dimension", ylabel="position")
    figure.colorbar(image, ax=axes, label="added to the embedding")
    kind = "learned positions" if model.embedding.learned else "the sinusoids"
    caption = (
        f"Positional encoding (§3.5): {kind} of {run}, at the first {len(table)} positions in all {table.shape[1]} "
        "dimensions."
    )
    if not model.embedding.learned:
        caption += " To the left wavelengths are short and tell neighbours apart, to the right long."
    return Drawing(
        figure, caption, f"Heat map of {kind}, values from {table.min():.2f} to {table.max():.2f}.", {"run": run}
    )
