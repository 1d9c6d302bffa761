"""The benchmarks on toy sizes, with the peers that are installed; some numbers are worked out by hand."""

import importlib.metadata
import json
import os
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
import psutil
import pytest
import torch
from msgspec import structs
from support.toy import make_data, make_experiment, make_run, model_config, random_lines, random_model

from benchmarks import decode, decoders, joey, marian, page, plain, prepare, results, train, workers, workflow, workload
from benchmarks.loops import Step
from transformer.config.experiment import Model
from transformer.files import InputError
from transformer.model import weights as checkpoints
from transformer.training.batches import plan

SQUARE = {"d_model": 24, "h": 2, "d_k": 12, "d_v": 12}  # the widths that all peers have
PEERS = {"joeynmt": "JoeyNMT", "transformers": "Transformers (MarianMTModel)"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_data(tmp_path_factory.mktemp("toy") / "data", random_lines(1, 300), random_lines(2, 20))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Make a run whose model every peer has. Without dropout, nothing is left to chance."""
    experiment = make_experiment(model=SQUARE | {"P_drop": 0.0}, source_tokens=200, target_tokens=200, rate=0.1)
    run = make_run(tmp_path_factory.mktemp("runs") / "en-de/base/1", experiment)
    model = random_model(1, **SQUARE)
    checkpoints.save(run / "average.safetensors", model.state_dict(), {"digest": "ab", "steps": [1]})
    return run


def words(*arguments: object) -> list[str]:
    return [str(argument) for argument in arguments]


def absent() -> set[str]:
    """Return the peers that are not installed, as tables call them."""
    installed = {distribution.metadata["Name"].lower() for distribution in importlib.metadata.distributions()}
    return {title for name, title in PEERS.items() if name not in installed}


@pytest.fixture(scope="module")
def trained(data, run, tmp_path_factory):
    """Run the training benchmark; return its result and the file."""
    output = tmp_path_factory.mktemp("results") / "train.json"
    steps = words("--steps", 6, "--warm-up", 1, "--loss-every", 2, "--memory-steps", 2, "--threads", 1)
    train.main(words("--run", run, "--data", data, *steps, "--output", output))
    return json.loads(output.read_text()), output


def test_training_counts_the_tokens_of_the_batches(trained, data, run):
    """They are the plan's batches, the first of which was the warm-up."""
    ours = trained[0]["systems"]["ours"]
    lengths = workload.of_run(run, data).text.lengths
    batches = plan(1, 0, lengths, (200, 200))[1:7]
    assert ours["source_tokens"] == [lengths[0, batch].sum() for batch in batches]
    assert ours["target_tokens"] == [lengths[1, batch].sum() for batch in batches]
    slowest, fastest = (each(np.divide(ours["target_tokens"], ours["seconds"])) for each in (min, max))
    assert slowest <= ours["target_tokens_per_second"] <= fastest
    assert 0 <= ours["padding_share"] < 0.5
    assert trained[0]["systems"]["plain"]["target_tokens"] == ours["target_tokens"]


def test_training_loses_as_much_as_pytorchs_own_layers(trained):
    """With the same weights, batches and rate, both losses fall and are equal."""
    losses = trained[0]["losses"]
    assert losses["ours"] == pytest.approx(losses["plain"], rel=1e-4)
    assert losses["ours"][-1] < losses["ours"][0]


def test_training_says_who_was_left_out_and_how_much_memory_the_others_took(trained):
    result, output = trained
    compiled = {train.PlainCompiled.name} - ({train.PlainCompiled.name} if torch.cuda.is_available() else set())
    assert {"JoeyNMT"} & absent() | compiled <= result["left_out"].keys()
    assert all(system["peak_bytes"] > 2**20 for system in result["systems"].values())
    table = output.with_suffix(".md").read_text()
    assert all(f"Left out: {name}: {reason}." in table for name, reason in result["left_out"].items())


def test_training_of_the_papers_models_is_of_their_sizes(tmp_path):
    """None of their batches is trained on: one takes too long for a test on a processor."""
    base, big = (workload.of_paper(model, 2000) for model in ("base", "big"))
    assert (base.experiment.model.d_model, base.experiment.model.embedding_rows) == (512, 40960)
    assert (big.experiment.model.d_model, big.experiment.training.target_tokens) == (1024, 25000)
    lengths = base.text.lengths
    assert lengths.mean() == pytest.approx(28, rel=0.1)
    assert lengths.max() > 90
    assert np.corrcoef(lengths)[0, 1] > 0.8
    assert workload.with_tokens(base, 700).budgets == (700, 700)


def test_utilisation_by_hand():
    """Two source tokens and one target token: 3 (2 N (3P + F) 3 + 2 V d_model + 2 N h (d_k + d_v) (4 + 1 + 2))."""
    model = Model(1, 2, 4, 1, 2, 2, 0.0, 0.0, "sinusoid", 3, 3, sinusoids="interleaved", target_spaces=0)
    flops = 3 * (2 * (3 * 8 + 16) * 3 + 2 * 3 * 2 + 2 * 4 * 7)  # = 924
    step = Step(np.array([[2], [1]]), positions=3)
    taken = train.Taken(torch.float32, [[step], [step], [step]], [2.0, 1.0, 4.0])
    assert train.utilisation(model, taken, ceiling=flops) == 0.5


def test_hours_are_until_as_many_tokens_are_learned_from():
    """At 50 tokens a second, 3,600 steps of 100 tokens take two hours, however large the system's own batches."""
    step = Step(np.array([[1], [200]]), positions=400)
    taken = train.Taken(torch.float32, [[step, step]], [8.0])
    assert train.tokens_a_step(taken) == 200
    assert train.hours(3600, 100, taken) == 2.0


@pytest.fixture(scope="module")
def decoded(data, run, tmp_path_factory):
    output = tmp_path_factory.mktemp("results") / "decode.json"
    options = words("--sentences", 12, "--batches", 1, 5, "--threads", 1, "--output", output)
    decode.main(words("--run", run, "--data", data, *options))
    return json.loads(output.read_text())


@pytest.mark.slow
def test_decoding_counts_what_was_translated(decoded):
    assert decoded["batches"].keys() == {"1", "5", "tokens"}
    for systems in decoded["batches"].values():
        for system in systems.values():
            assert system["sentences_per_second"] * system["seconds"] == pytest.approx(12)
            assert system["tokens_per_second"] * system["seconds"] == pytest.approx(system["tokens"])
            assert system["seconds"] == min(system["seconds_by_setting"].values())
            assert system["seconds"] == system["seconds_by_setting"][system["setting"]]
    ours = [systems["ours"]["tokens"] for systems in decoded["batches"].values()]
    assert len(set(ours)) == 1  # the same words in any batch
    for name, work in decoded["work"].items():
        assert work["tokens"] * 12 == pytest.approx(decoded["batches"]["tokens"][name]["tokens"])
        assert work["tokens"] - 1 <= work["steps"]  # a token a step; the last may be beyond the limit


DECODERS = [pytest.param(kind, id=name) for name, kind in decode.SYSTEMS.items()]


@pytest.mark.parametrize("kind", DECODERS)
def test_steps_are_those_until_the_end_of_each_sentence(kind, data, run, tmp_path):
    """Greedy search of one sentence takes a step for each token and for EOS; ours may go on up to the limit."""
    trained = decoders.open_run(run, data, None, 1)
    try:
        system = kind(trained, tmp_path)
    except results.LeftOut as reason:
        pytest.skip(str(reason))
    for sentence in decode.side(data, "source", 8):
        limit = len(sentence) + trained.decoding.extra_length
        (output,) = system.translate([sentence], 1, decoders.ANY)
        least = min(len(output) + 1, limit)
        most = limit if issubclass(kind, decoders.Ours) else least  # ours goes on while a better one is possible
        assert least <= system.steps([sentence], 1, decoders.ANY) <= most


def test_every_setting_of_ctranslate2_writes_the_same_words(data, run, tmp_path):
    system = decoders.CTranslate2(decoders.open_run(run, data, None, 2), tmp_path)
    sentences = decode.side(data, "source", 20)
    answers = [system.translate(sentences, 3, 30, number) for number in range(len(system.settings))]
    assert len(answers) > 4  # one thread or two, and several limits
    assert all(answer == answers[0] for answer in answers)


PAPERS_ONLY = {
    "torch.nn.Transformer": plain.refuse,
    "JoeyNMT": joey.network,
    "MarianMTModel": marian.refuse,
}


@pytest.mark.parametrize("name", PAPERS_ONLY)
def test_peers_that_have_the_papers_model_alone_say_what_they_lack(name):
    PAPERS_ONLY[name](model_config(**SQUARE))
    for changes, departures in (
        ({"norm": "pre", "tied": False}, "norm pre, tied false"),
        ({"residual": False, "scaled": False}, "residual false, scaled false"),
        ({"attention": "additive"}, "attention additive"),
        ({"positions": "none"}, "positions none"),
    ):
        with pytest.raises(results.LeftOut, match=rf"{name}.* the paper's model, found {departures}$"):
            PAPERS_ONLY[name](model_config(**SQUARE | changes))


def test_ctranslate2_is_left_out_of_what_it_cannot_translate(data, run, tmp_path):
    trained = replace(decoders.open_run(run, data, None, 1), model=random_model(1, **SQUARE, residual=False))
    with pytest.raises(results.LeftOut, match=r"^Marian: expected residual true, found false$"):
        decoders.CTranslate2(trained, tmp_path)


@pytest.mark.parametrize("warmup", [True, False])
def test_loops_around_others_layers_have_the_experiments_rate(data, run, tmp_path, warmup):
    """Without warm-up, the first steps have the peak; JoeyNMT has no such schedule."""
    work = workload.of_run(run, data)
    training = structs.replace(work.experiment.training, warmup=warmup)
    work = replace(work, experiment=structs.replace(work.experiment, training=training))
    system = plain.Plain(work, tmp_path)
    rates = [system.rate(step) for step in (1, 4)]
    system.close()
    assert rates[0] == pytest.approx(rates[1] / (4 if warmup else 1))
    if warmup:
        assert joey.settings(work, tmp_path, fp16=False)["training"]["scheduling"] == "noam"
    else:
        with pytest.raises(results.LeftOut, match=r"^JoeyNMT has no such rate without warm-up$"):
            joey.settings(work, tmp_path, fp16=False)


class Process:
    """A system that returns its process."""

    settings = ("", "")

    def __init__(self, work: int, folder):
        self.work = work

    def about(self) -> tuple[int, int, str | None]:
        return self.work, os.getpid(), os.environ.get("OMP_WAIT_POLICY")

    def threads(self) -> int:
        return torch.get_num_threads()


class Refused(Process):
    def __init__(self, work: int, folder):
        raise results.LeftOut("it cannot")


@pytest.mark.slow
def test_workers_are_processes_of_their_own_and_end(tmp_path):
    before = dict(os.environ)
    with ExitStack() as stack:
        opened = [workers.Apart(Process, number, stack)(partial(int, number), tmp_path) for number in (1, 2)]
        processes = [worker.timed("about")[1] for worker in opened]
        assert [worker.timed("threads")[1] for worker in opened] == [1, 2]
        with pytest.raises(results.LeftOut, match="it cannot"):
            workers.Apart(Refused, 1, stack)(partial(int, 3), tmp_path)
    assert [(work, policy) for work, _, policy in processes] == [(1, "passive"), (2, "passive")]
    numbers = {number for _, number, _ in processes}
    assert len(numbers - {os.getpid()}) == 2
    assert not any(psutil.pid_exists(number) for number in numbers)
    assert dict(os.environ) == before


@pytest.mark.slow
def test_decoding_compares_words(decoded):
    assert decoded["quality"]["ours"]["same_by_beam"] == 1
    # Ours looks at a second token, too: an untrained model's outputs, cut at their limit, may tell.
    for name in decoded["quality"].keys() & {"ctranslate2", "joeynmt", "transformers"}:
        assert decoded["quality"][name]["same_greedy"] > 0.5
    assert absent() <= decoded["left_out"].keys()


@pytest.mark.parametrize("size", [1, 7, 30, decode.TOKENS])
def test_batches_hold_each_sentence_once_and_no_more_than_they_may(size):
    sources = [[0] * length for length in np.random.default_rng(1).integers(1, 30, 25)]
    batches = decode.batches(sources, size, batch_tokens=64)
    assert sorted(index for batch in batches for index in batch) == list(range(25))
    if size == decode.TOKENS:
        assert all(len(batch) * max(len(sources[index]) for index in batch) <= 64 for batch in batches)
        assert len(batches) < 25
    else:
        assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)


