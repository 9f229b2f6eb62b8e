#!/usr/bin/env bash
# Makes a relocatable bundle: a folder with executables and every library that they need, glibc and its loader too, packed.
#
#   make.sh OUT.tar.xz LIMIT EXECUTABLE...     fails when OUT has more than LIMIT bytes
#
#   NAME, bin/NAME   wrapper.sh, which starts programs/NAME through loader/NAME, a link to its loader
#   glibc, lib       its libraries, and all others, which find each other by relative RPATH
#   mpi              Open MPI's plugins and texts, found through OPAL_PREFIX, which env.sh sets; or MPICH's launcher
#   share/tessera    job scripts, inputs and the manual, as an installation has them
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -ge 3 ]] || { sed -n '2,9p' "${BASH_SOURCE[0]}" >&2; exit 2; }
archive=$1 limit=$2
shift 2
for tool in patchelf strip xz ldd; do
  command -v "$tool" >/dev/null || { echo "bundle: $tool is missing: jobs/setup.sh --packages patchelf xz-utils binutils" >&2; exit 2; }
done

name=$(basename "${archive%.tar.xz}")
work=$(mktemp -d "$(dirname "$archive")/.bundle.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/$name
mkdir -p "$root"/{bin,glibc,lib,loader,programs}

# All of glibc that a program or a driver's library may ask for. (Names are looked up in files and by DNS, without modules.)
glibc=(libc.so.6 libm.so.6 libmvec.so.1 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libutil.so.1 libanl.so.1)
is_glibc() { [[ $1 == linux-vdso.so* || $1 == ld-linux* || " ${glibc[*]} " == *" $1 "* ]]; }

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

loader=$(ldd "$1" | awk '/ld-linux/ {print $1}')
loader_name=$(basename "$loader")
install -m 755 "$(readlink -f "$loader")" "$root/glibc/$loader_name"
for library in "${glibc[@]}"; do
  [[ $library != libmvec* || -e $(dirname "$(readlink -f "$loader")")/$library ]] || continue  # Arm has none in glibc 2.36
  install -m 755 "$(dirname "$(readlink -f "$loader")")/$library" "$root/glibc/"
done
# The loader's own folders are this machine's by name. Another machine's libraries in them belong to another glibc.
LC_ALL=C sed -i -E 's,/lib(/[a-z0-9_]+-linux-gnu)?/\x00,/LIB\1/\x00,g' "$root/glibc/$loader_name"

for executable in "$@"; do
  install -m 755 "$executable" "$root/programs/"
done

# Open MPI's launcher and its plugins. Left out: fabrics with libraries of their own (MPI carries control messages and host
# collectives; TCP and shared memory do), OpenSHMEM, MPI-IO, monitoring, and netlink, whose libnl must be the machine's own
# where NCCL loads the machine's InfiniBand.
pack_openmpi() {
  local info prefix plugins mpi to plugin pmix
  info=$(ompi_info --parsable --path all)
  path_of() { sed -n "s/^path:$1://p" <<<"$info" | head -1; }
  prefix=$(path_of prefix)
  plugins=$(path_of pkglibdir)
  mpi=$root/mpi
  install -m 755 "$(readlink -f "$(path_of bindir)/orterun")" "$root/programs/mpiexec"
  install -m 755 "$(readlink -f "$(path_of bindir)/orted")" "$root/programs/orted"
  ln -s mpiexec "$root/programs/mpirun"
  to=$mpi/${plugins#"$prefix/"}
  mkdir -p "$to"
  for plugin in "$plugins"/mca_*.so; do
    case $(basename "$plugin") in
      *_ucx.so | *_ofi.so | *_openib.so | mca_mtl_psm* | mca_memheap_* | mca_sshmem_* | mca_scoll_* | mca_spml_* | mca_atomic_*) ;;
      mca_io_* | mca_fbtl_* | mca_fcoll_* | mca_fs_* | mca_sharedfp_* | *_monitoring.so | mca_filem_* | mca_ras_simulator.so | mca_reachable_netlink.so) ;;
      *) install -m 755 "$plugin" "$to/" ;;
    esac
  done
  mkdir -p "$mpi"/{bin,etc/openmpi,pmix/lib,share}
  ln -s ../../bin/orted "$mpi/bin/orted"
  cp -r "$(path_of pkgdatadir)" "$mpi/share/openmpi"
  cp "$(path_of sysconfdir)/openmpi-mca-params.conf" "$mpi/etc/openmpi/"
  # PMIx has plugins and texts too, beside its library.
  pmix=$(dirname "$(dirname "$(readlink -f "$(ldd "$to/mca_pmix_ext3x.so" | awk '/libpmix/ {print $3}')")")")
  cp -rL "$pmix/lib/pmix" "$mpi/pmix/lib/pmix"
  cp -r "$pmix/share" "$mpi/pmix/share"
  copy_libraries "$root"/programs/{orted,mpiexec} "$to"/*.so "$mpi"/pmix/lib/pmix/*.so
  patchelf --force-rpath --set-rpath "\$ORIGIN/$(realpath --relative-to="$to" "$root/lib")" "$to"/*.so
  patchelf --force-rpath --set-rpath '$ORIGIN/../../../../lib' "$mpi"/pmix/lib/pmix/*.so
}

# MPICH's launcher, and the proxy that it starts on each machine: it looks for that beside itself.
pack_mpich() {
  install -m 755 "$(readlink -f "$(command -v mpiexec.hydra)")" "$root/programs/mpiexec"
  install -m 755 "$(readlink -f "$(command -v hydra_pmi_proxy)")" "$root/programs/hydra_pmi_proxy"
  ln -s mpiexec "$root/programs/mpirun"
  mkdir -p "$root/mpi/bin"
  ln -s ../../bin/hydra_pmi_proxy "$root/mpi/bin/hydra_pmi_proxy"
  copy_libraries "$root"/programs/{mpiexec,hydra_pmi_proxy}
}

if libraries "$1" | grep -q '^libmpich'; then pack_mpich; else pack_openmpi; fi
copy_libraries "$@"

find "$root/lib" "$root/programs" "$root/mpi" -type f \( -name '*.so' -o -name '*.so.*' -o -path '*/programs/*' \) -exec strip --strip-unneeded {} +
find "$root/lib" -maxdepth 1 -type f -exec patchelf --force-rpath --set-rpath '$ORIGIN' {} +
find "$root/programs" -type f -exec patchelf --force-rpath --set-rpath '$ORIGIN/../lib' {} +

install -m 644 "$here/env.sh" "$here/host.sh" "$here/README" "$root/"
for program in "$root"/programs/*; do
  program=${program##*/}
  install -m 755 "$here/wrapper.sh" "$root/bin/$program"
  ln -s "bin/$program" "$root/$program"
  ln -s "../glibc/$loader_name" "$root/loader/$program"
