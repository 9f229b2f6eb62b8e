#include <nlohmann/json.hpp>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/json_file.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/formats/hugging_face_json.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

json gpt2_config() {
  return json::parse(R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
    "n_layer": 2, "n_head": 3, "n_embd": 24, "n_positions": 17, "n_ctx": 17, "n_inner": null, "vocab_size": 61,
    "layer_norm_epsilon": 1e-06, "attn_pdrop": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "summary_activation": null,
    "tie_word_embeddings": true, "reorder_and_upcast_attn": false, "scale_attn_by_inverse_layer_idx": false,
    "task_specific_params": {"text-generation": {"do_sample": true}}, "some_new_key": [1, 2]})");
}

json qwen2_config() {
  return json::parse(R"({"model_type": "qwen2", "hidden_act": "silu", "hidden_size": 24, "intermediate_size": 40,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "vocab_size": 61, "tie_word_embeddings": true,
    "sliding_window": 32, "use_sliding_window": false, "layer_types": ["full_attention", "full_attention"]})");
}

Architecture read(const json& config) {
  const TemporaryFolder folder;
  write_file(folder / "config.json", config.dump());
  return read_config(folder.path());
}

std::string refusal(json config, const std::string& key, const json& value) {
  config[key] = value;
  return message_of<UsageError>([&] { read(config); });
}

}  // namespace

TEST_CASE("a GPT-2 configuration becomes an architecture") {
  Architecture wanted;
  wanted.family = Family::gpt2;
  wanted.layers = 2;
  wanted.heads = wanted.kv_heads = 3;
  wanted.width = 24;
  wanted.ffn_width = 96;
  wanted.vocab = 61;
  wanted.context = 17;
  wanted.norm_epsilon = 1e-6;
  CHECK(read(gpt2_config()) == wanted);
  json config = gpt2_config();
  config["n_inner"] = 50;
  config["activation_function"] = "gelu_pytorch_tanh";
  config["tie_word_embeddings"] = false;
  config["n_positions"] = nullptr;
  config.erase("model_type");  // told from `architectures`
  config.erase("layer_norm_epsilon");
  wanted.ffn_width = 50;
  wanted.tied_head = false;
  wanted.norm_epsilon = 1e-5;
  CHECK(read(config) == wanted);
}

