"""Text of any language is restored from subwords, its pairs are kept, and its scores are meaningful."""
# ruff: noqa: RUF001

import json
import re
import unicodedata

import pytest
from msgspec.structs import replace
from sacrebleu.tokenizers import tokenizer_ja_mecab, tokenizer_ko_mecab
from support.commands import do
from support.toy import write_text

from transformer.config.experiment import Preprocessing
from transformer.data.corpus import Subwords, blank, learn
from transformer.data.preprocessing import tokenize_split
from transformer.data.tokenization import _RULES, Tokenizer, _flaw, language_of, no_rules, uses_moses
from transformer.evaluation.bleu import cut, marks, missing_tokenizer, moses_tokens, scores, tokenizer_of, warnings
from transformer.layout import Data

MOSES = Preprocessing(normalize_punctuation=True, escape=True, max_words=80, max_ratio=9.0, vocabulary_sentences=1000)
NONE = replace(MOSES, tokenizer="none")
CODES = "fr-FR fr, EN en, en-US en, pt_BR pt, zh_TW zh, DE de, uk uk, zh-Hant-HK zh, deu_Latn de, cmn_Hans zh, jpn ja, "
CODES += "cn zh, chi zh, jp ja, kr ko"


@pytest.fixture(autouse=True)
def without_mecab(monkeypatch):
    for module in (tokenizer_ja_mecab, tokenizer_ko_mecab):
        monkeypatch.setattr(module, "MeCab", None)


@pytest.mark.parametrize(("code", "language"), [pair.split() for pair in CODES.split(", ")])
def test_a_language_has_one_code(code, language):
    assert language_of(code) == language
    line = "L'homme n'est-il pas là, z.B. am 3. Mai?"
    assert Tokenizer(code, MOSES).tokenize(line) == Tokenizer(language, MOSES).tokenize(line)
    assert moses_tokens([line], code) == moses_tokens([line], language)


def test_a_code_without_rules_is_named():
    assert no_rules("pt_BR") is None
    assert no_rules("xx-YY").startswith("xx-YY: Moses has no rules for language 'xx'")


def test_the_key_decides_for_all_languages_or_each_has_its_own_tokeniser():
    moses = {code for code in (*_RULES, "uk", "ja", "xx") if uses_moses(code, MOSES)}
    assert moses == {"cs", "de", "en", "es", "fr", "hu", "is", "lt", "sk", "sl"}
    for code in ("en", "uk"):
        assert uses_moses(code, replace(MOSES, tokenizer="moses"))
        assert not uses_moses(code, NONE)


COME_BACK = [
    ("uk", "П'ять хлопців з'їли м'ясо на подвір'ї."),
    ("de", "Wie geht's dir? Ich hab's vergessen."),
    ("de", "Hans' Haus ist hier."),
    ("en", 'Mr. Smith doesn\'t like "A & B" [sic], does he?'),
    ("de", "Dr. Müller wohnt z.B. am 3. Oktober in Köln-Süd, oder?"),
    ("fr", "C'est-à-dire qu'il y a 3,5 % de plus !"),
    ("de", "Ich hab 'ne Frau."),
    ("en", "I love 'em, and the dogs don't."),
    ("fr-FR", "L'homme n'est pas là aujourd'hui, dit M. Dupont."),
    ("fa", "بچه‌ها در باغ بازی می‌کنند."),
    ("hi", "बच्चे बगीचे में ज़ोर-ज़ोर से हँस रहे हैं।"),
    ("km", "ក្មេងៗ\u200bកំពុង\u200bលេង\u200bក្នុង\u200bសួន។"),
    ("zh", "下个星期我们要去山上看雪，你想一起去吗？"),
    ("ja", "「冷たい水が飲みたい」と彼女は言った。（笑）"),
    ("ko", "저는 학교에 갑니다. 밥을 먹었어요?"),
    ("en", "The 👨‍👩‍👧 and 👍🏽 and 🇩🇪 are here!"),
    ("de", unicodedata.normalize("NFD", "Die Mädchen grüßen den König über die Brücke.")),
    ("cs", "On má 3 psy a koček je 5."),
    ("es", "¿Qué dices? ¡Vámonos a las 3 p.m. con el Sr. Gómez!"),
    ("hu", "Az 5. évfordulón, pl. Budapesten, ugye?"),
    ("is", "Hann kom 3. maí, t.d. með Jóni."),
    ("lt", "Jis atėjo, pvz., 5 d. ryto."),
    ("sk", "Prišiel napr. o 5. hodine, však?"),
    ("sl", "Prišel je npr. ob 5. uri, kajne?"),
    ("vi", unicodedata.normalize("NFD", "Bọn trẻ đang chơi trong vườn.")),
]


