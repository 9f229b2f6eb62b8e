#include <catch2/catch.hpp>

#include "tessera/config/describe.hpp"
#include "tessera/model/architecture.hpp"

using namespace tessera;

TEST_CASE("the help names every preset") {
  const std::string help = "|" + help_text() + "|";
  for (const std::string& name : preset_names()) {
    INFO(name);
    const bool named = help.find("|" + name + "|") != std::string::npos ||
                       help.find(" " + name + "|") != std::string::npos ||
                       help.find("|" + name + ";") != std::string::npos;
    CHECK(named);
  }
}
