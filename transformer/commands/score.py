"""The commands `score` and `evalb`: scores for readers, and score files (transformer/storage/records.py)."""

import hashlib
import json as json_module
from collections import defaultdict
from pathlib import Path

import numpy as np
from cyclopts.types import File
from tabulate import tabulate

from transformer.commands import require_separate
from transformer.evaluation.scores import describe
from transformer.evaluation.significance import bleu_draws, compare_uses, f1_draws, limits
from transformer.storage.files import InputError, read_lines, read_pairs, write
from transformer.storage.records import read_parses, with_sum

PRINTED = ("sacrebleu", "plain_quotes", "tokenized_lc", "chrf2")  # the metrics that papers report (docs/bleu.md)


def score(
    *,
    hyp: str,
    ref: str,
    lang: str,
    tokenized: bool = False,
    against: str | None = None,
    subset: list[tuple[str, str]] = [],  # noqa: B006
    run: Path | None = None,
    weights: Path | None = None,
    json: File | None = None,
) -> None:
    """Score a translation by all metrics, each with its signature (transformer/evaluation/bleu.py).

    Both files have one sentence per line, detokenised unless --tokenized is given. The command prints the metrics that
    papers report, the 95 % bootstrap interval of the paper's metric, and a warning if a metric misleads.

        python -m transformer score --hyp RUN/test.hyp --ref resources/corpora/grammar-test.de --lang de

    Args:
        hyp: file with the translations
        ref: file with the references
        lang: language of both files, such as de
        tokenized: both files are tokenised and escaped like Moses output; score their tokens unchanged
        against: file with another translation of these sentences; test the difference by a paired bootstrap
        subset: NAME FILE: score a part of the test set separately; FILE has its references in any order
        run: folder of the run that translated
        weights: weights file of the translations; default: RUN/average.safetensors
        json: file for all metrics, checksums, a description of --run and the bootstrap samples of BLEU
    """
    from transformer.data.tokenization import language_of, no_rules
    from transformer.evaluation.bleu import (
        marks,
        missing_tokenizer,
        paper_reference,
        paper_tokens,
        scores,
        token_scores,
        tokenizer_of,
    )

    if len(dict(subset)) < len(subset):
        raise InputError(f"--subset: expected each name once, found {' '.join(name for name, _ in subset)}")
    files = {"--hyp": [hyp], "--ref": [ref], "--against": [against], "--weights": [weights]}
    files |= {"--subset": [path for _, path in subset]}
    require_separate({"--json": json}, files, run)
    code, lang = lang, language_of(lang)
    about = describe(run, weights)
    digests = hashlib.sha256(), hashlib.sha256()
    sides = [list(side) for side in zip(*read_pairs(hyp, ref, *digests), strict=True)]

    def scored(hypotheses: list[str], references: list[str]) -> dict:
        measures = (token_scores if tokenized else scores)(hypotheses, references, lang)
        return {"sentences": len(references), "scores": measures}

    def resampled(hypotheses: list[str]) -> list[float]:
        if tokenized:
            return bleu_draws(hypotheses, sides[1])
        return bleu_draws(paper_tokens(hypotheses, lang), paper_reference(sides[1], lang))

    content = {"language": lang} | scored(*sides)
    draws, metric = resampled(sides[0]), content["scores"]["paper"]
    low, high = limits(draws)
    content["scores"][metric] |= {"low": low, "high": high}
    if against:
        others, other_digest = _read_translations(against, len(sides[1]), ref)
        other, other_draws = scored(others, sides[1])["scores"][metric]["score"], resampled(others)
        content["against"] = {"hyp": against, "hyp_sha256": other_digest, "metric": metric}
        content["against"] |= _difference(content["scores"][metric]["score"], draws, other, other_draws)
    content["subsets"] = {}
    for name, path in subset:
        chosen = _places(path, sides[1], ref)
        content["subsets"][name] = scored(*([side[index] for index in chosen] for side in sides))
    for name, path, side, digest in zip(("hyp", "ref"), (hyp, ref), sides, digests, strict=True):
        content |= {name: path, f"{name}_sha256": digest.hexdigest(), f"{name}_marks": marks(side)}
    print(_listing(content, tokenized))
    for problem in filter(None, (missing_tokenizer(lang), not tokenizer_of(lang) and no_rules(code))):
        print(f"! {problem}")
    if json:
        _write_score(json, content | {"run": about}, draws)


def _read_translations(path: str, count: int, ref: str) -> tuple[list[str], str]:
    """Return the lines of the file and its SHA-256. `count` is the number of lines of `ref`."""
    digest = hashlib.sha256()
    lines = list(read_lines(path, digest))
    if len(lines) != count:
        raise InputError(f"{path}: expected {count:,} lines, as in {ref}, found {len(lines):,}")
    return lines, digest.hexdigest()


def _difference(ours: float, our_draws: list[float], other: float, other_draws: list[float]) -> dict[str, float]:
    """Return the difference of two scores, with the interval and p of a paired bootstrap."""
    pair = ((ours, our_draws), (other, other_draws))
    low, high, p = compare_uses(*((np.array([score]), np.array([draws])) for score, draws in pair))
    return {"difference": ours - other, "low": low, "high": high, "p": p}


def _places(path: str, references: list[str], ref: str) -> list[int]:
    """Return the places of the file's lines in the references. Equal lines get the places of their occurrences."""
    places = defaultdict(list)
    for index, line in enumerate(references):
        places[line].append(index)
    chosen = []
    for number, line in enumerate(read_lines(path), start=1):
        if not places[line]:
            raise InputError(f"{path}, line {number}: this line does not occur in {ref}, or not as often as in {path}")
        chosen.append(places[line].pop(0))
    if not chosen:
        raise InputError(f"{path}: expected references from {ref}, found an empty file")
    return chosen