# Moses damages these. Recorded runs of the languages use it: apostrophes within words, letters with a combining mark,
# and characters with a joiner.
BROKEN = [line for code, line in COME_BACK if code == "de" and re.search("geht's|Hans'|a\u0308", line)]
BROKEN += [line for code, line in COME_BACK if "\u200d" in line and code == "en"]


@pytest.mark.parametrize("preprocessing", [MOSES, replace(MOSES, escape=False)], ids=["usual", "bare"])
@pytest.mark.parametrize(("code", "line"), COME_BACK)
def test_text_comes_back(code, line, preprocessing):
    tokenizer = Tokenizer(code, preprocessing)
    words = tokenizer.tokenize(line)
    if line in BROKEN:
        assert tokenizer.detokenize(words) != line
        return
    assert tokenizer.detokenize(words) == unicodedata.normalize("NFC", line)
    assert tokenizer.tokenize(tokenizer.detokenize(words)) == words


RAW = [line for _, line in COME_BACK] + [
    "П’ять «добрих» слів",
    "他说：“你好。”……我——用 iPhone 手机！",
    "「え？」１２３！",
    "I &apos;m here &amp; &quot; there &quot; , it &apos;s &#91; sic &#93; .",  # already tokenised and escaped
    " „Ein\t Wort“ \u2013  'n' mehr @-@ &amp;amp; ",
]


@pytest.mark.parametrize("changes", [{}, {"escape": False}, {"normalize_punctuation": False}, {"decapitalize": True}])
def test_raw_text_comes_back_from_subwords(tmp_path, changes):
    """Text is not normalised, cut, escaped or unescaped. Only NFC is applied, and runs of blanks become one space."""
    expected = [" ".join(unicodedata.normalize("NFC", line).split()) for line in RAW]
    tokenizer = Tokenizer("de", replace(NONE, **changes))
    words = list(map(tokenizer.tokenize, RAW))
    assert changes.get("decapitalize") or words == expected
    learn([write_text(tmp_path / "text", words)], 700, 1000, tmp_path / "model")
    subwords = Subwords(tmp_path / "model")
    back = [tokenizer.detokenize(line) for line in subwords.decode(subwords.encode(words))]
    assert [line[1:] for line in back] == [line[1:] for line in expected]
    assert changes.get("decapitalize") or back == expected


def test_czech_that_the_library_fails_at():
    assert Tokenizer("cs", MOSES).detokenize("a' - mail").replace(" ", "") == "a'-mail"


@pytest.mark.parametrize(
    ("source", "code", "target", "expected"),
    [
        ("The children play in the garden .", "zh", "孩子们在花园里玩耍，妈妈坐在树下看书。", None),
        ("My brother bought a new red bicycle yesterday .", "ja", "弟は昨日、新しい自転車を買いました。", None),
        ("The children are playing .", "th", "เด็กๆกำลังเล่นอยู่ในสวน", None),
        (" ".join(["word"] * 80), "zh", "字" * 150, None),
        ("one", "zh", "字" * 30, "unequal"),
        (" ".join(["word"] * 80), "zh", "字" * 170, "long"),
        ("A word", "zh", "\u200b", "blank"),
        ("", "zh", "字", "blank"),
        *[("word " * 80, "uk", "word " * 80, None), ("word " * 81, "de", "word " * 80, "long")],
        *[("word " * 9, "uk", "word", None), ("word " * 8, "de", "word " * 73, "unequal")],
    ],
)
def test_which_pairs_are_left_out(source, code, target, expected):
    counts = Tokenizer("en", MOSES).count_words(source), Tokenizer(code, MOSES).count_words(target)
    assert _flaw(*counts, MOSES) == _flaw(*reversed(counts), MOSES) == expected


def test_preprocessing_reports_lost_text(tmp_path, caplog):
    caplog.set_level("INFO", "transformer")
    files = {"train": (["a b", "c", ""], ["字字", "字" * 30, "字"]), "dev": (["a"], ["他说“好”"])}
    how = {"train": (("xx", "ja"), MOSES), "dev": (("xx", "uk"), replace(MOSES, tokenizer="moses"))}
    for split, sides in files.items():
        corpus = tuple(write_text(tmp_path / f"{split}.{side}", text) for side, text in zip("ez", sides, strict=True))
        data = Data(tmp_path / "data")
        tokenize_split(data, split, [corpus], *how[split], 1, clean=split == "train")
    line, *others, last = caplog.messages
    assert line.endswith("; dropped: 1 with a blank side, 0 too long (max_words), 1 too unequal (max_ratio)")
    assert [each[:14] for each in others] == ["! ja-mecab is "]
    counts = json.loads(data.counts("train").read_text())
    assert counts.pop("files").keys() == {"train.source.tok", "train.target.tok"}
    assert counts == {"read": 3, "kept": 1, "blank": 1, "long": 0, "unequal": 1}
    assert re.search(r"; tokenisation changes 1 of 1 lines of dev.z: the maximum sacreBLEU is \d+\.\d$", last)


