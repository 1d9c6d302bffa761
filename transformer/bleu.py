"""BLEU in the variants that are reported for the paper's tasks, each with a signature that says how it was computed.

The paper's 28.4 is not a sacreBLEU score: the authors tokenised with Moses, split German compounds at hyphens and ran
multi-bleu.perl. On the same output the variants differ by a point of BLEU and more.
"""

import re
from importlib.metadata import version

from sacrebleu.metrics import BLEU
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from transformer.files import InputError

HYPHENATED = re.compile(rb"(\S)-(\S)")


def scores(hypotheses: list[str], references: list[str], language: str) -> dict:
    """BLEU (0 to 100) of detokenised sentences, one reference each, in `language` (as "de").

    Each variant is {"bleu": float, "signature": str}; "paper" names the one that the paper reports for `language`.
    sacrebleu: cased, 13a. tokenized: multi-bleu.perl on Moses tokens. compound_split (German alone): the same after
    splitting at hyphens. tokenized_lc: tokenized in lower case. Raises InputError on unequal or empty sides.
    """
    if len(hypotheses) != len(references):
        raise InputError(f"BLEU: expected a hypothesis per reference, found {len(hypotheses)} and {len(references)}")
    if not hypotheses:
        raise InputError("BLEU: expected sentences, found none")
    words = tokenize(hypotheses, language), tokenize(references, language)
    moses = f"moses-{language}+norm"
    variants = {"paper": "tokenized"}
    variants["sacrebleu"] = variant(BLEU(), hypotheses, references)
    variants["tokenized"] = multi_bleu(*words, moses)
    if language == "de":
        variants["paper"] = "compound_split"
        variants["compound_split"] = multi_bleu(*map(split_compounds, words), f"{moses}+split")
    variants["tokenized_lc"] = multi_bleu(*words, moses, lowercase=True)
    return variants


def paper_tokens(sentences: list[str], language: str) -> list[str]:
    """The tokens, separated by spaces, whose BLEU by `token_bleu` is the variant that the paper reports."""
    words = tokenize(sentences, language)
    return split_compounds(words) if language == "de" else words


def tokenize(sentences: list[str], language: str) -> list[str]:
    """Moses tokens of normalised punctuation, separated by spaces.

    Normalised as the training text was: a model that has learned plain quotes is not to lose by the reference's „“,
    which the authors made plain too. Unescaped: `&apos;` on one side alone would cost BLEU.
    """
    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return [tokenizer.tokenize(normalizer.normalize(line), escape=False, return_str=True) for line in sentences]


def split_compounds(sentences: list[str]) -> list[str]:
    """`Text-Datei` becomes `Text ##AT##-##AT## Datei`, as in the authors' get_ende_bleu.sh.

    On bytes, like perl there: in `ä-ö-ü` a match takes but a part of `ö`, so that both hyphens are split; of `a-b-c`
    only the first is.
    """
    return [HYPHENATED.sub(rb"\1 ##AT##-##AT## \2", sentence.encode()).decode() for sentence in sentences]


def multi_bleu(hypotheses: list[str], references: list[str], tokenizer: str, lowercase: bool = False) -> dict:
    """`token_bleu`; in its signature our `tokenizer`, and the library that ran it, stand for `tok:none`."""
    score = variant(token_bleu(lowercase), hypotheses, references)
    signature = score["signature"].replace("tok:none", f"tok:{tokenizer}")
    return {**score, "signature": f"{signature}|sacremoses:{version('sacremoses')}"}


def token_bleu(lowercase: bool = False) -> BLEU:
    """BLEU of tokens separated by spaces, as multi-bleu.perl counts it: unsmoothed, 0 where no n-gram of an order fits.

    sacreBLEU does the arithmetic.
    """
    # force: no warning that the text looks tokenised, which is as it should be
    return BLEU(lowercase=lowercase, tokenize="none", smooth_method="none", force=True)


def variant(metric: BLEU, hypotheses: list[str], references: list[str]) -> dict:
    """One corpus BLEU and sacreBLEU's signature of it."""
    score = metric.corpus_score(hypotheses, [references]).score
    return {"bleu": score, "signature": metric.get_signature().format()}
