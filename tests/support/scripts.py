"""Corpora of 200 lines from English to five languages in other scripts, made from the words of scripts.toml."""

import itertools
import random
import tomllib
from pathlib import Path

import yaml

from support.toy import write_text

WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LANGUAGES = [code for code in WORDS if code != "en"]
SPLITS = {"train": slice(160), "dev": slice(160, 200)}
BASE = {"N": 2, "steps": 160, "warmup_steps": 60, "source_tokens": 600, "target_tokens": 600, "checkpoint_every": 10}
SCALE = {"label": "five scripts", "width": 8, "depth": 2, "seeds": [1], "rows": ["base"], "base": BASE}
SCALE |= {"experiments": {}, "logging": {"evaluate_every": 80, "bleu_sentences": 10}}


def write_corpora(project: Path) -> Path:
    """Write the corpora and a configuration of one scale with a task for each. Return the configuration file."""
    places = list(itertools.product(*(range(len(part.split("|"))) for part in WORDS["en"][:4])))
    corpora, tasks = {}, {}
    for code in LANGUAGES:
        chosen = random.Random(code).sample(places, 200)
        names = {split: f"{code}-{split}" for split in SPLITS}
        for split, part in SPLITS.items():
            paths = {side: project / f"{names[split]}.{side}" for side in ("en", code)}
            for side, path in paths.items():
                write_text(path, [sentence(side, place) for place in chosen[part]])
            corpora[names[split]] = {"files": {side: {"path": path.name} for side, path in paths.items()}}
        sides = {"source": "en", "target": code, "vocabulary": 140, "embedding_rows": 140}
        tasks[f"en-{code}"] = sides | {"train": [names["train"]], "dev": names["dev"], "test": names["dev"]}
    config = {"corpora": corpora, "scales": {"scripts": SCALE | {"tasks": tasks}}}
    (project / "scripts.yaml").write_text(yaml.safe_dump(config, allow_unicode=True), encoding="utf-8")
    return project / "scripts.yaml"


def sentence(code: str, place: tuple[int, ...]) -> str:
    *parts, pattern = WORDS[code]
    return pattern.format(*(part.split("|")[number] for part, number in zip(parts, place, strict=True)))
