"""Corpora of 200 lines from English to five languages in other scripts, made from their words."""

# ruff: noqa: RUF001
import itertools
import random
from pathlib import Path

from support.toy import write_text

TIMES = ("today", "often", "here", "now")
SUBJECTS = ("the boy", "the girl", "the teacher", "the mother", "the friend", "the doctor", "the family", "the king")
VERBS = ("sees", "buys", "draws", "finds", "remembers", "hides")
OBJECTS = ("a book", "a ball", "a house", "a flower", "a picture", "meat", "a letter", "an apple")
# Time, subject, verb and object in the order above, and the sentence: without spaces, with apostrophes, with nukta and
# danda, from the right and with U+200C, without spaces and with marks above.
WORDS = {
    "zh_CN": (
        "今天 经常 在这里 现在",
        "男孩 女孩 老师 母亲 朋友 医生 家人 国王",
        "看见 购买 画出 找到 记得 藏起",
        "书 球 房子 花 图画 肉 信 苹果",
        "{0}，{1}{2}{3}。",
    ),
    "uk": (
        "сьогодні часто тут зараз",
        "хлопчик дівчинка вчитель мати друг лікар сім'я король",
        "бачить купує малює знаходить пам'ятає ховає",
        "книгу м'яч будинок квітку картину м'ясо лист яблуко",
        "{0} {1} {2} {3}.",
    ),
    "hi": (
        "आज अक्सर यहाँ अभी",
        "लड़का लड़की शिक्षक माँ दोस्त डॉक्टर परिवार राजा",
        "देखता ख़रीदता बनाता ढूँढता जानता छिपाता",
        "किताब गेंद घर फूल चित्र मांस पत्र सेब",
        "{0} {1} {3} {2} है।",
    ),
    "fa-IR": (
        "امروز گاهی اینجا اکنون",
        "پسر دختر معلم مادر دوست پزشک خانواده پادشاه",
        "می‌بیند می‌خرد می‌کشد می‌یابد می‌شناسد می‌پوشاند",
        "کتاب توپ خانه گل عکس گوشت نامه سیب",
        "{0} {1} {3} را {2}؟",
    ),
    "th": (
        "วันนี้ บ่อยๆ ที่นี่ ตอนนี้",
        "เด็กชาย เด็กหญิง ครู แม่ เพื่อน หมอ ครอบครัว กษัตริย์",
        "เห็น ซื้อ วาด พบ จำ ซ่อน",
        "หนังสือ ลูกบอล บ้าน ดอกไม้ รูปภาพ เนื้อ จดหมาย แอปเปิล",
        "{0} {1}{2}{3}",
    ),
}
SPLITS = {"train": slice(160), "dev": slice(160, 180), "test": slice(180, 200)}

TASK = """
      en-{0}: {{source: en, target: {0}, train: [{0}-train], dev: {0}-dev, test: {0}-test, vocabulary: 140,
        embedding_rows: 140}}"""
SCALE = """
scales:
  scripts:
    label: five scripts
    width: 8
    depth: 2
    seeds: [1]
    rows: [base]
    base: {N: 2, steps: 250, warmup_steps: 80, source_tokens: 600, target_tokens: 600, checkpoint_every: 10}
    experiments: {}
    running: {evaluate_every: 125, bleu_sentences: 20}
    tasks:"""


def write_corpora(project: Path) -> Path:
    """Write the corpora and a configuration of one scale with a task for each; return the latter."""
    places = list(itertools.product(*map(range, map(len, (TIMES, SUBJECTS, VERBS, OBJECTS)))))
    corpora, tasks = "corpora:", ""
    for code, (*words, sentence) in WORDS.items():
        words = [part.split() for part in words]
        chosen = random.Random(code).sample(places, 200)
        sides = {
            "en": ["{}, {} {} {}.".format(*pick((TIMES, SUBJECTS, VERBS, OBJECTS), place)) for place in chosen],
            code: [sentence.format(*pick(words, place)) for place in chosen],
        }
        for split, part in SPLITS.items():
            paths = {side: write_text(project / f"{code}-{split}.{side}", lines[part]) for side, lines in sides.items()}
            files = ", ".join(f"{side}: {{path: {path.name}}}" for side, path in paths.items())
            corpora += f"\n  {code}-{split}: {{files: {{{files}}}}}"
        tasks += TASK.format(code)
    (project / "scripts.yaml").write_text(corpora + SCALE + tasks, encoding="utf-8")
    return project / "scripts.yaml"


def pick(columns: tuple | list, place: tuple[int, ...]) -> list[str]:
    return [column[number] for column, number in zip(columns, place, strict=True)]
