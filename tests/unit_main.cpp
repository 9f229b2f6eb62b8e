#include "run_catch.hpp"

int main(int argc, char** argv) { return tessera::test::run_catch(argc, argv); }
