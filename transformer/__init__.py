"""The Transformer of "Attention Is All You Need": a package for each subject, with its sections of the paper.

    data/         §5.1   download, unpack, tokenise, learn subwords, encode; the demo corpus and its grammar
    model/        §3     the Transformer, from the top down; attention, equation 1, in each of its forms
    training/     §5     loop and step, batches, loss, optimizer, evaluation, log
    runtime/      §5.2   devices and processes, memory, locks, signals
    translation/  §6.1   beam search, decoder, translator, export
    scoring/      §6.1   BLEU and its significance
    parsing/      §6.3   trees, treebanks, linearisation, parser, EVALB
    probes/              what Table 5 measures of trained runs
    tables/  figures/    the paper's tables and figures, and the ones of our own
    page/                the report
    plan/  doctor/       what a run will cost; whether this machine can run it
    config/  common/     one resolved run, config.yaml's reader; files that are whole or absent, text

`python -m transformer` lists the verbs: small programs that read files and write files, in stages/ (run by the
workflow) and tools/ (run by people).
"""

__version__ = "0.9.0"
