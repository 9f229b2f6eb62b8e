#!/usr/bin/env bash
# Makes a relocatable bundle: a folder with executables and every library that they need but glibc, packed.
#
#   make.sh OUT.tar.xz LIMIT EXECUTABLE...     fails when OUT has more than LIMIT bytes
#
# The executables lie in bin/, with a wrapper of the same name in the bundle's root.
# Open MPI finds its plugins and texts through OPAL_PREFIX, which env.sh sets; libraries find each other by relative RPATH.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -ge 3 ]] || { sed -n '2,8p' "${BASH_SOURCE[0]}" >&2; exit 2; }
archive=$1 limit=$2
shift 2
for tool in patchelf strip xz ldd; do
  command -v "$tool" >/dev/null || { echo "bundle: $tool is missing: jobs/setup.sh --packages patchelf xz-utils binutils" >&2; exit 2; }
done

name=$(basename "${archive%.tar.xz}")
work=$(mktemp -d "$(dirname "$archive")/.bundle.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/$name
mkdir -p "$root/bin" "$root/lib"

# Belong to glibc, whose version of the machine is used.
is_glibc() {
  case $1 in
    linux-vdso.so* | ld-linux* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.* | libutil.so.* | libanl.so.*) return 0 ;;
  esac
  return 1
}

# libraries FILE...: "name path" of everything that they load, directly or not.
libraries() {
  ldd "$@" | awk '/=>/ && $3 ~ /^\// {print $1, $3} /not found/ {print "missing", $1; }' | sort -u
}

copy_libraries() {
  local library path
  while read -r library path; do
    [[ $library == missing ]] && { echo "bundle: $path is not found on this machine" >&2; exit 1; }
    is_glibc "$library" || [[ -e $root/lib/$library ]] || install -m 755 "$path" "$root/lib/$library"
  done < <(libraries "$@")
}

for executable in "$@"; do
  install -m 755 "$executable" "$root/bin/"
done

# The launcher and its plugins. Left out: fabrics with libraries of their own (MPI carries control messages and host
# collectives; TCP and shared memory do), OpenSHMEM, MPI-IO, monitoring.
info=$(ompi_info --parsable --path all)
path_of() { sed -n "s/^path:$1://p" <<<"$info" | head -1; }
prefix=$(path_of prefix)
plugins=$(path_of pkglibdir)
install -m 755 "$(readlink -f "$(path_of bindir)/orterun")" "$root/bin/orterun"
install -m 755 "$(readlink -f "$(path_of bindir)/orted")" "$root/bin/orted"
ln -s orterun "$root/bin/mpiexec"
to=$root/${plugins#"$prefix/"}
mkdir -p "$to"
for plugin in "$plugins"/mca_*.so; do
  case $(basename "$plugin") in
    *_ucx.so | *_ofi.so | *_openib.so | mca_mtl_psm* | mca_memheap_* | mca_sshmem_* | mca_scoll_* | mca_spml_* | mca_atomic_*) ;;
    mca_io_* | mca_fbtl_* | mca_fcoll_* | mca_fs_* | mca_sharedfp_* | *_monitoring.so | mca_filem_* | mca_ras_simulator.so) ;;
    *) install -m 755 "$plugin" "$to/" ;;
  esac
done
mkdir -p "$root/share"
cp -r "$(path_of pkgdatadir)" "$root/share/openmpi"
mkdir -p "$root/etc/openmpi"
cp "$(path_of sysconfdir)/openmpi-mca-params.conf" "$root/etc/openmpi/"
# PMIx has plugins and texts too, beside its library.
pmix=$(dirname "$(dirname "$(readlink -f "$(ldd "$to/mca_pmix_ext3x.so" | awk '/libpmix/ {print $3}')")")")
mkdir -p "$root/pmix/lib"
cp -rL "$pmix/lib/pmix" "$root/pmix/lib/pmix"
cp -r "$pmix/share" "$root/pmix/share"
copy_libraries "$root"/bin/orted "$root"/bin/orterun "$to"/*.so "$root"/pmix/lib/pmix/*.so
patchelf --force-rpath --set-rpath "\$ORIGIN/$(realpath --relative-to="$to" "$root/lib")" "$to"/*.so
patchelf --force-rpath --set-rpath '$ORIGIN/../../../lib' "$root"/pmix/lib/pmix/*.so
copy_libraries "$@"

find "$root" -type f \( -name '*.so' -o -name '*.so.*' -o -path '*/bin/*' \) -exec strip --strip-unneeded {} +
find "$root/lib" -maxdepth 1 -type f -exec patchelf --force-rpath --set-rpath '$ORIGIN' {} +
find "$root/bin" -type f -exec patchelf --force-rpath --set-rpath '$ORIGIN/../lib' {} +

install -m 644 "$here/env.sh" "$root/env.sh"
install -m 644 "$here/README" "$root/README"
for executable in mpiexec "$@"; do
  install -m 755 "$here/wrapper.sh" "$root/$(basename "$executable")"
done

# Names, owners and times in one order: the same input gives the same archive.
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" -cf - "$name" |
  xz -T2 -6 >"$archive.part"
mv "$archive.part" "$archive"
bytes=$(stat -c %s "$archive")
echo "bundle: $archive, $((bytes / 1000000)) MB, $(find "$root" -type f | wc -l) files"
[[ $bytes -le $limit ]] || { echo "bundle: $bytes bytes are more than the $limit allowed" >&2; exit 1; }
