#!/usr/bin/env bash
# Installs what is missing, builds, and trains a small Llama on real text over 2 MPI ranks with zero3 (a minute or two).
#
#   jobs/quickstart.sh [FOLDER] [--section.key=value ...]
#
# FOLDER holds .txt files. Without one the text is Debian's package fortunes (2.5 MB of English), else bible-kjv.
# A new build/release gets CUDA only where an NVIDIA driver runs; jobs/setup.sh builds it wherever there is a toolkit.
set -euo pipefail
start_folder=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# English with its layout: no ASCII art, no overstriking, and a blank line between two sayings instead of a %.
text_from_fortunes() {
  local from=/usr/share/games/fortunes to=$1 file name
  jobs/setup.sh --packages fortunes || return 1
  for file in "$from"/*; do
    name=$(basename "$file")
    if [[ $name != *.* && $name != *art ]]; then
      # (A function under `if` does not end at a failure by itself.)
      LC_ALL=C.UTF-8 sed -e ':again; s/[^\x08]\x08//; t again' -e 's/^%$//' "$file" >"$to/$name.txt" || return 1
    fi
  done
  compgen -G "$to/*.txt" >/dev/null
}

text_from_bible() {
  jobs/setup.sh --packages bible-kjv || return 1
  bible gen1:1-rev22:21 </dev/null >"$1/bible-kjv.txt" || return 1
  [[ -s $1/bible-kjv.txt ]]
}

# Sets source (a folder of .txt) and says what it is.
find_text() {
  if [[ -n $user_folder ]]; then
    source=$user_folder
    echo "text: the folder $source"
    return
  fi
  source=runs/text/fortunes
  mkdir -p "$source"
  if text_from_fortunes "$source"; then
    echo "text: Debian's package fortunes, prepared in $source"
    return
  fi
  source=runs/text/bible-kjv
  mkdir -p "$source"
  if text_from_bible "$source"; then
    echo "text: Debian's package bible-kjv, prepared in $source"
    return
  fi
  echo "quickstart: found no text (neither package could be installed): name a folder of .txt files" >&2
  exit 2
}

user_folder=
if [[ $# -gt 0 && $1 != --* ]]; then
  user_folder=$(cd "$start_folder" && realpath -- "$1")
  [[ -d $user_folder ]] || { echo "quickstart: $1 is not a folder: name one that holds .txt files" >&2; exit 2; }
  shift
fi

# The text first: its package and those of the build are then one call of apt.
find_text
jobs/setup.sh release --cuda-if-driver
# shellcheck source=jobs/mpi_env.sh
source jobs/mpi_env.sh

run=runs/quickstart-$(date +%Y%m%d-%H%M%S)
# What it writes, before, halfway and at the end.
samples=(--train.sample_every=500 --generate.max_tokens=120 --generate.temperature=0.8)
echo "train: inputs/quickstart.ini over 2 ranks into $run"
mpiexec -n 2 build/release/bin/tessera train inputs/quickstart.ini --data.source="$source" --run.dir="$run" \
  "${samples[@]}" "$@"

/usr/bin/python3 postprocess/report.py "$run" --plots "$run/plots"
echo "files: $run holds plots/, metrics.h5, log.jsonl, status.json and config.ini"
echo "again: mpiexec -n 2 build/release/bin/tessera train $run/config.ini --run.dir=$run-again (after: source jobs/mpi_env.sh)"
