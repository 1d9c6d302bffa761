"""BLEU and other metrics of a translation with their signatures, and warnings about misleading metrics.

The paper's 28.4 is not a sacreBLEU score. The authors' script get_ende_bleu.sh tokenises with Moses, splits German
compounds at hyphens and runs multi-bleu.perl. According to tensor2tensor's issue 317, they first replaced the
reference's quotes by plain ones. The paper does not describe this, and nothing is known about its French BLEU. On the
same output the metrics differ by one point of BLEU or more.
"""

import re
from importlib.metadata import version

from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer
from sacremoses import MosesDetokenizer, MosesTokenizer

from transformer.data.tokenization import Normalizer, composed, language_of

PAPER = "plain_quotes"  # the authors' metric for German, according to the same source
# Languages without spaces between words. sacreBLEU uses 13a for them, because its FLORES model needs a download.
_COUNTED_BY_LETTER = ("th", "km", "my", "lo", "bo")
SPLIT = " ##AT##-##AT## "  # a hyphen in a split compound
_HYPHENATED = re.compile(rb"(\S)-(\S)")
# Plain quotes, and the Unicode quotes that they replace: low, high, reversed and angled.
_QUOTES = {'"': "„“”\u201f«»", "'": "\u201a\u2018\u2019\u201b\u2039\u203a"}
_PLAIN = str.maketrans({quote: plain for plain, quotes in _QUOTES.items() for quote in quotes})
_ESCAPE = re.compile("&(?:amp|apos|gt|lt|quot|#39|#91|#93|#124);")
# Spaces before a comma or the last full stop, Moses' hyphens, split compounds, subwords.
_TOKENIZED = re.compile(r" ,(?: |$)| \.$|@-@|##AT##|@@(?: |$)|▁")
TER_WORDS = 300  # maximum words in a line, because TER's time grows fast: 300 words take seconds
TER_SHORT, TER_LONG = 50, 3000  # words of a line beyond TER_SHORT count; TER_LONG is their maximum, about a minute
_FEW_LINES = 0.1  # share of lines; in ordinary text, one line in 200 has such marks


def scores(hypotheses: list[str], references: list[str], language: str) -> dict:
    """Score detokenised sentences in `language` (as "de") by all metrics, with one reference each.

    Each score is {"score": float, "signature": str}, from 0 to 100; only ter may be higher. The key "paper" holds the
    name of the paper's metric. Metrics of multi-bleu.perl on Moses tokens:

    - tokenized, and tokenized_lc in lower case
    - compound_split: German only, compounds split at hyphens
    - plain_quotes: quotes of the reference replaced by plain quotes
    - normalized: Moses' punctuation normaliser on both sides

    Metrics of sacreBLEU on unchanged text: sacrebleu (13a tokens) and intl, each also in lower case (_lc), chrf2, and
    the error rate ter. Text with more words than TER_WORDS or TER_LONG allow has no ter.
    """
    asian = {"normalized": True, "asian_support": True} if tokenizer_of(language) else {}
    others = {"chrf2": measure(CHRF(), hypotheses, references)}
    words = TercomTokenizer(**asian)
    lengths = [len(words(line).split()) for line in (*hypotheses, *references)]
    if max(lengths) <= TER_WORDS and sum(max(0, length - TER_SHORT) for length in lengths) <= TER_LONG:
        others["ter"] = measure(TER(**asian), hypotheses, references)
    return {"paper": PAPER} | bleu_scores(hypotheses, references, language) | others


