# shellcheck shell=bash
# What the job scripts for Slurm share. It is sourced by them, after site.sh.
#
#   train_job [WORDS...]             runs `tessera train WORDS` over all tasks of the job, requeues it, and ends the script
#   sweep_job LIST DIR               runs the row of this array task, DIR/ROW: line SLURM_ARRAY_TASK_ID of LIST

# shellcheck source=jobs/own_job.sh
source "$(dirname "${BASH_SOURCE[0]}")/own_job.sh"
# shellcheck source=jobs/ranks.sh
source "$(dirname "${BASH_SOURCE[0]}")/ranks.sh"
job_number=${SLURM_JOB_ID:-}

# Sets `launcher` to the command that starts a rank for every task.
choose_launcher() {
  # An allocation of salloc has a number only if it was asked for one.
  [[ -n ${SLURM_NTASKS:-} ]] || refuse "SLURM_NTASKS does not say how many ranks to start: salloc --ntasks-per-node=RANKS"
  read -ra launcher <<<"$TESSERA_LAUNCHER"
  if [[ $TESSERA_LAUNCHER == auto ]]; then
    local mpi=pmix
    ! needs_mpich || mpi=pmi2  # Debian's MPICH knows nothing of PMIx
    if srun --mpi=list 2>&1 | grep -qw "$mpi"; then
      launcher=(srun "--mpi=$mpi")
    elif [[ $mpi == pmix ]] && command -v mpirun >/dev/null; then
      launcher=(mpirun)
    else
      refuse "neither has this Slurm $mpi (srun --mpi=list) nor is there an mpirun of Open MPI: set TESSERA_LAUNCHER in site.sh"
    fi
  fi
  # With --ntasks, --ntasks-per-node is only the most that a node may have.
  local tasks=$(((SLURM_NTASKS + SLURM_JOB_NUM_NODES - 1) / SLURM_JOB_NUM_NODES))
  # Without --cpus-per-task the ranks share what the job has of its node: all cores where it is alone there.
  local options cores=${SLURM_CPUS_PER_TASK:-$((${SLURM_CPUS_ON_NODE:-1} / tasks))} bound=" --bind-to none"
  ((cores > 0)) || cores=1
  case ${launcher[0]##*/} in
    srun)
      # srun takes --cpus-per-task from this variable only.
      export SRUN_CPUS_PER_TASK=$cores
      # By default a fence of Slurm's PMIx does not wait for the other nodes (22.05), and Open MPI 4 then crashes in MPI_Init
      # where a message comes from a rank that is ahead.
      export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}
      # Every rank sees all GPUs of the job on its node and takes one; --gpu-bind=none would hide them. By default Slurm deals
      # ranks to sockets in turn, and then half of them are bound far from their GPUs.
      options=${TESSERA_LAUNCHER_OPTIONS---cpu-bind=cores --distribution=block:block}
      # With 1, the first rank that ends with 75 has the others killed, and the step's code is 143. PMIx ends the step
      # when a rank is killed, and Tessera when one fails.
      launcher+=(--kill-on-bad-exit=0)
      ;;
    *)
      # mpirun counts cores where Slurm may count their threads, so only a given number is bound.
      [[ -z ${SLURM_CPUS_PER_TASK:-} ]] || bound=":PE=$cores --bind-to core"
      options=${TESSERA_LAUNCHER_OPTIONS---map-by ppr:$tasks:node$bound}
      [[ " ${launcher[*]} $options " =~ \ --?(n|np|c)\  ]] || launcher+=(-n "$SLURM_NTASKS")
      ;;
  esac
  # shellcheck disable=SC2206
  launcher+=($options)
}

# make_folder RUN: before anything that takes long, so that a later attempt finds it. Where one does not, the job's log
# tells whether an attempt before it had the folder: then it is out of reach, and must not be made anew.
make_folder() {
  if ((${SLURM_RESTART_COUNT:-0} > 0)) && [[ ! -d $1 ]] &&
    sed -n 's/^job .*, restart [0-9]*, into //p' "$(job_fact StdErr)" 2>/dev/null |
      grep -xF -- "$1" >/dev/null; then
    say "$1 is missing, although an attempt before this one had it: mount its file system on this node, or submit a new job"
    exit 4
  fi
  mkdir -p -- "$1" && return
  say "the run's folder cannot be made: is its file system mounted on this node?"
  exit 4
}

