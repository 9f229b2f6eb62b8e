# shellcheck shell=sh
# Where this bundle's Open MPI finds itself; `bundle` is the folder that this file lies in. Sourced by the wrappers.
export OPAL_PREFIX="$bundle" OPAL_SYSCONFDIR="$bundle/etc"
export PMIX_PREFIX="$bundle/pmix" PMIX_INSTALL_PREFIX="$bundle/pmix"
# PMIx would print a page about doing without compression, and look for that page where it was built.
export PMIX_MCA_pcompress_base_silence_warning=1
# Settings of one machine: the same as jobs/mpi_env.sh, which explains them. What is already set stays.
if [ "$(id -u)" -eq 0 ]; then
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
shm=$(df -k --output=avail /dev/shm 2>/dev/null)
shm=${shm##*[!0-9]}
if [ ! -d /dev/shm ] || [ "${shm:-65536}" -lt 32768 ]; then
  export OMPI_MCA_btl_vader_backing_directory="${OMPI_MCA_btl_vader_backing_directory:-${TMPDIR:-/tmp}}"
fi
# Without ssh there are only this machine's ranks (and Slurm's, which srun starts).
if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null && [ -z "${SLURM_JOB_ID:-}" ]; then
  export OMPI_MCA_plm="${OMPI_MCA_plm:-isolated}"
fi
