#!/usr/bin/env bash
# Installs the Debian packages that are missing, then configures and builds one CMake preset into build/PRESET.
#
#   jobs/setup.sh [PRESET]                   PRESET: release (default), bundle, dev, asan, tsan, fuzz, cuda, ci
#   jobs/setup.sh [PRESET] --cuda-if-driver  a new build folder gets CUDA only where an NVIDIA driver runs
#   jobs/setup.sh --packages [P..]           only the packages (and the further packages P)
#
# A CUDA toolkit is enough for CUDA in the build: login nodes have no driver. A build folder keeps its TESSERA_CUDA; only
# what --cuda-if-driver left out is built by the next call without it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(
  g++ cmake ninja-build ccache pkg-config git
  openmpi-bin libopenmpi-dev libhdf5-dev catch2 libfmt-dev nlohmann-json3-dev
  libboost-program-options-dev libxxhash-dev librandom123-dev libdnnl-dev
  libpcre2-dev libutf8proc-dev zlib1g-dev libzstd-dev patchelf xz-utils
  hdf5-tools python3-h5py python3-numpy python3-pandas python3-matplotlib python3-jinja2
)
[[ $(dpkg --print-architecture 2>/dev/null) != arm64 ]] || packages+=(libopenblas-openmp-dev)

usage() {
  sed -n '2,9p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//'
}

is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

as_root() {
  if [[ $(id -u) -eq 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

# install_missing PACKAGE...: does nothing, and needs neither root nor network, when all are there.
install_missing() {
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then
    echo "packages: all $# are installed"
    return
  fi
  if [[ $(id -u) -ne 0 ]] && ! command -v sudo >/dev/null; then
    echo "setup: packages are missing and you are neither root nor have sudo: have somebody run" >&2
    echo "  apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 2
  fi
  echo "packages: installing ${missing[*]}"
  as_root apt-get -qq -o DPkg::Lock::Timeout=300 update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
    install --no-install-recommends "${missing[@]}" >/dev/null
}

has_nvidia_driver() {
  [[ -e /proc/driver/nvidia/version ]] || nvidia-smi -L >/dev/null 2>&1
}

# settle_cuda PRESET [--cuda-if-driver]: sets cuda_options, for a build folder that is new or was made without a driver.
settle_cuda() {
  local cache=build/$1/CMakeCache.txt cached=
  cuda_options=()
  [[ ! -e $cache ]] || cached=$(sed -n 's/^TESSERA_CUDA:[A-Z]*=//p' "$cache")
  if [[ -n $cached ]]; then
    if [[ $cached == NO_DRIVER && -z ${2:-} ]]; then
      cuda_options=(-DTESSERA_CUDA=AUTO)
    elif [[ -n ${2:-} ]]; then
      echo "cuda: build/$1 keeps TESSERA_CUDA = $cached"
    fi
  elif [[ -n ${2:-} ]] && ! has_nvidia_driver; then
    cuda_options=(-DTESSERA_CUDA=NO_DRIVER)
    echo "cuda: left out, because no NVIDIA driver runs here (jobs/setup.sh $1 builds it in where a CUDA toolkit is installed)"
  fi
}

build() {
  local preset=$1 options=()
  if command -v ccache >/dev/null; then
    # Relative paths and no folder in the key: other clones find what one has compiled.
    local cached="env;CCACHE_BASEDIR=$PWD;CCACHE_NOHASHDIR=1;ccache"
    options+=("-DCMAKE_C_COMPILER_LAUNCHER=$cached" "-DCMAKE_CXX_COMPILER_LAUNCHER=$cached" "-DCMAKE_CUDA_COMPILER_LAUNCHER=$cached")
  fi
  echo "configure: preset $preset into build/$preset"
  settle_cuda "$@"
  cmake --preset "$preset" "${options[@]}" "${cuda_options[@]}" --log-level=WARNING
  echo "build: build/$preset on $(nproc) cores"
  cmake --build --preset "$preset" --parallel "$(nproc)"
}

case ${1:-release} in
  --packages)
    install_missing "${packages[@]}" "${@:2}"
    ;;
  -h | --help)
    usage
    ;;
  release | bundle | dev | asan | tsan | fuzz | cuda | ci)
    if [[ $# -gt 2 || ${2:---cuda-if-driver} != --cuda-if-driver ]]; then
      echo "setup: ${*:2} after a preset: --cuda-if-driver or nothing" >&2
      exit 2
    fi
    install_missing "${packages[@]}"
    build "${1:-release}" "${@:2}"
    ;;
  *)
    echo "setup: unknown preset '$1': release, bundle, dev, asan, tsan, fuzz, cuda or ci" >&2
    exit 2
    ;;
esac
