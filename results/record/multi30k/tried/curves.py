"""Draw curves.svg: dev BLEU of each setting that was tried, over the target tokens that it had learned from.

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
RECORDED = HERE.parent / "runs/en-de/base/1"  # what was chosen
OTHER = "text-lower-case"  # scored against other references


def main() -> None:
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for folder in [RECORDED, *sorted(path.parent for path in HERE.glob("*/metrics.jsonl"))]:
        if folder.name != OTHER:
            chosen = folder == RECORDED
            axes.plot(
                *curve(folder / "metrics.jsonl"), lw=2 if chosen else 0.8, label="chosen" if chosen else folder.name
            )
    axes.set(xlabel="target tokens", ylabel="dev BLEU of one checkpoint, beam 1, 200 sentences", ylim=(25, None))
    axes.xaxis.set_major_formatter(lambda tokens, _: f"{tokens / 1e6:g} M")
    axes.legend()
    axes.grid(True)
    figure.savefig(HERE / "curves.svg", metadata={"Date": None})


def curve(path: Path) -> tuple[list[float], list[float]]:
    """Return the target tokens and dev BLEU of a log; a step counts as the mean batch that was logged."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    batch = fmean(line["batch_target_tokens"] for line in lines if "batch_target_tokens" in line)
    evaluated = [line for line in lines if "dev_bleu" in line]
    return [line["step"] * batch for line in evaluated], [line["dev_bleu"] for line in evaluated]


if __name__ == "__main__":
    main()
