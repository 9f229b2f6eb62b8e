# Relocatable bundles: executables with every library, glibc too, for machines where nothing can be installed.
#   bundle         tessera-VERSION-linux-PROCESSOR.tar.xz, at most 40 MB: the executable and Open MPI's launcher
#   bundle-tests   tessera-bundle-tests.tar.xz, at most 64 MiB: test binaries and CTest too, for tests/gpu/run.sh on such a machine
# tessera_bundle_tests(TARGET...) adds test binaries to the second.

set(TESSERA_BUNDLE_NAME tessera-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})

# tessera_bundle(TARGET NAME LIMIT EXECUTABLE...): TARGET packs NAME.tar.xz.
function(tessera_bundle target name limit)
  file(GLOB parts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/bundle/* ${CMAKE_SOURCE_DIR}/jobs/*)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE files)
  set(archive ${CMAKE_BINARY_DIR}/${name}.tar.xz)
  add_custom_command(OUTPUT ${archive}
    COMMAND ${CMAKE_SOURCE_DIR}/cmake/bundle/make.sh ${archive} ${limit} ${files}
    DEPENDS ${ARGN} ${parts}
    VERBATIM)
  add_custom_target(${target} DEPENDS ${archive})
endfunction()

function(tessera_bundle_tests)
  set_property(GLOBAL APPEND PROPERTY TESSERA_BUNDLED_TESTS ${ARGN})
endfunction()
