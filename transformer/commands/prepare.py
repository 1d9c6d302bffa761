"""§5.1: from addresses and files to what training reads: fetch, unpack, generate, tokenize, vocabulary, encode."""

import itertools
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import File, NonNegativeInt, PositiveInt

from transformer.config.experiment import POSITIONS, Preparation
from transformer.layout import SIDES, Data
from transformer.storage.checksums import require_sums, sum_of, sums_of
from transformer.storage.files import InputError, read_lines, replacing, require_file, write_columns
from transformer.storage.reading import structured
from transformer.storage.records import Manifest, parse_json, read_json, write_json


def fetch(
    *,
    url: list[str],
    output: File,
    sha256: str | None = None,
    md5: str | None = None,
    size: PositiveInt | None = None,
    others: Annotated[list[str], Parameter(name="--or")] | None = None,
    mirror: Path | None = None,
) -> None:
    """Fetch one file from the first of its addresses that gives the right bytes.

        python -m transformer fetch --url https://example.org/a.tgz --sha256 cb89... --size 80418416 --output a.tgz

    Args:
        url: the addresses
        output: the file to write
        sha256: its SHA-256, in hexadecimal; an archive that its host packs again at each request has none
        md5: its MD5, if no SHA-256 is known
        size: its length in bytes
        others: JSON of other bytes that serve as well, tried next: urls, sha256 or md5, and size
        mirror: a folder: read MIRROR/HOST/PATH of the addresses, never the network
    """
    from transformer.data import download

    versions = [download.Version(urls=url, sha256=sha256, md5=md5, size=size)]
    versions += [parse_json(other, download.Version, "--or") for other in others or []]
    for version in versions:
        if not (version.sha256 or version.md5) and (version.size or version is not versions[0]):
            raise InputError("--size and --or: expected with sha256 or md5, found none")
    download.fetch(versions, output, mirror)
    print(f"{output}: {'checksum as expected' if sha256 or md5 else 'whole, for all that is known'}")


def unpack(
    *,
    input: Path,
    output: File,
    format: Literal["text", "sgm"],
    member: str | None = None,
    lines: PositiveInt | None = None,
) -> None:
    """Unpack one side of a corpus as plain text: UTF-8, one sentence a line. Lines end at a line feed alone.

        python -m transformer unpack --input nc-v9.tgz --member training/nc-v9.de --format text --output nc-v9.de

    Args:
        input: a plain file, a .gz or an archive (.tar, .tar.gz, .tgz, .zip)
        output: the text to write
        format: plain lines, or WMT's <seg> elements
        member: the path of the text within an archive; unpacked, too, if it ends in .gz
        lines: the number of lines that must be there
    """
    from transformer.data.archive import find_segments, member_named, read_text

    name, text, count = member_named(input, member), read_text(input, member), 0
    if format == "sgm":
        text = find_segments(text, name)
    with replacing(output) as file:
        for count, line in enumerate(text, start=1):
            if lines and count > lines:  # an endless text must not fill the disk
                raise InputError(f"{name}: expected {lines} lines, found more")
            file.write(f"{line}\n")
        if count != (lines or count or None):
            raise InputError(f"{name}: expected {lines or 'some'} lines, found {count}")
    print(f"{output}: {count} lines")


def generate(*, seed: int, skip: NonNegativeInt, take: PositiveInt, output: Path) -> None:
    """Write sentences of the demo grammar: OUTPUT.en, OUTPUT.de, OUTPUT.fr and the English trees, OUTPUT.trees.

    Ranges that do not overlap share no sentence in any language.

        python -m transformer generate --seed 1 --skip 20000 --take 500 --output grammar-dev

    Args:
        seed: of the stream of sentences
        skip: sentences of the stream to leave out
        take: sentences to write
        output: path of the files, without their endings
    """
    from transformer.data import grammar

    write_columns(grammar.take(seed, skip, take), [f"{output}.{ending}" for ending in ("en", "de", "fr", "trees")])