TEST_CASE("Qwen2 and Llama configurations become architectures") {
  Architecture wanted;
  wanted.family = Family::qwen2;
  wanted.layers = 2;
  wanted.heads = 4;
  wanted.kv_heads = 2;
  wanted.width = 24;
  wanted.ffn_width = 40;
  wanted.vocab = 61;
  wanted.context = 64;
  wanted.norm = NormKind::rms_norm;
  wanted.positions = PositionKind::rotary;
  wanted.mlp = MlpKind::swiglu;
  wanted.linear_bias = false;
  wanted.rope_theta = 1e6;
  CHECK(read(qwen2_config()) == wanted);

  json llama = qwen2_config();
  llama["model_type"] = "llama";
  llama["attention_bias"] = false;
  llama["mlp_bias"] = nullptr;
  llama["num_key_value_heads"] = nullptr;
  llama["head_dim"] = 6;
  llama.erase("tie_word_embeddings");
  llama.erase("rope_theta");
  llama["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000.0}};
  wanted.family = Family::llama;
  wanted.qkv_bias = false;
  wanted.tied_head = false;
  wanted.kv_heads = 4;
  wanted.rope_theta = 5e5;
  CHECK(read(llama) == wanted);
}

TEST_CASE("Qwen3's heads have a width of their own") {
  json config = qwen2_config();
  config["model_type"] = "qwen3";
  config["head_dim"] = 10;
  const Architecture model = read(config);
  CHECK((model.family == Family::qwen3 && model.head_norms && !model.qkv_bias && model.tied_head));
  CHECK((model.head_width() == 10 && model.query_width() == 40 && model.key_width() == 20));
  CHECK(config_of(model)["head_dim"] == 10);
  config.erase("model_type");
  config["architectures"] = {"Qwen3ForCausalLM"};
  CHECK(read(config) == model);
  CHECK_THAT(refusal(config, "head_dim", 0), Contains("head_dim"));
  config["architectures"] = {"Qwen3MoeForCausalLM"};
  CHECK_THAT(refusal(config, "head_dim", 10), Contains("Qwen3MoeForCausalLM"));
  config["model_type"] = "qwen3";
  config.erase("head_dim");
  CHECK(read(config).head_dim == 128);  // as Transformers has it
}

TEST_CASE("Llama's and Qwen3's biases come from config.json") {
  const auto biases = [](const Architecture& model) {
    return std::ranges::count_if(parameter_tensors(model), [](auto& tensor) { return tensor.name.ends_with(".bias"); });
  };
  for (const char* family : {"llama", "qwen3"}) {
    json config = qwen2_config();
    config["model_type"] = family, config["attention_bias"] = true;
    const Architecture model = read(config);
    CHECK(biases(model) == 2 * 4);
    CHECK(architecture_of(config_of(model), "config.json") == model);
  }
  json config = qwen2_config();
  config["model_type"] = "llama", config["mlp_bias"] = true;
  CHECK(biases(read(config)) == 2 * 3);
  CHECK(architecture_of(config_of(read(config)), "config.json") == read(config));
  CHECK(biases(read(qwen2_config())) == 2 * 3);
}

TEST_CASE("Heads of Llama and Qwen2 have a width of their own where config.json gives another one") {
  for (const char* family : {"llama", "qwen2"}) {
    json config = qwen2_config();
    config["model_type"] = family;
    const Architecture usual = read(config);
    CHECK(usual.head_dim == 0);
    CHECK_FALSE(config_of(usual).contains("head_dim"));
    config["head_dim"] = 6;  // 24 / 4
    CHECK(read(config) == usual);
    for (const std::int64_t width : {2, 10}) {
      config["head_dim"] = width;
      const Architecture model = read(config);
      CHECK((model.head_width() == width && model.query_width() == 4 * width && model.key_width() == 2 * width));
      CHECK(architecture_of(config_of(model), "config.json") == model);
    }
    config["num_attention_heads"] = 6, config["head_dim"] = 10, config["hidden_size"] = 20;  // no multiple of heads
    CHECK(read(config).query_width() == 60);
  }
}

TEST_CASE("Windows are read as Transformers reads them") {
  json config = qwen2_config();
  config.erase("layer_types");
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 2;
  CHECK(read(config) == read(qwen2_config()));
  config["max_window_layers"] = 1;
  Architecture model = read(config);
  CHECK((model.window == 32 && model.sees_all(0) && !model.sees_all(1)));
  config["max_window_layers"] = 0;
  model = read(config);
  CHECK((model.window == 32 && model.full_layers.empty() && !model.sees_all(0)));
  config["layer_types"] = {"sliding_attention", "full_attention"};
  model = read(config);
  CHECK((model.window == 32 && !model.sees_all(0) && model.sees_all(1)));
  CHECK(architecture_of(config_of(model), "config.json") == model);
  CHECK_THAT(refusal(config, "layer_types", {"full_attention"}), Contains("1 entries for 2 layers"));
  CHECK_THAT(refusal(config, "layer_types", {"full_attention", "chunked_attention"}), Contains("chunked_attention"));
  config.erase("sliding_window");
  CHECK(read(config).window == 4096);
  config["sliding_window"] = nullptr;
  CHECK_THAT(refusal(config, "use_sliding_window", true), Contains("layer_types") && Contains("only full_attention"));
  config["layer_types"] = nullptr;
  CHECK(read(config) == read(qwen2_config()));
}

TEST_CASE("Mistral's layers have windows, unless config.json says null") {
  json config = qwen2_config();
  config["model_type"] = "mistral";
  config["layer_types"] = {"full_attention", "full_attention"};  // as in Transformers, which does not read it
  Architecture model = read(config);
  CHECK((model.family == Family::mistral && model.window == 32 && !model.sees_all(0) && !model.sees_all(1)));
  CHECK((!model.qkv_bias && model.head_dim == 0));
  CHECK(architecture_of(config_of(model), "config.json") == model);
  config["head_dim"] = 8;
  config["sliding_window"] = nullptr;
  model = read(config);
  CHECK((model.window == 0 && model.head_dim == 8));
  CHECK(architecture_of(config_of(model), "config.json") == model);
  config.erase("sliding_window");
  CHECK(read(config).window == 4096);
}

TEST_CASE("every version of Transformers writes the same Mistral and Gemma 3") {
  const auto configs = std::filesystem::path(TESSERA_REFERENCE_DIR) / "configs";
  const auto read = [&](const std::string& name) {
    return architecture_of(read_json_object(configs / name, 1 << 20), name);
  };
  for (const std::string name : {"mistral", "mistral-full", "gemma3_text", "gemma3"}) {
    INFO(name);
    const Architecture model = read(name + "-5.json");
    CHECK(model.family == (name.starts_with("mistral") ? Family::mistral : Family::gemma3));
    CHECK((model.window == 0) == (name == "mistral-full"));
    CHECK(read(name + "-4.json") == model);
    CHECK(read(name + "-4.50.json") == model);
    CHECK(architecture_of(config_of(model), name) == model);
  }
}

TEST_CASE("Gemma 3 is read with its usual sizes, and refused where it is capped or looks ahead") {
  const json least = {{"model_type", "gemma3_text"}};
  const Architecture model = read(least);
  CHECK((model.layers == 26 && model.width == 2304 && model.head_dim == 256 && model.vocab == 262208));
  CHECK((model.window == 4096 && !model.sees_all(4) && model.sees_all(5) && model.query_scalar == 0));
  CHECK(architecture_of(config_of(model), "config.json") == model);
  json scaled = least;
  scaled["query_pre_attn_scalar"] = 168;
  scaled["sliding_window_pattern"] = 2;
  const Architecture other = read(scaled);
  CHECK((other.query_scalar == 168 && !other.sees_all(0) && other.sees_all(1)));
  CHECK(architecture_of(config_of(other), "config.json") == other);
  json full = least;
  full["sliding_window_pattern"] = 1;
  const Architecture without = read(full);
  CHECK(without.window == 0);
  const json written = json::parse(config_of(without).dump());  // types, because a window is usual
  CHECK((written.at("layer_types") == json(std::vector<std::string>(26, "full_attention"))));
  CHECK((written.at("sliding_window") == 4096 && architecture_of(written, "config.json") == without));
  CHECK_THAT(refusal(least, "sliding_window", nullptr), Contains("sliding_window") && Contains("layers have windows"));
  CHECK_THROWS_AS(validate(architecture_of({{"model_type", "gemma3_text"}, {"num_hidden_layers", 2147483647}}, "a")),
                  UsageError);
  CHECK_THAT(message_of<UsageError>([&] { read({{"text_config", {{"n_layer", 2}}}}); }), Contains("model_type"));
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"})
    CHECK_THAT(refusal(least, key, 30.0), Contains(key) && Contains("only null is"));
  CHECK_THAT(refusal(least, "use_bidirectional_attention", true), Contains("use_bidirectional_attention"));
  CHECK_THAT(refusal(least, "hidden_activation", "silu"), Contains("gelu_pytorch_tanh"));
}

TEST_CASE("rope_scaling counts in place of rope_parameters, and adds to Gemma 3's") {
  const json plain = {{"rope_type", "default"}, {"rope_theta", 500.0}}, linear = {{"type", "linear"}, {"factor", 2.0}};
  json config = qwen2_config();
  config["rope_theta"] = 77.0;
  config["rope_parameters"] = plain;
  CHECK(read(config).rope_theta == 500);
  config["rope_scaling"] = linear;
  CHECK((read(config).rope_theta == 77 && read(config).rope_scaling.factor == 2));
  config["rope_parameters"] = {{"rope_type", "yarn"}};
  CHECK(read(config).rope_scaling.factor == 2);
  json gemma = {{"model_type", "gemma3_text"}, {"rope_scaling", linear}};
  gemma["rope_parameters"] = {{"full_attention", plain}, {"sliding_attention", {{"rope_theta", 88.0}}}};
  const Architecture model = read(gemma);
  CHECK((model.rope_theta == 500 && model.rope_local_theta == 88 && model.rope_scaling.factor == 2));
  gemma["rope_scaling"] = json::object();
  CHECK(!read(gemma).rope_scaling.on());
  // Transformers passes over bases that name no type of layers.
  CHECK_THAT(refusal(gemma, "rope_parameters", plain), Contains("an object with full_attention and sliding_attention"));
}

TEST_CASE("Linear scaling stretches all positions") {
  const json scaling = {{"type", "linear"}, {"factor", 2.0}};
  json config = qwen2_config();
  config["rope_scaling"] = scaling;
  const Architecture model = read(config);
  CHECK((model.rope_scaling.is_linear() && model.rope_scaling.factor == 2));
  CHECK(architecture_of(config_of(model), "config.json") == model);
  CHECK_THAT(refusal(config, "rope_scaling", {{"type", "linear"}}), Contains("lacks factor"));
}

TEST_CASE("Llama 3's scaled positions are read in both spellings, and refused where they are incomplete") {
  json config = qwen2_config();
  config["model_type"] = "llama";
  config["rope_theta"] = 500000.0;
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 32}};
  config["rope_scaling"] = scaling;
  const Architecture older = read(config);
  CHECK(older.rope_scaling == RopeScaling{32, 8, 1, 4});
  CHECK(older.rope_theta == 5e5);
  json newer = config;
  newer.erase("rope_theta");
  newer.erase("rope_scaling");
  newer["rope_parameters"] = scaling;
  newer["rope_parameters"]["rope_theta"] = 500000.0;
  CHECK(read(newer) == older);
  json beside = config;
  beside["original_max_position_embeddings"] = 16;
  CHECK(read(beside).rope_scaling == RopeScaling{16, 8, 1, 4});
  json oldest = config;
  oldest["rope_scaling"].erase("rope_type");
  oldest["rope_scaling"]["type"] = "llama3";
  CHECK(read(oldest) == older);
  for (const auto& [key, value] : scaling.items()) {
    json lacking = scaling;
    lacking[key] = key == "rope_type" ? json("dynamic") : json(nullptr);
    if (key == "original_max_position_embeddings") {
      json same = config;
      same["rope_scaling"] = lacking;
      CHECK(read(same).rope_scaling == RopeScaling{64, 8, 1, 4});  // max_position_embeddings, as in Transformers
    } else {
      CHECK_THAT(refusal(config, "rope_scaling", lacking), Contains(key) && Contains("rope_scaling"));
    }
    lacking[key] = key == "rope_type" ? json(3) : json(-1.5);
    CHECK_THAT(refusal(config, "rope_scaling", lacking), Contains(key));
  }
  json other = scaling;
  other["attention_factor"] = 0.5;
  CHECK_THAT(refusal(config, "rope_scaling", other), Contains("attention_factor"));
  other["original_max_position_embeddings"] = 32.5;
  CHECK_THAT(refusal(config, "rope_scaling", other), Contains("original_max_position_embeddings"));
  CHECK_THAT(refusal(config, "partial_rotary_factor", 0.5), Contains("partial_rotary_factor"));
}