def test_preparation_counts_lines_and_what_all_processes_took(tmp_path):
    output = tmp_path / "prepare.json"
    prepare.main(words("--pairs", 400, "--vocabulary", 300, "--processes", 1, "--output", output))
    (size,) = json.loads(output.read_text())["sizes"]
    kept = size["bytes"]["train.source.offsets"] // 8 - 1
    assert 390 <= kept <= 400
    assert size["stages"].keys() == {"tokenize", "vocabulary", "encode"}
    for stage in size["stages"].values():
        assert stage["lines"] == 800
        assert stage["lines_per_second"] * stage["seconds"] == pytest.approx(800)
        assert stage["main_cpu_seconds"] <= stage["cpu_seconds"] + 0.5  # the one is sampled, the other counted
        assert 2**23 < stage["peak_bytes"] < 2**31


@pytest.mark.parametrize(("main", "hours"), [(0.5, 1.0), (2.0, 2.0)])
def test_hours_of_preparation_by_hand(main, hours):
    """1,000 lines in 16 core seconds are 1,000 a second on 16 cores, unless one process works for two seconds."""
    use = prepare.Use(seconds=9.0, cpu_seconds=16.0, main_cpu_seconds=main, peak_bytes=1)
    assert prepare.hours(use, 1000, total=3_600_000) == hours