def bleu_scores(hypotheses: list[str], references: list[str], language: str) -> dict:
    """Compute only the BLEU metrics."""
    language = language_of(language)
    moses, split = tokenizer_of(language) or f"moses-{language}", "+split" if language == "de" else ""
    words = [moses_tokens(side, language) for side in (hypotheses, references)]
    result = {"tokenized": multi_bleu(*words, moses), "tokenized_lc": multi_bleu(*words, moses, lowercase=True)}
    words = [without_compounds(side, language) for side in words]
    if split:
        result["compound_split"] = multi_bleu(*words, f"{moses}+split")
    words[1] = paper_reference(references, language)
    result["plain_quotes"] = multi_bleu(*words, f"{moses}{split}|refquotes:plain")
    # Moses' normaliser also changes dashes, spaces and the order of quote and comma.
    normalize = Normalizer(language).normalize
    words = [paper_tokens([normalize(line) for line in side], language) for side in (hypotheses, references)]
    result["normalized"] = multi_bleu(*words, f"{moses}+norm{split}")
    metrics = {"sacrebleu": sacrebleu_of(language), "sacrebleu_lc": sacrebleu_of(language, lowercase=True)}
    metrics |= {"intl": BLEU(tokenize="intl"), "intl_lc": BLEU(tokenize="intl", lowercase=True)}
    return result | {name: measure(metric, hypotheses, references) for name, metric in metrics.items()}


def token_scores(hypotheses: list[str], references: list[str], language: str) -> dict:
    """Score text that Moses has tokenised and escaped, the format of some published corpora.

    As `scores`, with two metrics: tokenized, the paper's metric, on unchanged tokens; sacrebleu, on plain text.
    """
    detokenizer = MosesDetokenizer(language_of(language))
    plain = [[detokenizer.detokenize(line.split()) for line in side] for side in (hypotheses, references)]
    tokenized = measure(token_bleu(), hypotheses, references)
    return {"paper": "tokenized", "tokenized": tokenized, "sacrebleu": measure(sacrebleu_of(language), *plain)}


def sacrebleu_of(code: str, lowercase: bool = False) -> BLEU:
    """Return sacreBLEU with its default tokeniser. Without a tokeniser for the language, each letter is a word."""
    language = language_of(code)
    try:
        choice = {"tokenize": "char"} if language in _COUNTED_BY_LETTER else {"trg_lang": language}
        return BLEU(lowercase=lowercase, **choice)
    except RuntimeError:  # MeCab is not installed
        return BLEU(lowercase=lowercase, tokenize="char")


def tokenizer_of(code: str) -> str | None:
    """Return the name of sacreBLEU's special tokeniser for a language, or None for 13a."""
    name = sacrebleu_of(code).tokenizer_signature
    return None if name == BLEU.TOKENIZER_DEFAULT else name


def missing_tokenizer(code: str) -> str | None:
    """Return a line about a missing package that would tokenise this language into words, or None."""
    language = language_of(code)
    if language in _COUNTED_BY_LETTER:
        return f"{language}: BLEU counts characters, not words"
    if tokenizer_of(code) != "char":
        return None
    install = f"(pip install 'sacrebleu[{language}]')"
    return f"{language}-mecab is not installed {install}: BLEU counts characters, not words"


def cut(sentences: list[str], language: str) -> list[str]:
    """Return space-separated words if sacreBLEU has a special tokeniser for the language, else the text."""
    if tokenizer_of(language) is None:
        return sentences
    return list(map(sacrebleu_of(language).tokenizer, map(composed, sentences)))


def paper_tokens(hypotheses: list[str], language: str, escape: bool = False) -> list[str]:
    """Return space-separated tokens. Their `token_bleu` against `paper_reference` is the paper's metric."""
    return without_compounds(moses_tokens(hypotheses, language, escape), language)


def paper_reference(references: list[str], language: str) -> list[str]:
    """Return the tokens of references with plain quotes. A model trained on plain quotes loses a token at each „."""
    return paper_tokens(plain_quotes(references), language)


def plain_quotes(sentences: list[str]) -> list[str]:
    return [line.translate(_PLAIN) for line in sentences]


def moses_tokens(sentences: list[str], language: str, escape: bool = False) -> list[str]:
    """Return space-separated Moses tokens. `escape` writes `&apos;` for `'` and so on, like the Moses script.

    Escaping both sides does not change BLEU. Escaping only one side lowers it.
    """
    if tokenizer_of(language):
        return cut(sentences, language)
    tokenizer = MosesTokenizer(language_of(language))
    return [tokenizer.tokenize(composed(line), escape=escape, return_str=True) for line in sentences]


