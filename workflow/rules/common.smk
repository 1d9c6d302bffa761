# Common definitions of the rules: configuration, folders, and the resources of jobs.
import shlex
import shutil
import subprocess
from functools import cache

from transformer.config.scales import PARSER, training_threads
from transformer.storage.files import InputError
from transformer.pipeline.inputs import DECODINGS, Inputs, untracked
from transformer.layout import RESOURCES, Results
from transformer.pipeline.registry import ANALYSES, FIGURES, PARSER_SEARCHES, TABLES

# In the project's folder its paths are relative, because finished jobs have recorded relative paths.
HERE = "" if ROOT.samefile(os.curdir) else str(ROOT)
# The prefix of a `shell:`. Braces are doubled, because Snakemake replaces names in braces.
SCRIPTS = shlex.quote(os.path.join(HERE, "workflow/scripts"))
SCRIPTS = SCRIPTS.replace("{", "{{").replace("}", "}}")
ON_GPUS = f"{SCRIPTS}/gpus {{resources.launch}} {{resources.gpu}} {{threads}} python -m transformer"
ask = Inputs(CONFIG, HERE)
# The code of beam search and of scores.
TEXT = "data/tokenization.py"
SEARCH = ["model", "data/corpus.py", TEXT]
SEARCH += ["translation/search.py", "translation/translator.py"]
SCORES = [TEXT, "evaluation/bleu.py", "evaluation/scores.py"]
SCORES += ["evaluation/significance.py"]
RESULTS = Results(f"{CONFIG.results}/{{scale}}")
DATA = RESULTS.data("{task}")
RUN = RESULTS.run("{task}", "{experiment}", "{seed}")
PARSER_RUN = RESULTS.run("{task}", PARSER, "{seed}")
EXPERIMENTS = [*CONFIG.experiments, *CONFIG.baselines, *CONFIG.ablations]  # translation
TRANSLATION_TASKS = ask.names_of_tasks(parsing=False)
PARSING_TASKS = ask.names_of_tasks(parsing=True)
FIRST = 10  # priority of jobs at the beginning of long chains


def any_of(names):
    """Return a wildcard constraint that matches exactly these names."""
    return "|".join(name.replace(".", r"\.") for name in names) or "(?!)"


def check_python():
    """Exit with one line if the `python` of the rules lacks the project's packages. Conda jobs have their own Python."""
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
            f"Snakefile: expected the `python` of {expected} on PATH, found {found or 'none'}: activate the environment"
        )


def memory(small, large=None, each_thread=0, growth=1):
    """Return a resource function: a job's maximum memory in megabytes, with Snakemake; `large` for the paper's models.

    `growth` multiplies the memory at each retry of a failed job, for jobs whose memory grows with the corpus.
    """

    def megabytes(wildcards, threads, attempt):
        paper = large and CONFIG.scales[wildcards.scale].width == 1
        own = (large if paper else small) + each_thread * threads
        return own * growth ** (attempt - 1)

    return megabytes


def shared_cores():
    """Return the number of processors that all jobs share. Return None on a cluster, because each job has its own."""
    return None if workflow.remote_exec else workflow.global_resources["_cores"].value


def train_threads(wildcards):
    """Return the processors of a training. If a profile makes Slurm start it, they follow from its GPUs per node."""
    name = "train_parser" if wildcards.experiment == PARSER else "train"
    # Snakemake has no public name for the resources that a profile or the command line sets for a rule.
    own = workflow.resource_settings._parsed_overwrite_resources
    own = own.get(workflow.modifier.modify_rulename(name), {})
    requested = {key: entry.raw for key, entry in own.items()}
    try:
        return training_threads(requested) or share_of_processors(wildcards)
    except InputError as problem:
        sys.exit(f"Snakefile: {name}: {problem}")


def share_of_processors(wildcards):
    """Return a run's share of the processors. Small models train faster in parallel than one by one on all cores."""
    return max(1, (shared_cores() or 1) // len(ask.at(wildcards.scale).all_runs()))


def prepare_threads(wildcards):
    """Return half of the processors; 4 on a cluster, 1 for short texts. More would wait until no other job runs."""
    if wildcards.get("split", "train") != "train":
        return 1
    return max(1, min(16, shared_cores() // 2)) if shared_cores() else 4


@cache  # without wildcards: each job has a new object, and would start a process
def gpus():
    """Return the number of GPUs of this machine."""
    count = [sys.executable, ROOT / "workflow/scripts/gpus", "count"]
    return int(subprocess.run(count, capture_output=True, check=True).stdout)


def gpus_of_run(wildcards):
    """Return the number of GPUs per run on this machine: 1 or 0. The profile of a cluster sets its own number."""
    return min(1, gpus())


# Resources of a beam search.
SEARCHING = dict(mem_mb=memory(2500, large=12000), gpu=gpus_of_run, launch="here")
check_python()
if missing := ask.at(CONFIG.scale).absent_treebank:
    without = f"`all` skips table4: no folder {missing} with the Penn Treebank"
    print(without, file=sys.stderr)


# Snakemake limits jobs per second with a timer for each finished job. Each timer makes the scheduler check all waiting
# jobs, which takes half a core after a hundred jobs. On a cluster, `jobs` limits the queue.
onstart:
    # Without Slurm's programs, Snakemake would run for minutes and fail at each job.
    if workflow.executor_plugin.name == "slurm" and not shutil.which("sbatch"):
        sys.exit(
            "Snakefile: expected Slurm's `sbatch` on PATH, found none: start Snakemake on a login node"
        )
    workflow.scheduler.job_rate_limiter = None
