"""§5.1: from plain text to the token arrays of a training. Only `tokenize_split` needs sacreBLEU."""

import logging
from collections.abc import Sequence
from pathlib import Path

from transformer.config.experiment import POSITIONS, Preprocessing
from transformer.data.corpus import Counts, Subwords, TokenArray, find_symbols, learn, require_short, write_tokens
from transformer.layout import SIDES, Data
from transformer.storage.checksums import require_sums, sums_of
from transformer.storage.files import InputError, read_lines, read_pairs, require_file, write
from transformer.storage.records import Manifest, read_json, sum_of, write_json

logger = logging.getLogger(__name__)


def tokenize_split(
    data: Data,
    split: str,
    corpora: list[tuple[str | Path, str | Path]],
    languages: tuple[str, str],
    preprocessing: Preprocessing,
    processes: int,
    *,
    clean: bool = False,
    vocabulary: str | Path | None = None,
    longest: int = POSITIONS,
) -> None:
    """Write the tokenised source and target of a split and the counts of its pairs. Log the loss of tokenisation.

    corpora: source and target file of each corpus. clean: drop blank, long and unequal pairs, for training data.
    vocabulary: if given, a source line may have up to `longest` of its subwords, the limit of the models.
    Raises InputError if the two files of a corpus differ in length, no pair is left, or a line is too long.
    """
    from transformer.data.tokenization import dropped, no_rules, uses_moses, write_tokenized
    from transformer.evaluation.bleu import missing_tokenizer

    references = [] if clean else [target for _, target in corpora]
    for path in references:
        require_file(path)
    texts = [data.tokens(split, side) for side in SIDES]
    counts = write_tokenized(corpora, texts, languages, preprocessing, clean, processes)
    write_json(data.counts(split), counts | {"files": sums_of(texts)})
    message = [f"{data.folder / split}: kept {counts['kept']:,} of {counts['read']:,} pairs"]
    message += [f"dropped: {dropped(counts)}"] if clean else []
    logger.info("; ".join([*message, *(_ceiling(path, languages[1], preprocessing) for path in references)]))
    if vocabulary:
        require_short(texts[0], Subwords(vocabulary), longest)
    if clean:
        missing = [no_rules(code) for code in languages if uses_moses(code, preprocessing)]
        for problem in filter(None, [*missing, missing_tokenizer(languages[1])]):
            logger.warning("! %s", problem)


def _ceiling(path: str | Path, language: str, how: Preprocessing) -> str:
    """Describe how many lines change in tokenisation and detokenisation, and the score of a perfect translation."""
    from transformer.data.tokenization import Tokenizer, composed
    from transformer.evaluation.bleu import measure, sacrebleu_of

    tokenizer, lines = Tokenizer(language, how), [" ".join(composed(line).split()) for line in read_lines(path)]
    back = [tokenizer.detokenize(tokenizer.tokenize(line)) for line in lines]
    lost = sum(line != other for line, other in zip(lines, back, strict=True))
    ceiling = measure(sacrebleu_of(language), back, lines)["score"]
    share = f"{lost:,} of {len(lines):,} lines of {Path(path).name}"
    return f"tokenisation changes {share}: the maximum sacreBLEU is {ceiling:.1f}"


def learn_vocabulary(
    data: Data, subwords: int, languages: Sequence[str], preprocessing: Preprocessing, symbols: int | None = None
) -> None:
    """Learn the shared byte-pair vocabulary (§5.1), or a parser's vocabulary (§6.3), from the training text.

    languages: of both sides. If Moses does not split the words of a language, no subword mixes letters and marks.
    symbols: number of rows of a parser's symbols, before the subwords.
    Raises InputError if the text has too few subwords or too many symbols.
    """
    from transformer.data.tokenization import uses_moses

    source, target = (data.tokens("train", side) for side in SIDES)
    sentences, longest = preprocessing.vocabulary_sentences, preprocessing.max_piece_length
    if symbols is None:
        raw = not all(uses_moses(code, preprocessing) or preprocessing.tokenizer == "given" for code in languages)
        learn([source, target], subwords, sentences, data.vocabulary, longest=longest, by_script=raw)
    else:
        names = find_symbols(target, symbols)
        learn([source], symbols + subwords, sentences, data.vocabulary, names, longest)


def reuse_vocabulary(data: Data, file: str | Path, subwords: int) -> None:
    """Copy a run's vocabulary instead of learning one. Raises InputError if its number of subwords differs."""
    if (found := len(Subwords(file))) != subwords:
        raise InputError(f"{file}: expected {subwords:,} subwords (vocabulary), found {found:,}")
    write(data.vocabulary, Path(file).read_bytes())


def write_unseen(data: Data, reference: str | Path) -> None:
    """Write the references of the test pairs that are not training pairs, for `score --subset`. Log their number.

    `score` finds a pair by its reference. So all pairs with the reference of a training pair are left out.
    """
    tests = list(read_pairs(*(data.tokens("test", side) for side in SIDES)))
    wanted = set(tests)
    trained = {pair for pair in read_pairs(*(data.tokens("train", side) for side in SIDES)) if pair in wanted}
    lines = list(read_lines(reference))
    seen = {line for pair, line in zip(tests, lines, strict=True) if pair in trained}
    write(data.unseen, "".join(f"{line}\n" for line in lines if line not in seen).encode())
    count = sum(pair in trained for pair in tests)
    logger.info(f"{data.folder / 'test'}: {count:,} of {len(tests):,} test pairs are also training pairs")


def encode_splits(data: Data, processes: int, longest: int = POSITIONS) -> None:
    """Write the token arrays of the splits train and dev, and data.json with their counts and their checksum.

    longest: maximum subwords of a source line in a translation task's dev set. A parser skips long lines.
    Raises InputError if a text has changed since its tokenisation, or a line is too long.
    """
    counts, subwords = {}, Subwords(data.vocabulary)
    parsing = bool(subwords.symbols)
    files = sums_of([data.vocabulary])
    if not parsing:
        require_short(data.tokens("dev", "source"), subwords, longest)
    for split in ("train", "dev"):
        about = counts[split] = read_json(data.counts(split), Counts)
        require_sums(data.counts(split), about.pop("files", {}), [data.tokens(split, side) for side in SIDES])
        for side in SIDES:
            arrays = data.ids(split, side), data.offsets(split, side)
            write_tokens(data.tokens(split, side), data.vocabulary, *arrays, processes, parsing and side == "target")
            encoded = TokenArray.open(*arrays)
            if len(encoded) != about["kept"]:
                raise InputError(f"{arrays[0]}: expected {about['kept']} sentences, found {len(encoded)}")
            about[f"{side}_tokens"] = len(encoded.ids)
            files |= sums_of(arrays)
    write_json(data.manifest, Manifest(files=files, splits=counts, sha256=sum_of(files)), indent=1)
