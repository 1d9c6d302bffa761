"""The Transformer of "Attention Is All You Need": a package for each subject, with its sections of the paper.

    config/              the configuration, checked
    data/         §5.1   download, unpack, tokenise, learn subwords, encode; the demo's language
    model/        §3     the Transformer, from the top down; its attention, its incremental decoder, its costs
    training/     §5     loop and step, processes, batches, loss, optimizer, dev scores, log
    translation/  §6.1   beam search, translator, its form for Marian
    parsing/      §6.3   trees, linearisation, parser, EVALB
    evaluation/   §4, §6 BLEU, significance, what is measured on trained models
    report/              tables, figures, the page
    pipeline/            what the workflow asks: which runs there are, and which files each job reads
    storage/             files, JSON and YAML records, checksums, provenance
    commands/            the subcommands

layout.py names all files; device.py is GPUs and memory, process.py signals.
`python -m transformer` lists the commands. From Python, `load` opens a trained model.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer.translation.translator import Translator

__version__ = "0.9.0"


def load(folder: str) -> "Translator":
    """Open the folder of a trained run, or an export, to translate, to score translations and to see attention.

    The model is on a GPU if there is one; TRANSFORMER_DEVICE=cpu does without.
    Raises transformer.storage.files.InputError.
    """
    from transformer.translation.translator import open_translator  # here, as torch takes seconds

    return open_translator(folder)
