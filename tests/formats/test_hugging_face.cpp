#include <nlohmann/json.hpp>
#include <optional>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"
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

ParameterTensor tensor(const std::string& name, std::vector<std::int64_t> shape) {
  std::int64_t elements = 1;
  for (const auto extent : shape) elements *= extent;
  ParameterTensor result;
  result.name = name;
  result.shape = std::move(shape);
  result.elements = elements;
  return result;
}

/// A model of three tensors, as the inventory names them.
std::vector<ParameterTensor> expected() {
  std::vector<ParameterTensor> tensors{tensor("transformer.wte.weight", {5, 4}),
                                       tensor("transformer.h.0.attn.c_attn.bias", {12}),
                                       tensor("transformer.ln_f.weight", {4})};
  tensors.front().is_table = true;
  return tensors;
}

RawTensor raw(const std::string& name, std::vector<std::int64_t> shape, float start) {
  std::int64_t elements = 1;
  for (const auto extent : shape) elements *= extent;
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<float>(i);
  return {name, "F32", std::move(shape), bytes_of(values)};
}

std::vector<RawTensor> stored(const std::string& prefix) {
  return {raw(prefix + "h.0.attn.c_attn.bias", {12}, 200), raw(prefix + "ln_f.weight", {4}, 300),
          raw(prefix + "wte.weight", {5, 4}, 100)};
}

void check_values(const HuggingFaceWeights& weights) {
  for (const TensorId id : std::views::iota(TensorId(0), TensorId(3))) {
    std::vector<float> some(3);
    weights.read(id, 1, some);
    const float start = 100.0f * static_cast<float>(id.number() + 1);
    CHECK(some == std::vector<float>{start + 1, start + 2, start + 3});
  }
}

std::string weights_refusal(const std::vector<RawTensor>& tensors) {
  const TemporaryFolder folder;
  write_safetensors(folder / "model.safetensors", tensors);
  return message_of<UsageError>([&] { HuggingFaceWeights(folder.path(), expected()); });
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

TEST_CASE("the text's weights are found in a model that sees pictures") {
  for (const std::string prefix : {"language_model.model.", "model.language_model.", "model.", ""}) {
    INFO(prefix);
    std::vector<ParameterTensor> tensors{tensor("model.embed_tokens.weight", {5, 4}), tensor("model.norm.weight", {4})};
    tensors.front().is_table = true;
    const TemporaryFolder folder;
    write_safetensors(folder / "model.safetensors",
                      {raw(prefix + "embed_tokens.weight", {5, 4}, 1), raw(prefix + "norm.weight", {4}, 2),
                       raw("vision_tower.a.weight", {2}, 3), raw("model.multi_modal_projector.b", {2}, 4)});
    std::vector<float> values(4);
    HuggingFaceWeights(folder.path(), tensors).read(TensorId(1), 0, values);
    CHECK(values.front() == 2);
  }
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

TEST_CASE("weights are found with and without the prefix, and known buffers are skipped") {
  for (const std::string prefix : {"", "transformer."}) {
    const TemporaryFolder folder;
    std::vector<RawTensor> tensors = stored(prefix);
    tensors.push_back({prefix + "h.0.attn.bias", "U8", {1, 1, 3, 3}, std::string(9, '\1')});
    tensors.push_back(raw(prefix + "h.0.attn.masked_bias", {}, -1e4f));
    tensors.push_back(raw("model.layers.0.self_attn.rotary_emb.inv_freq", {2}, 1));
    tensors.push_back(raw("lm_head.weight", {5, 4}, 100));
    write_safetensors(folder / "model.safetensors", tensors);
    check_values(HuggingFaceWeights(folder.path(), expected()));
  }
}

TEST_CASE("a head that is tied and yet another one is refused, in any float type") {
  std::vector<RawTensor> tensors = stored("transformer.");
  tensors.push_back(raw("lm_head.weight", {5, 4}, 100));
  tensors.back().bytes[4 * 19] ^= 1;  // the last bit of the last element
  CHECK_THAT(weights_refusal(tensors), Contains("lm_head.weight") && Contains("transformer.wte.weight") &&
                                           Contains("tie_word_embeddings = false"));
  tensors.back() = raw("lm_head.weight", {4, 5}, 100);
  CHECK_THAT(weights_refusal(tensors), Contains("lm_head.weight"));
}

TEST_CASE("weights that are no numbers are named when they are read") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    const TemporaryFolder folder;
    std::vector<RawTensor> tensors = stored("");
    std::memcpy(tensors[0].bytes.data() + 4 * 7, &bad, sizeof bad);
    write_safetensors(folder / "model.safetensors", tensors);
    const HuggingFaceWeights weights(folder.path(), expected());
    std::vector<float> some(3);
    weights.read(TensorId(1), 0, some);
    CHECK_THAT(message_of<UsageError>([&] { weights.read(TensorId(1), 5, some); }),
               Contains("h.0.attn.c_attn.bias") && Contains("element 7"));
  }
}