done
mkdir -p "$root"/share/tessera/{jobs,docs}
cp -r "$here/../../inputs" "$root/share/tessera/inputs"
cp -r "$here/../../docs/manual" "$root/share/tessera/docs/manual"
cp -r "$here/../../helpers" "$root/share/tessera/helpers"
cp -r "$here/../../postprocess" "$root/share/tessera/postprocess"
find "$root/share/tessera" -name __pycache__ -prune -exec rm -r {} +
install -m 755 "$here"/../../jobs/{*.{sbatch,pbs},debian_text.sh} "$root/share/tessera/jobs/"
install -m 644 "$here"/../../jobs/{job.sh,own_job.sh,ranks.sh,site.sh,README.md} "$root/share/tessera/jobs/"
cat >>"$root/share/tessera/jobs/site.sh" <<'END'

# --- The bundle's own mpirun fits its executable; no other does.
PATH=$TESSERA_JOBS/../../../bin:$PATH
END

# Names, owners and times in one order: the same input gives the same archive.
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-0}" -cf - "$name" |
  xz -T2 -6 >"$archive.part"
mv "$archive.part" "$archive"
bytes=$(stat -c %s "$archive")
echo "bundle: $archive, $((bytes / 1000000)) MB, $(find "$root" -type f | wc -l) files"
[[ $bytes -le $limit ]] || { echo "bundle: $bytes bytes are more than the $limit allowed" >&2; exit 1; }
