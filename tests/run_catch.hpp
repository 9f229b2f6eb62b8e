#pragma once

namespace tessera::test {

/// Runs the program's tests as the words of its command line say; 0 when all passed.
int run_catch(int argc, char** argv);

}  // namespace tessera::test
