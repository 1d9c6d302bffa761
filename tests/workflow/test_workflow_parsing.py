"""From treebanks to Table 4 with real Snakemake: the Penn Treebank's folders, made here."""

import csv
import json
from pathlib import Path

import pytest
from support.project import copy_project, snakemake

from transformer.data.grammar import take

WSJ = """
corpora:
  ptb-train: {treebank: {path: wsj, sections: [2, 4]}, lines: 30}
  ptb-dev: {treebank: {path: wsj, sections: [22, 22]}, lines: 10}
  ptb-test: {treebank: {path: flat, sections: [23, 23]}, lines: 10}
  grammar-test: {grammar: {take: 10}}
scales:
  ptb:
    label: a few sentences
    width: 16
    depth: 2
    seeds: [1]
    base: {steps: 4, warmup_steps: 2, source_tokens: 300, target_tokens: 300, checkpoint_every: 1,
      averaged_checkpoints: 2}
    experiments: {}
    tasks:
      en-de: {source: en, target: de, train: [grammar-train], dev: grammar-dev, test: grammar-test, vocabulary: 600,
        embedding_rows: 600}
    parsing:
      seeds: [1, 2]
      parser: {}
      tasks:
        alone: &alone {training: WSJ only, label: "WSJ, section 23", train: [ptb-train], dev: ptb-dev, test: ptb-test,
          elsewhere: grammar-test, vocabulary: 60, symbols: 50}
        both: {<<: *alone, training: WSJ and trees of ours, phrases: 9, silver: {path: silver.trees, repeat: 3}}
"""


def combined(tree: str) -> str:
    """Write a tree as a .mrg file has it: over lines, the outermost bracket unnamed, with functions and a trace."""
    tree = tree.replace("(NP ", "(NP-SBJ-1 ", 1).replace("(VP ", "\n    (VP (NP=2 (-NONE- *T*-1)) ", 1)
    return f"\n( {tree} )\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Copy the project, with a treebank: sections 02 to 04 and 22 in folders, 23 in a flat one."""
    project = copy_project(tmp_path_factory.mktemp("ptb"))
    trees = [combined(item.tree) for item in take(7, 0, 50)]
    files = ["wsj/02/wsj_0201.mrg", "wsj/03/wsj_0300.mrg", "wsj/04/wsj_0499.mrg", "wsj/22/wsj_2200.mrg"]
    for number, name in enumerate([*files, "flat/wsj_2301.mrg"]):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("".join(trees[10 * number : 10 * number + 10]), encoding="utf-8")
    (project / "silver.trees").write_text("".join(item.tree + "\n" for item in take(7, 50, 5)), encoding="utf-8")
    (project / "ptb.yaml").write_text(WSJ)
    return project


OWN = ("--configfile", "ptb.yaml", "--config", "scale=ptb", "--")


@pytest.mark.slow
def test_from_the_penn_treebanks_files_to_table_4(project):
    result = snakemake(project, *OWN, "results/ptb/tables/table4.md")
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader((project / "results/ptb/tables/table4.csv").read_text("utf-8").splitlines()))
    assert [row["by"] for row in rows[-2:]] == ["ours", "ours"]
    for row in rows[-2:]:
        assert (row["label"], row["seeds"], row["sentences"]) == ("WSJ, section 23", "2", "10")
        assert 0 <= float(row["f1"]) <= 100
        assert float(row["f1_elsewhere"]) >= 0
    # Traces and functions are gone: the parser learns the grammar's own trees.
    trees = (project / "resources/corpora/ptb-test.trees").read_text(encoding="utf-8").splitlines()
    assert trees == [f"(TOP {item.tree})" for item in take(7, 40, 10)]
    # Phrases and silver trees are added to one task alone.
    data = project / "results/ptb/data"
    alone, both = (json.loads((data / task / "train.json").read_text()) for task in ("alone", "both"))
    assert alone == {"kept": 30, "trees": 30, "phrases": 0, "repeat": 1, "silver": 0}
    assert both == {"kept": 3 * (30 + 9) + 5, "trees": 30, "phrases": 9, "repeat": 3, "silver": 5}


def test_without_the_penn_treebank_all_other_tables_are_made(tmp_path):
    """`all` says so; whoever asks for Table 4 learns what is missing."""
    result = snakemake(copy_project(tmp_path), "--dry-run", "--config", "scale=paper")
    assert result.returncode == 0, result.stderr
    assert "`all` leaves out table4: no folder resources/wsj with the Penn Treebank" in result.stderr
    assert "results/paper/tables/table4" not in result.stdout
    result = snakemake(tmp_path, "--dry-run", "--config", "scale=paper", "--", "results/paper/tables/table4.md")
    assert "rule treebank" in result.stdout
