#include <nlohmann/json.hpp>

#include "file_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/formats/hugging_face_json.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

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
  const std::pair<std::string, std::string> wrappers[] = {{"_orig_mod.", "torch.compile"},
                                                          {"module.", "DistributedDataParallel"},
                                                          {"_fsdp_wrapped_module.", "FSDP"},
                                                          {"base_model.model.", "PEFT"}};
  for (const auto& [wrapper, by] : wrappers) {
    for (const std::string prefix : {"", "transformer."}) {
      CHECK_THAT(weights_refusal(stored(wrapper + prefix)),
                 Contains("the prefix " + wrapper + ", which " + by + " puts there"));
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
             Contains("a quantized model (bitsandbytes)") && !Contains("F32"));
  tensors = stored("");
  tensors.push_back(raw("h.0.attn.c_attn.qweight", {3}, 0));
  write_safetensors(folder / "model.safetensors", tensors);
  const std::string twice = message_of<UsageError>([&] { HuggingFaceWeights(folder.path(), expected()); });
  CHECK_THAT(twice, Contains("a quantized model (bitsandbytes)") && Catch::EndsWith("that this model does not have."));
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
    CHECK_THAT(refused("adapter_config.json", beside), Contains("an adapter (LoRA)") && Contains("lora.from"));
    CHECK_THAT(refused("pytorch_model-00001-of-00002.bin", beside),
               Contains("pytorch_model-00001-of-00002.bin") && Contains("save_pretrained"));
    CHECK_THAT(refused("model.Q4.gguf", beside), Contains("model.Q4.gguf"));
    CHECK_THAT(refused("consolidated.00.pth", beside), Contains("consolidated.00.pth") && Contains("publisher"));
    CHECK_THAT(refused("model-00001-of-00002.safetensors", beside), Contains("model.safetensors.index.json"));
    CHECK_THAT(refused("else", beside), Contains("Complete the download"));
  }
  const TemporaryFolder both;
  write_safetensors(both / "model.safetensors", stored(""));
  write_file(both / "adapter_config.json", "{}");
  CHECK_THAT(message_of<UsageError>([&] { HuggingFaceWeights(both.path(), expected()); }),
             Contains("beside the weights of a model") && Contains("lora.from"));
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
