"""A Slurm of the rig: h1 is the login node and has the controller, the other hosts are nodes with false NPUs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rig.capabilities import RigUnavailable, which
from tests.rig.host import Host
from tests.rig.rig import Rig

_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "munged")
_ACCOUNTING_PROGRAMS = ("slurmdbd", "sacct", "mariadbd", "mariadb-install-db", "my_print_defaults")
_PATIENCE_S = 120
NPUS = 4
ROOT = "/srv/shared/rlx"

# A node that does not answer is given up after 10 s, the least that a test can wait for.
_CONFIGURATION = """\
ClusterName=rig
SlurmctldHost=h1({login})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
StateSaveLocation=/var/tmp/slurmctld
SlurmdSpoolDir=/var/tmp/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/tmp/slurmctld.log
SlurmdLogFile=/var/tmp/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog=/etc/slurm/task_prolog
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=npu
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
SlurmdTimeout=10
MessageTimeout=2
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SlurmdParameters=config_overrides
KillWait=5
JobAcctGatherType=jobacct_gather/none
{nodes}
PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE DefaultTime=10 State=UP PriorityTier=1 GraceTime=10
PartitionName=urgent Nodes={names} MaxTime=INFINITE DefaultTime=10 State=UP PriorityTier=2 PreemptMode=OFF
"""

_NO_ACCOUNTING = "AccountingStorageType=accounting_storage/none\n"
# A controller that forgets a job as soon as it is over: then accounting alone knows how it ended.
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=h1
MinJobAge=2
"""
_DAEMON = """\
AuthType=auth/munge
DbdHost=h1
SlurmUser=root
LogFile=/var/tmp/slurmdbd.log
PidFile=/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct
"""
# Memory is enough for what ends with the host. It listens on no network, and on this machine's socket neither: /run is
# the host's own.
_DATABASE = """
mkdir /run/mysqld
mariadb-install-db --no-defaults --datadir=/run/mysqld/data --user=root --auth-root-authentication-method=normal \
    --skip-test-db --skip-name-resolve
setsid mariadbd --no-defaults --datadir=/run/mysqld/data --socket=/run/mysqld/mysqld.sock --skip-networking \
    --user=root --innodb-buffer-pool-size=32M --innodb-log-file-size=16M >/var/tmp/mariadbd.log 2>&1 </dev/null &
"""


# As the plugin of a site does, for jobs whose names ask for it: for all tasks, for the script alone, or for srun's.
_TASK_PROLOG = """\
#!/bin/sh
case $SLURM_JOB_NAME.${SLURM_STEP_ID-} in
    *-site-* | *-batch-*.) echo export ASCEND_RT_VISIBLE_DEVICES=7,8 ;;
    *-few-*.?*) echo export ASCEND_RT_VISIBLE_DEVICES=7 ;;
esac
"""


def require_slurm(*more: str) -> None:
    """Raises RigUnavailable where no Slurm is installed."""
    if missing := [program for program in (*_PROGRAMS, *more) if which(program) is None]:
        raise RigUnavailable(f"missing {', '.join(missing)}; 'make rig' installs them")


