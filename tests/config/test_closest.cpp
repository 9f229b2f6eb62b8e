#include <catch2/catch.hpp>
#include <string>

#include "config/option_table.hpp"

using namespace tessera;

TEST_CASE("An option with one letter too many, missing, wrong or swapped is recognised") {
  for (const OptionEntry& row : option_table()) {
    const std::string name = row.name;
    const std::size_t second = name.find('.') + 2;
    if (name.size() - second < 3) continue;  // another letter of a short key may make another key
    CAPTURE(name);
    const auto with = [&](const std::string& letters) {
      return closest_option(name.substr(0, second) + letters + name.substr(second + 1));
    };
    CHECK(with(std::string(2, name[second])) == name);
    CHECK(with("") == name);
    CHECK(with("z") == name);
    std::string swapped = name;
    std::swap(swapped[second], swapped[second - 1]);
    CHECK(closest_option(swapped) == name);
  }
}

TEST_CASE("Two neighbouring letters swapped are one mistake, not two") {
  CHECK(closest_option("optim.bet2a") == "optim.beta2");  // optim.beta1 has two other letters
  CHECK(closest_option("comm.bakcend") == "comm.backend");
  CHECK(closest_option("bench.siezs") == "bench.sizes");
}

TEST_CASE("The beginning of a name comes first, then its key in another section, then what others call it") {
  CHECK(closest_option("shard.strat") == "shard.strategy");
  CHECK(closest_option("optim.strategy") == "shard.strategy");
  CHECK(closest_option("strategy") == "shard.strategy");
  CHECK(closest_option("trainer.max_steps") == "train.steps");
  CHECK(closest_option("n_embd") == "model.width");
  CHECK(closest_option("optim.max_grad_norm") == "optim.clip");
  CHECK(closest_option("block_size") == "train.seq_len");
}

TEST_CASE("Every name that is offered exists, and nothing is offered where nothing is near") {
  for (const std::string unknown : {"learning_rate", "dtype", "out_dir", "eval_steps", "logging_steps", "vocab_size",
                                    "gradient_checkpointing", "save_steps", "dataset", "hidden_size", "num_layers"}) {
    CAPTURE(unknown);
    const std::string near = closest_option(unknown);
    CHECK(find_option(near) != nullptr);
  }
  CHECK(closest_option("").empty());
  CHECK(closest_option("zzzzzzzzzzzz").empty());
  CHECK(closest_option("train." + std::string(60, 's')).empty());
}
