#include "formats/refuse_folder.hpp"

#include <algorithm>

#include "tessera/base/shown.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/files/json_file.hpp"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// Files that show what a folder is, by the beginnings and ends of their names.
struct Sign {
  std::string_view begin, end, what, remedy;
};

constexpr std::string_view kSaveAgain =
    "Load it in Python with from_pretrained of Transformers, and save it with save_pretrained";
constexpr std::string_view kOriginal = "Give the folder for Transformers, with config.json and model.safetensors";

constexpr Sign kSigns[] = {
    {"adapter_config.json", "", "is an adapter (LoRA) without its model",
     "Name its model, and give this folder as lora.from"},
    {"model-", ".safetensors", "is one of several files, and model.safetensors.index.json says which tensor is where",
     "Complete the download"},
    {"consolidated.", "", "holds weights in the form of their publisher", kOriginal},
    {"pytorch_model", ".bin", "holds weights in PyTorch's own format", kSaveAgain},
    {"tf_model", ".h5", "holds weights of TensorFlow", kSaveAgain},
    {"flax_model", ".msgpack", "holds weights of Flax", kSaveAgain},
    {"", ".gguf", "holds weights for llama.cpp", kOriginal},
    {"", ".onnx", "holds a graph of ONNX", kOriginal},
    {"", ".pth", "holds weights in PyTorch's own format", kSaveAgain},
    {"", ".pt", "holds weights in PyTorch's own format", kSaveAgain},
    {"", ".ckpt", "holds weights in PyTorch's own format", kSaveAgain},
};

/// Returns what a link that leads nowhere names; nothing for all else.
std::string broken_link(const fs::path& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error) || fs::exists(path, error)) return {};
  return fs::read_symlink(path, error).string();
}

}  // namespace

std::string quantization_of(const fs::path& folder) {
  for (const char* name : {"quantize_config.json", "quant_config.json"}) {
    if (path_exists(folder / name)) return name;
  }
  constexpr std::int64_t largest_file = 16 << 20;
  if (!path_exists(folder / "config.json")) return {};
  const nlohmann::json config = read_json_object(folder / "config.json", largest_file);
  const auto how = config.find("quantization_config");
  if (how == config.end() || !how->is_object()) return {};
  const auto method = how->find("quant_method");
  return method != how->end() && method->is_string() ? shown(method->get<std::string>()) : "quantization_config";
}

Refusal refuse_folder(const fs::path& folder, std::string_view missing) {
  if (const std::string target = broken_link(folder / missing); !target.empty()) {
    return refusal("{} is a link to {}, where nothing is", (folder / missing).string(), shown(target))
        .hint("Complete the download, or copy the folder with the files that its links name (cp -L)");
  }
  Refusal lacks = refusal("{} has no {}", folder.string(), missing);
  std::error_code ignored;
  const std::vector<std::string> snapshots = names_in(folder / "snapshots", ignored);
  if (!snapshots.empty()) {
    return lacks.because("it is the outer folder of a model in the hub's cache")
        .use("{}", (folder / "snapshots" / snapshots.front()).string());
  }
  const std::vector<std::string> names = names_in(folder, ignored);
  for (const Sign& sign : kSigns) {
    const auto name = std::ranges::find_if(
        names, [&](const std::string& one) { return one.starts_with(sign.begin) && one.ends_with(sign.end); });
    if (name != names.end()) return lacks.because("{} {}", shown(*name), sign.what).hint("{}", sign.remedy);
  }
  return lacks.hint("Complete the download, or give the folder for Transformers, which has it");
}

}  // namespace tessera
