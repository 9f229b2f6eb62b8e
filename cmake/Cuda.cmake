# The CUDA side of the modules (src/cuda), as interchangeable libraries of objects. A binary that uses the engine links exactly one:
#   tessera_cuda           nvcc and the real libraries (where a toolkit is found)
#   tessera_cuda_emulated  the same host code over gpu_emulator, and the same kernels (for tests; built there)
#   tessera_cuda_absent    the same factory functions, which say that there is no CUDA in this build
# cudart is linked statically; cuBLASLt, cuDNN, NCCL and NVML are loaded at run time (tessera/backend/dynamic_library.hpp), so the
# executable starts on machines that have none of them, and no driver either.

set(TESSERA_CUDA_ARCHITECTURES "" CACHE STRING "GPU architectures to compile for (90: code for sm_90, and PTX for later ones); empty: this machine's GPUs, or 80-real;90")

set(TESSERA_HAS_CUDA OFF)
if(TESSERA_CUDA STREQUAL "ON")
  find_package(CUDAToolkit 12.4 REQUIRED)
elseif(TESSERA_CUDA STREQUAL "AUTO")
  find_package(CUDAToolkit 12.4 QUIET)
endif()
if(CUDAToolkit_FOUND)
  # A toolkit need not be in PATH for enable_language to find its compiler.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${TESSERA_CUDA_ARCHITECTURES})
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    include(${CMAKE_CURRENT_LIST_DIR}/LocalGpus.cmake)
    tessera_local_gpus(${CUDAToolkit_NVCC_EXECUTABLE} CMAKE_CUDA_ARCHITECTURES)
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  # "sm_80, sm_90+PTX": what messages say that the build holds.
  string(REGEX REPLACE "([0-9]+)(;|$)" "\\1+PTX\\2" TESSERA_CUDA_CODE "${CMAKE_CUDA_ARCHITECTURES}")
  string(REPLACE "-real" "" TESSERA_CUDA_CODE "${TESSERA_CUDA_CODE}")
  string(REPLACE ";" ", sm_" TESSERA_CUDA_CODE "sm_${TESSERA_CUDA_CODE}")
  enable_language(CUDA)
  # CMake 3.25 does not know nvcc's flag for C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)  # after enable_language, not before
  set(TESSERA_HAS_CUDA ON)
  message(STATUS "CUDA toolkit ${CUDAToolkit_VERSION} for ${TESSERA_CUDA_CODE}")
else()
  message(STATUS "no CUDA (TESSERA_CUDA = ${TESSERA_CUDA}): this build computes on CPUs only")
endif()

file(GLOB_RECURSE TESSERA_CUDA_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cuda/*.cpp ${CMAKE_SOURCE_DIR}/src/cuda/*.cu)
set(TESSERA_CUDA_ABSENT_SOURCES ${CMAKE_SOURCE_DIR}/src/cuda/absent.cpp)
list(REMOVE_ITEM TESSERA_CUDA_SOURCES ${TESSERA_CUDA_ABSENT_SOURCES})
set(TESSERA_CUDA_KERNEL_SOURCES ${TESSERA_CUDA_SOURCES})
list(FILTER TESSERA_CUDA_KERNEL_SOURCES INCLUDE REGEX "\\.cu$")
set(TESSERA_CUDA_HOST_SOURCES ${TESSERA_CUDA_SOURCES})
list(FILTER TESSERA_CUDA_HOST_SOURCES INCLUDE REGEX "\\.cpp$")
set(TESSERA_CUDA_MODULES tessera_comm tessera_kernels tessera_backend tessera_config tessera_base)

# How nvcc is called. (fmt 9 takes nvcc for a compiler without constexpr and then contradicts itself in
# C++20.) Host code is checked by the host compiler's warnings, device code by nvcc's; a register that spills is one.
add_library(tessera_cuda_options INTERFACE)
target_compile_options(tessera_cuda_options INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>
  $<$<COMPILE_LANGUAGE:CUDA>:-DFMT_CONSTEVAL=>
  $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=--warn-on-spills>
  $<$<COMPILE_LANGUAGE:CUDA>:-DFMT_USE_CONSTEXPR=1>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-ffp-contract=off>)
if(TESSERA_WERROR)
  target_compile_options(tessera_cuda_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()

if(TESSERA_HAS_CUDA)
  # The kernels alone: gpu_emulator plays them too, and reads their PTX as text.
  add_library(tessera_cuda_kernels OBJECT ${TESSERA_CUDA_KERNEL_SOURCES})
  target_include_directories(tessera_cuda_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(tessera_cuda_kernels PRIVATE ${TESSERA_CUDA_MODULES} tessera_options tessera_cuda_options)
  if(TESSERA_TESTS)
    target_compile_options(tessera_cuda_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xfatbin=-compress=false>)
  endif()
  add_library(tessera_cuda OBJECT ${TESSERA_CUDA_HOST_SOURCES})
  target_sources(tessera_cuda INTERFACE $<TARGET_OBJECTS:tessera_cuda_kernels>)
  target_include_directories(tessera_cuda PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_compile_definitions(tessera_cuda PRIVATE TESSERA_CUDA_CODE="${TESSERA_CUDA_CODE}")
  target_link_libraries(tessera_cuda PUBLIC ${TESSERA_CUDA_MODULES} CUDA::cudart_static PRIVATE tessera_options)
  set(TESSERA_CUDA_LIBRARY tessera_cuda)
else()
  set(TESSERA_CUDA_LIBRARY tessera_cuda_absent)
endif()

add_library(tessera_cuda_absent OBJECT ${TESSERA_CUDA_ABSENT_SOURCES})
target_link_libraries(tessera_cuda_absent PUBLIC ${TESSERA_CUDA_MODULES} PRIVATE tessera_options)
