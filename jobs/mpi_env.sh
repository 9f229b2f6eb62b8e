# shellcheck shell=bash
# Open MPI's settings for one machine, to be sourced before mpiexec. What is already set stays.

# As root (containers, CI) Open MPI 4 refuses to start without these two.
if [[ $(id -u) -eq 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# More ranks than cores must neither be refused nor spin: a 1 KB all-reduce of 4 ranks on 2 cores takes 11 us when waiting
# ranks yield, and 11 ms when they do not.
export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe:-1}
export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}

# By default Open MPI pins each of 2 ranks to one core, and then the rank's threads share it.
export OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy:-none}

# Under a seccomp filter (Docker's, for one) reading a peer's memory may be forbidden, which Open MPI finds out too late.
if grep -qs '^Seccomp:[[:space:]]*2' /proc/self/status; then
  export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}
fi
