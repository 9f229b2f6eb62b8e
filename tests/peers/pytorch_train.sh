#!/bin/sh
# Starts pytorch_train.py with the Python that TESSERA_TORCH_PYTHON names, else the first python3 in PATH. Without one it
# ends with 77, as the program does without PyTorch: a sweep takes that as skipped.
python=${TESSERA_TORCH_PYTHON:-python3}
if ! command -v "$python" > /dev/null; then
  echo "there is no $python: install Python with PyTorch, put it first in PATH, or name it in TESSERA_TORCH_PYTHON"
  exit 77
fi
# PyTorch's threads sleep while they wait. Spinning, the default, may be faster on a quiet machine, and was 40 times
# slower on a busy one.
OMP_WAIT_POLICY=passive exec "$python" "$(dirname "$0")/pytorch_train.py" "$@"