def _listing(content: dict, tokenized: bool) -> str:
    """Return the printed text: the metrics that papers report, a line for each subset, and warnings."""
    from transformer.evaluation.bleu import TER_LONG, TER_SHORT, TER_WORDS, warnings

    lines, printed = [f"{content['sentences']:,} sentences"], ("sacrebleu", "tokenized") if tokenized else PRINTED
    for name in printed:
        result = content["scores"][name]
        interval = f"  ({result['low']:.2f} – {result['high']:.2f})" if "low" in result else ""
        lines.append(f"{name:12}  {result['score']:5.2f}{interval}  {result['signature']}")
    if other := content.get("against"):
        numbers = "{difference:+5.2f}  ({low:+.2f} – {high:+.2f})  p = {p:.3f}".format_map(other)
        lines.append(f"{'difference':12}  {numbers}; {other['metric']} of --hyp minus --against, paired bootstrap")
    for name, part in content["subsets"].items():
        results = ", ".join(f"{metric} {part['scores'][metric]['score']:.2f}" for metric in printed)
        lines.append(f"{part['sentences']:,} sentences ({name}): {results}")
    if not tokenized:
        lines += [f"! {line}" for line in warnings(content["hyp_marks"], content["ref_marks"], content["sentences"])]
    if not (tokenized or "ter" in content["scores"]):
        most = f"{TER_WORDS} words, and up to {TER_LONG:,} words in total beyond the first {TER_SHORT} of each line"
        lines.append(f"! TER is left out: expected lines of up to {most}, found more")
    return "\n".join([*lines, "--json FILE writes all metrics with all digits; docs/bleu.md explains the metrics."])


def evalb(
    *,
    gold: str,
    test: str,
    gold_tags: bool = False,
    parses: str | None = None,
    run: Path | None = None,
    weights: Path | None = None,
    json: File | None = None,
) -> None:
    """Score parses by labelled brackets, like EVALB (Sekine & Collins) with COLLINS.prm.

    An empty line in --test skips its sentence. A sentence whose words differ from --gold is an error. EVALB also treats
    a wrongly tagged comma as an error and drops the sentence. With --gold-tags, the wrong tag costs nothing.

        python -m transformer evalb --gold resources/corpora/grammar-test.trees --test RUN/test.trees --gold-tags

    Args:
        gold: file with the treebank's trees, one per line
        test: file with the parser's trees, one per line, with the words of --gold
        gold_tags: use the tags in --gold, not each tree's own tags, to decide which punctuation is ignored
        parses: file of `parse --json` with the repairs; adds scores that count each repaired tree as failed
        run: folder of the run that parsed
        weights: weights file of the parses; default: RUN/average.safetensors
        json: file for the scores, checksums, a description of --run and the bootstrap samples of F1
    """
    from transformer.parsing.brackets import SHORT, bracket_scores, compare, read_gold_and_test, unparsed

    files = {"--gold": [gold], "--test": [test], "--parses": [parses], "--weights": [weights]}
    require_separate({"--json": json}, files, run)
    about = describe(run, weights)
    digests = hashlib.sha256(), hashlib.sha256()
    pairs = list(read_gold_and_test(gold, test, *digests))
    sentences = [compare(*pair, number, gold_tags) for number, pair in enumerate(pairs, start=1)]
    content = {
        "gold": gold,
        "gold_sha256": digests[0].hexdigest(),
        "test": test,
        "test_sha256": digests[1].hexdigest(),
        "by": "gold tags" if gold_tags else "evalb",
        "scores": bracket_scores(sentences),
        "errors": [{"line": each.number, "why": each.why} for each in sentences if each.status == "error"],
    }
    if parses:
        repaired = content["repaired"] = sorted(map(int, read_parses(parses, test, len(sentences))["repaired"]))
        as_failed = [unparsed(each) if each.number in set(repaired) else each for each in sentences]
        content["without_repair"] = bracket_scores(as_failed)
    if gold_tags:
        content["strict"] = bracket_scores(compare(*pair, number) for number, pair in enumerate(pairs, start=1))
    both = content["scores"]["all"], content["scores"]["len40"]
    cells = [(name.replace("_", " "), *(_evalb_text(scores[name]) for scores in both)) for name in both[0]]
    headings = "", "all", f"<= {SHORT} words"
    print(tabulate(cells, headings, "plain", disable_numparse=True, colalign=["left", "right", "right"]))
    for each in content["errors"]:
        print(f"{test}, line {each['line']}: {each['why']}")
    if json:
        draws = f1_draws([(each.matched, each.gold, each.test) for each in sentences])
        _write_score(json, content | {"run": about}, draws)


def _evalb_text(value: float | None) -> str:
    """Format a number like EVALB. A missing number becomes a dash."""
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _write_score(path: Path, content: dict, draws: list[float]) -> None:
    """Write a score file with its checksum. If it describes a run, its last line has the bootstrap samples."""
    own = {"draws": draws} if content["run"] else {}
    content |= {"sha256": with_sum(content | own)["sha256"]}
    text = json_module.dumps(content, indent=2, ensure_ascii=False)
    if own:
        text = f'{text[:-2]},\n  "draws": {json_module.dumps(draws)}\n}}'
    write(path, f"{text}\n".encode(errors="backslashreplace"))  # a file name may not be valid UTF-8