class Cluster:
    """`with cluster(rig) as slurm`: a started Slurm; it ends with the hosts of the rig."""

    def __init__(self, rig: Rig, npus: int, *, accounting: bool) -> None:
        self.rig, self.npus = rig, npus
        self.accounting = accounting
        self.login, *self.nodes = rig.hosts
        key = secrets.token_bytes(128)
        for host in rig.hosts:
            self._configure(host, key)
        if accounting:
            self._start_accounting()
        self.start_controller()
        for node in self.nodes:
            node.add_devices(*(f"davinci{number}" for number in range(npus)))
            node.run("slurmd")
        self.until_idle()

    def until_idle(self) -> None:
        """Wait until every node can take a job."""
        self.until(lambda: self.states() == ["idle"] * len(self.nodes), "all nodes are idle")

    def _configure(self, host: Host, key: bytes) -> None:
        names = ",".join(node.name for node in self.nodes)
        nodes = "\n".join(
            f"NodeName={node.name} NodeAddr={node.address} CPUs=8 RealMemory=4000 Gres=npu:{self.npus}"
            for node in self.nodes
        )
        slurm, munge = _own_folder(host, "slurm"), _own_folder(host, "munge")
        (slurm / "slurm.conf").write_text(
            _CONFIGURATION.format(login=self.login.address, nodes=nodes, names=names), encoding="utf-8"
        )
        with (slurm / "slurm.conf").open("a", encoding="utf-8") as more:
            more.write(_ACCOUNTING if self.accounting else _NO_ACCOUNTING)
        (slurm / "gres.conf").write_text(
            f"NodeName={names} Name=npu File=/dev/davinci[0-{self.npus - 1}]\n", encoding="utf-8"
        )
        (slurm / "task_prolog").write_text(_TASK_PROLOG, encoding="utf-8")
        (slurm / "task_prolog").chmod(0o755)
        (munge / "munge.key").write_bytes(key)
        (munge / "munge.key").chmod(0o400)
        files = ("--key-file=/etc/munge/munge.key", "--seed-file=/run/munge/seed", "--log-file=/run/munge/log")
        host.run("mkdir", "-m", "755", "/run/munge")
        host.run("munged", "--force", "--pid-file=/run/munge/munged.pid", *files)

    # ---- the controller ----

    def start_controller(self) -> None:
        self.login.run("slurmctld")
        self.until(lambda: self.login.run("scontrol", "ping", check=False).returncode == 0, "the controller answers")

    def stop_controller(self) -> None:
        """End it in good order: killed, it forgets its newest jobs, and gives their numbers to others."""
        self.login.run("scontrol", "shutdown", "slurmctld")
        self.until(lambda: "slurmctld" not in self.login.processes().values(), "the controller is gone")

    # ---- its accounting ----

    def _start_accounting(self) -> None:
        file = self.login.folder / "etc/slurm/slurmdbd.conf"
        file.write_text(_DAEMON, encoding="utf-8")
        file.chmod(0o600)
        self.login.run("bash", "-ec", _DATABASE)
        self.until(self.login.path("/run/mysqld/mysqld.sock").exists, "the database answers")
        self.start_accounting()

    def start_accounting(self) -> None:
        self.login.run("slurmdbd")
        answers = ("sacctmgr", "--noheader", "list", "cluster")
        self.until(lambda: self.login.run(*answers, check=False).returncode == 0, "accounting answers")

    # ---- what it says ----

    def states(self) -> list[str]:
        return (
            self.login.run("sinfo", "--noheader", "--Node", "--partition=main", "--format=%t").stdout.decode().split()
        )

    def squeue(self, form: str) -> list[str]:
        """A line for each job, also of those that have just ended."""
        return self.login.run("squeue", "--noheader", "--states=all", f"--format={form}").stdout.decode().splitlines()

    def job(self, run_id: str, form: str = "%T") -> str:
        """What Slurm says of the job of a run; empty if it knows none."""
        found = [line.split("|", 1)[1] for line in self.squeue(f"%k|{form}") if line.startswith(f"rlx:{run_id}|")]
        return found[-1] if found else ""

    def sacct(self, form: str) -> list[str]:
        """A line for each job that accounting knows, the oldest first; none where it does not answer."""
        asked = ("sacct", "--noheader", "--parsable2", "--allocations", "--duplicates", "--starttime=now-1hour")
        return self.login.run(*asked, f"--format={form}", check=False).stdout.decode().splitlines()

    def control(self, *words: str) -> str:
        return self.login.run("scontrol", *words).stdout.decode()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"not after {_PATIENCE_S} s: {what}\n{self.logs()}"
            time.sleep(0.05)

    def logs(self) -> str:
        files = [host.path(f"/var/tmp/{name}.log") for host in self.rig.hosts for name in ("slurmctld", "slurmd")]
        return "\n".join(file.read_text(errors="replace", encoding="utf-8")[-2000:] for file in files if file.exists())


@contextmanager
def cluster(
    count: int, switch: Path, shared: list[Path], npus: int = NPUS, *, accounting: bool = False
) -> Iterator[Cluster]:
    """A Slurm with this many nodes, each with as many NPUs; `accounting`: with slurmdbd. Raises RigUnavailable."""
    require_slurm(*(_ACCOUNTING_PROGRAMS if accounting else ()))
    with Rig(count + 1, switch, shared) as rig:
        yield Cluster(rig, npus, accounting=accounting)


def _own_folder(host: Host, name: str) -> Path:
    """A folder below the host's /etc that is its own, where the machine that runs the tests has one, too."""
    folder = host.folder / "etc" / name
    folder.unlink(missing_ok=True)
    folder.mkdir(mode=0o755)
    return folder
