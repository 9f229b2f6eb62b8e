#!/usr/bin/env bash
# The suites with ranks as threads under ThreadSanitizer, in their own build. A race ends the suite that met it.
#
#   tests/faults/tsan.sh [SUITE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
suites=("$@")
[[ $# -gt 0 ]] || suites=(backend comm engine flight training generate faults)

cmake --preset tsan >/dev/null
cmake --build --preset tsan --target "${suites[@]/#/test_}"
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 ${TSAN_OPTIONS:-}"
for suite in "${suites[@]}"; do
  echo "tsan: $suite"
  setarch -R build/tsan/bin/"test_$suite"  # its shadow memory needs addresses that are not drawn at random
done
echo "long: no race in ${#suites[@]} suites"
