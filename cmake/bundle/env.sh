# shellcheck shell=sh
# Where this bundle's Open MPI finds itself; `bundle` is the folder that this file lies in. Sourced by the wrappers.
# (mpi/lib has no library in it: Open MPI names it in LD_LIBRARY_PATH of what it starts, this machine's sh and ssh too.)
export OPAL_PREFIX="$bundle/mpi" OPAL_SYSCONFDIR="$bundle/mpi/etc"
# PMIx looks for plugins and texts where it was built, whatever its prefix. Those of another version may lie there on
# this machine, and each process would complain of them.
export PMIX_PREFIX="$bundle/mpi/pmix" PMIX_LIBDIR="$bundle/mpi/pmix/lib" PMIX_DATADIR="$bundle/mpi/pmix/share"
# hwloc's plugins of this machine would be loaded into the bundle's glibc.
export HWLOC_PLUGINS_PATH="$bundle/mpi/hwloc"
# Its own mpiexec comes first: a sweep looks for one, and another MPI's would start ranks that know nothing of each other.
case :$PATH: in *:"$bundle/bin":*) ;; *) export PATH="$bundle/bin:$PATH" ;; esac
# Settings of one machine: the same as jobs/mpi_env.sh, which explains them. What is already set stays.
uid=$(id -u)
if [ "$uid" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe="${OMPI_MCA_rmaps_base_oversubscribe:-1}"
export OMPI_MCA_mpi_yield_when_idle="${OMPI_MCA_mpi_yield_when_idle:-1}"
export OMPI_MCA_hwloc_base_binding_policy="${OMPI_MCA_hwloc_base_binding_policy:-none}"
while read -r key value; do
  if [ "$key" = Seccomp: ] && [ "$value" = 2 ]; then
    export OMPI_MCA_btl_vader_single_copy_mechanism="${OMPI_MCA_btl_vader_single_copy_mechanism:-none}"
  fi
done </proc/self/status
# Ranks of a machine meet in files of 4 MiB each in /dev/shm, which is small or missing on some.
shm=$(df -kP /dev/shm 2>/dev/null | while read -r _ _ _ available _; do echo "$available"; done)
shm=${shm##*[!0-9]}  # of the last line
if [ ! -d /dev/shm ] || [ "${shm:-65536}" -lt 32768 ]; then
  export OMPI_MCA_btl_vader_backing_directory="${OMPI_MCA_btl_vader_backing_directory:-${TMPDIR:-/tmp}}"
fi
# Without ssh there are only this machine's ranks (and Slurm's, which srun starts).
if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null && [ -z "${SLURM_JOB_ID:-}" ]; then
  export OMPI_MCA_plm="${OMPI_MCA_plm:-isolated}"
fi
