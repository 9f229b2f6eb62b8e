# shellcheck shell=bash
# What job scripts share, whatever the scheduler: words of a command line, ranks and their exit codes. It is sourced by job.sh
# (Slurm) and train.pbs, which set `job_number` to the job's number.

say() { printf 'job %s: %s\n' "$job_number" "$*" >&2; }

refuse() {
  say "$*"
  exit 2
}

# needs_mpich: whether the executable is of a build with MPICH. A bundle's is a script next to its programs.
needs_mpich() {
  local program=$TESSERA
  [[ $(head -c 2 "$program" 2>/dev/null | tr -d '\0') != '#!' ]] || program=$(dirname "$(readlink -f "$program")")/../programs/tessera
  ldd "$program" 2>/dev/null | grep -q libmpich
}

# given NAME WORDS...: whether the words have the option --NAME.
given() {
  local name=$1 word
  for word in "${@:2}"; do
    [[ $word != "--$name" && $word != "--$name="* ]] || return 0
  done
  return 1
}

# value NAME WORDS...: what the words say for --NAME; nothing if they do not.
value() {
  local name=$1
  shift
  while [[ $# -gt 0 ]]; do
    case $1 in
      "--$name="*) printf '%s' "${1#*=}"; return ;;
      "--$name") printf '%s' "${2:-}"; return ;;
    esac
    shift
  done
}

# without NAME WORDS...: sets `words` to the words less the option --NAME.
without() {
  local name=$1
  shift
  words=()
  while [[ $# -gt 0 ]]; do
    case $1 in
      "--$name="*) ;;
      "--$name") shift ;;
      *) words+=("$1") ;;
    esac
    shift || true
  done
}

# says_when WORDS...: whether the words, or an INI file among them, say when checkpoints are written. (A run's own file
# repeats every option, also those that nobody gave.)
says_when() {
  local word
  if given checkpoint.every "$@" || given checkpoint.every_minutes "$@"; then return 0; fi
  for word; do
    [[ -f $word ]] || continue
    head -c 1048576 "$word" | awk '
      NR == 1 { repeats = /^# Every option of this run/ }
      /^[[:space:]]*\[/ { inside = /^[[:space:]]*\[[[:space:]]*checkpoint[[:space:]]*\]/ }
      inside && /^[[:space:]]*every(_minutes)?[[:space:]]*=/ && !(repeats && $NF == 0) { found = 1 }
      END { exit !found }' && return 0
  done
  return 1
}

# newest_step RUN: the step of its newest checkpoint; 0 without one.
newest_step() {
  local manifest newest=0 step
  for manifest in "$1"/checkpoints/step-*/manifest.json; do
    step=${manifest%/manifest.json}
    step=${step##*/step-}
    [[ -e $manifest && $step =~ ^[0-9]+$ ]] || continue
    ((10#$step > newest)) && newest=$((10#$step))
  done
  echo "$newest"
}

# run_ranks COMMAND...: starts the ranks, and passes on to them the USR1 that this script gets. Sets `code`, `warned` to
# the seconds from the script's start to the USR1, and `cancelled` where Slurm ends the job.
run_ranks() {
  local ranks='' interrupted=''
  cancelled='' warned=''
  trap 'interrupted=1; warned=${warned:-$SECONDS}; [[ -z $ranks ]] || kill -USR1 "$ranks" 2>/dev/null' USR1
  trap 'interrupted=1; cancelled=1' TERM
  "$@" &
  ranks=$!
  [[ -z $warned ]] || kill -USR1 "$ranks"
  # A signal that is trapped ends `wait` early.
  while true; do
    wait "$ranks"
    code=$?
    [[ -n $interrupted ]] || break
    interrupted=
  done
  trap '' USR1
}

# What an exit code of the ranks means.
explain() {
  case $1 in
    0) say "finished" ;;
    2) say "refused (code 2): a rank's line that begins with 'tessera:' says what, and what is allowed" ;;
    3) say "numerical failure (code 3): see the line that begins with 'tessera:'" ;;
    4) say "input or output failed (code 4): see the line that begins with 'tessera:'" ;;
    5) say "a rank failed, or did not answer (code 5): see the line that begins with 'tessera:'" ;;
    6) say "does not fit in memory (code 6): the line that begins with 'tessera:' says by how much, and what would fit" ;;
    7) say "bits were changed by a fault of the hardware (code 7): the line that begins with 'tessera:' says on which host" ;;
    137) say "a rank was killed (SIGKILL, code 137): for want of memory (--mem; see tessera plan), or by somebody" ;;
    *)
      if (($1 > 128)) && kill -l $(($1 - 128)) >/dev/null 2>&1; then
        say "a rank was ended by SIG$(kill -l $(($1 - 128))) (code $1)"
      else
        say "failed with code $1"
      fi
      ;;
  esac
}
