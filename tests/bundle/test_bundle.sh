#!/usr/bin/env bash
# Unpacks a bundle into a root that holds glibc, a shell and a few tools and nothing else, and trains there over two ranks:
# what a machine without MPI, HDF5 and the rest sees. It has no network but the loopback, a name that nobody knows, and
# next to no /dev/shm.
#
#   test_bundle.sh ARCHIVE.tar.xz     exits 77 where this user may not change the root
set -euo pipefail
archive=$(realpath "$1")
unshare --mount --net --uts --fork true 2>/dev/null || { echo "needs the right to unshare and chroot (root)"; exit 77; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# install_tool PROGRAM...: with the libraries it loads (glibc's, and those of coreutils).
install_tool() {
  local program file
  for program in "$@"; do
    program=$(readlink -f "$(command -v "$program")")
    for file in "$program" $(ldd "$program" | grep -o '/[^ ]*'); do
      [[ -e $root$file ]] || install -D "$file" "$root$file"
    done
  done
}
install_tool dash bash dirname readlink basename id env ls cat grep df
mkdir -p "$root"/{bin,dev,proc,sys,tmp,etc,opt}
for tool in dirname readlink basename id env ls cat grep df; do ln -sf "$(readlink -f "$(command -v $tool)")" "$root/bin/$tool"; done
ln -sf "$(readlink -f "$(command -v dash)")" "$root/bin/sh"
known=$(ldconfig -p)  # whole: a pipe that awk leaves early would end this script
for name in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libutil.so.1 libnss_files.so.2; do
  file=$(awk -v name="$name" '$1 == name && /x86-64/ {print $NF; exit}' <<<"$known")
  [[ -z $file ]] || install -D "$file" "$root$file"
done
echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
echo '127.0.0.1 localhost' >"$root/etc/hosts"
tar -C "$root/opt" -xf "$archive"
bundle=/opt/$(basename "${archive%.tar.xz}")

# shellcheck disable=SC2016
unshare --mount --net --uts --fork bash -c '
  set -e
  ip link set lo up
  hostname nowhere-to-be-found
  mount --bind /proc "$1/proc" && mount --bind /sys "$1/sys" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp"
  mount -t tmpfs -o size=64k tmpfs "$1/dev/shm"
  cd "$1" && exec env -i "$(command -v chroot)" "$1" /bin/env HOME=/ PATH=/bin:/usr/bin TMPDIR=/tmp /bin/sh -ec "
    cd /tmp
    $2/tessera version
    $2/mpiexec -n 2 $2/tessera train --run.dir=/tmp/run --train.steps=20 --train.eval_every=0 --run.threads=1
    ls /tmp/run
    grep -q finished /tmp/run/status.json
    $2/tessera bench kernels --bench.steps=1 --bench.warmup=0 --train.seq_len=8 >/tmp/said  # without mpiexec
    grep \"all kernels\" /tmp/said
    for test in $2/test_gpu_*; do  # of a bundle of tests: they start; without a GPU they skip
      [ -e \$test ] || continue
      code=0
      \$test >/tmp/said || code=\$?
      echo \${test##*/}: \$(cat /tmp/said)
      [ \$code -eq 77 ] || [ \$code -eq 0 ]
    done"
' bundle "$root" "$bundle"
echo "bundle: trained over 2 ranks with nothing else installed"
