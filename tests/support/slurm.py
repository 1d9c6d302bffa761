"""A real Slurm cluster on one machine, from Debian's packages.

    python tests/support/slurm.py bash     runs a command in a cluster that ends with the command

Nodes gpu1 and gpu2 belong to the partitions `gpu`, `preempt` and `grace`. Jobs in `gpu` preempt jobs in the other two.
Preempted jobs are requeued, in `grace` after a minute. Node cpu1 is the default partition `cpu`. The nodes claim CPUs,
memory and GPUs even if the machine does not have them.

The cluster runs in its own pid, network, mount and uts namespaces. It uses the machine's files, but has no network
beyond loopback. All its processes end with the first one, and several clusters are independent. All its files except
logs are in memory. It needs root and only Python's standard library.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

COMMANDS = {  # Slurm's commands with their Debian packages
    **{"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sinfo": "slurm-client"},
    **{"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server", "ip": "iproute2"},
}
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
HOST = "cluster"
NODES = {"gpu1": "127.0.0.2", "gpu2": "127.0.0.3", "cpu1": "127.0.0.4"}
UNSHARE = ["unshare", "--fork", "--kill-child", "--mount-proc", "--pid", "--net", "--mount", "--uts"]

# The namespaces' first process; $1 is the cluster's folder. The C library lets Slurm bind an address only if there is
# one other than 127.0.0.1. The configuration is in the default folder, because Snakemake's jobs lose SLURM_CONF.
# Ignoring CHLD removes ended processes.
INIT = f"""
ip link set lo up
for address in {" ".join(NODES.values())}; do ip address add $address/32 dev lo; done
hostname {HOST}
mount -t tmpfs tmpfs /run
mkdir -p /run/log /run/munge /run/mysqld /run/state /run/spool /etc/slurm
head -c 128 /dev/urandom > /run/munge/munge.key
chmod 600 /run/munge/munge.key
mknod /run/nvidia0 c 1 3
mknod /run/nvidia1 c 1 3
mount --bind "$1/log" /run/log
mount --bind "$1/etc/hosts" /etc/hosts
mount --bind "$1/etc" /etc/slurm
echo ready
exec env --ignore-signal=CHLD sleep infinity > /dev/null 2>&1
"""

# cred_expire is also the waiting time of a requeued job; the default is two minutes.
SLURM_CONF = f"""\
ClusterName=test
SlurmctldHost={HOST}(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthInfo=cred_expire=10
StateSaveLocation=/run/state
SlurmdSpoolDir=/run/spool/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=/run/log/slurmctld.log
SlurmdLogFile=/run/log/slurmd-%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
SlurmdTimeout=30
ReturnToService=2
KillWait=30
MinJobAge=3600
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
PartitionName=DEFAULT State=UP MaxTime=60 DefMemPerCPU=500 PriorityTier=10 PreemptMode=OFF
PartitionName=cpu Nodes=cpu1 Default=YES
PartitionName=gpu Nodes=gpu[1-2]
PartitionName=preempt Nodes=gpu[1-2] PriorityTier=1 PreemptMode=REQUEUE
PartitionName=grace Nodes=gpu[1-2] PriorityTier=1 PreemptMode=REQUEUE GraceTime=60
"""
ACCOUNTING = f"""\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={HOST}
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=2
"""
NO_ACCOUNTING = """\
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
"""
SLURMDBD_CONF = f"""\
AuthType=auth/munge
DbdHost={HOST}
SlurmUser=root
PidFile=/run/slurmdbd.pid
LogFile=/run/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageUser=root
"""
GRES_CONF = "NodeName=gpu[1-2] Name=gpu Type=h200 File=/run/nvidia[0-1]\n"

MUNGE = ["--key-file=/run/munge/munge.key", "--seed-file=/run/munge/seed", "--log-file=/run/log/munged.log"]
# Temporary tables are named after the process id. It is the same in each cluster, so in /tmp their names would clash.
MARIADB = """
mariadb-install-db --no-defaults --user=root --datadir=/run/mysqld/data --skip-test-db \
    --auth-root-authentication-method=socket --tmpdir=/run/mysqld
setsid mariadbd --no-defaults --user=root --datadir=/run/mysqld/data --socket=/run/mysqld/mysqld.sock \
    --tmpdir=/run/mysqld --pid-file=/run/mariadbd.pid --skip-networking --innodb-buffer-pool-size=64M \
    --innodb-log-file-size=16M --innodb-lock-wait-timeout=900 --performance-schema=0 \
    > /run/log/mariadbd.log 2>&1 < /dev/null &
until mariadb-admin --no-defaults --user=root --socket=/run/mysqld/mysqld.sock ping; do sleep 0.1; done
"""
ACCOUNTS = """
until sacctmgr --noheader show cluster; do sleep 0.1; done
sacctmgr -i add cluster test
sacctmgr -i add account research
sacctmgr -i add user root Account=research DefaultAccount=research
"""


def obstacle() -> str | None:
    """Return in a few words the reason why this machine cannot run a cluster, or None."""
    if missing := [package for command, package in COMMANDS.items() if not shutil.which(command, path=PATH)]:
        return f"packages are missing: apt-get install {' '.join(missing)}"
    if os.geteuid() != 0:
        return "only root can have one"
    if subprocess.run([*UNSHARE, "true"], capture_output=True).returncode != 0:
        return "unshare is not permitted here"
    return None


def children(pid: int) -> list[int]:
    """Return a process's children by their process ids on the machine."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def until(true: Callable[[], object], what: str, seconds: float) -> None:
    """Wait for a condition to come true. Raise TimeoutError if it takes too long."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"gave up after {seconds:g} s: {what}")
        time.sleep(0.1)


class Inside(subprocess.Popen):
    """A command inside the namespaces. The process itself is nsenter and does not forward signals."""

    def kill(self) -> None:
        """End the command and its child processes, except children with their own session."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)


class Cluster:
    """A cluster with its logs in `folder`. As a context manager it runs inside the block; see the top of the file."""

    def __init__(self, folder: Path, accounting: bool = True):
        self.folder, self.accounting = Path(folder).resolve(), accounting
        self.log, self.etc = self.folder / "log", self.folder / "etc"
        self.unshare: subprocess.Popen | None = None
        self.first = 0  # process id on the machine of the namespaces' first process

    def __enter__(self) -> "Cluster":
        """Start everything, and wait until each node is idle. The cluster ends with the calling thread."""
        self.configure()
        try:
            self.unshared()
            self.start("munged", *MUNGE)
            if self.accounting:
                self.start("sh", "-euc", MARIADB)
                self.start("slurmdbd")
                self.start("sh", "-euc", ACCOUNTS)
            self.start("slurmctld")
            for node in NODES:
                self.start("slurmd", "-N", node)
            self.wait_until_idle()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        """Stop everything."""
        if self.unshare:
            for first in children(self.unshare.pid) or [self.unshare.pid]:
                os.kill(first, signal.SIGKILL)  # its parent, unshare, ends with it
            self.unshare.wait()

    def configure(self) -> None:
        """Write Slurm's configuration."""
        nodes = "".join(
            f"NodeName={name} NodeHostname={HOST} NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=16000"
            f" {'Gres=gpu:h200:2' * name.startswith('gpu')}\n"
            for port, name in enumerate(NODES, start=16820)
        )
        addresses = "".join(f"{address} {name}\n" for name, address in NODES.items())
        files = {
            "slurm.conf": nodes + (ACCOUNTING if self.accounting else NO_ACCOUNTING) + SLURM_CONF,
            "slurmdbd.conf": SLURMDBD_CONF,
            "gres.conf": GRES_CONF,
            "hosts": f"127.0.0.1 localhost {HOST}\n{addresses}",
        }
        for place in (self.etc, self.log):
            place.mkdir(parents=True)
        for name, text in files.items():
            (self.etc / name).write_text(text)
        (self.etc / "slurmdbd.conf").chmod(0o600)  # otherwise slurmdbd refuses the file

    def unshared(self) -> None:
        """Make the namespaces, and the files that their processes need."""
        command = ["setpriv", "--pdeathsig", "KILL", *UNSHARE, "sh", "-euc", INIT, "sh", str(self.folder)]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.unshare = subprocess.Popen(command, env=os.environ | {"PATH": PATH}, start_new_session=True, **pipes)
        with self.unshare.stdout as output:
            if (line := output.readline()) != "ready\n":
                raise RuntimeError(f"no namespaces: {line.strip()}")
        (self.first,) = children(self.unshare.pid)

    def start(self, *command: str) -> None:
        """Run a command that starts daemons. Raise RuntimeError if it fails."""
        with (self.log / "start.log").open("a") as log:
            if self.popen(*command, stdin=subprocess.DEVNULL, stdout=log, stderr=log).wait(60):
                raise RuntimeError(f"{command[0]} failed (logs: {self.log})")

    def popen(self, *command: str, cwd: Path | None = None, env: dict[str, str] | None = None, **options) -> Inside:
        """Start a command inside the cluster with these options of Popen."""
        enter = ["nsenter", f"--target={self.first}", "--pid", "--net", "--mount", "--uts"]
        where = f"--chdir={cwd or Path.cwd()}"
        env = dict(os.environ if env is None else env)
        env["PATH"] = f"{env.get('PATH', '')}:/usr/sbin:/sbin"
        env["TRANSFORMER_DEVICE"] = "cpu"  # the nodes' GPUs exist only in Slurm's configuration
        return Inside([*enter, "env", where, *command], env=env, start_new_session=True, **options)

    def run(self, *command: str, timeout: float | None = None, **options) -> subprocess.CompletedProcess:
        """Run a command inside, like subprocess.run with captured text. It is killed after `timeout` seconds."""
        options |= {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.popen(*command, encoding="utf-8", errors="replace", **options) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def wait_until_idle(self) -> None:
        def idle() -> bool:
            jobs = self.run("squeue", "--noheader", timeout=20)
            states = self.run("sinfo", "--noheader", "--Node", "--format=%N %T", timeout=20).stdout.splitlines()
            return jobs.returncode == 0 and not jobs.stdout and set(states) == {f"{node} idle" for node in NODES}

        until(idle, f"the nodes are not idle (logs: {self.log})", 90)

    def clear(self) -> None:
        """Cancel all jobs, wait until they have ended, and let drained nodes work again."""
        self.run("scancel", "--user=root", timeout=20)
        for node in NODES:  # a node that is not drained refuses to resume
            self.run("scontrol", "update", f"NodeName={node}", "State=RESUME", timeout=20)
        self.wait_until_idle()


if __name__ == "__main__":
    with TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster, cluster.popen(*sys.argv[1:]) as process:
        sys.exit(process.wait())
