"""Draw curves.svg: dev curves of each setting that was tried, over the target tokens that it had learned from.

python results/record/multi30k/tried/curves.py
"""

import json
from pathlib import Path
from statistics import fmean

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "tried", "font.size": 8}
from matplotlib import pyplot  # noqa: E402, as the backend has to be chosen first

HERE = Path(__file__).parent
RUNS = HERE.parent / "runs/en-de"
OTHER = "text-lower-case"  # scored against other references
COLORS = ("#D55E00", "#009E73", "#CC79A7", "#6A4CFF", "#7F0000", "#8A6D3B")


def main() -> None:
    figure, (base, big) = pyplot.subplots(1, 2, figsize=(10, 4.2), width_ratios=[3, 2], layout="constrained")
    for axes in (base, big):  # a colour for two settings, the second dashed
        axes.set_prop_cycle(matplotlib.cycler(linestyle=("-", "--")) * matplotlib.cycler(color=COLORS))
    tried = sorted(path.parent for path in HERE.glob("*/metrics.jsonl"))
    for folder in [RUNS / "base/1", *tried]:
        if folder.name != OTHER and not folder.name.startswith("big"):
            draw(base, folder, "dev_bleu")
    for folder in [RUNS / "base/1", RUNS / "big/1", *tried]:
        if folder.name.startswith("big") or (folder.parent.parent == RUNS and folder.exists()):
            draw(big, folder, "dev_perplexity")
    base.set(title="base", ylabel="dev BLEU of one checkpoint, beam 1, 200 sentences", ylim=(25, None))
    big.set(title="big", ylabel="dev perplexity", ylim=(5.2, 8))
    for axes in (base, big):
        axes.set_xlabel("target tokens")
        axes.xaxis.set_major_formatter(lambda tokens, _: f"{tokens / 1e6:g} M")
        axes.legend(fontsize=7)
        axes.grid(True)
    figure.savefig(HERE / "curves.svg", metadata={"Date": None})


def draw(axes: pyplot.Axes, folder: Path, measure: str) -> None:
    """Draw a run's curve; those of the record, which were chosen, are thick."""
    chosen = HERE not in folder.parents
    label = f"chosen ({folder.parent.name})" if chosen else folder.name.replace("-", " ")
    label = label.replace("vocabulary 10000 ", "10,000 subwords, ").replace(" batch", ", batch")
    look = (
        {"lw": 2, "color": "black", "ls": "-"}
        if chosen and folder.parent.name == "base"
        else {"lw": 2 if chosen else 1}
    )
    axes.plot(*curve(folder / "metrics.jsonl", measure), label=label, **look)


def curve(path: Path, measure: str) -> tuple[list[float], list[float]]:
    """Return the target tokens and a dev measure of a log; a step counts as the mean batch that was logged."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    batch = fmean(line["batch_target_tokens"] for line in lines if "batch_target_tokens" in line)
    evaluated = [line for line in lines if measure in line]
    return [line["step"] * batch for line in evaluated], [line[measure] for line in evaluated]


if __name__ == "__main__":
    main()
