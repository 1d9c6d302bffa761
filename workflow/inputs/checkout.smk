# Where the project lies: the package, the scripts and the paper's numbers, which rules use, are beside the workflow.
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from snakemake.sourcecache import HostingProviderFile, LocalSourceFile


def project_of(folder):
    """Return the project's folder, given that of its Snakefile.

    Of github(...) and gitlab(...) Snakemake itself reads single files. The other files come here, once, from its clone.
    """
    if isinstance(folder, LocalSourceFile):
        return Path(folder).parent
    if not isinstance(folder, HostingProviderFile):
        found = "expected a path, github(...) or gitlab(...), as the project's other files are needed, too"
        sys.exit(f"Snakefile: {folder}: {found}")
    return checkout(str(folder.hosted_repo.repo_clone), folder.ref)


def checkout(clone, ref):
    """Return the folder of a clone's files at a tag, branch or commit; makes it where it is not there yet."""
    commit = git("-C", clone, "rev-parse", "--verify", f"{ref}^{{commit}}")
    place = Path(".snakemake/checkouts", commit).resolve()
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = tempfile.mkdtemp(dir=place.parent)
    try:
        git("clone", "--quiet", "--no-checkout", clone, aside)
        git("-C", aside, "checkout", "--quiet", commit)
        os.chmod(aside, 0o755)  # other users' jobs may read it, too
        os.rename(aside, place)
    except OSError:
        if not place.exists():  # made by another Snakemake meanwhile
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return place


def git(*arguments):
    """Return what git prints. Ends with one line where it fails, or is not there."""
    command = ["git", *map(str, arguments)]
    try:
        result = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit("Snakefile: expected git on PATH, found none")
    if result.returncode:
        problem = " ".join(result.stderr.split())
        sys.exit(f"Snakefile: {' '.join(command)}: {problem}")
    return result.stdout.strip()
