// tessera COMMAND [INPUT.ini] [--section.key=value ...]: src/commands/table.cpp has the commands.
#include "tessera/commands/command.hpp"

int main(int argc, char** argv) { return tessera::run_program(argc, argv); }
