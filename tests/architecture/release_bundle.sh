#!/usr/bin/env bash
# Builds the release bundle, whose kernels are compiled for all GPUs, and checks what they take on each.
#
#   release_bundle.sh CUOBJDUMP      exits 77, after the build, where there is none
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
jobs/setup.sh bundle
mapfile -t objects < <(find build/bundle -name '*.cu.o')
exec /usr/bin/python3 -B tests/architecture/check_resources.py "$1" "${objects[@]}"
