# What Tessera builds on. Everything is a Debian 12 package (jobs/setup.sh installs them); each gets one target name here.
# All of it is looked for before a target is made, so that one message names everything that is missing.
include(cmake/Packages.cmake)
find_package(Threads REQUIRED)
find_package(MPI QUIET COMPONENTS C CXX)
tessera_need(MPI MPI_FOUND)
find_package(fmt QUIET)
tessera_need(fmt fmt_FOUND)
# Debian's shared library: it reads the command line and values. (CMake 4 warns where its own search for Boost is left open.)
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)
endif()
find_package(Boost QUIET COMPONENTS program_options)
tessera_need(Boost.Program_options Boost_FOUND)
find_package(nlohmann_json QUIET)
tessera_need(nlohmann-json nlohmann_json_FOUND)
find_path(RANDOM123_INCLUDE Random123/philox.h)
tessera_need(Random123 RANDOM123_INCLUDE)
# oneDNN: sequential matmuls of one tile; the threads are ours. (Its CMake package asks for OpenCL, so find the files.)
find_path(DNNL_INCLUDE dnnl.h)
find_library(DNNL_LIBRARY dnnl)
tessera_need(oneDNN DNNL_INCLUDE AND DNNL_LIBRARY)
# Debian's oneDNN has generic code alone for Arm, and OpenBLAS kernels for its cores. One without threads is not safe in ours.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  find_library(OPENBLAS_LIBRARY NAMES openblaso openblas)  # RHEL has the one with OpenMP under the first name
  tessera_need(OpenBLAS OPENBLAS_LIBRARY)
endif()
find_package(OpenMP QUIET COMPONENTS CXX)
tessera_need(OpenMP OpenMP_FOUND)
if(TESSERA_TESTS)
  find_package(Catch2 QUIET)
  tessera_need(Catch2 Catch2_FOUND)
endif()

# By pkg-config: hashes, the patterns and normal forms of tokenizers, compressed corpora.
find_package(PkgConfig QUIET)
tessera_need(pkg-config PKG_CONFIG_FOUND)
set(modules xxhash:libxxhash:xxHash pcre2:libpcre2-8:PCRE2 utf8proc:libutf8proc:utf8proc zlib:zlib:zlib zstd:libzstd:Zstandard)
foreach(module ${modules})
  string(REPLACE ":" ";" module ${module})
  list(POP_FRONT module name file library)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${file})
  endif()
  tessera_need(${library} ${name}_FOUND)
endforeach()

# Serial HDF5: the parallel build of Debian 12 has known corruption bugs with its Open MPI, and one file a rank needs no parallel one.
if(PKG_CONFIG_FOUND)
  pkg_check_modules(hdf5_serial QUIET IMPORTED_TARGET hdf5-serial)
endif()
if(NOT hdf5_serial_FOUND)
  find_package(HDF5 QUIET COMPONENTS C)  # what other distributions have
endif()
tessera_need("serial HDF5" hdf5_serial_FOUND OR HDF5_FOUND AND NOT HDF5_IS_PARALLEL)
tessera_stop_if_missing()

# oneDNN's matmul of bf16 is exported but not declared (src/kernels/cpu/tile_matmul.cpp says why it is used).
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES ${DNNL_INCLUDE})
set(CMAKE_REQUIRED_LIBRARIES ${DNNL_LIBRARY} ${OpenMP_gomp_LIBRARY})
check_cxx_source_compiles([[
#include <dnnl.h>
extern "C" dnnl_status_t dnnl_gemm_bf16bf16f32(char, char, dnnl_dim_t, dnnl_dim_t, dnnl_dim_t, float, const void*,
                                               dnnl_dim_t, const void*, dnnl_dim_t, float, float*, dnnl_dim_t);
int main() { return dnnl_gemm_bf16bf16f32('N', 'N', 1, 1, 1, 1, nullptr, 1, nullptr, 1, 0, nullptr, 1); }
]] TESSERA_ONEDNN_BF16)
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT TESSERA_ONEDNN_BF16)
  message(FATAL_ERROR "${DNNL_LIBRARY} has no dnnl_gemm_bf16bf16f32, which multiplies bf16 matrices on CPUs. Set "
    "DNNL_LIBRARY and DNNL_INCLUDE to a oneDNN that exports it, such as 2.6.3 of Debian 12.")
endif()

foreach(library program_options json random123 matmul xxhash pcre2 utf8proc zlib zstd hdf5)
  add_library(tessera_${library} INTERFACE)
endforeach()
foreach(library xxhash pcre2 utf8proc zlib zstd)
  target_link_libraries(tessera_${library} INTERFACE PkgConfig::${library})
endforeach()
target_link_libraries(tessera_program_options INTERFACE Boost::program_options)
target_link_libraries(tessera_json INTERFACE nlohmann_json::nlohmann_json)
target_include_directories(tessera_random123 SYSTEM INTERFACE ${RANDOM123_INCLUDE})
target_include_directories(tessera_matmul SYSTEM INTERFACE ${DNNL_INCLUDE})
# libgomp is named because oneDNN's team size is a per-thread setting of it, which must be 1.
target_link_libraries(tessera_matmul INTERFACE ${DNNL_LIBRARY} ${OpenMP_gomp_LIBRARY})
if(OPENBLAS_LIBRARY)
  target_link_libraries(tessera_matmul INTERFACE ${OPENBLAS_LIBRARY})
endif()
if(hdf5_serial_FOUND)
  target_link_libraries(tessera_hdf5 INTERFACE PkgConfig::hdf5_serial)
else()
  target_include_directories(tessera_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(tessera_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
endif()

include(cmake/BuildFacts.cmake)
