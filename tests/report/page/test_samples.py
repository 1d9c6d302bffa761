"""Sentences that are shown."""

from pathlib import Path

from transformer.report.page.samples import Sample, choose, sample_parses


def chosen(scores: list[float], most: int) -> dict[str, list[int]]:
    sentences = [Sample(place, score, "", "", "") for place, score in enumerate(scores)]
    return {kind: [sample.line for sample in samples] for kind, samples in choose(sentences, most).items()}


def test_samples_are_the_best_the_worst_and_others():
    scores = [50.0, 90.0, 10.0, 90.0, 70.0, 10.0, 60.0]
    samples = chosen(scores, 2)
    assert (samples["best"], samples["worst"]) == ([1, 3], [2, 5])
    assert len(samples["random"]) == 2
    assert set(samples["random"]) < {0, 4, 6}
    assert chosen(scores, 2) == samples
    assert chosen([1.0, 2.0], 2) == {"best": [1, 0], "worst": [], "random": []}


def test_parses_are_ranked_by_their_brackets(tmp_path: Path):
    """Line 1: S of three brackets each is right, 2 · 1 / 6. Line 2: all. Line 3: no tree."""
    gold = "(S (NP (DT A) (NN dog)) (VP (VBZ sleeps)))"
    (tmp_path / "gold").write_text(f"{gold}\n{gold}\n{gold}\n")
    (tmp_path / "ours").write_text(f"(S (NP (DT A)) (VP (NN dog) (VBZ sleeps)))\n{gold}\n\n")
    kinds = sample_parses("run", tmp_path / "ours", tmp_path / "gold", 1).kinds
    ranked = [(sample.line, round(sample.score, 1)) for samples in kinds.values() for sample in samples]
    assert ranked == [(2, 100.0), (3, 0.0), (1, 33.3)]
    assert kinds["best"][0].ours == "(S\n  (NP (DT A) (NN dog))\n  (VP (VBZ sleeps)))"
