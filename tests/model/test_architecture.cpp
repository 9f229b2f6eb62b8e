#include <catch2/catch.hpp>
#include <cmath>

#include "message_of.hpp"
#include "tessera/base/error.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/model/parts.hpp"

using namespace tessera;

namespace {

std::int64_t parameter_count(const std::string& name) {
  std::int64_t count = 0;
  for (const ParameterTensor& t : parameter_tensors(preset(name))) count += t.elements;
  return count;
}

}  // namespace

TEST_CASE("presets have the published number of parameters", "[architecture]") {
  CHECK(parameter_count("gpt2-124m") == 124439808);
  CHECK(parameter_count("gpt2-350m") == 354823168);
  CHECK(parameter_count("gpt2-774m") == 774030080);
  CHECK(parameter_count("gpt2-1558m") == 1557611200);
  CHECK(parameter_count("qwen2-0.5b") == 494032768);
  CHECK(parameter_count("qwen2-1.5b") == 1543714304);
  CHECK(parameter_count("llama-1b") == 1235814400);
  CHECK(parameter_count("llama-8b") == 8030261248);
  CHECK(parameter_count("qwen3-0.6b") == 596049920);
  CHECK(parameter_count("qwen3-1.7b") == 1720574976);
  CHECK(parameter_count("qwen3-4b") == 4022468096);
  CHECK(parameter_count("qwen3-8b") == 8190735360);
  CHECK(parameter_count("nano") < 1000000);
  for (const std::string& name : preset_names()) CHECK_NOTHROW(validate(preset(name)));
  CHECK_THROWS_WITH(preset("gpt5"), Catch::Contains("gpt2-124m") && Catch::Contains("model.preset"));
}

TEST_CASE("presets under the names of other programs are told", "[architecture]") {
  for (const auto& [name, known] :
       {std::pair("gpt2", "gpt2-124m"), std::pair("gpt2-medium", "gpt2-350m"), std::pair("gpt2-large", "gpt2-774m"),
        std::pair("openai-community/gpt2-xl", "gpt2-1558m"), std::pair("llama", "llama-1b"),
        std::pair("qwen2", "qwen2-0.5b"), std::pair("qwen3", "qwen3-0.6b")})
    CHECK_THROWS_WITH(preset(name), Catch::Contains(std::string("Did you mean ") + known + "?"));
  CHECK_THROWS_WITH(preset("gpt5"), !Catch::Contains("Did you mean"));
}

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

TEST_CASE("impossible shapes are refused with the option's name", "[architecture]") {
  const auto message = [](auto change) {
    Architecture a = preset("nano");
    change(a);
    return test::message_of<UsageError>([&] { validate(a); });
  };
  CHECK_THAT(message([](Architecture& a) { a.heads = 3, a.kv_heads = 3; }), Catch::Contains("model.width"));
  CHECK_THAT(message([](Architecture& a) { a.layers = 0; }), Catch::Contains("model.layers"));
  CHECK_THAT(message([](Architecture& a) { a.vocab = std::int64_t{1} << 40; }), Catch::Contains("model.vocab"));
  CHECK_THAT(message([](Architecture& a) { a.kv_heads = 2; }), Catch::Contains("model.kv_heads"));
  CHECK_THAT(message([](Architecture& a) { a.heads = 1, a.kv_heads = 1, a.width = 512; }), Catch::Contains("256"));
  CHECK_THAT(message([](Architecture& a) { a.dropout = 1.0; }), Catch::Contains("model.dropout"));
  CHECK_THAT(message([](Architecture& a) { a.dropout = std::nan(""); }), Catch::Contains("model.dropout"));
  CHECK_THAT(message([](Architecture& a) { a.norm_epsilon = 0; }), Catch::Contains("epsilon"));
  CHECK_THAT(message([](Architecture& a) { a.norm = NormKind::rms_norm; }), Catch::Contains("model.family"));
  CHECK_THAT(message([](Architecture& a) { a = preset("qwen2-0.5b"), a.kv_heads = 3; }),
             Catch::Contains("model.kv_heads"));
  CHECK_THAT(message([](Architecture& a) { a.head_dim = 32; }), Catch::Contains("model.head_dim = 32"));
  CHECK_THAT(message([](Architecture& a) { a = preset("qwen3-4b"), a.head_dim = 0; }),
             Catch::Contains("model.head_dim = 0"));
  CHECK_THAT(message([](Architecture& a) { a = preset("qwen3-4b"), a.head_dim = 7; }),
             Catch::Contains("model.head_dim = 7 gives heads of 7, but") && Catch::Contains("even"));
  CHECK_THAT(message([](Architecture& a) { a = preset("llama-1b"), a.dropout = 0.1; }),
             Catch::Contains("model.dropout"));
  CHECK_THAT(message([](Architecture& a) { a = preset("llama-1b"), a.linear_bias = true; }),
             Catch::Contains("model.family"));
}

TEST_CASE("an architecture is described by its sizes and windows", "[architecture]") {
  CHECK(describe(preset("nano")) == "4 layers, width 128, 4 heads, vocabulary 256");
  CHECK(describe(preset("gemma3-270m")) ==
        "18 layers (15 with a window of 512), width 640, 4 heads, vocabulary 262144");
}
