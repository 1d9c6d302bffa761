# Where the project lies: the package, the scripts and the paper's numbers, which rules use, are beside the workflow.
import os
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
    clone = str(folder.hosted_repo.repo_clone)
    commit = git("-C", clone, "rev-parse", f"{folder.ref}^{{commit}}")
    place = Path(".snakemake/checkouts", commit).resolve()
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = tempfile.mkdtemp(dir=place.parent)
        git("clone", "--quiet", "--no-checkout", clone, aside)
        git("-C", aside, "checkout", "--quiet", commit)
        os.rename(aside, place)
    return place


def git(*arguments):
    command = ["git", *arguments]
    return subprocess.run(
        command, stdout=subprocess.PIPE, check=True, text=True
    ).stdout.strip()
