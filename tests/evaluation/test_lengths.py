"""Groups by length: joined by hand, and scored as the subcommands translate and score them."""

import numpy as np
import pytest
from msgspec.structs import replace
from support.analysing import analyse, by_commands

from transformer.config.experiment import Decoding, load, save
from transformer.data.corpus import Subwords
from transformer.evaluation.lengths import LongSentence, groups_by_length, join_until, join_within, lengths
from transformer.files import InputError
from transformer.model.packed import POSITIONS

pytestmark = pytest.mark.usefixtures("on_the_processor")


def words(text: str) -> int:
    return len(text.split())


def sentences(*sources: str) -> list[LongSentence]:
    """Return sentences whose references are in capitals."""
    return [LongSentence(source, source.upper(), words(source)) for source in sources]


@pytest.mark.parametrize(
    ("way", "limit", "given", "joined"),
    [
        (join_until, 4, ("a b", "c", "d", "e f g", "h", "i j k"), ("a b c d", "e f g h")),  # "i j k" alone is too short
        (join_until, 2, ("a b", "c d e"), ("a b", "c d e")),
        (join_until, 3, ("a", "b"), ()),
        (join_within, 4, ("a b", "c", "d", "e f g", "h i j k l", "m"), ("a b c d",)),  # the others stay alone
    ],
)
def test_neighbours_are_joined(way, limit, given, joined):
    assert way(sentences(*given), limit, words) == sentences(*joined)


def test_tokens_of_the_whole_are_counted():
    """A count that is not the sum of the parts', as where a space between two is a token."""
    assert join_until(sentences("a b", "c"), 5, len) == [("a b c", "A B C", 5)]


def test_groups_are_equal_and_in_order():
    given = sentences("a b c", "d", "e f g h i", "j k", "l m n o", "p q", "r s t u v w", "x y z", "1 2 3 4")
    groups = [[sentence.tokens for sentence in group] for group in groups_by_length(given)]
    assert groups == [[1, 2, 2], [3, 3], [4, 4], [5, 6]]
    with pytest.raises(InputError, match=r"^expected 4 sentences at least, one for each group, found 3$"):
        groups_by_length(given[:3])


@pytest.fixture(scope="module")
def found(place):
    return analyse(lengths, place, data=place / "data", times=[1, 2])


def counter(place):
    """Return a function that counts subwords and EOS; the toy's text is tokenised as it stands."""
    vocabulary = Subwords(place / "run" / "vocabulary.model")
    return lambda text: len(vocabulary.processor.encode(text)) + 1


def dev(place) -> list[str]:
    return (place / "dev.en").read_text().splitlines()


def longest(place) -> int:
    """Return the tokens of the longest training sentence, from the text."""
    return max(map(counter(place), (place / "data" / "train.source.tok").read_text().splitlines()))


def test_groups_are_those_of_the_text_and_of_the_subcommands(found, place, tmp_path):
    count, lines = counter(place), dev(place)
    ordered = sorted(lines, key=count)
    texts = [ordered[:11], ordered[11:21], ordered[21:31], ordered[31:]]
    within, twice, text = [[]], [], ""
    for line in lines:
        if count(" ".join([*within[-1], line])) > longest(place):
            within.append([])
        within[-1].append(line)
        text = f"{text} {line}".strip()
        if count(text) >= 2 * longest(place):
            twice.append(text)
            text = ""
    texts += [[" ".join(parts) for parts in within if len(parts) > 1], twice]
    assert (found["positions"], found["longest"], found["skipped"]) == ("sinusoid", longest(place), 0)
    assert [group["times"] for group in found["groups"]] == [None] * 4 + [1, 2]
    for group, text in zip(found["groups"], texts, strict=True):
        expected = by_commands(place / "run", (text, text), tmp_path)
        assert group["sentences"] == len(text)
        assert group["tokens"] == pytest.approx(np.mean([count(line) for line in text]))
        assert {key: group[key] for key in expected} == expected
    assert max(group["bleu"] for group in found["groups"]) > 0
    assert len({group["length_ratio"] for group in found["groups"]}) > 2


def test_joined_sentences_without_positions_are_skipped_and_counted(own, found):
    """There is room for twice the longest and no more: nothing of three times is left, and little of twice."""
    decoding = load(own / "run" / "decoding.yaml", Decoding)
    changes = {"beam": 1, "alpha": 0.0, "extra_length": POSITIONS - 2 * longest(own)}
    save(replace(decoding, **changes), own / "run" / "decoding.yaml")
    short = analyse(lengths, own, data=own / "data", times=[1, 2, 3])
    groups = {group["times"]: group["sentences"] for group in short["groups"]}
    once, twice = (group["sentences"] for group in found["groups"][4:])
    assert (3 in groups, groups[1]) == (False, once)
    thrice = len(join_until([LongSentence(line, line, 0) for line in dev(own)], 3 * longest(own), counter(own)))
    assert short["skipped"] == (twice - groups.get(2, 0)) + thrice > thrice > 0


def test_data_without_offsets_is_refused(place, tmp_path):
    with pytest.raises(InputError, match=r"train\.source\.offsets: not a token array: "):
        analyse(lengths, place, data=tmp_path, times=[1])
