# What rules share: the questions to the configuration, the folders, and what jobs may use of a machine.
import shlex
import shutil
import subprocess
from functools import cache

from transformer.config.scales import PARSER, training_threads
from transformer.storage.files import InputError
from transformer.pipeline.inputs import DECODINGS, Inputs, untracked
from transformer.layout import RESOURCES, Results
from transformer.pipeline.registry import ANALYSES, FIGURES, PARSER_SEARCHES, TABLES

# Paths of the project are relative in its own folder, where finished jobs have recorded them so.
HERE = "" if ROOT.samefile(os.curdir) else str(ROOT)
# For the beginning of a `shell:`, in which braces are Snakemake's.
SCRIPTS = shlex.quote(os.path.join(HERE, "workflow/scripts"))
SCRIPTS = SCRIPTS.replace("{", "{{").replace("}", "}}")
ON_GPUS = f"{SCRIPTS}/gpus {{resources.launch}} {{resources.gpu}} {{threads}} python -m transformer"
ask = Inputs(CONFIG, HERE)
# The code on which the results of beam search depend, and scores.
TEXT = "data/tokenization.py"
SEARCH = ["model", "data/corpus.py", TEXT]
SEARCH += ["translation/search.py", "translation/translator.py"]
SCORES = [TEXT, "evaluation/bleu.py", "evaluation/scores.py"]
SCORES += ["evaluation/significance.py"]
RESULTS = Results(f"{CONFIG.results}/{{scale}}")
DATA = RESULTS.data("{task}")
RUN = RESULTS.run("{task}", "{experiment}", "{seed}")
PARSER_RUN = RESULTS.run("{task}", PARSER, "{seed}")
EXPERIMENTS = [*CONFIG.experiments, *CONFIG.baselines, *CONFIG.ablations]  # of translation
TRANSLATION_TASKS = ask.names_of_tasks(parsing=False)
PARSING_TASKS = ask.names_of_tasks(parsing=True)
FIRST = 10  # priority of what long chains of jobs wait for


def any_of(names):
    """Return a wildcard constraint: one of these names, literally."""
    return "|".join(name.replace(".", r"\.") for name in names) or "(?!)"


def check_python():
    """End with one line if the `python` that rules call lacks the project's packages; conda jobs call another."""
    if "conda" in map(str, workflow.deployment_settings.deployment_method):
        return
    expected, found = Path(sys.executable).parent, shutil.which("python")
    packages = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('torch', 'sentencepiece'))))"
    if (
        not found
        or not Path(found).parent.samefile(expected)
        and subprocess.run([found, "-c", packages]).returncode
    ):
        sys.exit(
            f"Snakefile: expected `python` on PATH to be that of {expected}, found {found or 'none'}: activate the environment"
        )


def memory(small, large=None, each_thread=0, growth=1):
    """Return a resource function: megabytes of a job at most, Snakemake's own in it; `large` with the paper's models.

    Where memory grows with the corpus, `growth` multiplies it at each further try of a failed job.
    """

    def megabytes(wildcards, threads, attempt):
        paper = large and CONFIG.scales[wildcards.scale].width == 1
        own = (large if paper else small) + each_thread * threads
        return own * growth ** (attempt - 1)

    return megabytes


def shared_cores():
    """Return the number of processors that all jobs share; None on a cluster, where each job has its own."""
    return None if workflow.remote_exec else workflow.global_resources["_cores"].value


def train_threads(wildcards):
    """Return the processors of a training: where a profile has Slurm start it, those of its GPUs on each node."""
    name = "train_parser" if wildcards.experiment == PARSER else "train"
    # A private name, for lack of another: the resources of a rule as a profile or the command line sets them.
    own = workflow.resource_settings._parsed_overwrite_resources
    own = own.get(workflow.modifier.modify_rulename(name), {})
    requested = {key: entry.raw for key, entry in own.items()}
    try:
        return training_threads(requested) or share_of_processors(wildcards)
    except InputError as problem:
        sys.exit(f"Snakefile: {name}: {problem}")


def share_of_processors(wildcards):
    """Return a run's share: small models train faster side by side than in turn on all cores."""
    return max(1, (shared_cores() or 1) // len(ask.at(wildcards.scale).all_runs()))


def prepare_threads(wildcards):
    """Return half the machine: what needs all of it waits until nothing else runs. 4 on a cluster. 1 for short texts."""
    if wildcards.get("split", "train") != "train":
        return 1
    return max(1, min(16, shared_cores() // 2)) if shared_cores() else 4


@cache
def gpus_of_run(wildcards):
    """Return the number of this machine's GPUs for a run: one, if there are any. A cluster's profile says its own."""
    count = [sys.executable, ROOT / "workflow/scripts/gpus", "count"]
    return min(1, int(subprocess.run(count, capture_output=True, check=True).stdout))


# What a search by a trained model may use.
SEARCHING = dict(mem_mb=memory(2500, large=12000), gpu=gpus_of_run, launch="here")
check_python()
if missing := ask.at(CONFIG.scale).absent_treebank:
    without = f"`all` leaves out table4: no folder {missing} with the Penn Treebank"
    print(without, file=sys.stderr)


# Snakemake limits jobs per second by a timer for each finished job. Each timer makes the scheduler look at all waiting
# jobs: after a hundred jobs this takes half a core. On a cluster, `jobs` limits the queue.
onstart:
    workflow.scheduler.job_rate_limiter = None
