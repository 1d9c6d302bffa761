"""The Transformer of "Attention Is All You Need". Each package covers a subject and sections of the paper.

    config/              the configuration and its checks
    data/         §5.1   download, unpacking, tokenisation, subwords, encoding; the demo's language
    model/        §3     the Transformer, attention, the incremental decoder, computational cost
    training/     §5     loop and step, processes, batches, loss, optimizer, dev scores, log
    translation/  §6.1   beam search, translator, conversion to Marian
    parsing/      §6.3   trees, linearisation, parser, EVALB
    evaluation/   §4, §6 BLEU, significance, analyses of trained models
    report/              tables, figures, the page
    pipeline/            the runs of the workflow, and the input files of each job
    storage/             files, JSON and YAML records, checksums, provenance
    commands/            the subcommands

layout.py defines all file names, device.py handles GPUs and memory, process.py handles signals.
`python -m transformer` lists the commands. In Python, `load` opens a trained model.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformer.translation.translator import Translator

__version__ = "0.9.0"


def load(folder: str) -> "Translator":
    """Open a trained run's folder or an export to translate, to score translations and to read attention weights.

    The model uses a GPU if one is available; TRANSFORMER_DEVICE=cpu selects the CPU.
    Raises transformer.storage.files.InputError.
    """
    from transformer.translation.translator import open_translator  # a late import, because torch takes seconds to load

    return open_translator(folder)


def fit(train: tuple[str, str], dev: tuple[str, str], output: str, **options: Any) -> "Translator":
    """Train one model from text files, or fine-tune a trained one, and open it. A second call resumes the training.

    train, dev: source and target file; the endings of their names are their languages. output: folder of the run.
    options: `like`, `row`, `seed`, `vocabulary`, `initial`, `threads` and a mapping `settings` of changes, as
    `python -m transformer fit --help` explains them.
    Raises transformer.storage.files.InputError, or transformer.process.Interrupted after a stop signal.
    """
    from transformer.commands.fit import Fit

    Fit(tuple(map(Path, train)), tuple(map(Path, dev)), Path(output), **options).run()
    return load(output)
