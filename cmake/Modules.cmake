# tessera_module(NAME USES lower modules... LIBRARIES outside libraries... [COLD [LOOPS sources...]]): the sources of
# src/NAME as one static library. (cmake/Cuda.cmake builds src/cuda.)
# COLD: a release compiles the module with -O1, in half the time, because no time is spent in it; LOOPS names the sources
# that do run over elements, and stay at the build type's level.

add_library(tessera_options INTERFACE)
# -Wrestrict: false alarms on std::string concatenation in GCC 12 (its bug 105651).
target_compile_options(tessera_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wno-restrict -ffp-contract=off>)
if(TESSERA_WERROR)
  target_compile_options(tessera_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(TESSERA_SANITIZE)
  # Line numbers only, and a low level: higher ones take twice as long to compile the checks. These are no options of
  # targets, because tests set a level of their own.
  string(APPEND CMAKE_CXX_FLAGS " -O1 -g1")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO -DNDEBUG)
endif()
if(TESSERA_SANITIZE STREQUAL "thread")
  # -Wtsan: it does not follow fences; the flight recorder's only order what other processes read.
  target_compile_options(tessera_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  target_link_options(tessera_options INTERFACE -fsanitize=thread)
elseif(TESSERA_SANITIZE)
  # -Wmaybe-uninitialized: a false alarm in <regex> under AddressSanitizer in GCC 12.
  target_compile_options(tessera_options INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined -Wno-maybe-uninitialized)
  if(NOT TESSERA_FUZZ)
    # A check of every pointer costs a third of the compilation. Null pointers end in AddressSanitizer; alignment is checked
    # where files are read, by the fuzz targets.
    target_compile_options(tessera_options INTERFACE -fno-sanitize=null,alignment,vptr,object-size)
  endif()
  target_link_options(tessera_options INTERFACE -fsanitize=address,undefined)
endif()
if(TESSERA_FUZZ)
  target_compile_options(tessera_options INTERFACE -fsanitize=fuzzer-no-link -Wno-unknown-warning-option)
endif()

# With TESSERA_UNITY a target's sources are compiled as one: the headers of the standard library, fmt and json cost more than
# most sources. (Sources with options of their own stay apart.)
function(tessera_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TESSERA_UNITY} UNITY_BUILD_BATCH_SIZE 0)
  if(TESSERA_UNITY)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # GCC takes a joined source for a header
  endif()
endfunction()

# Names the wing of the modules that are declared below it, and the wings that it may use. CMake does not need it;
# tests/architecture holds the modules to it, and src/README.md shows it.
function(tessera_wing name)
endfunction()

function(tessera_module name)
  cmake_parse_arguments(arg "COLD" "" "USES;LIBRARIES;LOOPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  list(TRANSFORM arg_USES PREPEND tessera_)
  if(sources)
    add_library(tessera_${name} STATIC ${sources})
    target_include_directories(tessera_${name} PUBLIC ${CMAKE_SOURCE_DIR}/include PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(tessera_${name} PUBLIC ${arg_USES} ${arg_LIBRARIES} PRIVATE tessera_options)
    tessera_unity(tessera_${name})
    if(arg_COLD)
      target_compile_options(tessera_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
      if(TESSERA_SANITIZE AND NOT TESSERA_FUZZ AND NOT arg_LOOPS)
        target_compile_options(tessera_${name} PRIVATE -O0)
      endif()
      list(TRANSFORM arg_LOOPS PREPEND ${CMAKE_SOURCE_DIR}/src/${name}/)
      set_property(SOURCE ${arg_LOOPS} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
    endif()
  else()
    add_library(tessera_${name} INTERFACE)
    target_include_directories(tessera_${name} INTERFACE ${CMAKE_SOURCE_DIR}/include)
    target_link_libraries(tessera_${name} INTERFACE ${arg_USES} ${arg_LIBRARIES})
  endif()
endfunction()
