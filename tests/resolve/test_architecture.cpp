#include "checkpoint/checkpoint_case.hpp"
#include "tessera/base/error.hpp"
#include "tessera/resolve/architecture.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

ModelOptions of_preset(const std::string& name) {
  ModelOptions options;
  options.preset = name;
  return options;
}

ModelOptions of_family(const std::string& name) {
  ModelOptions options;
  options.family = name;
  options.layers = 2, options.heads = 6, options.width = 24, options.vocab = 67, options.context = 9;
  return options;
}

std::string error_of(const ModelOptions& options) {
  return message_of<UsageError>([&] { resolve_architecture(options); });
}

}  // namespace

TEST_CASE("a preset is taken as it is, its dropout from the options") {
  for (const std::string& name : preset_names()) {
    INFO(name);
    CHECK(resolve_architecture(of_preset(name)) == preset(name));
  }
  ModelOptions options = of_preset("nano");
  options.dropout = 0.25;
  CHECK(resolve_architecture(options).dropout == 0.25);
  options.dropout = 1.0;
  CHECK_THAT(error_of(options), Contains("model.dropout"));
  CHECK_THAT(error_of(of_preset("gpt5")), Contains("model.preset"));
}

TEST_CASE("sizes that have a rule follow it, unless they are given") {
  ModelOptions options = of_preset("gpt2-124m");
  options.width = 96, options.heads = 8;
  Architecture a = resolve_architecture(options);
  CHECK((a.width == 96 && a.heads == 8 && a.kv_heads == 8 && a.ffn_width == 384 && a.layers == 12));
  options.ffn_width = 100;
  CHECK(resolve_architecture(options).ffn_width == 100);
  // Other presets' have no rule: only what is given changes.
  options = of_preset("qwen2-0.5b");
  options.layers = 3;
  a = resolve_architecture(options);
  CHECK((a.layers == 3 && a.kv_heads == 2 && a.ffn_width == 4864));
  options.heads = 7;
  CHECK_THAT(error_of(options), Contains("model.kv_heads"));
}

TEST_CASE("only families that have one take a width of heads") {
  ModelOptions options = of_preset("qwen3-0.6b");
  options.width = 96, options.heads = 6, options.kv_heads = 3;
  CHECK(resolve_architecture(options).head_width() == 128);
  options.head_dim = 20;
  CHECK(resolve_architecture(options).query_width() == 120);
  options = of_family("qwen3");
  CHECK(resolve_architecture(options).head_dim == 4);
  options.width = 25;
  CHECK_THAT(error_of(options), Contains("model.head_dim = 0") && Contains("model.width = 25"));
  options.head_dim = 10;
  CHECK(resolve_architecture(options).head_dim == 10);
  options = of_family("llama");
  CHECK(resolve_architecture(options).head_dim == 0);
  options.head_dim = 10;
  CHECK(resolve_architecture(options).query_width() == 60);
  options.head_dim = 4;  // width / heads: the model of a checkpoint that does not name it
  CHECK(resolve_architecture(options).head_dim == 0);
  options = of_family("gpt2");
  options.head_dim = 4;
  CHECK_THAT(error_of(options), Contains("model.head_dim = 4") && Contains("gpt2"));
}

TEST_CASE("a family has its own kind of blocks and no sizes") {
  for (const auto& [name, like] :
       {std::pair("gpt2", "gpt2-124m"), std::pair("qwen2", "qwen2-0.5b"), std::pair("llama", "llama-8b")}) {
    INFO(name);
    Architecture expected = preset(like);
    expected.layers = 2, expected.heads = expected.kv_heads = 6, expected.width = 24, expected.ffn_width = 96;
    expected.vocab = 67, expected.context = 9;
    CHECK(resolve_architecture(of_family(name)) == expected);
  }
  ModelOptions options = of_family("llama");
  options.kv_heads = 2, options.ffn_width = 50;
  CHECK(resolve_architecture(options).kv_heads == 2);
  CHECK(resolve_architecture(options).ffn_width == 50);
  options = of_family("llama");
  options.layers = 0;
  CHECK_THAT(error_of(options), Contains("model.layers"));
  CHECK_THAT(error_of(of_family("bert")), Contains("model.family = bert") && Contains("gpt2, qwen2, llama, qwen3"));
}

TEST_CASE("model.from is a Hugging Face folder, a checkpoint, or a run with checkpoints") {
  const TemporaryFolder folder;
  folder.write("hf/config.json", R"({"model_type": "gpt2", "n_layer": 1, "n_head": 3, "n_embd": 21, "vocab_size": 67,
    "n_positions": 12, "n_inner": 50, "activation_function": "gelu_new", "resid_pdrop": 0.1})");
  ModelOptions options;
  options.from = (folder / "hf").string();
  Architecture a = resolve_architecture(options);
  CHECK((a.family == Family::gpt2 && a.width == 21 && a.ffn_width == 50 && a.context == 12));
  CHECK(a.dropout == 0);  // a run's dropout is the options', not the folder's
  const CheckpointFolder checkpoints(folder / "run/checkpoints");
  write_checkpoint(checkpoints, 3, 1);
  options.dropout = 0.5;
  for (const auto& path : {checkpoints.of_step(3), folder / "run"}) {
    INFO(path);
    options.from = path.string();
    a = resolve_architecture(options);
    CHECK(a.dropout == 0.5);
    a.dropout = 0;
    CHECK(a == some_architecture());
  }
  options.from = (folder / "none").string();
  CHECK_THAT(error_of(options), Contains("none"));
}
