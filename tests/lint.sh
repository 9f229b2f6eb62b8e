#!/usr/bin/env bash
# Style and static checks: clang-format over all C++ sources, then clang-tidy over everything that a build compiles from
# src/ (its headers with it). Ends with 1 when there is a finding. Not part of tests/run.sh: it takes long.
#
#   tests/lint.sh [BUILD] [FILE...]   BUILD: a build folder with compile_commands.json (build/ci)
#                                     FILE: sources in src/ to check instead of all
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build/ci}
[[ $# -eq 0 ]] || shift

for tool in clang-format clang-tidy; do
  command -v "$tool" >/dev/null || { echo "lint: $tool is missing: apt-get install $tool" >&2; exit 2; }
done
if [[ ! -f $build/compile_commands.json ]]; then
  echo "lint: $build has no compile_commands.json: jobs/setup.sh ci, or name another build folder" >&2
  exit 2
fi

status=0
echo "clang-format"
git ls-files '*.cpp' '*.hpp' '*.inc' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror || status=1

sources=("$@")
if [[ ${#sources[@]} -eq 0 ]]; then
  # What is built twice (a source per instruction set) is checked once.
  mapfile -t sources < <(sed -n 's/^ *"file": *"\(.*\)".*/\1/p' "$build/compile_commands.json" |
    sed "s|^$PWD/||" | grep '^src/.*\.cpp$' | sort -u)
fi
echo "clang-tidy: ${#sources[@]} files"
# GCC's options that Clang does not know are no findings.
printf '%s\n' "${sources[@]}" |
  xargs -P "$(nproc)" -n 1 clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null || status=1
exit "$status"
