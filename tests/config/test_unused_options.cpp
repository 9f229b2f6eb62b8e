#include <catch2/catch.hpp>

#include "config/check.hpp"
#include "tessera/config/validate.hpp"

using namespace tessera;
using Catch::Contains;

TEST_CASE("Options that the strategy does not use are errors, even at their default") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> unused = {
      {"ddp",
       {"group_size=2", "prefetch_forward=1", "prefetch_backward=0", "limit_all_gathers=2",
        "reshard_after_forward=true"}},
      {"zero1",
       {"group_size=2", "prefetch_forward=1", "prefetch_backward=0", "limit_all_gathers=2",
        "reshard_after_forward=false"}},
      {"zero2", {"group_size=2", "prefetch_backward=0", "limit_all_gathers=2", "reshard_after_forward=false"}},
      {"zero3", {"group_size=2"}},
      {"hsdp-zero2", {"prefetch_backward=0", "limit_all_gathers=2", "reshard_after_forward=false"}},
      {"hsdp-zero1",
       {"prefetch_forward=0", "prefetch_backward=0", "limit_all_gathers=2", "reshard_after_forward=false"}},
      {"hsdp", {}}};
  for (const auto& [strategy, refused] : unused) {
    for (const std::string option :
         {"group_size=2", "prefetch_forward=1", "prefetch_backward=0", "limit_all_gathers=2",
          "reshard_after_forward=true", "reshard_after_forward=false", "reshard_after_forward=2"}) {
      const auto message = error_of({"--shard.strategy=" + strategy, "--shard." + option});
      const bool expected = std::ranges::any_of(refused, [&](const std::string& name) {
        return name.substr(0, name.find('=')) == option.substr(0, option.find('='));
      });
      CAPTURE(strategy, option, message);
      if (expected) {
        CHECK_THAT(message, Contains("shard." + option.substr(0, option.find('='))) && Contains("has no effect"));
      } else {
        CHECK(message.empty());
      }
    }
  }
  CHECK_THAT(error_of({"--shard.min_params=5"}), Contains("wrap = size"));
  CHECK(error_of({"--shard.min_params=5", "--shard.wrap=size"}).empty());
  CHECK_THAT(error_of({"--shard.reshard_after_forward=false", "--shard.limit_all_gathers=3"}),
             Contains("limit_all_gathers"));
}

TEST_CASE("A GPU's choices are refused on a CPU") {
  CHECK_THAT(error_of({"--comm.backend=staged", "--run.device=cpu"}), Contains("shared memory and MPI"));
  CHECK(error_of({"--comm.backend=staged", "--run.device=cuda"}).empty());
  for (const std::string option : {"run.graph=false", "run.graph=true", "run.share_gpu=true", "run.attention=own"}) {
    CAPTURE(option);
    CHECK_THAT(error_of({"--run.device=cpu", "--" + option}), Contains("has no effect, because run.device = cpu"));
    CHECK(error_of({"--run.device=cuda", "--" + option}).empty());
  }
}

TEST_CASE("TF32 is refused where no GPU multiplies fp32 matrices") {
  CHECK_THAT(error_of({"--run.device=cpu", "--precision.matmul=tf32"}),
             Contains("precision.matmul = 'tf32' has no effect, because run.device = cpu"));
  CHECK_THAT(error_of({"--run.device=cuda", "--precision.compute=bf16", "--precision.matmul=tf32"}),
             Contains("a 16-bit precision.compute"));
  CHECK(error_of({"--run.device=cuda", "--precision.matmul=tf32"}).empty());
  CHECK_THAT(error_of({"--precision.logits=fp32"}), Contains("precision.logits = 'fp32' has no effect"));
  CHECK(error_of({"--precision.compute=bf16", "--precision.logits=fp32"}).empty());
}

TEST_CASE("Options of text have no effect where none is read, and a validation corpus stands for a fraction") {
  for (const std::string option :
       {"data.tokenizer=bytes", "data.on_error=skip", "data.cache=x", "data.separator=none"}) {
    CAPTURE(option);
    CHECK_THAT(error_of({"--" + option}), Contains("data.source = synthetic reads no text"));
    CHECK(error_of({"--" + option, "--data.source=texts"}).empty());
  }
  CHECK_THAT(error_of({"--data.source=texts", "--data.val_source=more", "--data.val_fraction=0.1"}),
             Contains("data.val_fraction = '0.1' has no effect, because data.val_source"));
  CHECK(error_of({"--data.source=texts", "--data.val_source=more", "--train.eval_every=5"}).empty());
  CHECK_THAT(error_of({"--data.source=texts", "--data.output=x", "--data.cache=y"}), Contains("data.cache = 'y'"));
}

TEST_CASE("What is dropped of the options without effect has its default, as if nobody had given it") {
  Options options = parse_arguments({"--shard.strategy=hsdp", "--shard.group_size=2", "--shard.limit_all_gathers=3"});
  options.shard.strategy = Strategy::ddp;
  drop_unused(options, [](const std::string& name) { return name == "shard.group_size"; });
  CHECK(options.shard.group_size == 0);
  CHECK_FALSE(options.is_given("shard.group_size"));
  CHECK(options.shard.limit_all_gathers == 3);
  CHECK(options.is_given("shard.limit_all_gathers"));
  drop_unused(options, [](const std::string&) { return true; });
  CHECK(options.shard.limit_all_gathers == 2);
  CHECK_NOTHROW(validate(options));
}
