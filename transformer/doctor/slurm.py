"""Checks of a Slurm cluster as a whole: its commands, its controller, its accounts, and how it reports ended jobs."""

import getpass
import re
import shutil
import subprocess
from collections.abc import Iterator

from transformer.doctor.finding import Finding, error, note, ok, warning
from transformer.doctor.profile import Profile, whole

COMMANDS = ("sbatch", "srun", "squeue", "scontrol", "scancel", "sinfo")
ANSWER_SECONDS = 30.0
TRIED = ((22, 5), (24, 11))  # the oldest and newest versions of Slurm that the workflow was run with
INIT_SECONDS = 40  # default of the plugin's slurm-init-seconds-before-status-checks
SAVE_SECONDS = 30  # in which a training saves its state, with a margin
SQUEUE = "slurm-status-command: squeue in the profile"


def ask(*command: str) -> subprocess.CompletedProcess:
    """Run one of Slurm's commands. The exit code is 1 where it does not exist or does not answer."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {ANSWER_SECONDS:g} s")
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 1, "", "no such command")


def complaint(result: subprocess.CompletedProcess) -> str:
    """Return the last line that a command printed."""
    lines = (result.stderr or result.stdout).strip().splitlines() or [f"exit code {result.returncode}"]
    return lines[-1].strip()


def check_commands() -> Finding:
    """Check that Slurm's commands are installed and work."""
    if absent := [name for name in COMMANDS if not shutil.which(name)]:
        fix = "run on a login node; module load slurm where it has one"
        return error("Slurm", f"no {', '.join(absent)} on PATH", fix)
    version = ask("sinfo", "--version")
    if version.returncode:
        fix = "run on a login node; SLURM_CONF, or module load slurm, where it has several clusters"
        return error("Slurm", f"its commands do not work: {complaint(version)}", fix)
    return ok("Slurm", f"{complaint(version)}, all commands are here")


def check_version() -> Iterator[Finding]:
    """Check that this version of Slurm is among those that the workflow was run with."""
    numbers = re.search(r"(\d+)\.(\d+)", ask("sinfo", "--version").stdout)
    if numbers and not TRIED[0] <= tuple(map(int, numbers.groups())) <= TRIED[1]:
        span = " to ".join(f"{year}.{month:02}" for year, month in TRIED)
        yield note("Slurm", f"the workflow was tried with {span}, this is {numbers[0]}", "try the demo first")


def check_controller() -> Finding:
    """Check that the controller answers."""
    result = ask("scontrol", "ping")
    if " UP" in result.stdout:
        return ok("controller", "answers")
    fix = "wait, or tell who runs the cluster; nothing else was asked"
    return error("controller", f"does not answer: {complaint(result)}", fix)


def cluster_settings() -> dict[str, str]:
    """Return the cluster's settings, as scontrol shows them."""
    lines = ask("scontrol", "show", "config").stdout.splitlines()
    return {key.strip(): value.strip() for key, sign, value in (line.partition("=") for line in lines) if sign}


def seconds(value: str | None) -> int:
    """Return the number that a setting such as `300 sec` begins with, or 0."""
    return int(match[0]) if (match := re.match(r"\d+", value or "")) else 0


def check_status(profile: Profile, cluster: dict[str, str]) -> Iterator[Finding]:
    """Check that Snakemake can learn what became of its jobs."""
    accounting = ask("sacct", "-X", "-n")
    by = profile.settings.get("slurm-status-command", "sacct" if shutil.which("sacct") else "squeue")
    if accounting.returncode:
        yield note("accounting", f"none ({complaint(accounting)}); squeue tells what became of a job")
    else:
        yield ok("accounting", "sacct answers")
    if by == "sacct" and accounting.returncode:
        message = "the profile asks sacct, which does not answer: Snakemake would wait for ever"
        yield error("job status", message, SQUEUE)
    elif by == "sacct":
        yield warning("job status", "asked of sacct: after scancel, Snakemake may wait for the job for ever", SQUEUE)
    else:
        yield check_squeue(profile, seconds(cluster.get("MinJobAge")), accounting.returncode == 0)


def check_squeue(profile: Profile, age: int, accounting: bool) -> Finding:
    """Check that squeue shows ended jobs long enough, `age` seconds: the plugin needs three times its first wait."""
    key = "slurm-init-seconds-before-status-checks"
    wait = whole(profile.settings.get(key)) or INIT_SECONDS
    if age >= 3 * wait:
        return ok("job status", f"asked of squeue, which remembers ended jobs for {age} s (MinJobAge)")
    message = f"squeue forgets ended jobs after {age} s (MinJobAge), {key} {wait} needs {3 * wait}"
    fix = f"{key}: {max(1, age // 3)} in the profile"
    if accounting:
        message += ": sacct is asked instead, and after scancel Snakemake may wait for ever"
        return warning("job status", message, fix)
    return error("job status", f"{message}: Snakemake would wait for ever", fix)


def check_accounts(profile: Profile) -> Iterator[Finding]:
    """Check that the user has the profile's accounts: where the plugin refuses a group of jobs, Snakemake hangs."""
    asked = {asked.account.lower(): asked.rule for asked in profile.asked if asked.account}
    answer = ask("sacctmgr", "-nPs", "list", "user", getpass.getuser(), "format=account")
    if answer.returncode or not answer.stdout.strip():
        answer = ask("sshare", "-UPn", "--format=Account")
    own = {line.strip().lower() for line in answer.stdout.splitlines()} - {""}
    for account, rule in asked.items():
        subject = f"account {account}"
        if answer.returncode:
            message = f"cannot be looked up ({complaint(answer)}): jobs of {rule} are refused, or hang in a group"
            yield error(subject, message, "take slurm_account out of the profile")
        elif not own:
            yield note(subject, "nothing is known of accounts: jobs are submitted without one")
        elif account not in own:
            message = f"not one of {getpass.getuser()}'s: jobs are refused, or hang in a group without a word"
            yield error(subject, message, f"slurm_account in the profile: one of {', '.join(sorted(own))}")
        else:
            yield ok(subject, f"{getpass.getuser()} has it")


def check_requeue(profile: Profile, cluster: dict[str, str]) -> Iterator[Finding]:
    """Check that a preempted job is started again, and that one whose time is up can save its state."""
    preempted = cluster.get("PreemptType", "preempt/none") != "preempt/none"
    again = cluster.get("JobRequeue") == "1" or profile.settings.get("slurm-requeue") is True
    if preempted and (not again or profile.settings.get("slurm-no-requeue") is True):
        message = "jobs may be preempted, and are not started again: Snakemake would wait for ever"
        yield error("preemption", message, "slurm-requeue: true in the profile")
    elif not again:
        message = "jobs of a node that fails are not started again (JobRequeue=0)"
        yield warning("node failure", message, "slurm-requeue: true in the profile")
    else:
        yield ok("preemption", "jobs that are preempted, or whose node fails, start again by themselves")
    warned = "--signal" in str(profile.settings)  # trainings get a signal before their time is up
    if (wait := seconds(cluster.get("KillWait"))) < SAVE_SECONDS and not warned:
        message = f"a job has {wait} s between the end of its time and its kill (KillWait), too few to save a state"
        fix = "slurm_extra: \"'--signal=USR1@120'\" for train and train_parser in the profile"
        yield warning("time limit", message, fix)
