"""BLEU and tokens, compared with recorded output of the Moses scripts. The scripts are not part of this project.

multi-bleu.perl is from mosesdecoder at commit 31473d88. tokenizer.perl is version 1.1 from before November 2018. Later
versions split the full stop from an abbreviation at the end of a line.
"""

import random
from functools import partial

import pytest

from transformer.evaluation.bleu import moses_tokens, token_bleu, without_compounds

WORDS = ["der", "Der", "z.B.", ",", ".", '"', "&quot;", "Fluss-Ufer", "a-b-c", "ä-ö-ü", "-", "--", "1.000", "läuft"]


def random_corpus() -> tuple[list[str], list[str]]:
    """Return a thousand shortened hypotheses with wrong words, and their references: the input of perl."""
    draw = random.Random(1)
    references = [[draw.choice(WORDS) for _ in range(draw.randint(1, 30))] for _ in range(1000)]
    changed = [[draw.choice(WORDS) if draw.random() < 0.3 else word for word in line] for line in references]
    hypotheses = [line[: draw.randint(len(line) // 2, len(line))] for line in changed]
    return [" ".join(line) for line in hypotheses], [" ".join(line) for line in references]


@pytest.mark.parametrize(
    ("change", "printed"),
    [
        (list, "BLEU = 33.21, 83.4/55.3/38.5/27.6 (BP=0.706, ratio=0.742, hyp_len=11478, ref_len=15471)"),
        (
            partial(without_compounds, language="de"),
            "BLEU = 42.93, 84.5/65.8/54.2/44.6 (BP=0.709, ratio=0.744, hyp_len=18042, ref_len=24249)",
        ),
    ],
)
def test_multi_bleu(change, printed):
    hypotheses, references = map(change, random_corpus())
    score = token_bleu().corpus_score(hypotheses, [references])
    precisions = "/".join(f"{precision:.1f}" for precision in score.precisions)
    lengths = f"ratio={score.sys_len / score.ref_len:.3f}, hyp_len={score.sys_len}, ref_len={score.ref_len}"
    assert f"BLEU = {score.score:.2f}, {precisions} (BP={score.bp:.3f}, {lengths})" == printed


LINES = [
    ("de", "Er sagte: „Das geht\u2019s nicht“, und ging.", "Er sagte : „ Das geht \u2019 s nicht “ , und ging ."),
    ("de", "Die 3. Etage, z.B. am 5. Mai, bzw. usw.", "Die 3. Etage , z.B. am 5. Mai , bzw. usw."),
    ("de", "... schwer wie ein iPhone 5.", "... schwer wie ein iPhone 5."),
    ("de", "Text-Datei, E-Mail-Adresse & Co.", "Text-Datei , E-Mail-Adresse &amp; Co."),
    ("de", "1.234,56 € (ca. 20 %), 5:3, 10:30 Uhr", "1.234,56 € ( ca. 20 % ) , 5 : 3 , 10 : 30 Uhr"),
    ("de", "A/B: http://www.x.de/a-b?c=d", "A / B : http : / / www.x.de / a-b ? c = d"),
    ("de", "»So«, «so» \u2013 Was?! Nein…", "» So « , « so » \u2013 Was ? ! Nein …"),
    ("de", "@-@ ##AT## l'été Nr. 5 ist Nr. zwei.", "@ - @ # # AT # # l &apos; été Nr. 5 ist Nr. zwei ."),
    ("en", "So am I.", "So am I."),
    ("en", "John vs. Doe, says vs.", "John vs. Doe , says vs."),
    ("en", "I'm, he'd; '90s rock 'n' roll", "I &apos;m , he &apos;d ; &apos; 90s rock &apos; n &apos; roll"),
    ("en", "No. 5 is no. It is no.", "No. 5 is no . It is no ."),
    ("en", "“Well…” x[1]|y & z <b>", "“ Well … ” x &#91; 1 &#93; &#124; y &amp; z &lt; b &gt;"),
    ("fr", "« Bonjour », dit M. Dupont.", "« Bonjour » , dit M. Dupont ."),
    ("fr", "aujourd'hui, c\u2019est-à-dire 3,5 % !", "aujourd&apos; hui , c \u2019 est-à-dire 3,5 % !"),
    ("fr", "Des gens admirent une œuvre d'art.", "Des gens admirent une œuvre d&apos; art."),
    ("fr", "M. et Mme. Dupont, qu'il y a-t-il p. 5.", "M. et Mme . Dupont , qu&apos; il y a-t-il p. 5 ."),
]


@pytest.mark.parametrize(("language", "line", "printed"), LINES)
def test_tokenizer(language, line, printed):
    assert moses_tokens([line], language, escape=True) == [printed]
