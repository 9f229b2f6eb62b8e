# Vector kernels are compiled once per instruction set and chosen at run time; only these files get wider instructions.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(TESSERA_VECTOR_SOURCES ${CMAKE_SOURCE_DIR}/src/kernels/cpu/vector)
  set_source_files_properties(${TESSERA_VECTOR_SOURCES}/vector_avx2.cpp PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
  set_source_files_properties(${TESSERA_VECTOR_SOURCES}/vector_avx512.cpp PROPERTIES
    # (GCC 12 warns about its own "undefined" intrinsics.)
    COMPILE_OPTIONS "-Wno-maybe-uninitialized;-Wno-uninitialized;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c;-mprefer-vector-width=512")
  # Few x86 processors come to the portable lanes; half the time of -O3.
  set_source_files_properties(${TESSERA_VECTOR_SOURCES}/vector_scalar.cpp PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-O2>")
endif()
# UBSan on the scalar lanes' unrolled loops takes GCC 12 minutes; the same lines are checked in the vector builds.
if(TESSERA_SANITIZE)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/cpu/vector/vector_scalar.cpp PROPERTIES COMPILE_OPTIONS "-O1;-fno-sanitize=undefined")
endif()
