#!/bin/sh
# Starts programs/NAME of the bundle in whose bin/ this file lies, through the bundle's own loader and glibc.
self=$(readlink -f -- "$0")
bundle=${self%/bin/*}
program=${self##*/}
. "$bundle/env.sh"
first='' last='' argv0=$0 preload=''
case $program in
  mpiexec | mpirun | orted | hydra_pmi_proxy) argv0=$bundle/mpi/bin/$program ;;  # MPI looks for its other programs next to this name
  *) . "$bundle/host.sh" ;;
esac
# For a sweep, which starts this program again: /proc/self/exe is the loader.
export TESSERA_PROGRAM="$self"
# The loader by the program's name, which ps and top show. This machine's cache of libraries belongs to another glibc.
# shellcheck disable=SC2086
exec "$bundle/loader/$program" --inhibit-cache --argv0 "$argv0" ${preload:+--preload "$preload"} \
  --library-path "$bundle/glibc:$bundle/lib$first${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}$last" "$bundle/programs/$program" "$@"
