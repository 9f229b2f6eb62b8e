#!/usr/bin/env bash
# Fuzzes the readers of data from outside, each for some seconds, from the seeds and what earlier runs here have found
# interesting. Prints a line for each: inputs tried, edges and features covered. A finding stays in
# build/fuzz/findings/; once it is mended it belongs into seeds/TARGET/, which every run of the tests replays.
#
#   tests/fuzz/run.sh SECONDS [TARGET...]     exits 1 where something was found, 77 where no Clang can be installed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:?tests/fuzz/run.sh SECONDS [TARGET...]}
shift

jobs/setup.sh --packages clang-19 libclang-rt-19-dev libomp-19-dev || {
  echo "fuzz: no Clang 19 can be installed: nothing is fuzzed" >&2
  exit 77
}
jobs/setup.sh fuzz

if [[ $# -eq 0 ]]; then
  mapfile -t targets < <(find build/fuzz/bin -name 'fuzz_*' -printf '%f\n' | sed 's/^fuzz_//' | sort)
else
  targets=("$@")
fi
mkdir -p build/fuzz/findings build/fuzz/logs

# Limits of memory catch sizes that are believed before they are checked. What libhdf5 itself does wrong on damaged metrics is
# counted apart, and the search goes on.
fuzz_one() {
  local target=$1 end=$((SECONDS + $2)) corpus=build/fuzz/corpus/$1 log=build/fuzz/logs/$1 leaks=1 allowed=512 inputs=0 libhdf5=0 status covered
  mkdir -p "$corpus"
  [[ $target != metrics ]] || leaks=0  # libhdf5 leaks what it made of a damaged file
  [[ $target != compressed ]] || allowed=2200  # the longest window of zstd, which is not touched where it is not used
  while ((SECONDS < end)); do
    status=0
    build/fuzz/bin/"fuzz_$target" -max_total_time=$((end - SECONDS)) -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb="$allowed" \
      -detect_leaks="$leaks" -artifact_prefix="build/fuzz/findings/$target-" "$corpus" "tests/fuzz/seeds/$target" >"$log" 2>&1 || status=$?
    covered=$(grep -E '^#[0-9]+' "$log" | tail -n 1)
    ((inputs += $(sed -E 's/^#([0-9]+).*/\1/' <<<"${covered:-#0}"), 1))
    if ((status == 0)); then continue; fi
    if grep -qE '^ *#[0-4] .*libhdf5' "$log"; then
      ((libhdf5 += 1))
    else
      echo "fuzz: $target: FOUND (exit code $status), see $log"
      grep -E 'ERROR|runtime error|what\(\)|Test unit written' "$log" || tail -n 5 "$log"
      return 1
    fi
  done
  covered=$(sed -E 's/.*cov: ([0-9]+) ft: ([0-9]+).*/\1 edges, \2 features/' <<<"$covered")
  echo "fuzz: $target: $inputs inputs, $covered$( ((libhdf5 == 0)) || echo "; faults of libhdf5 itself: $libhdf5")"
}
export -f fuzz_one

status=0
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz_one {} '"$seconds" || status=1
exit "$status"
