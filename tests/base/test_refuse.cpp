#include <catch2/catch.hpp>
#include <new>
#include <string>

#include "tessera/base/refuse.hpp"

using namespace tessera;

namespace {
std::string thrown(const Refusal& refusal) {
  try {
    throw Refusal(refusal);
  } catch (const UsageError& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
}
}  // namespace

TEST_CASE("A refusal is sentences: what is wrong, why, what to do") {
  CHECK(thrown(refuse("shard.offload", "params")) == "shard.offload = params does not work.");
  CHECK(thrown(refuse("shard.offload", "params")
                   .because("{} keeps full parameters", "ddp")
                   .use("optimizer, or zero{}", 3)) ==
        "shard.offload = params does not work, because ddp keeps full parameters. Use optimizer, or zero3.");
  CHECK(thrown(refusal("{} is empty", "a.txt")) == "a.txt is empty.");
  CHECK(thrown(refusal("{} has no tokenizer", "GPT").hint("Give data.tokenizer")) ==
        "GPT has no tokenizer. Give data.tokenizer.");
}

TEST_CASE("Memory that the system does not give is an outside fault, said in words") {
  try {
    throw std::bad_alloc();
  } catch (...) {
    const Caught error = caught_error();
    CHECK(error.code == ExitCode::input_output);
    CHECK_THAT(error.what, Catch::Contains("gives no more memory") && Catch::Contains("ulimit -v"));
  }
}

TEST_CASE("A thrown refusal keeps its parts when it is caught as an error") {
  try {
    throw refuse("optim.lr", 3).because("rates end at {}", 2).use("0 to {}", 2);
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "optim.lr = 3 does not work, because rates end at 2. Use 0 to 2.");
  }
}
