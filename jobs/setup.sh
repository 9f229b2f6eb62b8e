#!/usr/bin/env bash
# Installs the Debian packages that are missing, then configures and builds one CMake preset into build/PRESET.
#
#   jobs/setup.sh [PRESET]         PRESET: release (default), dev, asan, cuda, ci
#   jobs/setup.sh --packages [P..] only the packages (and the further packages P)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(
  g++ cmake ninja-build ccache pkg-config git
  openmpi-bin libopenmpi-dev libhdf5-dev catch2 libfmt-dev nlohmann-json3-dev
  libboost-program-options-dev libxxhash-dev librandom123-dev libdnnl-dev patchelf xz-utils
  hdf5-tools python3-h5py python3-numpy python3-pandas python3-matplotlib
)

usage() {
  sed -n '2,5p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//'
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

build() {
  local preset=$1 options=()
  if command -v ccache >/dev/null; then
    options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  echo "configure: preset $preset into build/$preset"
  cmake --preset "$preset" "${options[@]}" --log-level=WARNING
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
  release | dev | asan | cuda | ci)
    install_missing "${packages[@]}"
    build "${1:-release}"
    ;;
  *)
    echo "setup: unknown preset '$1': release, dev, asan, cuda or ci" >&2
    exit 2
    ;;
esac
