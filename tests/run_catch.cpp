// The test framework itself: by far the longest of the tests to compile, so in a file (and a library) of its own.

#include "run_catch.hpp"

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

int tessera::test::run_catch(int argc, char** argv) { return Catch::Session().run(argc, argv); }
