# shellcheck shell=bash disable=SC2086
# What belongs to this job of Slurm, and to no other. It is sourced by job.sh and study.sbatch.

# own_variables: corrects the variables of this job. Among them are those of the job, the step and the rank in which sbatch
# was called, wherever Slurm sets none over them, and srun and MPI would obey these. What Slurm does not set in every job
# is asked of scontrol, or left out: a step has all that its job has. And srun hands on what the job has set, whatever
# sbatch was told to export.
own_variables() {
  local record restarts
  export SLURM_EXPORT_ENV=ALL
  # A step of this script would wait for the end of a step in which the script was started by hand.
  [[ -z ${SLURM_STEP_ID:-} ]] || export SLURM_OVERLAP=1
  unset ${!SLURM_STEP@} ${!SLURM_MEM_PER_@} ${!SLURM_CPU_BIND@} SLURM_GPUS SLURM_GPUS_PER_TASK SLURM_GPU_BIND SLURM_MPI_TYPE
  # Slurm 23.11 and newer repeat cores and GPUs of a task there: srun would hide the other GPUs of the node from each rank,
  # and refuse another number of cores than the job got.
  unset SLURM_TRES_PER_TASK
  unset ${!PMI_@} ${!PMIX_SERVER_@} PMIX_NAMESPACE PMIX_RANK ${!PALS_@}
  [[ -z ${OMPI_COMM_WORLD_SIZE:-} ]] ||
    unset ${!OMPI_COMM_@} OMPI_UNIVERSE_SIZE ${!OMPI_MCA_orte_@} ${!OMPI_MCA_ess@} OMPI_MCA_pmix
  record=$(scontrol --oneliner show job "$SLURM_JOB_ID" | grep "^JobId=$SLURM_JOB_ID ")
  [[ -n $record ]] || return 0  # Slurm's controller does not answer
  [[ $record == *" ArrayJobId=${SLURM_ARRAY_JOB_ID:-none} "* ]] || unset ${!SLURM_ARRAY_@}
  [[ $record == *" CPUs/Task=${SLURM_CPUS_PER_TASK:-none} "* ]] || unset SLURM_CPUS_PER_TASK
  [[ $record == *gres[:/]gpu* ]] || unset SLURM_GPUS_ON_NODE
  restarts=${record##* Restarts=}
  export SLURM_RESTART_COUNT=${restarts%% *}
}

# The job's name for scontrol: JOB, or ARRAY_TASK.
this_job() {
  if [[ -n ${SLURM_ARRAY_JOB_ID:-} ]]; then
    printf '%s' "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
  else
    printf '%s' "$SLURM_JOB_ID"
  fi
}

# job_fact NAME: what Slurm says about the job, for example JobState.
job_fact() { scontrol --oneliner show job "$(this_job)" | tr ' ' '\n' | sed -n "s/^$1=//p" | head -1; }

# Tessera stops before SLURM_JOB_END_TIME. Slurm 22.05 does not set it; and a job that was submitted from within another
# one may have the other's.
set_end_time() {
  local end
  unset SLURM_JOB_END_TIME
  end=$(job_fact EndTime)
  [[ $end == *T*:* ]] || return 0  # "Unknown": no limit
  SLURM_JOB_END_TIME=$(date -d "$end" +%s)
  export SLURM_JOB_END_TIME
}

# counted NUMBER WORD: "1 rank", "2 ranks".
counted() {
  local plural=s
  (($1 != 1)) || plural=
  printf '%s' "$1 $2$plural"
}

# "2 ranks on node1, 2 GPUs per node"
resources() {
  local gpus=${SLURM_GPUS_ON_NODE:-0}
  ((gpus == 0)) || gpus=", $(counted "$gpus" GPU) per node"
  printf '%s' "$(counted "$SLURM_NTASKS" rank) on $SLURM_JOB_NODELIST${gpus#0}"
}

# short_limit: where Slurm warned the job as soon as it began: that its limit is too short.
short_limit() {
  [[ -n $warned && -n ${SLURM_JOB_END_TIME:-} ]] || return 0
  # In a longer job somebody else sent the signal.
  ((warned < 60 && SLURM_JOB_END_TIME - $(date +%s) + SECONDS <= 3600)) || return 0
  printf '%s' ". --time = $(job_fact TimeLimit) is too short, because Slurm warned the job $warned s after it began" \
    " (--signal: 120 s before the limit, unless sbatch was told otherwise). Submit it with a longer --time"
}
