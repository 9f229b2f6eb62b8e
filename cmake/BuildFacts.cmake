# What the executable says about itself: a header written at configuration time.
set(TESSERA_GIT_REVISION unknown)
find_package(Git QUIET)
if(GIT_FOUND AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE git_output RESULT_VARIABLE git_result
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(git_result EQUAL 0 AND git_output)
    set(TESSERA_GIT_REVISION ${git_output})
  endif()
  # A commit changes what is said, so that it configures again.
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE git_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${git_log}" git_log BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
  if(EXISTS ${git_log} AND NOT IS_DIRECTORY ${git_log})
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${git_log})
  endif()
endif()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/tessera_build.hpp @ONLY CONTENT [=[
#pragma once
// Written by cmake/BuildFacts.cmake.

namespace tessera {

inline constexpr const char* kBuildVersion = "@PROJECT_VERSION@";
inline constexpr const char* kBuildGitRevision = "@TESSERA_GIT_REVISION@";
inline constexpr const char* kBuildType = "@CMAKE_BUILD_TYPE@";

}  // namespace tessera
]=])
add_library(tessera_build_facts INTERFACE)
target_include_directories(tessera_build_facts INTERFACE ${PROJECT_BINARY_DIR}/generated)
