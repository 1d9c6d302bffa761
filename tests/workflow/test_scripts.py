"""Five languages in other scripts, from YAML to Table 2."""

import csv
import json
import re

import pytest
from support.project import copy_project, snakemake
from support.scripts import LANGUAGES, write_corpora

TABLE = "results/scripts/tables/table2.csv"


@pytest.mark.slow
def test_five_scripts_from_yaml_to_table_2(tmp_path):
    """A model of this size learns 160 sentences up to a BLEU near 100, both by words and by sacreBLEU."""
    project = copy_project(tmp_path)
    options = ["--configfile", str(write_corpora(project)), "--config", "scale=scripts", "--", TABLE]
    result = snakemake(project, *options)
    assert result.returncode == 0, result.stderr
    (row,) = (row for row in csv.DictReader((project / TABLE).read_text("utf-8").splitlines()) if row["by"] == "ours")
    for code in LANGUAGES:
        assert float(row[f"en-{code}_bleu"]) > 60
        assert float(row[f"en-{code}_sacrebleu"]) > 60
        train, dev, test = (
            (project / f"logs/tokenize/scripts/en-{code}/{split}.log").read_text("utf-8")
            for split in ("train", "dev", "test")
        )
        assert "kept 160 of 160 pairs; dropped: 0 with a blank side, 0 too long (max_words), 0 too unequal" in train
        lost = re.findall(r"changes (\d+) of 40 lines of .*?: the maximum sacreBLEU is (\d+\.\d)", dev + test)
        assert lost == 2 * [("0", "100.0")]
        score = json.loads((project / f"results/scripts/runs/en-{code}/base/1/test.json").read_text("utf-8"))
        tokenizer = {"zh_CN": "zh", "th": "char"}.get(code, "13a")
        assert f"|tok:{tokenizer}|" in score["scores"]["sacrebleu"]["signature"]
