"""The shared vocabulary restores its training text, and is reproducible byte for byte."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from transformer.config.experiment import EOS, PAD, UNK
from transformer.data.corpus import Subwords, learn
from transformer.storage.files import InputError

ROOT = Path(__file__).parents[2]
SIZE = 100
NOUNS = ("cat", "dog", "house", "tree", "river", "R2D2", "\ufb01le", "\uff12nd", "\uff2böln")
VERBS = ("sees", "hears", "likes", "paints")
LINES = [f"the {first} {verb} &quot; {second} &quot; ." for first in NOUNS for verb in VERBS for second in NOUNS]
ALPHABET = sorted(set("".join(LINES)) - {" "})
words = st.text(st.sampled_from(ALPHABET), min_size=1, max_size=12)
sentences = st.lists(words, max_size=12).map(" ".join)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("subwords") / "text"
    path.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def vocabulary(text):
    learn([text], SIZE, 1000, text.with_name("model"))
    return Subwords(text.with_name("model"))


@given(sentences)
def test_words_of_the_alphabet_survive(vocabulary, sentence):
    """EOS is the last token and occurs only there."""
    (ids,) = vocabulary.encode([sentence])
    assert vocabulary.decode([ids]) == vocabulary.decode([ids[:-1]]) == [sentence]
    assert ids.index(EOS) == len(ids) - 1
    assert not {PAD, UNK} & set(ids)


@pytest.mark.parametrize(("longest", "pieces"), [(None, 4), (64, 1)])
def test_a_long_word_is_one_subword_if_subwords_may_be_so_long(text, longest, pieces):
    word, longer, model = "tree" * 9, text.with_name("longer"), text.with_name("model-of-longer")
    longer.write_text(text.read_text(encoding="utf-8") + f"{word}\n" * 1000, encoding="utf-8")
    learn([longer], SIZE, 10_000, model, longest=longest)
    (ids,) = Subwords(model).encode([word])
    assert len(ids) == pieces + len([EOS])


def test_words_are_not_split_at_digits_or_signs(vocabulary):
    """R2D2 is as frequent as the other nouns, and each noun becomes one subword. The quotes are more frequent."""
    (ids,) = vocabulary.encode(["&quot; R2D2 cat"])
    assert vocabulary.processor.id_to_piece(ids) == ["▁&quot;", "▁R2D2", "▁cat", "</s>"]


def test_another_process_learns_the_same_bytes(text, tmp_path):
    learn([text], SIZE, 150, tmp_path / "here")  # fewer lines than the text has
    program = f"from transformer.data.corpus import learn; learn(['{text}'], {SIZE}, 150, '{tmp_path}/there')"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        (5000, r"cannot learn 5000 subwords: Vocabulary size too high \(5000\)\. Please set it to a value <= (\d+)\."),
        (9, r"expected a vocabulary of (\d+) or more for 3 special symbols and \d+ characters, found 9"),
    ],
)
def test_an_impossible_size_is_refused_with_the_limit(text, tmp_path, size, problem):
    with pytest.raises(InputError) as refused:
        learn([text], size, 1000, tmp_path / "model")
    limit = re.fullmatch(rf"{text}: {problem}", str(refused.value))[1]
    assert list(tmp_path.iterdir()) == []
    learn([text], int(limit), 1000, tmp_path / "model")
    assert len(Subwords(tmp_path / "model")) == int(limit)


@pytest.mark.parametrize("blank", ["", " \n\n"])
def test_text_without_words_is_refused(tmp_path, blank):
    (tmp_path / "text").write_text(blank)
    with pytest.raises(InputError, match=r"text: expected text, found no words$"):
        learn([tmp_path / "text"], SIZE, 10, tmp_path / "model")


def test_a_foreign_vocabulary_is_refused(tmp_path):
    with pytest.raises(InputError, match="none: cannot be read: No such file"):
        Subwords(tmp_path / "none")
    (tmp_path / "text").write_bytes(b"the cat sees")
    with pytest.raises(InputError, match=rf"^{tmp_path}/text: not a SentencePiece model$"):
        Subwords(tmp_path / "text")
    with open(tmp_path / "foreign", "wb") as model:
        options = {"model_type": "bpe", "vocab_size": SIZE, "minloglevel": 1}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=model, **options)
    with pytest.raises(InputError, match=r"foreign: expected ids pad, eos, .*, found \(-1, 2, 0, 1\)$"):
        Subwords(tmp_path / "foreign")
