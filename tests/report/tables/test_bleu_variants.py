"""The table “Why is my BLEU not 27.3?” for translations with known errors, scored on hand-made tokens."""

import math
from pathlib import Path

import pytest
import sentencepiece
from support.scored import PLAIN, QUOTED, bleu, by_hand, make_table, notes_of, score, shown, write_scores
from support.toy import make_experiment

from transformer.config.experiment import save
from transformer.data.corpus import learn
from transformer.evaluation.bleu import paper_reference, paper_tokens, scores
from transformer.evaluation.significance import bleu_draws
from transformer.report.tables.bleu_variants import bleu_variants
from transformer.storage.files import sha256

TRAINED = ["en-de/base/1", "en-de/dropout-0.0/1", "en-de/smoothing-0.0/1"]


MEASURES = ["system,kind,choice,value", "first,ours,ours,29.82", "first,paper,the paper's measure,31.6"]
MEASURES += ["first,measure,sacreBLEU,29.8", "first,mistake,mistaken,28.5", "second,paper,the paper's measure,1"]


def with_errors(*numbers: int) -> list[str]:
    """Return translations with plain quotes, and a wrong word in the sentences of these numbers."""
    return [line.replace("heute", "nie") if n in numbers else line for n, line in enumerate(PLAIN)]


BASE = with_errors(*range(6))


class Folder:
    """A folder with all inputs of the table."""

    def __init__(self, path: Path):
        self.path, self.test, self.dev, self.hyps = path, [], [], []
        self.last, self.otherwise = [], []
        self.measures = self.write("measures.csv", MEASURES)
        self.ref = self.write("test.de", QUOTED)
        save(make_experiment(), path / "experiment.yaml")
        tokens = Path(self.write("tokens", [by_hand(line, "&quot;") for line in PLAIN]))
        learn([tokens], 60, 1000, path / "vocabulary.model")

    def write(self, name: str, lines: list[str]) -> str:
        (self.path / name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return str(self.path / name)

    def add_base(self, translations: list[str] = BASE, seed: int = 1, **content) -> None:
        """Add a seed's translations of the test set, and their score."""
        hyp = self.write(f"{seed}.hyp", translations)
        sums = {"hyp_sha256": sha256(hyp), "ref_sha256": sha256(self.ref)}
        draws = bleu_draws(paper_tokens(translations, "de"), paper_reference(QUOTED, "de"))
        measured = {"scores": scores(translations, QUOTED, "de"), "draws": draws, "subsets": {}}
        self.test.append(score(0.0, seed=seed) | measured | sums | content)
        self.hyps.append(hyp)

    def add_training(self, experiment: str, *bleus: float) -> None:
        """Add runs of Table 3 with a seed for each BLEU. Each BLEU is equal on all resampled test sets."""
        for seed, value in enumerate(bleus, start=1):
            run = score(value, experiment=experiment, seed=seed, averaged_steps=[6000])
            self.dev.append(run | {"draws": [value] * 1000})

    def make(self):
        """Return the rows by choice, and the table."""
        options = {"paper": "workflow/paper/table2.csv", "label": "toy: test", "dev_label": "toy: dev"}
        options["score"] = write_scores(self.path, *self.test)
        options["dev_score"] = write_scores(self.path / "dev", *self.dev)
        options |= {"vocabulary": [self.path / "vocabulary.model"], "experiment": [self.path / "experiment.yaml"]}
        options |= {"hyp": self.hyps, "ref": self.ref, "measures": self.measures, "expected": TRAINED}
        searches = {f"search{number}": changes for number, (changes, _) in enumerate(self.otherwise)}
        translations = {f"search{number}": paths for number, (_, paths) in enumerate(self.otherwise)}
        options |= {"last": self.last, "searches": searches} | translations
        _, rows, table = make_table(bleu_variants, "choice", **options)
        return rows, table


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_subwords_by_the_vocabulary(folder):
    """SentencePiece's pieces replace our ids."""
    folder.add_base()
    rows, _ = folder.make()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder.path / "vocabulary.model"))
    sides = [[by_hand(line, "&quot;").replace(" ##AT##-##AT## ", "-") for line in side] for side in (BASE, PLAIN)]
    pieces = [[" ".join(processor.encode(line, out_type=str)) for line in side] for side in sides]
    assert float(rows["subwords not joined, on both sides"]["bleu"]) == pytest.approx(bleu(*pieces))


def test_other_translations_are_means_over_seeds_with_p(folder):
    """First, one of two seeds keeps its translations and the other has perfect ones. Then both are unchanged."""
    second = with_errors(*range(10))
    folder.add_base()
    folder.add_base(second, seed=2)
    better = [folder.write("better.1", BASE), folder.write("better.2", PLAIN)]
    same = [folder.write("same.1", BASE), folder.write("same.2", second)]
    folder.last, folder.otherwise = better, [({"beam": 1, "alpha": 0.0}, same)]
    rows, table = folder.make()
    of_seeds = [bleu([by_hand(line) for line in side], [by_hand(line) for line in PLAIN]) for side in (BASE, second)]
    configured, last = sum(of_seeds) / 2, rows["only the last checkpoint, not the average of 2"]
    assert float(last["bleu"]) == pytest.approx((of_seeds[0] + 100) / 2)
    assert float(last["difference"]) == pytest.approx((of_seeds[0] + 100) / 2 - configured)
    assert float(last["p"]) > 0.05  # only one of two trainings gains
    unchanged = rows["beam 1, not 4; alpha 0.0, not 0.6"]
    assert (float(unchanged["difference"]), float(unchanged["p"])) == (0, 1)
    assert unchanged["runs"] == "en-de/base/1 en-de/base/2"
    assert float(rows["the lowest of 2 seeds"]["bleu"]) == pytest.approx(min(of_seeds))
    assert float(rows["the highest of 2 seeds"]["bleu"]) == pytest.approx(max(of_seeds))
    differences = {row["Choice"]: row["Difference"] for row in shown(table.grid)}
    assert differences["the lowest of 2 seeds"] == f"−{configured - min(of_seeds):.2f}"


def test_training_is_compared_with_the_base_of_table_3(folder):
    folder.add_base()
    folder.add_training("base", 29.0, 31.0, 30.0)
    folder.add_training("dropout-0.0", 27.5)
    rows, table = folder.make()
    row = rows["dropout-0.0 of Table 3"]
    assert (float(row["bleu"]), float(row["difference"])) == (27.5, -2.5)
    assert math.isnan(row["p"])
    assert "Table 3 has their p" in notes_of(table)
    assert "have not been made: en-de/smoothing-0.0/1." in notes_of(table)


def test_what_was_not_run_is_named(folder):
    folder.add_base()
    folder.otherwise = [({"beam": 1}, [])]
    rows, table = folder.make()
    missing = ["the filtered test set", "only the last checkpoint, not the average of 2", "beam 1, not 4"]
    missing += ["another seed", "base of Table 3", "dropout-0.0 of Table 3", "smoothing-0.0 of Table 3"]
    assert [choice for choice, row in rows.items() if math.isnan(row["bleu"])] == missing
    assert [row["Choice"] for row in shown(table.grid) if row["BLEU"] == "not run at this scale"] == missing
    assert "have not been made: en-de/dropout-0.0/1, en-de/smoothing-0.0/1." in notes_of(table)
