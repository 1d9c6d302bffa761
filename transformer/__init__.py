"""The Transformer of "Attention Is All You Need".

The packages, with the paper's sections that they implement:    config/              read and check the configuration
    data/         §5.1   download, unpack, tokenise, learn subwords, encode; generate the demo's language
    model/        §3     the Transformer, its attention, its incremental decoder, its costs; the baselines
    training/     §5     loop and step, processes, batches, loss, optimizer, dev scores, log
    translation/  §6.1   beam search, translator, conversion to Marian
    parsing/      §6.3   trees, linearisation, parser, EVALB
    evaluation/   §4, §6 BLEU, significance tests, analyses of trained models
    report/              tables, figures, the page
    pipeline/            the workflow's runs, and the files that each job reads
    storage/             files, JSON and YAML records, checksums, provenance
    commands/            the subcommands

layout.py names all files. device.py handles GPUs and memory, process.py handles signals.
`python -m transformer` lists the commands. In Python, `load` opens a trained model.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer.translation.translator import Translator

__version__ = "0.9.0"


def load(folder: str) -> "Translator":
    """Open the folder of a trained run or of an export, to translate, to score translations and to view attention.

    The model runs on a GPU if there is one. TRANSFORMER_DEVICE=cpu forces the processor.
    Raises transformer.storage.files.InputError.
    """
    from transformer.translation.translator import open_translator  # here, because importing torch takes seconds

    return open_translator(folder)
