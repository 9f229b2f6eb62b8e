#!/usr/bin/env bash
# Packs a bundle with Debian's MPICH, trains with it over two ranks, and then with another library of MPICH's ABI, as a Cray's
# is: of another name, in a folder of its own.
#
#   test_mpich_bundle.sh SOURCES BUILD     exits 77 without MPICH
set -euo pipefail
sources=$1 build=$2
if ! command -v mpicxx.mpich mpiexec.hydra patchelf >/dev/null; then
  echo "skipped: no mpicxx.mpich, mpiexec.hydra or patchelf (Debian's packages mpich, libmpich-dev, patchelf)"
  exit 77
fi
cmake -S "$sources" --preset ci -B "$build" -DTESSERA_CUDA=OFF -DMPI_CXX_COMPILER="$(command -v mpicxx.mpich)" \
  -DMPIEXEC_EXECUTABLE="$(command -v mpiexec.mpich)" --log-level=WARNING
cmake --build "$build" --parallel 2 --target bundle

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$work" --strip-components=1 -xf "$build"/tessera-*.tar.xz
train() {
  "$work/mpiexec" -n 2 "$work/tessera" train --run.dir="$work/$1" --run.device=cpu --run.threads=1 --train.steps=5 --train.seq_len=32 \
    --model.layers=1 --data.source=synthetic --train.eval_every=0
}
train own | tee "$work/said"
grep -q '2 ranks' "$work/said"

own=$(ldd "$build/bin/tessera" | awk '/libmpich/ {print $3}')
mkdir "$work/host"
cp "$own" "$work/host/libmpi.so.12"
patchelf --set-soname libmpi.so.12 "$work/host/libmpi.so.12"
export TESSERA_MPI_LIBRARY=$work/host/libmpi.so.12
mkdir "$work/bound"
LD_DEBUG=bindings LD_DEBUG_OUTPUT=$work/bound/by train hosted | tee "$work/said"
grep -q '2 ranks' "$work/said"
grep -q "/host/libmpi.so.12 .*MPI_Init_thread" "$work"/bound/* || { echo "the named library was not used"; exit 1; }
! grep -q "binding file .*tessera .* to .*/libmpich.so.12 .*\`MPI_" "$work"/bound/* || { echo "the bundle's MPICH was used"; exit 1; }

code=0
TESSERA_MPI_LIBRARY=/nothing "$work/tessera" version >"$work/said" 2>&1 || code=$?
[[ $code -eq 2 ]] && grep -q 'TESSERA_MPI_LIBRARY = /nothing is no file' "$work/said" || { cat "$work/said"; exit 1; }
echo "bundle: trained over MPICH, and over a library of its ABI that was named"