def without_compounds(sentences: list[str], language: str) -> list[str]:
    """Split German `Text-Datei` into `Text ##AT##-##AT## Datei`, like the authors' get_ende_bleu.sh.

    The script matches bytes. In `ä-ö-ü` a match consumes only one byte of `ö`, so both hyphens are split. In `a-b-c`
    only the first hyphen is split. Text in other languages is not changed.
    """
    if language_of(language) != "de":
        return sentences
    return [_HYPHENATED.sub(rb"\1" + SPLIT.encode() + rb"\2", sentence.encode()).decode() for sentence in sentences]


def multi_bleu(hypotheses: list[str], references: list[str], tokenizer: str, lowercase: bool = False) -> dict:
    """Return `token_bleu`. Its signature has our `tokenizer` and its library instead of `tok:none`."""
    bleu = measure(token_bleu(lowercase), hypotheses, references)
    signature = bleu["signature"].replace("tok:none", f"tok:{tokenizer}")
    library = f"|sacremoses:{version('sacremoses')}" if "moses" in tokenizer else ""
    return bleu | {"signature": signature + library}


def token_bleu(lowercase: bool = False) -> BLEU:
    """Return unsmoothed BLEU of tokens, like multi-bleu.perl, whose `-lc` lowers only ASCII letters."""
    # force: no warning that the text looks tokenised
    return BLEU(lowercase=lowercase, tokenize="none", smooth_method="none", force=True)


def measure(metric: BLEU | CHRF | TER, hypotheses: list[str], references: list[str]) -> dict:
    """Return the corpus score of NFC text, and sacreBLEU's signature with a mark if NFC changed a side."""
    sides = [list(map(composed, side)) for side in (hypotheses, references)]
    score, changed = metric.corpus_score(sides[0], sides[1:]).score, sides != [list(hypotheses), list(references)]
    return {"score": score, "signature": metric.get_signature().format() + "|norm:nfc" * changed}


def marks(sentences: list[str]) -> dict:
    """Count Unicode quotes and lines that look escaped or tokenised, and find capitals (None: no case)."""
    letters = {letter for letter in set("".join(sentences)) if letter.isupper() or letter.islower()}
    return {
        "unicode_quotes": sum(ord(character) in _PLAIN for line in sentences for character in line),
        "escaped_lines": sum(bool(_ESCAPE.search(line)) for line in sentences),
        "tokenized_lines": sum(bool(_TOKENIZED.search(line)) for line in sentences),
        "capitals": any(map(str.isupper, letters)) if letters else None,
    }


def warnings(hypotheses: dict, references: dict, sentences: int) -> list[str]:
    """Return a line for each misleading metric. Inputs are the `marks` of both sides."""
    lines = []
    if count := hypotheses["unicode_quotes"]:
        plain = f"the paper's metric ({PAPER}) expects plain ones and counts each as an error"
        lines.append(f"--hyp has {count:,} Unicode quotation marks or apostrophes, such as „ “ ’: {plain}")
    for name, side in (("--hyp", hypotheses), ("--ref", references)):
        if count := side["escaped_lines"]:
            cost = "most metrics score escapes literally, and each lowers the score; replace them by characters first"
            lines.append(f"{name} has escapes such as `&quot;` in {count:,} of {sentences:,} lines: {cost}")
        if (count := side["tokenized_lines"]) > _FEW_LINES * sentences:
            expected = "all metrics expect detokenised text; detokenise it first"
            lines.append(f"{name} looks tokenised in {count:,} of {sentences:,} lines: {expected}")
    if {hypotheses["capitals"], references["capitals"]} == {True, False}:
        lower = "--ref" if hypotheses["capitals"] else "--hyp"
        lines.append(f"only {lower} is in lower case: use the metrics in lower case (_lc)")
    return lines
