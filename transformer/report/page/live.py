"""The page to try a model on, and its answers: a sentence's n best translations, and who attends to whom."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from msgspec.structs import asdict

from transformer.config.experiment import Experiment, load
from transformer.evaluation.records import Variant, read_translated, run_name
from transformer.files import InputError
from transformer.model.weights import load_model
from transformer.report.figures import COLORS
from transformer.report.figures.attention import describe
from transformer.report.page.request import BODY
from transformer.report.page.server import Page
from transformer.runtime.device import best_device
from transformer.templates import environment
from transformer.translation.export import WEIGHTS
from transformer.translation.translator import Translator, open_translator, search_n_best

TEMPLATES = Path(__file__).parent / "templates"
STYLES, SCRIPTS = ("report.css", "serve.css"), ("viewer.js", "serve.js")
POLICY = (
    "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LONGEST = 128  # tokens of a sentence, EOS included: its weights grow with the square


@dataclass(frozen=True)
class Trial:
    """A trained model to try: the folder of its run, its settings, and its translator."""

    run: Path
    experiment: Experiment
    translator: Translator

    def answer(self, text: str) -> dict[str, Any]:
        """Return `translations`, each with its score, the best first, and the `attention` of the best (attention.json).

        Raises InputError where the text has no word, or more words or tokens than can be shown.
        """
        translator, source = self.translator, self.encode(text)
        (ranked,) = search_n_best(
            translator.model,
            len(translator.vocabulary),
            [source],
            translator.decoding,
            translator.decoding.beam,
            weights=translator.weights,
        )
        words = translator.vocabulary.decode([ids for ids, _ in ranked])
        translations = [
            {"text": translator.target.detokenize(line), "score": score}
            for line, (_, score) in zip(words, ranked, strict=True)
        ]
        best = describe(translator.model, translator.vocabulary, source, ranked[0][0])
        attention = {
            "layers": self.experiment.model.N,
            "heads": self.experiment.model.h,
            "sentences": [{"title": text} | best],
        }
        return {"translations": translations, "attention": attention}

    def encode(self, text: str) -> list[int]:
        """Return a text, whose line breaks count as spaces, as token ids that end in EOS. Raises InputError."""
        line = text.replace("\r", " ").replace("\n", " ")
        words, most = len(self.translator.source.tokenize(line).split()), self.words
        if not 0 < words <= most:
            raise InputError(f"expected a sentence of 1 to {most:,} words, as the tokeniser cuts them, found {words:,}")
        (ids,) = self.translator.encode([line])
        longest = min(LONGEST, self.translator.longest)
        if len(ids) > longest:
            raise InputError(f"expected a sentence of at most {longest} subwords, found {len(ids):,}")
        return ids

    @property
    def words(self) -> int:
        """Return the most tokenised words that a sentence may have: the model was trained on no longer ones."""
        return self.experiment.preparation.max_words

    def page(self) -> Page:
        """Return the page. Raises InputError where the run has a score file that cannot be read."""
        style, script = (
            "".join((TEMPLATES / name).read_text("utf-8") for name in names) for names in (STYLES, SCRIPTS)
        )
        html = (
            environment(TEMPLATES)
            .get_template("serve.html")
            .render(
                experiment=self.experiment,
                run=run_name(asdict(self.experiment)),
                score=self.score(),
                words=self.words,
                settings={"target": self.experiment.target, "bytes": BODY},
                colors=COLORS,
                style=Markup(style),
                script=Markup(script),
            )
        )
        return Page(html, f"{POLICY}; style-src {hashed(style)}; script-src {hashed(script)}")

    def score(self) -> Variant | None:
        """Return the paper's variant of BLEU on the test set, if the folder tells it; an exported one does not."""
        if not (path := self.run / "test.json").exists():
            return None
        scores = read_translated(path)["scores"]
        return scores[scores["paper"]]


def open_trial(run: Path) -> Trial:
    """Return the averaged model of a run, or an exported one. Raises InputError where there is none."""
    experiment = load(run / "experiment.yaml")
    model = load_model(run / WEIGHTS, experiment.model).to(best_device())
    return Trial(run, experiment, open_translator(run, model, {}))


def hashed(text: str) -> str:
    """Return the source expression by which a policy allows this style or script alone."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