LOG = """
[Sat Nov 21 23:59:50 2026]
localrule generate:
    output: a
    jobid: 7
    resources: tmpdir=/t
[Sat Nov 21 23:59:50 2026]
rule train:
    input: a
    jobid: 12
    threads: 2
[Sat Nov 21 23:59:53 2026]
Finished jobid: 7 (Rule: generate)
1 of 3 steps (33%) done
[Sun Nov 22 00:00:20 2026]
Finished jobid: 12 (Rule: train)
[Sun Nov 22 00:00:20 2026]
rule train:
    jobid: 13
    threads: 2
[Sun Nov 22 00:00:30 2026]
Finished jobid: 13 (Rule: train)
[Sun Nov 22 00:00:30 2026]
rule table1:
    jobid: 14
"""


def test_workflow_sums_the_jobs_that_finished(tmp_path):
    log, output = tmp_path / "log", tmp_path / "workflow.json"
    log.write_text(LOG)
    workflow.main(words("--from", log, "--output", output))
    result = json.loads(output.read_text())
    assert (result["jobs"], result["seconds"]) == (3, 40)
    assert result["rules"]["train"] == {"jobs": 2, "seconds": 40, "core_seconds": 80}
    assert result["rules"]["generate"] == {"jobs": 1, "seconds": 3, "core_seconds": 3}


def test_workflow_without_a_finished_job_is_refused(tmp_path):
    (tmp_path / "log").write_text("nothing")
    with pytest.raises(InputError, match="log: expected finished jobs, found none"):
        workflow.read_jobs(tmp_path / "log")


def test_tables_are_put_between_the_marks():
    text = f"a\n{page.BEGIN}\nold\n{page.END}\nb\n"
    assert page.filled(text, "new\n") == f"a\n{page.BEGIN}\n\nnew\n\n{page.END}\nb\n"
    with pytest.raises(InputError, match="expected <!-- speed --> and <!-- /speed --> once each"):
        page.filled(text.replace(page.END, ""), "new\n")


def test_page_on_speed_shows_the_recorded_results():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text, page.tables(results.FOLDER)) == text


def test_recorded_tables_are_those_of_the_results():
    recorded = sorted(results.FOLDER.glob("*.json"))
    for path in recorded:
        result = json.loads(path.read_text(encoding="utf-8"))
        assert path.with_suffix(".md").read_text(encoding="utf-8") == page.TABLES[result["benchmark"]](result)
    assert {path.stem for path in results.FOLDER.glob("*.md")} == {path.stem for path in recorded}
