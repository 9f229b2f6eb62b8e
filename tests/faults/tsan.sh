#!/usr/bin/env bash
# The suites with ranks as threads under ThreadSanitizer, in their own build. A race ends the suite that met it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

jobs/setup.sh tsan
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 ${TSAN_OPTIONS:-}"
suites=(build/tsan/bin/test_*)
for suite in "${suites[@]}"; do
  echo "tsan: ${suite##*/}"
  setarch -R "$suite"  # its shadow memory needs addresses that are not drawn at random
done
echo "long: no race in ${#suites[@]} suites"
