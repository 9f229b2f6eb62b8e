#!/usr/bin/env bash
# mpiexec for runs that checkpoint when they are told to end: TERM, INT and HUP to this script (a scheduler, Ctrl-C, a
# terminal that goes away) become USR1 to the ranks, which finish their step, write a checkpoint and exit with 75. A second
# one ends the job.
#
#   jobs/launch.sh [MPIEXEC OPTIONS] build/release/bin/tessera train INPUT.ini ...
#
# TESSERA_GRACE (default 4): the seconds that mpiexec leaves its ranks once the first of them has ended with another code than
# 0, an early stop (75) too. It waits that long in full: one half before TERM, the other before KILL.
set -uo pipefail
# shellcheck source=jobs/mpi_env.sh
source "$(dirname "${BASH_SOURCE[0]}")/mpi_env.sh"
export OMPI_MCA_odls_base_sigkill_timeout=$(((${TESSERA_GRACE:-4} + 1) / 2))

# In a process group of its own: Ctrl-C of a terminal reaches this script only.
set -m
mpiexec "$@" &
job=$!
set +m

asked=0
ask() {
  if [[ $asked -eq 0 ]]; then
    asked=1
    kill -USR1 "$job" 2>/dev/null
  else
    kill -TERM "$job" 2>/dev/null
  fi
}
trap ask TERM INT USR1 HUP

# wait returns early for every signal that is trapped.
while true; do
  wait "$job"
  code=$?
  kill -0 "$job" 2>/dev/null || break
done
wait "$job" 2>/dev/null
exit "$code"
