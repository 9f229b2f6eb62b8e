// The test framework itself: it takes far longer to compile than any test, so it has its own file and library.

#include "run_catch.hpp"

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

int tessera::test::run_catch(int argc, char** argv) { return Catch::Session().run(argc, argv); }