HYPOTHESES = ["我弟弟昨天在商店买了一辆红色的新自行车，他很高兴。", "孩子们在花园里玩，母亲坐在树下看书。"]
REFERENCES = ["我弟弟昨天在商店里买了一辆新的红色自行车，他非常高兴。", "孩子们在花园里玩耍，妈妈坐在树下看书。"]


@pytest.mark.parametrize(
    ("code", "tokenizer"), [("cmn_Hans", "zh"), ("ja", "char"), ("ko", "char"), ("th", "char"), ("bod_Tibt", "char")]
)
def test_scores_of_languages_without_spaces(code, tokenizer):
    assert tokenizer_of(code) == tokenizer
    found = scores(HYPOTHESES, REFERENCES, code)
    for name in ("sacrebleu", "sacrebleu_lc", "tokenized", "tokenized_lc", "plain_quotes", "normalized"):
        assert found[name]["score"] == pytest.approx(61.1167, abs=1e-4)  # the score of `sacrebleu --tokenize zh`
        assert f"|tok:{tokenizer}" in found[name]["signature"]
    assert 15 < found["ter"]["score"] < 50
    assert cut(["他说"], code) == ["他 说"]


def test_a_score_of_characters_is_reported(tmp_path, capsys):
    """Nothing is printed about abbreviations, because these languages are not scored with Moses."""
    side = write_text(tmp_path / "text", ["弟は昨日、新しい自転車を買いました。"])
    lines = {"ja-JP": "! ja-mecab is not installed (pip install 'sacrebleu[ja]')", "th": "! th: BLEU counts characters"}
    for code, line in lines.items():
        do("score", "--hyp", side, "--ref", side, "--lang", code)
        shown = capsys.readouterr().out
        assert line in shown
        assert "English abbreviations" not in shown
    assert missing_tokenizer("zh") is missing_tokenizer("de") is None


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("DE", "Die Mädchen grüßen den König über die Brücke."),
        ("ko", "나는 어제 서울에서 친구를 만났다."),
        ("ja", "彼はパリでパンを食べた。"),
    ],
)
def test_decomposed_text_scores_as_composed(code, line):
    found, composed = (scores([line], [unicodedata.normalize(form, line)], code) for form in ("NFD", "NFC"))
    assert found.pop("paper") == composed.pop("paper")
    assert {name: of["score"] for name, of in found.items()} == {name: of["score"] for name, of in composed.items()}
    assert found["plain_quotes"]["score"] == pytest.approx(100)
    assert found.get("compound_split") == composed.get("compound_split")


@pytest.mark.parametrize(("hypothesis", "reference"), [(HYPOTHESES[0], "Ja"), ("", "Ja"), ("بچه‌ها", "Ja"), ("Ja", "")])
def test_what_has_no_capitals_is_not_in_lower_case(hypothesis, reference):
    assert not warnings(marks([hypothesis]), marks([reference]), 1)


@pytest.mark.parametrize("line", ["\0", "\u200b", "\ufeff", "\u00ad", "\u2581", " \u2581\u200d \t", "", "\u3000"])
def test_what_nobody_sees_is_a_blank_line(line):
    assert blank(Tokenizer("de", MOSES).tokenize(line))
    assert blank(Tokenizer("de", NONE).tokenize(line))
    assert not blank(f"{line}a")


def test_long_lines_and_a_reserved_character_are_learned_from(tmp_path, caplog):
    long = write_text(tmp_path / "long", ["ab cd " * 1000 + letter for letter in "xyz"])
    learn([long], 20, 100, tmp_path / "model")
    assert Subwords(tmp_path / "model").decode(Subwords(tmp_path / "model").encode(["x y z"])) == ["x y z"]
    learn([write_text(tmp_path / "text", ["ab \u2585 x", "cd"])], 12, 100, tmp_path / "model")
    assert Subwords(tmp_path / "model").decode(Subwords(tmp_path / "model").encode(["x"])) == ["x"]
    assert [record.getMessage()[:29] for record in caplog.records] == ["1 lines contain U+2585, which"]
