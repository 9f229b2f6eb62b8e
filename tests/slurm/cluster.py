"""A Slurm on this machine alone: munged, slurmctld and a slurmd for each virtual node, started by hand, every file in
one folder. A node has its own host name (a UTS namespace), four CPUs, and four GPUs that are character devices.

The caller runs as the first process of a PID namespace (enter_namespaces): when it ends, for whatever reason, the
kernel kills all others in there, daemons, jobs and ranks. In a network namespace its ports are nobody else's.
"""
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

NODES = 2
CPUS = GPUS = 4
WAIT = 60  # seconds; a command that takes longer hangs
CONTROLLER_PORT, NODE_PORT = 16817, 16900
SKIPPED = 77

# The address: slurmctld resolves no name, not even 127.0.0.1, on a machine that has local addresses only.
ENTER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--net", "sh", "-c",
         'mount -t tmpfs tmpfs /dev/shm && ip link set lo up && ip address add 10.77.0.1/32 dev lo && '
         'hostname control && exec "$@"', "sh"]

os.environ["PATH"] += ":/usr/sbin"


def why_not():
    """Why this machine cannot run a cluster; empty if it can."""
    needed = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "unshare", "mknod", "ip"]
    if missing := [name for name in needed if shutil.which(name) is None]:
        return f"no {', '.join(missing)}: jobs/setup.sh --packages munge slurmctld slurmd slurm-client iproute2"
    tried = subprocess.run([*ENTER, "true"], capture_output=True, text=True)
    return tried.stderr.strip() + " (namespaces need root)" if tried.returncode else ""


def enter_namespaces():
    """Starts the script again in new namespaces, and returns only there. Ends with 77 where that is not allowed."""
    if os.getpid() == 1:
        os.environ["TMPDIR"] = "/dev/shm"  # nothing of it is left
        return
    if reason := why_not():
        print(f"skipped: no Slurm can be started here: {reason}")
        sys.exit(SKIPPED)
    sys.stdout.flush()
    os.execvp(ENTER[0], [*ENTER, sys.executable, "-B", *sys.argv])


class Cluster:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.daemons = []
        of_nodes = (f"{kind}/node{n}" for n in range(1, NODES + 1) for kind in ("spool", "tmp"))
        for name in ("state", "log", "run", *of_nodes):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o755)
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        self.configure()
        self.start()

    def configure(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        for number in range(GPUS):
            subprocess.run(["mknod", self.folder / f"gpu{number}", "c", "1", "3"], check=True)
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-{GPUS - 1}]\n")
        nodes = "".join(f"NodeName=node{n} NodeHostname=node{n} NodeAddr=127.0.0.1 Port={NODE_PORT + n} CPUs={CPUS} "
                        f"RealMemory=4000 Gres=gpu:{GPUS} State=UNKNOWN\n" for n in range(1, NODES + 1))
        (self.folder / "slurm.conf").write_text(f"""\
ClusterName=test
SlurmctldHost=control(127.0.0.1)
SlurmctldPort={CONTROLLER_PORT}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/run/munge.sock
CredType=cred/munge
SlurmctldPidFile={self.folder}/run/slurmctld.pid
SlurmctldLogFile={self.folder}/log/slurmctld.log
StateSaveLocation={self.folder}/state
SlurmdPidFile={self.folder}/run/%n.pid
SlurmdLogFile={self.folder}/log/%n.log
SlurmdSpoolDir={self.folder}/spool/%n
SlurmdParameters=config_overrides
TmpFS={self.folder}/tmp/%n
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
GresTypes=gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=5
JobRequeue=0
{nodes}PartitionName=main Nodes=node[1-{NODES}] Default=YES MaxTime=INFINITE State=UP
""")

    def start(self):
        run, log = self.folder / "run", self.folder / "log"
        self.daemon("munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key",
                    f"--socket={run}/munge.sock", f"--pid-file={run}/munged.pid", f"--log-file={log}/munged.log",
                    f"--seed-file={run}/munge.seed")
        self.wait_for(lambda: (run / "munge.sock").exists(), "munged")
        self.daemon("slurmctld", "-D", "-c")
        for number in range(1, NODES + 1):
            self.daemon("unshare", "--uts", "sh", "-c", f"hostname node{number} && exec slurmd -D -N node{number}")
        self.wait_for(lambda: output("sinfo", "-h", "-o", "%D %t").split() == [str(NODES), "idle"], "idle nodes")

    def daemon(self, *words):
        with (self.folder / "log" / "output").open("ab") as log:
            self.daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def wait_for(self, ready, what):
        try:
            wait_for(ready, what)
        except AssertionError:
            for log in sorted((self.folder / "log").iterdir()):
                print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
            raise


def output(*words):
    """Returns a command's output; empty if it fails."""
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout


def wait_for(ready, what, timeout=WAIT):
    """Waits until `ready` returns something true, and returns it. `what`: words for the failure, or what makes them."""
    deadline = time.monotonic() + timeout
    while not (result := ready()):
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what() if callable(what) else what} after {timeout} s")
        time.sleep(0.1)
    return result


class SlurmJob:
    """A job, or a task of an array (JOB_TASK)."""

    def __init__(self, number):
        self.number = number

    def facts(self):
        """Returns Slurm's facts about it: JobState, ExitCode, Restarts, StdOut, ..."""
        return dict(re.findall(r"(\w+)=(\S+)", output("scontrol", "show", "job", self.number)))

    def said(self):
        path = Path(self.facts()["StdOut"])
        return path.read_text(errors="replace") if path.exists() else ""

    def wait(self, *states, timeout=WAIT):
        """Until the job is in one of the states. One that was requeued starts after two seconds, where Slurm would hold
        it for 121: a node refuses it in the second in which its last attempt ended."""

        def reached():
            facts = self.facts()
            if facts.get("JobState") == "PENDING" and facts.get("Reason") == "BeginTime":
                if time.time() - time.mktime(time.strptime(facts["SubmitTime"], "%Y-%m-%dT%H:%M:%S")) > 2:
                    output("scontrol", "update", f"JobId={self.number}", "StartTime=now")
            return facts.get("JobState") in states and facts

        try:
            return wait_for(reached, f"{' or '.join(states)} of job {self.number}", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.facts()}\n{self.said()}") from None

    def end(self, timeout=WAIT):
        """Its facts when all is over."""
        return self.wait("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", timeout=timeout)

    def ranks(self):
        """Process numbers of its ranks."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(entry / "exe").endswith("/bin/tessera"):
                    environment = (entry / "environ").read_bytes().split(b"\0")
                    if f"SLURM_JOB_ID={self.facts()['JobId']}".encode() in environment:
                        found.append(int(entry.name))
            except OSError:
                continue
        return sorted(found)
