# The packages that hold the libraries of cmake/Dependencies.cmake, and one message for all of them that are not found.
#   tessera_need(LIBRARY CONDITION...)   notes the library as missing unless if(CONDITION...) holds
#   tessera_stop_if_missing()            ends the configuration where one is

# Library: in Debian, in RHEL and Rocky with EPEL, in Spack, in conda-forge; "-" where there is none.
set(TESSERA_PACKAGES
  "MPI:                    libopenmpi-dev                 openmpi-devel        openmpi                openmpi"
  "fmt:                    libfmt-dev                     fmt-devel            fmt                    fmt"
  "pkg-config:             pkg-config                     pkgconf-pkg-config   pkgconf                pkg-config"
  "serial HDF5:            libhdf5-dev                    hdf5-devel           hdf5~mpi               'hdf5=*=nompi*'"
  "Boost.Program_options:  libboost-program-options-dev   boost-devel          boost+program_options  libboost-devel"
  "nlohmann-json:          nlohmann-json3-dev             json-devel           nlohmann-json          nlohmann_json"
  "xxHash:                 libxxhash-dev                  xxhash-devel         xxhash                 xxhash"
  "PCRE2:                  libpcre2-dev                   pcre2-devel          pcre2                  pcre2"
  "utf8proc:               libutf8proc-dev                utf8proc-devel       utf8proc               libutf8proc"
  "zlib:                   zlib1g-dev                     zlib-devel           zlib                   zlib"
  "Zstandard:              libzstd-dev                    libzstd-devel        zstd                   zstd"
  "Random123:              librandom123-dev               Random123-devel      random123              -"
  "oneDNN:                 libdnnl-dev                    onednn-devel         onednn                 onednn"
  "OpenBLAS:               libopenblas-openmp-dev         openblas-devel       openblas               openblas"
  "OpenMP:                 g++                            gcc-c++              gcc                    gxx"
  "Catch2:                 catch2                         catch-devel          catch2@2               catch2=2")

set(TESSERA_MISSING "")

function(tessera_need library)
  if(${ARGN})
    return()
  endif()
  list(APPEND TESSERA_MISSING ${library})
  set(TESSERA_MISSING ${TESSERA_MISSING} PARENT_SCOPE)
endfunction()

function(tessera_stop_if_missing)
  if(NOT TESSERA_MISSING)
    return()
  endif()
  set(headers "")
  foreach(line ${TESSERA_PACKAGES})
    string(REGEX MATCH "^([^:]+): +([^ ]+) +([^ ]+) +([^ ]+) +([^ ]+)$" matched "${line}")
    if(CMAKE_MATCH_1 IN_LIST TESSERA_MISSING)
      string(APPEND debian " ${CMAKE_MATCH_2}")
      string(APPEND redhat " ${CMAKE_MATCH_3}")
      string(APPEND spack " ${CMAKE_MATCH_4}")
      if(CMAKE_MATCH_5 STREQUAL "-")
        set(headers "\n  (Random123 is headers alone: https://github.com/DEShawResearch/random123, then -DRANDOM123_INCLUDE=FOLDER/include)")
      else()
        string(APPEND conda " ${CMAKE_MATCH_5}")
      endif()
    endif()
  endforeach()
  list(JOIN TESSERA_MISSING ", " missing)
  message(FATAL_ERROR "What Tessera needs and is not found: ${missing}\n"
    "  Debian:       apt-get install${debian}\n"
    "  RHEL, Rocky:  dnf install${redhat}    (with EPEL and CRB)\n"
    "  Spack:        spack install${spack}\n"
    "  conda:        conda install -c conda-forge${conda}${headers}\n"
    "  Elsewhere:    -DCMAKE_PREFIX_PATH='FOLDER;FOLDER', and PKG_CONFIG_PATH, or the cluster's modules\n"
    "Or build nothing: a bundle that was made on another machine needs none of them (docs/manual/running.md).")
endfunction()
