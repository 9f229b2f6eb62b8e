#!/usr/bin/env bash
# Builds Tessera for Arm hosts (aarch64) by Debian's cross compiler, and runs it by qemu-user in the folder tree of a Debian
# for arm64: unit tests, trainings on one and two ranks, checkpoints from x86-64 to Arm and back, and the bundle in a root
# that holds nothing else. Takes about an hour on two cores. It exits with 77 where it may not do so: it needs root,
# mounts, and a kernel that starts Arm programs by qemu (binfmt_misc).
#
#   tests/arm.sh [MODULE...]      for example: tests/arm.sh base kernels; without modules everything
#   tests/arm.sh --cuda           compiles and links what runs on GPUs, where this machine has a CUDA toolkit; nothing runs it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD/build/arm_root
build=$PWD/build/arm

may_run() {
  [[ $(id -u) -eq 0 ]] && unshare --mount true 2>/dev/null || { echo "arm: needs root and the right to mount"; return 1; }
  jobs/setup.sh --packages mmdebstrap arch-test qemu-user-static g++-aarch64-linux-gnu iproute2 || return 1
  local kind=/proc/sys/fs/binfmt_misc
  [[ -e $kind/register ]] || mount -t binfmt_misc binfmt_misc "$kind" 2>/dev/null || { echo "arm: no binfmt_misc can be mounted"; return 1; }
  [[ -e $kind/qemu-aarch64 ]] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$kind/register"
}

# What jobs/setup.sh installs, for arm64, but for what compiles and draws. Links to absolute paths become relative, because the
# linker of this machine follows them.
make_root() {
  local packages=() archive folder link
  eval "$(sed -n '/^packages=(/,/^)/p' jobs/setup.sh)"
  mapfile -t packages < <(printf '%s\n' "${packages[@]}" |
    grep -vxE 'g\+\+|cmake|ninja-build|ccache|pkg-config|git|python3-pandas|python3-matplotlib')
  archive=$(apt-get indextargets --format '$(REPO_URI)' 'Codename: bookworm' | sed -n 1p)
  echo "arm: making $root"
  rm -rf "$root" "$root.part"
  mkdir -p build
  mmdebstrap --quiet --architectures=arm64 --variant=apt --mode=root \
    --include="$(IFS=,; echo "${packages[*]},libopenblas-openmp-dev,libc6-dev,libgomp1,binutils,busybox-static")" bookworm "$root.part" "$archive"
  for folder in usr/lib/aarch64-linux-gnu etc/alternatives; do
    while read -r link; do
      ln -sfn "$(realpath -ms --relative-to="$(dirname "$(realpath "$root.part/$folder")/x")" "$root.part$(readlink "$link")")" "$link"
    done < <(find "$root.part/$folder" -maxdepth 1 -lname '/*')
  done
  mv "$root.part" "$root"
}

# A toolkit for Arm servers (sbsa): the compiler and headers of this machine's, whose nvcc compiles for both, and the runtime
# library from NVIDIA's package for aarch64. (CMake 3.25 looks for the folder aarch64-linux.)
make_toolkit() {
  local cuda=${CUDA_HOME:-/usr/local/cuda} toolkit=$PWD/build/arm_toolkit version target
  [[ -x $cuda/bin/nvcc ]] || { echo "arm: no CUDA toolkit in $cuda (CUDA_HOME)"; exit 77; }
  version=$("$cuda/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
  target=$toolkit/targets/sbsa-linux
  rm -rf "$toolkit"
  mkdir -p "$target/lib"
  cp -rL "$cuda/bin" "$cuda/nvvm" "$toolkit/"
  cp -rL "$cuda/include" "$target/"
  ln -s sbsa-linux "$toolkit/targets/aarch64-linux"
  ln -s targets/sbsa-linux/include "$toolkit/include"
  ln -s targets/sbsa-linux/lib "$toolkit/lib64"
  /usr/bin/python3 -m pip download --quiet --no-deps --platform manylinux2014_aarch64 --only-binary=:all: \
    --dest "$toolkit/wheels" "nvidia-cuda-runtime==$version.*"
  (cd "$toolkit" && /usr/bin/python3 -m zipfile -e wheels/*.whl wheels)
  find "$toolkit/wheels" -name 'libcuda*' -exec cp {} "$target/lib/" \;
  ln -s "libcudart.so.${version%%.*}" "$target/lib/libcudart.so"
}

# on_arm COMMAND...: in the root, which has this folder at the same path.
on_arm() {
  # shellcheck disable=SC2016
  unshare --mount bash -c '
    set -e
    mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp"
    mkdir -p "$1$2" && mount --bind "$2" "$1$2"
    exec chroot "$1" /usr/bin/env -C "$2" OMP_PROC_BIND=false OPENBLAS_CORETYPE=ARMV8 TESSERA_QUICK=1 "${@:3}"
  ' arm "$root" "$PWD" "$@"
}

if [[ ${1:-} == --on-arm ]]; then # for there_and_back.sh
  shift
  on_arm "$@"
  exit
fi
may_run || exit 77
[[ -e $root ]] || make_root
cached="env;CCACHE_BASEDIR=$PWD;CCACHE_NOHASHDIR=1;ccache"
cmake --preset ci -B "$build" --toolchain cmake/aarch64.cmake -DTESSERA_ARM_ROOT="$root" -DTESSERA_CUDA=OFF \
  "-DCMAKE_C_COMPILER_LAUNCHER=$cached" "-DCMAKE_CXX_COMPILER_LAUNCHER=$cached" --log-level=WARNING
if [[ ${1:-} == --cuda ]]; then
  make_toolkit
  cmake --preset ci -B "$build"_cuda --toolchain cmake/aarch64.cmake -DTESSERA_ARM_ROOT="$root" -DTESSERA_CUDA=ON -DTESSERA_TESTS=OFF \
    -DCUDAToolkit_ROOT="$PWD/build/arm_toolkit" "-DCMAKE_CXX_COMPILER_LAUNCHER=$cached" --log-level=WARNING
  cmake --build "$build"_cuda --target tessera
  on_arm "$build"_cuda/bin/tessera version
  exit
fi
modules=("$@")
[[ $# -gt 0 ]] || modules=(base grid data tokenizer text kernels comm model shard optimizer schedule formats checkpoint convert engine golden training)
cmake --build "$build" --target tessera "${modules[@]/#/test_}"
failed=()
for module in "${modules[@]}"; do
  echo "arm: $module"
  on_arm sh -c "cd '$build/tests' && ../bin/test_$module" || failed+=("$module")
done
[[ ${#failed[@]} -eq 0 ]] || { echo "arm: failed: ${failed[*]}"; exit 1; }
[[ $# -eq 0 ]] || exit 0

jobs/setup.sh ci
tests/arm/there_and_back.sh build/ci/bin/tessera build/arm/bin/tessera
archive=$build/tessera-$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")-linux-aarch64.tar.xz
on_arm cmake/bundle/make.sh "$archive" 40000000 "$build/bin/tessera"
tests/bundle/test_bundle.sh "$archive" aarch64-linux-gnu-gcc "$root/bin/busybox"
