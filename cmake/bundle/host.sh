# shellcheck shell=sh
# What the bundle takes from this machine: the driver's libraries, those of InfiniBand for NCCL, and NCCL, cuDNN and cuBLAS
# where they are packages of the system. Other libraries in the same folders belong to another glibc, and must not be
# found. So links to the few are made in a private folder. Sourced by wrapper.sh after env.sh, which sets `uid`. Sets,
# with a colon before each folder of links,
#   first   those of the folders that TESSERA_DRIVER_LIBS names, separated by colons
#   last    those of the system's folders, and of the MPI library that TESSERA_MPI_LIBRARY names
#   preload that library: one with MPICH's ABI serves instead of the MPICH of a bundle that was built with it

# folder_of_driver: says in which folder the driver is, if that is none of the system's.
folder_of_driver() {
  for ldconfig in ldconfig /sbin/ldconfig /usr/sbin/ldconfig; do
    command -v "$ldconfig" >/dev/null || continue
    "$ldconfig" -p 2>/dev/null | while read -r name kind path; do
      case $name$kind in libcuda.so.1*x86-64* | libcuda.so.1*AArch64*) path=${path##*=> } && echo "${path%/*}" && break ;; esac
    done
    return
  done
}

# missing_links FOLDER LINKS: the libraries of FOLDER to which LINKS has no link yet, a line each.
missing_links() {
  for file in "$1"/libcuda.so* "$1"/libcudadebugger.so.* "$1"/libnvidia-*.so.* "$1"/libnccl*.so* "$1"/libcudnn*.so.* \
    "$1"/libcublas*.so.* "$1"/libnvrtc*.so.* "$1"/libibverbs.so* "$1"/libmlx5.so* "$1"/libefa.so* "$1"/librdmacm.so* \
    "$1"/libnl-3.so.* "$1"/libnl-route-3.so.*; do
    if [ -e "$file" ] && [ ! -e "$2/${file##*/}" ]; then echo "$file"; fi
  done
}

# link_from FOLDER...: a folder of links for each. Ranks of a machine make the same ones at the same time.
link_from() {
  links=${TMPDIR:-/tmp}/tessera-libraries-$uid
  mkdir -m 700 "$links" 2>/dev/null
  if [ ! -d "$links" ] || [ -h "$links" ] || [ ! -O "$links" ]; then
    echo "tessera: links to the driver's libraries cannot be made in $links, so no GPU is found. Set TMPDIR to a folder of yours." >&2
    return
  fi
  for folder; do
    [ -d "$folder" ] || continue
    missing=$(missing_links "$folder" "$links$folder")
    if [ -n "$missing" ]; then
      mkdir -p "$links$folder"
      echo "$missing" | while read -r file; do ln -s "$file" "$links$folder/" 2>/dev/null; done
    fi
    found=$found:$links$folder
  done
}

found=''
saved_ifs=$IFS
IFS=:
# shellcheck disable=SC2086
[ -z "${TESSERA_DRIVER_LIBS:-}" ] || link_from $TESSERA_DRIVER_LIBS
IFS=$saved_ifs
first=$found found=''
system="/usr/local/nvidia/lib64 /usr/lib64 /usr/lib/$(uname -m)-linux-gnu /usr/lib/wsl/lib /run/opengl-driver/lib /usr/lib"
driver=''
for folder in $system; do
  [ ! -e "$folder/libcuda.so.1" ] || driver=$folder
done
if [ -z "$driver" ]; then
  driver=$(folder_of_driver)
  system="$driver $system"
fi
# Without a driver there is no GPU, and nothing to look for.
if [ -n "$driver$first" ]; then
  # shellcheck disable=SC2086
  link_from $system
  last=$found
fi

if [ -n "${TESSERA_MPI_LIBRARY:-}" ]; then
  if ! ls "$bundle"/lib/libmpich.so.* >/dev/null 2>&1; then
    echo "tessera: TESSERA_MPI_LIBRARY names a library with MPICH's ABI, and this bundle was built with Open MPI. Build one with MPICH (-DMPI_CXX_COMPILER=mpicxx.mpich)." >&2
    exit 2
  elif [ ! -r "$TESSERA_MPI_LIBRARY" ]; then
    echo "tessera: TESSERA_MPI_LIBRARY = $TESSERA_MPI_LIBRARY is no file: name the library itself, such as .../lib-abi-mpich/libmpi.so.12." >&2
    exit 2
  fi
  preload=$TESSERA_MPI_LIBRARY
  last=$last:${TESSERA_MPI_LIBRARY%/*}
fi