TEST_CASE("an untied head is read like any tensor") {
  const TemporaryFolder folder;
  auto tensors = stored("transformer.");
  auto wanted = expected();
  wanted.push_back(tensor("lm_head.weight", {5, 4}));
  write_safetensors(folder / "model.safetensors", tensors);
  CHECK_THAT(message_of<UsageError>([&] { HuggingFaceWeights(folder.path(), wanted); }), Contains("lm_head.weight"));
  tensors.push_back(raw("lm_head.weight", {5, 4}, 400));
  write_safetensors(folder / "model.safetensors", tensors);
  std::vector<float> last(1);
  HuggingFaceWeights(folder.path(), wanted).read(TensorId(3), 19, last);
  CHECK(last[0] == 419);
}

TEST_CASE("missing, extra, double and misshaped tensors are errors that name them") {
  auto tensors = stored("");
  tensors.erase(tensors.begin() + 1);
  CHECK_THAT(weights_refusal(tensors), Contains("no tensor transformer.ln_f.weight"));
  tensors = stored("");
  tensors.push_back(raw("h.1.attn.c_attn.bias", {12}, 0));
  CHECK_THAT(weights_refusal(tensors), Contains("h.1.attn.c_attn.bias that this model does not have"));
  tensors = stored("");
  tensors.push_back(raw("transformer.ln_f.weight", {4}, 0));
  CHECK_THAT(weights_refusal(tensors), Contains("ln_f.weight is there twice"));
  tensors = stored("");
  tensors[2] = raw("wte.weight", {4, 5}, 0);
  CHECK_THAT(weights_refusal(tensors), Contains("wte.weight") && Contains("[4, 5]") && Contains("[5, 4]"));
  tensors = stored("");
  tensors[0] = {"h.0.attn.c_attn.bias", "I32", {12}, std::string(48, '\0')};
  CHECK_THAT(weights_refusal(tensors), Contains("c_attn.bias") && Contains("I32"));
}

TEST_CASE("weights may lie in several files with an index") {
  const TemporaryFolder folder;
  const auto refused = [&] { return message_of<UsageError>([&] { HuggingFaceWeights(folder.path(), expected()); }); };
  CHECK_THAT(refused(), Contains("has no model.safetensors"));
  const auto tensors = stored("transformer.");
  write_safetensors(folder / "a.safetensors", {tensors[0], tensors[1]});
  write_safetensors(folder / "b.safetensors", {tensors[2]});
  json index = {
      {"metadata", {{"total_size", 144}}},
      {"weight_map",
       {{tensors[0].name, "a.safetensors"}, {tensors[1].name, "a.safetensors"}, {tensors[2].name, "b.safetensors"}}}};
  const auto write_index = [&] { write_file(folder / "model.safetensors.index.json", index.dump()); };
  write_index();
  const HuggingFaceWeights weights(folder.path(), expected());
  CHECK(weights.files() == 2);
  check_values(weights);

  for (const std::string outside : {"../a.safetensors", "/etc/passwd", "x/../../a", "..", ".", "", "x\\y"}) {
    index["weight_map"][tensors[0].name] = outside;
    write_index();
    CHECK_THAT(refused(), Contains("inside the folder") && Contains(tensors[0].name));
  }
  index["weight_map"][tensors[0].name] = "b.safetensors";
  write_index();
  CHECK_THAT(refused(), Contains("b.safetensors has no tensor " + tensors[0].name));
  index["weight_map"][tensors[0].name] = "c.safetensors";
  write_index();
  CHECK_THAT(refused(), Contains("has no c.safetensors"));
  index["weight_map"] = json::array({1});
  write_index();
  CHECK_THAT(refused(), Contains("weight_map"));
}

TEST_CASE("The index decides which copy of a tensor counts") {
  const TemporaryFolder folder;
  const auto tensors = stored("transformer.");
  auto shard = tensors;
  shard[1] = raw(tensors[1].name, {4}, 7);  // replaced by another file
  shard.push_back(raw("transformer.h.9.extra", {3}, 0));
  write_safetensors(folder / "a.safetensors", shard);
  write_safetensors(folder / "overlay.safetensors", {tensors[1]});
  const json index = {{"weight_map",
                       {{tensors[0].name, "a.safetensors"},
                        {tensors[1].name, "overlay.safetensors"},
                        {tensors[2].name, "a.safetensors"}}}};
  write_file(folder / "model.safetensors.index.json", index.dump());
  check_values(HuggingFaceWeights(folder.path(), expected()));
}

TEST_CASE("A tied table may have the head's name") {
  const TemporaryFolder folder;
  auto tensors = stored("transformer.");
  tensors[2].name = "lm_head.weight";
  write_safetensors(folder / "model.safetensors", tensors);
  check_values(HuggingFaceWeights(folder.path(), expected()));
  tensors[2] = raw("lm_head.weight", {4, 5}, 100);
  CHECK_THAT(weights_refusal(tensors), Contains("lm_head.weight") && Contains("[4, 5]"));
}

