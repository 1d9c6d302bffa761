"""Groups by length: joined by hand, and scored as the stages translate and score do it."""

import numpy as np
import pytest
from msgspec.structs import replace
from support.probing import by_stages, measured, options

from transformer import __main__
from transformer.config.experiment import Decoding, load, save
from transformer.data.subwords import Subwords
from transformer.evaluation.lengths import Sentence, by_length, join, join_within
from transformer.model.packed import POSITIONS

pytestmark = pytest.mark.usefixtures("on_the_processor")


def words(text: str) -> int:
    return len(text.split())


def sentences(*sources: str) -> list[Sentence]:
    """Return sentences whose references are in capitals."""
    return [Sentence(source, source.upper(), words(source)) for source in sources]


def test_neighbours_are_joined_until_they_are_long_enough():
    joined = join(sentences("a b", "c", "d", "e f g", "h", "i j k"), 4, words)
    assert joined == [("a b c d", "A B C D", 4), ("e f g h", "E F G H", 4)]  # "i j k" alone is too short


def test_neighbours_are_joined_as_long_as_they_are_no_longer():
    joined = join_within(sentences("a b", "c", "d", "e f g", "h i j k l", "m"), 4, words)
    assert joined == [("a b c d", "A B C D", 4)]  # the others stay alone


def test_a_sentence_that_is_long_enough_stays_alone():
    assert join(sentences("a b", "c d e"), 2, words) == sentences("a b", "c d e")
    assert join(sentences("a", "b"), 3, words) == []


def test_tokens_of_the_whole_are_counted():
    """A count that is not the sum of the parts', as where a space between two is a token."""
    assert join(sentences("a b", "c"), 5, len) == [("a b c", "A B C", 5)]


def test_groups_are_equal_and_in_order():
    given = sentences("a b c", "d", "e f g h i", "j k", "l m n o", "p q", "r s t u v w", "x y z", "1 2 3 4")
    groups = [[sentence.tokens for sentence in group] for group in by_length(given)]
    assert groups == [[1, 2, 2], [3, 3], [4, 4], [5, 6]]


@pytest.fixture(scope="module")
def lengths(place):
    return measured(place, "lengths", "--data", place / "data", "--times", 1, 2)


def counter(place):
    """Return a function that counts subwords and EOS; the toy's text is tokenised as it stands."""
    vocabulary = Subwords(place / "run" / "vocabulary.model")
    return lambda text: len(vocabulary.processor.encode(text)) + 1


def dev(place) -> list[str]:
    return (place / "dev.en").read_text().splitlines()


def longest(place) -> int:
    """Return the tokens of the longest training sentence, from the text."""
    return max(map(counter(place), (place / "data" / "train.source.tok").read_text().splitlines()))


def test_what_the_groups_hold(lengths, place):
    assert (lengths["positions"], lengths["longest"], lengths["skipped"]) == ("sinusoid", longest(place), 0)
    assert [group["times"] for group in lengths["groups"]] == [None] * 4 + [1, 2]
    singles, joined = lengths["groups"][:4], lengths["groups"][4:]
    assert [group["sentences"] for group in singles] == [11, 10, 10, 10]
    tokens = sorted(map(counter(place), dev(place)))
    quarters = [tokens[:11], tokens[11:21], tokens[21:31], tokens[31:]]
    assert [group["tokens"] for group in singles] == pytest.approx([np.mean(quarter) for quarter in quarters])
    within, twice = joined
    assert singles[3]["tokens"] < within["tokens"] <= longest(place)
    assert 2 * longest(place) <= twice["tokens"] < 3 * longest(place)
    assert within["sentences"] > twice["sentences"] > 2


def test_groups_are_scored_as_the_stages_score_them(lengths, place, tmp_path):
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
    for group, text in zip(lengths["groups"], texts, strict=True):
        expected = by_stages(place / "run", (text, text), tmp_path)
        assert group["sentences"] == len(text)
        assert {key: group[key] for key in expected} == expected
    assert max(group["bleu"] for group in lengths["groups"]) > 0
    assert len({group["length_ratio"] for group in lengths["groups"]}) > 2


def test_joined_sentences_without_positions_are_skipped_and_counted(own, lengths):
    """There is room for twice the longest and no more: nothing of three times is left, and little of twice."""
    decoding = load(own / "run" / "decoding.yaml", Decoding)
    room = 2 * longest(own)
    changes = {"beam": 1, "alpha": 0.0, "extra_length": POSITIONS - room}
    save(replace(decoding, **changes), own / "run" / "decoding.yaml")
    found = measured(own, "lengths", "--data", own / "data", "--times", 1, 2, 3)
    groups = {group["times"]: group for group in found["groups"]}
    assert 3 not in groups
    once, twice = (group["sentences"] for group in lengths["groups"][4:])
    assert groups[1]["sentences"] == once
    kept = groups[2]["sentences"] if 2 in groups else 0
    thrice = len(join([Sentence(line, line, 0) for line in dev(own)], 3 * longest(own), counter(own)))
    assert found["skipped"] == (twice - kept) + thrice > thrice > 0


def test_too_few_sentences_are_refused(place):
    few = ["--data", place / "data", "--times", "1", "--sentences", "3"]
    with pytest.raises(SystemExit, match=r"error: expected 4 sentences at least, one for each group, found 3$"):
        __main__.main(["probe", *options(place, "lengths", *few)])


def test_data_without_offsets_is_refused(place, tmp_path):
    with pytest.raises(SystemExit, match=r"train\.source\.offsets: no offsets of a token array: "):
        __main__.main(["probe", *options(place, "lengths", "--data", tmp_path, "--times", "1")])
