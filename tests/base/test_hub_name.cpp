#include <catch2/catch.hpp>

#include "tessera/base/hub_name.hpp"

using namespace tessera;
using Catch::Contains;

TEST_CASE("A name on the hub is told from a path", "[hub]") {
  for (const char* name : {"meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "openai-community/gpt2"}) {
    INFO(name);
    CHECK_THAT(hub_hint(name), Contains(std::string("hf download ") + name + " --local-dir "));
  }
  for (const char* path :
       {"gpt2", "./gpt2/x", "../models/gpt2", "/models/gpt2", "a/b/c", "inputs/gpt.ini", "a/", "/a", "a b/c", ""}) {
    INFO(path);
    CHECK(hub_hint(path).empty());
  }
}
