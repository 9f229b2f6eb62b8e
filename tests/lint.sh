#!/usr/bin/env bash
# Style and static checks: clang-format over all C++ sources, then clang-tidy over everything that a build compiles from
# src/ (its headers with it). Ends with 1 when there is a finding. Not part of tests/run.sh: it takes long the first time.
#
#   tests/lint.sh [BUILD] [FILE...]   BUILD: a build folder that compiles sources one by one (build/dev, by jobs/setup.sh dev)
#                                     FILE: sources in src/ to check instead of all
#
# A source found clean is not checked again until something changes that the answer depends on: BUILD/lint remembers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build/dev}
[[ $# -eq 0 ]] || shift

for tool in clang-format clang-tidy; do
  command -v "$tool" >/dev/null || { echo "lint: $tool is missing: apt-get install $tool" >&2; exit 2; }
done
if [[ ! -f $build/compile_commands.json ]]; then
  echo "lint: $build has no compile_commands.json: run jobs/setup.sh dev, or name another build folder" >&2
  exit 2
fi

# key SOURCE: a hash of all that clang-tidy's answer depends on: its version and settings, how the source is compiled, and
# the text of the source and of every header of ours that it includes.
key() {
  local compile dependencies
  # CMake writes an entry as three lines: directory, command, file.
  compile=$(grep -F -B 1 "\"file\": \"$PWD/$1\"" "$build/compile_commands.json" |
    sed -n 's/^ *"command": "\(.*\)",$/\1/p' | sed 's/\\\(["\\]\)/\1/g; s/ -o [^ ]*//')
  dependencies=$(cd "$build" && eval "$compile -MM -MT x" | tr -d '\\' | sed 's/^x://') || return 1
  # shellcheck disable=SC2086
  { clang-tidy --version; clang-tidy -p "$build" --dump-config "$1"; echo "$compile"; (cd "$build" && cat $dependencies); } |
    sha256sum | cut -d ' ' -f 1
}

# check SOURCE: runs clang-tidy, unless this very input was found clean before.
check() {
  local stamp
  stamp=$build/lint/$(key "$1") || return 1
  [[ ! -e $stamp ]] || return 0
  # GCC's options that Clang does not know are not findings.
  clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option "$1" 2>/dev/null || return 1
  touch "$stamp"
}
export build
export -f key check

status=0
echo "clang-format"
git ls-files '*.cpp' '*.hpp' '*.inc' '*.cu' '*.cuh' | xargs clang-format --dry-run -Werror || status=1

sources=("$@")
if [[ ${#sources[@]} -eq 0 ]]; then
  mapfile -t sources < <(sed -n 's/^ *"file": *"\(.*\)".*/\1/p' "$build/compile_commands.json" |
    sed "s|^$PWD/||" | grep '^src/.*\.cpp$' | sort -u)
fi
echo "clang-tidy: ${#sources[@]} files"
mkdir -p "$build/lint"
printf '%s\n' "${sources[@]}" |
  xargs -P "$(nproc)" -I SOURCE bash -c 'set -euo pipefail; check SOURCE || { echo "lint: findings in SOURCE"; exit 1; }' || status=1
exit "$status"
