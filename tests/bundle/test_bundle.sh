#!/usr/bin/env bash
# Unpacks a bundle into a root that holds a static busybox and nothing else, no glibc either, and tries it there, as on
# a cluster whose glibc is older. There is no network but the loopback, the host has a name that no resolver knows,
# /dev/shm is tiny, and system calls newer than Linux 4.18 are refused.
#
#   test_bundle.sh ARCHIVE.tar.xz [COMPILER BUSYBOX]     exits 77 where this user may not change the root
#
# COMPILER and BUSYBOX are those of another processor, whose programs the kernel starts by qemu (tests/arm.sh). qemu knows no
# filter of system calls, so none is set then.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
archive=$(realpath "$1")
compiler=${2:-gcc} busybox=${3:-$(command -v busybox || true)}
unshare --mount --net --uts --fork true 2>/dev/null || { echo "needs the right to unshare and chroot (root)"; exit 77; }
[[ -n $busybox ]] || { echo "no busybox: jobs/setup.sh --packages busybox-static"; exit 77; }

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp,opt}
cp "$(readlink -f "$busybox")" "$root/bin/busybox"
"$root/bin/busybox" --list | grep -vx busybox | xargs -I{} ln -sf busybox "$root/bin/{}"
old_kernel=
if [[ $compiler == gcc ]]; then
  gcc -O1 -Wall -Werror -static -o "$root/bin/old_kernel" "$here/old_kernel.c"
  old_kernel=old_kernel
fi
# Stand-ins for the driver's libraries, in separate folders, with one that must not be found there.
for folder in /usr/lib64 /opt/driver; do
  mkdir -p "$root/stand-ins$folder"
  "$compiler" -O1 -Wall -Werror -shared -fPIC -Wl,-soname,libcuda.so.1 -DFOLDER="\"$folder\"" -o "$root/stand-ins$folder/libcuda.so.1" "$here/libcuda.c"
  "$compiler" -O1 -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o "$root/stand-ins$folder/libnvidia-ml.so.1" -x c /dev/null
  echo "not a library" | tee "$root/stand-ins$folder/libc.so.6" >"$root/stand-ins$folder/libz.so.1"
done
cp "$here/in_the_root.sh" "$root/bin/in_the_root"
tar -C "$root/opt" -xf "$archive"
bundle=/opt/$(basename "${archive%.tar.xz}")

# shellcheck disable=SC2016
unshare --mount --net --uts --fork bash -c '
  set -e
  ip link set lo up
  hostname nowhere-to-be-found
  mount --bind /proc "$1/proc" && mount --bind /sys "$1/sys" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp"
  mount -t tmpfs -o size=64k tmpfs "$1/dev/shm"
  exec env -i "$(command -v chroot)" "$1" /bin/env HOME=/ PATH=/bin TMPDIR=/tmp $3 sh /bin/in_the_root "$2"
' bundle "$root" "$bundle" "$old_kernel"
echo "bundle: trained over 2 ranks with nothing else installed"