TEST_CASE("what this program does not compute is refused by name") {
  const json gpt2 = gpt2_config(), qwen2 = qwen2_config();
  CHECK_THAT(refusal(gpt2, "model_type", "mamba"),
             Contains("mamba") && Contains("gpt2, qwen2, llama, qwen3, mistral or gemma3_text"));
  CHECK_THAT(refusal(gpt2, "activation_function", "relu"),
             Contains("activation_function = \"relu\"") && Contains("gelu_new"));
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    CHECK_THAT(refusal(gpt2, key, true), Contains(key) && Contains("because only false is"));
  }
  CHECK_THAT(refusal(gpt2, "scale_attn_weights", false), Contains("because only true is"));
  CHECK_THAT(refusal(gpt2, "n_layer", nullptr), Contains("lacks n_layer"));
  for (const json& value :
       {json(0), json(-1), json(2.5), json("12"), json(3000000000), json(18446744073709551615u), json(true)}) {
    CHECK_THAT(refusal(gpt2, "n_embd", value), Contains("n_embd"));
  }
  CHECK_THAT(refusal(gpt2, "layer_norm_epsilon", -1e-5), Contains("layer_norm_epsilon"));
  CHECK_THAT(refusal(gpt2, "tie_word_embeddings", 1), Contains("true or false"));
  CHECK_THAT(refusal(qwen2, "hidden_act", "gelu"), Contains("silu"));
  CHECK_THAT(refusal(qwen2, "layer_types", {"full_attention", "sliding_attention"}), Contains("layer_types"));
  CHECK_THAT(refusal(qwen2, "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}), Contains("rope_scaling"));
  CHECK_THAT(refusal(qwen2, "rope_parameters", {{"rope_type", "yarn"}}), Contains("rope_parameters"));
  json llama = qwen2;
  llama["model_type"] = "llama";
  CHECK_THAT(refusal(llama, "mlp_bias", 1), Contains("mlp_bias"));
  for (const json& config : {gpt2, qwen2}) {  // in every family
    CHECK_THAT(refusal(config, "is_causal", false), Contains("is_causal = false") && Contains("only true is"));
    CHECK_THAT(refusal(config, "per_layer_config", {{"1", {{"sliding_window", 3}}}}), Contains("per_layer_config"));
  }
}

TEST_CASE("a configuration that is missing or damaged is refused") {
  const TemporaryFolder folder;
  const auto refused = [&] { return message_of<UsageError>([&] { read_config(folder.path()); }); };
  CHECK_THAT(refused(), Contains("has no config.json"));
  for (const std::string text : {"", "[]", "{", "{\"n_layer\": 1e999}", "{\"model_type\": 3}", "\xff\xfe"}) {
    write_file(folder / "config.json", text);
    CHECK_THAT(refused(), Contains("config.json"));
  }
  write_file(folder / "config.json", std::string(1000000, '['));
  CHECK_THAT(refused(), Contains("not JSON"));
}

TEST_CASE("a configuration that is nested without end is refused") {
  const TemporaryFolder folder;
  const std::string deep = std::string(1000000, '[') + std::string(1000000, ']');
  write_file(folder / "config.json", R"({"model_type":"gpt2","x":)" + deep + "}");
  REQUIRE(message_of<UsageError>([&] {
            read_config(folder.path());
          }).find("config.json is not JSON that is read here: values are nested more than 64 deep.") !=
          std::string::npos);
  write_file(folder / "config.json",
             R"({"model_type":"llama","num_hidden_layers":1,"num_attention_heads":1,"hidden_size":8,
      "intermediate_size":8,"vocab_size":8,"max_position_embeddings":8,"rope_scaling":{"rope_type":[[1]]}})");
  REQUIRE(message_of<UsageError>([&] {
            read_config(folder.path());
          }).find("rope_scaling.rope_type = [...] is not supported") != std::string::npos);
}

TEST_CASE("a mutated configuration gives an architecture or an error") {
  const TemporaryFolder folder;
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string text = (round % 2 ? gpt2_config() : qwen2_config()).dump();
    for (auto edits = 1 + random() % 3; edits > 0; --edits)
      text[random() % text.size()] = static_cast<char>(32 + random() % 95);
    write_file(folder / "config.json", text);
    try {
      const Architecture model = read_config(folder.path());
      if (model.layers < 1 || model.width < 1 || !(model.norm_epsilon > 0)) FAIL(text);
    } catch (const UsageError&) {
    }
  }
  SUCCEED();
}
