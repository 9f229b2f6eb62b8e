#!/usr/bin/env bash
# Tries drawn faults on ranks as threads in four processes at a time, because they mostly wait: threads.sh TEST_FAULTS
set -euo pipefail
export program=$1 first=${TESSERA_FAULT_SEED:-1} cases=${TESSERA_FAULT_CASES:-${TESSERA_LONG:+320}}
export share=$(((${cases:-64} + 3) / 4))
# shellcheck disable=SC2016
printf '%s\n' 0 1 2 3 |
  xargs -P 4 -I{} bash -c 'TESSERA_FAULT_SEED=$((first + {} * share)) TESSERA_FAULT_CASES=$share exec "$program"'
