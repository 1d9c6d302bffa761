"""This project's search and CTranslate2's, as `translate` runs them."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.results import LeftOut, require
from transformer.config import Decoding
from transformer.conversion import save_ctranslate2
from transformer.engines import open_ctranslate2
from transformer.model import Transformer, best_device
from transformer.subwords import Subwords
from transformer.translation import search

ANY = 10**9  # tokens: whoever is given sentences takes all of them as one batch


@dataclass(frozen=True)
class Trained:
    """What is translated with: the model, in evaluation mode, and the folders of its run and its data."""

    model: Transformer
    vocabulary: Subwords
    decoding: Decoding
    run: Path
    data: Path
    threads: int

    def limits(self, sentences: list[list[int]]) -> list[int]:
        """The most tokens of each output. Toolkits that have one limit for a batch get the largest, and are cut."""
        return [len(sentence) + self.decoding.extra_length for sentence in sentences]


class Ours:
    """Each system has a `name`, and translates a batch of sentences, token ids that end in EOS, to ids without it."""

    name = "this project"

    def __init__(self, trained: Trained, folder: Path):
        self.trained = trained

    def translate(self, sentences: list[list[int]], beam: int) -> list[list[int]]:
        decoding = replace(self.trained.decoding, beam=beam, batch_tokens=ANY)
        found = search(self.trained.model, len(self.trained.vocabulary), sentences, decoding)
        return [ids for ids, _ in found]


class CTranslate2:
    """In float32. A batch is divided among its threads."""

    name = "CTranslate2, float32"
    compute_type = "float32"

    def __init__(self, trained: Trained, folder: Path):
        require("ctranslate2")
        if best_device().type != "cpu":
            raise LeftOut("`translate --engine ctranslate2` runs on the processor alone")
        for source in (trained.run / "experiment.yaml", trained.data / "vocabulary.model"):
            shutil.copyfile(source, folder / source.name)
        save_ctranslate2(trained.model, trained.vocabulary, folder)
        self.trained = trained
        self.engine = open_ctranslate2(folder, self.compute_type, trained.threads)

    def translate(self, sentences: list[list[int]], beam: int) -> list[list[int]]:
        share = -(-sum(map(len, sentences)) // self.trained.threads)
        decoding = replace(self.trained.decoding, beam=beam, batch_tokens=max(share, max(map(len, sentences))))
        return [ids for ids, _ in self.engine.search(sentences, decoding)]


class CTranslate2Int8(CTranslate2):
    """In int8."""

    name = "CTranslate2, int8"
    compute_type = "int8"
