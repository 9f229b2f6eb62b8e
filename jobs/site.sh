# shellcheck shell=bash
# All that differs between clusters: edit this file, and no other. It is read twice:
#   in your shell, `source jobs/site.sh` before sbatch: account, partition, and where the job scripts lie
#   in the job, by the job scripts: modules, launcher, folders
# What is already set stays, so that a variable can be given for one job.

# --- Read by sbatch. They win over the #SBATCH lines of a script; options of sbatch's command line win over them.
# export SBATCH_ACCOUNT=my_project
# export SBATCH_PARTITION=gpu
# export SBATCH_QOS=normal
# export SBATCH_MEM_PER_NODE=64G      # `tessera plan` says what a run needs

# The folder of this file: a job runs a copy of its script and does not know where that came from.
TESSERA_JOBS=$(unset CDPATH; cd -- "$(dirname -- "${BASH_SOURCE[0]:-$0}")" && pwd)  # also in zsh
export TESSERA_JOBS

# --- The executable: of the build beside jobs/, else of an installation (PREFIX/bin, PREFIX/share/tessera/jobs).
if [[ -z ${TESSERA:-} ]]; then
  TESSERA=$TESSERA_JOBS/../build/release/bin/tessera
  [[ -x $TESSERA ]] || TESSERA=$TESSERA_JOBS/../../../bin/tessera
fi

# --- A Python that has h5py, numpy, pandas, matplotlib and Jinja2: for postprocess.sbatch.
TESSERA_PYTHON=${TESSERA_PYTHON:-/usr/bin/python3}

# --- Scratch: a run is written to TESSERA_RUNS/tessera-JOB. All nodes must see the folder.
TESSERA_RUNS=${TESSERA_RUNS:-$PWD/runs}

# --- What starts the ranks: auto (srun --mpi=pmix where this Slurm has PMIx, else mpirun; in PBS see train.pbs), or the words of a command,
#     for example "srun --mpi=pmix_v4" or "mpirun". It must fit the MPI library that the executable was built with.
TESSERA_LAUNCHER=${TESSERA_LAUNCHER:-auto}
# Options for it instead of those in job.sh: cores of its own for every rank, and all GPUs of the node for each.
# TESSERA_LAUNCHER_OPTIONS="--cpu-bind=cores --distribution=block:block"

# --- How often a job that was stopped before its limit may go on by itself.
TESSERA_REQUEUES=${TESSERA_REQUEUES:-20}

# --- Run in the job, before anything else.
site_setup() {
  # module purge
  # module load openmpi hdf5 cuda nccl
  # export NCCL_SOCKET_IFNAME=ib0 OMPI_MCA_btl_tcp_if_include=ib0
  # export HDF5_USE_FILE_LOCKING=FALSE      # where files cannot be locked
  :
}
