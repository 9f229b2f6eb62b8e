# What Tessera builds on. Everything is a Debian 12 package (jobs/setup.sh installs them); each gets one target name here.
find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C CXX)
find_package(fmt REQUIRED)

# Serial HDF5: the parallel build of Debian 12 has known corruption bugs with its Open MPI, and one file a rank needs no parallel one.
find_package(PkgConfig REQUIRED)
pkg_check_modules(hdf5_serial REQUIRED IMPORTED_TARGET hdf5-serial)
add_library(tessera_hdf5 INTERFACE)
target_link_libraries(tessera_hdf5 INTERFACE PkgConfig::hdf5_serial)

# Debian's shared library: it reads the command line and INI files.
find_package(Boost REQUIRED COMPONENTS program_options)
add_library(tessera_program_options INTERFACE)
target_link_libraries(tessera_program_options INTERFACE Boost::program_options)

find_package(nlohmann_json REQUIRED)
add_library(tessera_json INTERFACE)
target_link_libraries(tessera_json INTERFACE nlohmann_json::nlohmann_json)

pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
add_library(tessera_xxhash INTERFACE)
target_link_libraries(tessera_xxhash INTERFACE PkgConfig::xxhash)

# Text: patterns and normal forms of tokenizers, and compressed corpora.
foreach(library libpcre2-8 libutf8proc zlib libzstd)
  string(REGEX REPLACE "^lib|-8$" "" name ${library})
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${library})
  add_library(tessera_${name} INTERFACE)
  target_link_libraries(tessera_${name} INTERFACE PkgConfig::${name})
endforeach()

find_path(RANDOM123_INCLUDE Random123/philox.h REQUIRED)
add_library(tessera_random123 INTERFACE)
target_include_directories(tessera_random123 SYSTEM INTERFACE ${RANDOM123_INCLUDE})

# oneDNN: sequential matmuls of one tile; the threads are ours. (Its CMake package asks for OpenCL, so find the files.)
find_path(DNNL_INCLUDE dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
add_library(tessera_onednn INTERFACE)
target_include_directories(tessera_onednn SYSTEM INTERFACE ${DNNL_INCLUDE})
# libgomp is named because oneDNN's team size is a per-thread setting of it, which must be 1.
target_link_libraries(tessera_onednn INTERFACE ${DNNL_LIBRARY} ${OpenMP_gomp_LIBRARY})

include(cmake/BuildFacts.cmake)
