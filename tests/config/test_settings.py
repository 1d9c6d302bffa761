"""One reader of config.yaml: files, the same refusals by Snakemake and by the verbs, and what is said of runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.project import ENVIRONMENT, copy_project, own_corpus

from transformer.__main__ import main
from transformer.config import settings
from transformer.config.runs import RunName, parts, runs_of_tables
from transformer.config.scales import at
from transformer.files import InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with the project's config.yaml, into which a test may write its own beside it."""
    (tmp_path / "config.yaml").symlink_to(ROOT / "config.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*files: str, entries: tuple[str, ...] = ()) -> str:
    with pytest.raises(InputError) as error:
        settings.read(list(files), list(entries))
    return str(error.value)


# Files.


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("scale: demo\nscale: paper\n", "line 2: expected each key once in a mapping, found 'scale' again"),
        ("base:\n  N: 2\n  h: 4\n  'N': 3\n", "line 4: expected each key once in a mapping, found 'N' again"),
        ('{"base": {"N": 2, "N": 2}}', "line 1: expected each key once in a mapping, found 'N' again"),
        ("base: [\n", "not YAML: "),
        ("base: caf\xe9\n", "not YAML: "),
        ("- 1\n", "expected a mapping, found list"),
        ("", "expected a mapping, found NoneType"),
        (None, "no such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(folder, text, line):
    if text is not None:
        (folder / "own.yaml").write_text(text, encoding="latin-1")
    assert refused("own.yaml").startswith(f"own.yaml: {line}")


def test_a_mapping_may_be_named_twice_and_changed(folder):
    """Anchors, and keys beside those that are merged from another mapping, are no key twice."""
    (folder / "own.yaml").write_text(
        "experiments:\n  wide: &wide {d_ff: 8192, N: 2}\n  deep: {<<: *wide, N: 8}\n  both: *wide\n"
    )
    experiments = settings.read(["own.yaml"], [])["experiments"]
    assert (experiments["deep"], experiments["both"]) == ({"d_ff": 8192, "N": 8}, {"d_ff": 8192, "N": 2})


def test_what_yaml_reads_as_another_kind_is_refused(folder):
    """`no` is a language, and to YAML false; not a number is a number to it."""
    (folder / "own.yaml").write_text("corpora: {newstest2013: {files: {no: {download: wmt17-dev.tgz}}}}\n")
    assert refused("own.yaml") == "config.yaml: corpora.newstest2013.files: False is not of type 'string'"
    (folder / "own.yaml").write_text("base: {rate: .nan}\n")
    assert refused("own.yaml") == "own.yaml: base.rate: expected a finite number, found nan"


@pytest.mark.parametrize(
    ("entry", "line"),
    [("scale", "expected key=value, found scale"), ("scale=[1", "not YAML: scale=[1")],
)
def test_an_entry_of_the_command_line_that_cannot_be_read_is_named(folder, entry, line):
    assert refused(entries=(entry,)) == f"--config: {line}"


def test_a_folder_without_config_yaml_is_not_the_projects(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused() == "config.yaml: no such file: expected in the working folder, which must be the project's"


# Readers.


@pytest.mark.parametrize("verb", ["plan", "doctor", "params"])
def test_verbs_end_with_the_readers_line(folder, verb):
    with pytest.raises(SystemExit) as ended:
        main([verb, "--config", "scale=paper", "base={N: six}"])
    assert str(ended.value) == f"transformer {verb}: error: config.yaml: base.N: 'six' is not of type 'integer'"


def test_snakemake_and_plan_print_the_same_line(tmp_path):
    """Real processes. `snakemake`, which does not look for modules here by itself, finds this copy's package."""
    project = copy_project(tmp_path)
    own_corpus(project)
    (project / "wrong.yaml").write_text("scales: {mine: {tasks: {en-cs: {dev: mine-train}}}}\n")
    (project / "twice.yaml").write_text("scale: demo\nscatter: 1\nscale: demo\n")
    shared = "dev corpus 'mine-train' shares sentences with 'mine-train' in train"
    for files, line in (
        (["own.yaml", "wrong.yaml"], f"config.yaml: scales.mine.tasks.en-cs: {shared}"),
        (["twice.yaml"], "twice.yaml: line 3: expected each key once in a mapping, found 'scale' again"),
    ):
        snakemake = run(project, "snakemake", "-n", "--cores", "1", "--configfile", *files)
        assert snakemake.stderr.splitlines()[-1] == line
        assert "Traceback" not in snakemake.stdout + snakemake.stderr
        plan = run(project, "python", "-m", "transformer", "plan", "--configfile", *files)
        assert plan.stderr == f"transformer plan: error: {line}\n"
        assert (snakemake.returncode, plan.returncode) == (1, 1)
    (project / "transformer/config/settings.py").unlink()
    problem = run(project, "snakemake", "-n", "--cores", "1")
    assert problem.stderr.splitlines()[-1].startswith("Snakefile: cannot import name 'settings' from")
    assert problem.stderr.splitlines()[-1].endswith(f", in {project}")


def run(project: Path, program: str, *arguments: str) -> subprocess.CompletedProcess:
    command = [Path(sys.executable).parent / program, *arguments]
    return subprocess.run(command, cwd=project, env=ENVIRONMENT, text=True, capture_output=True, timeout=300)


def test_snakemakes_text_is_read_as_yaml_has_it(folder):
    """From the command line Snakemake gives `partial=true` as a text."""
    config = yaml.safe_load((folder / "config.yaml").read_text("utf-8")) | {"partial": "true"}
    settings.accept(config, [folder / "config.yaml"])
    assert config["partial"] is True
    with pytest.raises(SystemExit, match=r"^config.yaml: partial: 'perhaps' is not of type 'boolean'$"):
        settings.accept(config | {"partial": "perhaps"}, [])


def test_a_scale_may_state_what_was_tried(folder):
    """As a list of settings with their outcomes, and no other form."""
    config = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    tried = {"setting": "P_drop 0.3", "outcome": "dev BLEU 25.1"}
    config["scales"]["demo"]["tried"] = [tried | {"chosen": True}, tried]
    settings.accept(config, [])
    config["scales"]["demo"]["tried"] = [tried, {"setting": "P_drop 0.1"}]
    with pytest.raises(SystemExit, match=r"^config.yaml: scales.demo.tried.1: 'outcome' is a required property$"):
        settings.accept(config, [])


def test_reading_needs_no_torch():
    code = "import sys; from transformer.config import settings; print('torch' in sys.modules, 'numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, check=True)
    assert result.stdout == "False False\n"


# Runs.


def test_a_language_pair_and_a_row_of_table_3_need_configuration_alone(folder):
    own = own_corpus(folder)
    (folder / "more.yaml").write_text("experiments: {d_ff-512: {d_ff: 512}}\n")
    runs = runs_of_tables(settings.read([str(own), "more.yaml"], ["scale=mine"]))
    assert runs["table2"] == [RunName("en-cs", "base", 1), RunName("en-cs", "big", 1)]
    assert RunName("en-cs", "d_ff-512", 1) in runs["table3"]
    assert "table4" not in runs


@pytest.mark.parametrize("run", [RunName("en-de", "base", 1), RunName("supervised", "parser", 1)])
def test_what_is_said_of_a_run_keeps_its_order(run):
    """As JSON it is a param of the rule `experiment`: in another order, Snakemake would train all runs again."""
    config = at(yaml.safe_load((ROOT / "config.yaml").read_text("utf-8")), "demo")
    expected = "label source target rows embedding_rows output_rows running scale task experiment seed fidelity"
    assert list(json.loads(json.dumps(parts(config, run)))) == [
        *expected.split(),
        *("width", "depth", "optimizer", "preparation"),
    ]


def test_the_text_of_a_translation_task_alone_is_decapitalised():
    config = at(yaml.safe_load((ROOT / "config.yaml").read_text("utf-8")), "multi30k")
    german, trees = (parts(config, RunName(*name, 1)) for name in (("en-de", "base"), ("supervised", "parser")))
    assert german["preparation"] == config["preparation"] | {"decapitalize": True}
    assert trees["preparation"] == config["preparation"]
    del config["scales"]["multi30k"]["tasks"]["en-de"]["decapitalize"]
    assert parts(config, RunName("en-de", "base", 1))["preparation"] == config["preparation"]