# postmortem RUN CODE: after a failure that leaves a question, what each rank did last and who held the others up. Files
# that are local to the nodes are collected first, by a task on each node that still answers.
postmortem() {
  local run=$1 folder
  case $2 in 0 | 2 | 3 | 6 | 7 | 75) return ;; esac
  [[ -d $run/flight ]] || return
  # A rank of another node counts as silent after two seconds without a heartbeat.
  ((SLURM_JOB_NUM_NODES == 1)) || sleep 3
  if folder=$(cat "$run/flight/node-local" 2>/dev/null); then
    # shellcheck disable=SC2016
    timeout 60 srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --kill-on-bad-exit=0 \
      sh -c 'cp "$0"/rank-* "$1" && rm -r "$0"' "$folder" "$run/flight"
  fi
  "$TESSERA" postmortem "$run" >&2
}

# put_back JOB: puts the job into the queue again. Slurm may end what the script runs before scontrol has its answer:
# scontrol must outlive that.
put_back() (
  trap '' TERM
  exec scontrol requeue "$1"
)

# back_in_queue: whether Slurm has put the job back into the queue by itself, to make room for another one or because
# somebody called `scontrol requeue`. It ends the script as `scancel` does, but has counted the restart.
back_in_queue() {
  local restarts
  restarts=$(job_fact Restarts)
  ((${restarts:-0} > ${SLURM_RESTART_COUNT:-0}))
}

# until_slurm_ends_it: waits for the end that Slurm gives a script whose job is back in the queue; it may have come.
until_slurm_ends_it() {
  trap 'exit 75' TERM
  [[ -z $cancelled ]] || exit 75
  sleep 60 &
  wait
}

# requeue RUN STARTED: after a stop with a checkpoint (75): puts the job into the queue again, unless that is of no use.
# STARTED: the newest checkpoint's step when this attempt began. RUN/requeues has a line for every attempt that was
# stopped: job, restart, step.
requeue() {
  local run=$1 before=$2 restart=${SLURM_RESTART_COUNT:-0} step job recorded
  job=$(this_job)
  step=$(newest_step "$run")
  recorded=$(sed -n "s/^$job $((restart - 1)) //p" "$run/requeues" 2>/dev/null | tail -1)
  before=${recorded:-$before}
  echo "$job $restart $step" >>"$run/requeues"
  local stopped="stopped at step $step with a checkpoint"
  ((step > 0)) || stopped="stopped before a step was finished, so that there is no checkpoint"
  if back_in_queue; then
    say "$stopped; Slurm has put the job back into the queue itself: goes on in restart $((restart + 1))"
  elif [[ -n $cancelled || $(job_fact JobState) != RUNNING ]]; then
    say "$stopped; Slurm ends the job: not requeued"
  elif grep -qs '"by_stop_file": true' "$run/status.json"; then
    say "$stopped, as $run/stop asked: not requeued"
  elif ((step <= before)); then
    say "$stopped${recorded:+, no further than the attempt before it}: no progress, not requeued$(short_limit)"
  elif ((restart >= TESSERA_REQUEUES)); then
    say "$stopped after $restart restarts (TESSERA_REQUEUES = $TESSERA_REQUEUES): not requeued"
  elif put_back "$job"; then
    say "$stopped: requeued, restart $((restart + 1)) of at most $TESSERA_REQUEUES"
    until_slurm_ends_it
  else
    say "$stopped; Slurm does not requeue it (was it submitted with --no-requeue?)"
  fi
}