def tokenize(
    *,
    source: list[Path],
    target: list[Path],
    languages: tuple[str, str],
    preparation: str,
    processes: PositiveInt,
    output: Path,
    clean: bool = False,
    tried: bool = False,
    vocabulary: Path | None = None,
    longest: PositiveInt = POSITIONS,
) -> None:
    """Clean and tokenise one split of a task (§5.1): OUTPUT.source.tok, OUTPUT.target.tok, and OUTPUT.json with counts.

        python -m transformer tokenize --source A.en --target A.de --languages en de --clean --processes 2
            --preparation '{"normalize_punctuation": true, ...}' --output results/demo/data/en-de/train

    Args:
        source: source sides of the corpora
        target: target sides, in the same order
        languages: of source and target
        preparation: JSON: config.yaml's preparation
        processes: the result does not depend on their number
        output: path without ending
        clean: drop empty, long and unequal pairs (training data)
        tried: say how much of the target side is lost in tokenising and detokenising
        vocabulary: of the models that translate this text: measure its lines
        longest: subwords of a line, at most
    """
    from transformer.data.tokenization import left_out, no_rules, uses_moses, write_tokenized

    if len(source) != len(target):
        raise InputError(f"{len(source)} source files, but {len(target)} target files")
    for path in target if tried else ():
        require_file(path)
    data, split = Data(output.parent), output.name
    texts = [data.tokens(split, side) for side in SIDES]
    how = structured(parse_json(preparation, dict, "--preparation"), Preparation, "preparation")
    counts = write_tokenized(list(zip(source, target, strict=True)), texts, languages, how, clean, processes)
    write_json(data.counts(split), counts | {"files": sums_of(texts)})
    said = [f"{output}: kept {counts['kept']:,} of {counts['read']:,} pairs"]
    said += [f"left out: {left_out(counts)}"] if clean else []
    said += [_ceiling(path, languages[1], how) for path in target if tried]
    print("; ".join(said))
    if vocabulary:
        from transformer.data.corpus import Subwords, require_short

        require_short(texts[0], Subwords(vocabulary), longest)
    if clean:
        from transformer.evaluation.bleu import missing_tokenizer

        lacking = [no_rules(code) for code in languages if uses_moses(code, how)]
        for problem in filter(None, [*lacking, missing_tokenizer(languages[1])]):
            print(f"! {problem}")


def _ceiling(path: Path, language: str, how: Preparation) -> str:
    """Say how many lines tokenising and detokenising changes, and what a perfect translation would score therefore."""
    from transformer.data.tokenization import Tokenizer, composed
    from transformer.evaluation.bleu import measure, sacrebleu_of

    tokenizer, lines = Tokenizer(language, how), [" ".join(composed(line).split()) for line in read_lines(path)]
    back = [tokenizer.detokenize(tokenizer.tokenize(line)) for line in lines]
    lost = sum(line != other for line, other in zip(lines, back, strict=True))
    ceiling = measure(sacrebleu_of(language), back, lines)["score"]
    return f"{lost:,} of {len(lines):,} lines of {path.name} are lost in tokenising: sacreBLEU is {ceiling:.1f} at most"


def vocabulary(
    *,
    text: list[Path],
    size: PositiveInt,
    sentences: PositiveInt,
    output: File,
    symbols: Path | None = None,
    rows: PositiveInt | None = None,
    longest: PositiveInt | None = None,
) -> None:
    """Learn the byte-pair vocabulary that source and target share (§5.1), or a parser's (§6.3).

        python -m transformer vocabulary --text train.*.tok --size 37000 --sentences 10000000 --output vocabulary.model

    Args:
        text: tokenised text to learn on
        size: number of subwords, the three special ones included
        sentences: learn on at most this many lines
        output: the SentencePiece model to write
        symbols: linearised trees, whose symbols come first, pad, eos and unk among them
        rows: how many of the ids are theirs
        longest: characters of a subword, at most; SentencePiece's 16 if not given
    """
    from transformer.data.corpus import find_symbols, learn

    if (symbols is None) != (rows is None):
        raise InputError("expected --symbols and --rows, or neither")
    learn(text, size, sentences, output, find_symbols(symbols, rows) if symbols else [], longest)


def encode(*, data: Path, splits: list[str], processes: PositiveInt, longest: PositiveInt = POSITIONS) -> None:
    """Turn tokenised text into token arrays, which training maps into memory.

    DATA/data.json gets counts, and the checksum by which a run identifies its data.

        python -m transformer encode --data results/demo/data/en-de --splits train dev --processes 2

    Args:
        data: the folder of one task's data, with the tokenised text and vocabulary.model
        splits: such as train
        processes: the result does not depend on their number
        longest: subwords of a line of dev, which the trained model will translate, at most
    """
    from transformer.data.corpus import Counts, Subwords, TokenArray, require_short, write_tokens

    task, counts = Data(data), {}
    subwords = Subwords(task.vocabulary)
    parsing = bool(subwords.symbols)
    files = sums_of([task.vocabulary])
    if "dev" in splits and not parsing:
        require_short(task.tokens("dev", "source"), subwords, longest)
    for split, side in itertools.product(splits, SIDES):
        about = counts.setdefault(split, read_json(task.counts(split), Counts))
        require_sums(task.counts(split), about.pop("files", {}), [task.tokens(split, each) for each in SIDES])
        arrays = task.ids(split, side), task.offsets(split, side)
        write_tokens(task.tokens(split, side), task.vocabulary, *arrays, processes, parsing and side == "target")
        encoded = TokenArray.open(*arrays)
        if len(encoded) != about["kept"]:
            raise InputError(f"{arrays[0]}: expected {about['kept']} sentences, found {len(encoded)}")
        about[f"{side}_tokens"] = len(encoded.ids)
        files |= sums_of(arrays)
    write_json(task.manifest, Manifest(files=files, splits=counts, sha256=sum_of(files)), indent=1)