TEST_CASE("Names with a wrapper's prefix, and quantized tensors, are refused with the reason") {
  for (const std::string wrapper : {"_orig_mod.", "module.", "base_model.model."}) {
    for (const std::string prefix : {"", "transformer."}) {
      CHECK_THAT(weights_refusal(stored(wrapper + prefix)), Contains("the prefix " + wrapper));
    }
  }
  auto tensors = stored("");
  tensors.push_back(raw("h.0.attn.c_attn.qweight", {3}, 0));
  CHECK_THAT(weights_refusal(tensors), Contains("quantized") && !Contains("prefix"));
  const TemporaryFolder folder;
  write_file(folder / "config.json", R"({"quantization_config": {"quant_method": "bitsandbytes"}})");
  write_safetensors(folder / "model.safetensors", stored(""));
  check_values(HuggingFaceWeights(folder.path(), expected()));  // the key may have been left behind
  tensors = stored("");
  tensors[2] = {"wte.weight", "U8", {10, 1}, std::string(10, '\1')};
  write_safetensors(folder / "model.safetensors", tensors);
  CHECK_THAT(message_of<UsageError>([&] { HuggingFaceWeights(folder.path(), expected()); }),
             Contains("a quantized model (bitsandbytes)"));
}

TEST_CASE("What a folder is instead of a model is said by name, with what to do") {
  const auto refused = [](const std::string& file, const std::string& beside) {
    const TemporaryFolder folder;
    write_file(folder / file, "x");
    if (!beside.empty()) write_file(folder / beside, "{}");
    return message_of<UsageError>([&] {
      if (beside.empty()) read_config(folder.path());
      HuggingFaceWeights(folder.path(), expected());
    });
  };
  for (const std::string beside : {"", "config.json"}) {
    CHECK_THAT(refused("adapter_config.json", beside), Contains("an adapter (LoRA)") && Contains("merge_and_unload"));
    CHECK_THAT(refused("pytorch_model-00001-of-00002.bin", beside),
               Contains("pytorch_model-00001-of-00002.bin") && Contains("save_pretrained"));
    CHECK_THAT(refused("model.Q4.gguf", beside), Contains("model.Q4.gguf"));
    CHECK_THAT(refused("consolidated.00.pth", beside), Contains("consolidated.00.pth") && Contains("publisher"));
    CHECK_THAT(refused("model-00001-of-00002.safetensors", beside), Contains("model.safetensors.index.json"));
    CHECK_THAT(refused("else", beside), Contains("Complete the download"));
  }
  const TemporaryFolder cache;
  std::filesystem::create_directories(cache / "snapshots/0123");
  CHECK_THAT(message_of<UsageError>([&] { read_config(cache.path()); }), Contains("snapshots/0123"));
  std::filesystem::create_symlink("../blobs/x", cache / "model.safetensors");
  CHECK_THAT(message_of<UsageError>([&] { HuggingFaceWeights(cache.path(), expected()); }),
             Contains("is a link to ../blobs/x, where nothing is"));
  std::filesystem::remove(cache / "model.safetensors");
  write_file(cache / "model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  CHECK_THAT(message_of<UsageError>([&] { HuggingFaceWeights(cache.path(), expected()); }), Contains("git lfs pull"));
}

TEST_CASE("the reference models are read, and agree with their golden files in names and shapes") {
  const auto reference = std::filesystem::path(TESSERA_REFERENCE_DIR);
  for (const std::string name : {"shallow", "deep", "clipped", "qwen2-tied", "qwen2-untied", "llama3", "qwen3",
                                 "mistral", "gemma3", "gemma3-scaled", "llama-biases", "qwen2-windows"}) {
    const Architecture model = read_config(reference / name);
    const bool is_gpt2 = name == "shallow" || name == "deep" || name == "clipped";
    CHECK((is_gpt2 ? model.family == Family::gpt2 : name.starts_with(name_of(model.family))));
    CHECK(model.ffn_width > 0);
    const Hdf5File golden = Hdf5File::open(reference / name / "golden.h5");
    const Hdf5Group gradients = hdf5_open_group(golden.id(), "gradients");
    const std::vector<ParameterTensor> inventory = parameter_tensors(model);
    CHECK(hdf5_list(gradients.id()).size() == inventory.size());
    for (const ParameterTensor& parameter : inventory) {
      CHECK(Hdf5Array<double>::open(gradients.id(), parameter.name).shape() == parameter.shape);
    }
    const HuggingFaceWeights weights(reference / name, inventory);
    double squares = 0;
    for (std::size_t i = 0; i < inventory.size(); ++i) {
      std::vector<float> values(static_cast<std::size_t>(inventory[i].elements));
      weights.read(TensorId(i), 0, values);
      for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
    }
    CHECK(squares > 1.0);
    CHECK(std::isfinite(squares));
  }
}