train_job() {
  local words run started launcher code cancelled warned
  own_variables
  site_setup
  [[ -x $TESSERA ]] || refuse "no executable at $TESSERA: build it (jobs/setup.sh), or set TESSERA in site.sh"
  run=$(value run.dir "$@")
  run=${run:-$TESSERA_RUNS/$SLURM_JOB_NAME-$(this_job)}
  make_folder "$run"
  started=$(newest_step "$run")
  words=("$@")
  # Whatever the first attempt began with, later ones go on from this run's own checkpoint, also if it is out of reach.
  if ((${SLURM_RESTART_COUNT:-0} > 0)) && { ((started > 0)) || [[ $(value checkpoint.resume "$@") == none ]] ||
    grep -qs '"checkpoint_bytes"' "$run/log.jsonl"; }; then
    without checkpoint.resume "$@"
  fi
  given checkpoint.resume "${words[@]}" || words+=(--checkpoint.resume=auto)
  given checkpoint.keep_near "${words[@]}" || words+=(--checkpoint.keep_near=auto)
  given run.dir "${words[@]}" || words+=("--run.dir=$run")
  # Whatever ends the job, no more than half an hour of work is lost.
  says_when "${words[@]}" || words+=(--checkpoint.every_minutes=30)
  set_end_time
  choose_launcher
  export TESSERA_JOB_SCRIPT=train  # whose data must be named
  say "$(resources), restart ${SLURM_RESTART_COUNT:-0}, into $run"
  # shellcheck disable=SC2086
  run_ranks "${launcher[@]}" ${TESSERA_WRAP:-} "$TESSERA" train "${words[@]}"
  if ((code == 75)); then requeue "$run" "$started"; else explain "$code"; fi
  postmortem "$run" "$code"
  exit "$code"
}

# row_status FILE: the state of a row, as its status.json says.
row_status() { sed -n 's/^ *"state": "\(.*\)",$/\1/p' "$1"; }

# row_becomes STATE FILE WORDS...: whatever the row's status says, it is started again (pending), or not (stopped).
row_becomes() {
  local state=$1 file=$2
  shift 2
  sed -E -i -e "s/^( *\"(state|status)\": ).*/\\1\"$state\",/" -e "s/^( *\"message\": ).*/\\1\"$*\",/" "$file"
  say "$*"
}

sweep_job() {
  local list=$1 dir=$2 row status launcher code cancelled warned
  own_variables
  site_setup
  [[ -x $TESSERA ]] || refuse "no executable at $TESSERA: build it (jobs/setup.sh), or set TESSERA in site.sh"
  row=$(sed -n "${SLURM_ARRAY_TASK_ID:-0}p" "$list") || refuse "cannot read $list"
  [[ -n $row ]] || refuse "$list has no line ${SLURM_ARRAY_TASK_ID:-0}"
  [[ -r $dir/$row/row.ini ]] || refuse "there is no $dir/$row/row.ini, which this version's submit writes: submit the sweep again"
  status=$dir/$row/status.json
  set_end_time
  choose_launcher
  say "row $row: $(resources), restart ${SLURM_RESTART_COUNT:-0}, into $dir/$row"
  # The sweep starts the ranks, or the row's own program, and writes the row's status: pending with code 75 where the
  # row is to be started again.
  run_ranks "$TESSERA" sweep "$dir/$row/row.ini" "--sweep.dir=$dir" --sweep.action=row \
    "--sweep.launcher=${launcher[*]} ${TESSERA_WRAP:-}"
  if ((code != 0)) && back_in_queue; then
    row_becomes pending "$status" "stopped, and Slurm has put the job back into the queue itself"
  elif ((code != 75)); then
    explain "$code"
    postmortem "$dir/$row/run" "$code"
  elif [[ $(row_status "$status") != pending ]]; then
    say "stopped, and not requeued: $status says why"
  elif [[ -n $cancelled || $(job_fact JobState) != RUNNING ]]; then
    row_becomes stopped "$status" "stopped, and Slurm ended the job: not requeued"
  elif put_back "$(this_job)"; then
    say "stopped before its limit: requeued"
    until_slurm_ends_it
  else
    row_becomes stopped "$status" "stopped, and Slurm does not requeue the job"
  fi
  exit "$code"
}
