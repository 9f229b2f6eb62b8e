#include "tessera/convert/convert.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "convert/merge.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/checkpoint/manifest.hpp"
#include "tessera/checkpoint/shard_file.hpp"
#include "tessera/convert/hugging_face_companions.hpp"
#include "tessera/convert/tensor_stream.hpp"
#include "tessera/files/durable_file.hpp"
#include "tessera/files/fresh_output.hpp"
#include "tessera/files/hdf5_data.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/formats/hugging_face_json.hpp"
#include "tessera/formats/peft.hpp"

namespace tessera {

namespace {

/// One file of a folder of weights: the tensors in it.
struct WeightFile {
  std::string name;
  std::vector<std::size_t> tensors;
  std::int64_t bytes = 0;
};

/// Divides tensors in their order; starts a new file when the next tensor does not fit any more.
std::vector<WeightFile> divide_into_files(const std::vector<TensorRecord>& tensors, DType dtype, std::int64_t largest) {
  std::vector<WeightFile> files(1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t bytes = tensors[i].elements * size_of(dtype);
    if (largest > 0 && files.back().bytes > 0 && files.back().bytes + bytes > largest) files.emplace_back();
    files.back().tensors.push_back(i);
    files.back().bytes += bytes;
  }
  files.front().name = "model.safetensors";
  for (std::size_t i = 0; files.size() > 1 && i < files.size(); ++i)
    files[i].name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
  return files;
}

const char* safetensors_dtype(DType dtype) {
  return dtype == DType::fp32 ? "F32" : dtype == DType::bf16 ? "BF16" : "F16";
}

/// Writes 8 bytes of size, then the header padded with blanks to a multiple of 8, as the reference implementation does.
std::string safetensors_header(const std::vector<TensorRecord>& tensors, const WeightFile& file, DType dtype) {
  nlohmann::ordered_json json;
  json["__metadata__"] = {{"format", "pt"}};
  std::int64_t at = 0;
  for (const std::size_t i : file.tensors) {
    const std::int64_t end = at + tensors[i].elements * size_of(dtype);
    json[tensors[i].name] = {
        {"dtype", safetensors_dtype(dtype)}, {"shape", tensors[i].shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

void write_weights(const std::filesystem::path& folder, const TensorStream& weights, const WeightFile& file,
                   DType dtype) {
  SequentialFile out(folder / file.name);
  const std::string header = safetensors_header(weights.tensors, file, dtype);
  out.append(header.data(), static_cast<std::int64_t>(header.size()));
  for (const std::size_t i : file.tensors)
    weights.read(i, [&](std::int64_t, std::span<const float> values) { append_as(out, dtype, values); });
  out.finish();
}

void write_index(const std::filesystem::path& folder, const std::vector<TensorRecord>& tensors,
                 const std::vector<WeightFile>& files) {
  nlohmann::ordered_json json;
  std::int64_t bytes = 0;
  for (const WeightFile& file : files) bytes += file.bytes;
  json["metadata"] = {{"total_size", bytes}};
  for (const WeightFile& file : files) {
    for (const std::size_t i : file.tensors) json["weight_map"][tensors[i].name] = file.name;
  }
  write_text_atomically(folder / "model.safetensors.index.json", json.dump(2) + "\n");
}

void write_full_state(const std::filesystem::path& path, const CheckpointReader& checkpoint) {
  const Manifest& manifest = checkpoint.manifest();
  Hdf5File file = Hdf5File::create(path);
  hdf5_write_attribute(file.id(), "format", "tessera full state");
  hdf5_write_attribute(file.id(), "format_version", kCheckpointSchema);
  hdf5_write_attribute(file.id(), "step", manifest.step);
  hdf5_write_attribute(file.id(), "adam_step", manifest.optimizer.adam_step);
  hdf5_write_attribute(file.id(), "skipped_steps", manifest.optimizer.skipped_steps);
  hdf5_write_attribute(file.id(), "loss_scale", manifest.optimizer.loss_scale);
  for (const StateKind kind : kinds_of(manifest.content)) {
    const Hdf5Group group = hdf5_create_group(file.id(), std::string(name_of(kind)));
    for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
      if (!manifest.tensors[i].keeps(kind)) continue;
      auto array = Hdf5Array<float>::create(group.id(), manifest.tensors[i].name, manifest.tensors[i].shape);
      stream_tensor(checkpoint, kind, i,
                    [&](std::int64_t first, std::span<const float> values) { array.write(first, values); });
    }
  }
  file.close();
  sync_file(path);
}

}  // namespace

void import_hugging_face(const std::filesystem::path& source, const std::filesystem::path& path,
                         const NamedTexts& provenance) {
  Manifest manifest;
  manifest.architecture = read_config(source);
  validate(manifest.architecture);
  const std::vector<ParameterTensor> tensors = parameter_tensors(manifest.architecture);
  const HuggingFaceWeights weights(source, tensors);
  FreshFolder folder(path);
  copy_companions(source, folder.beside() / kCompanionFolder);
  keep_dtype(folder.beside() / kCompanionFolder, weights.dtype());
  manifest.grid.strategy = "none";
  manifest.tensors = tensor_records(tensors);
  manifest.provenance = provenance;
  std::vector<ElementRun> runs;
  std::vector<std::int64_t> begins;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    runs.push_back({static_cast<std::int64_t>(i), 0, manifest.tensors[i].elements});
    begins.push_back(all);
    all += manifest.tensors[i].elements;
  }
  const ElementSource elements = [&](StateKind kind, std::int64_t first, std::span<float> out) {
    if (kind != StateKind::parameter) return std::fill(out.begin(), out.end(), 0.0F);
    auto tensor = static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), first) - begins.begin()) - 1;
    for (std::size_t done = 0; done < out.size(); ++tensor) {
      const std::int64_t into = first + static_cast<std::int64_t>(done) - begins[tensor];
      const auto count = static_cast<std::size_t>(std::min<std::int64_t>(manifest.tensors[tensor].elements - into,
                                                                         static_cast<std::int64_t>(out.size() - done)));
      weights.read(TensorId(tensor), into, out.subspan(done, count));
      done += count;
    }
  };
  manifest.files.push_back(write_shard(folder.beside(), 0, manifest.tensors, runs, elements));
  manifest.files.push_back(write_virtual_tensors(folder.beside(), manifest.tensors, manifest.files));
  write_text_atomically(folder.beside() / std::string(kManifestName), manifest_text(manifest));
  folder.finish();
}

void write_peft(const std::filesystem::path& path, const CheckpointReader& checkpoint, DType dtype) {
  const Manifest& manifest = checkpoint.manifest();
  FreshFolder folder(path);
  TensorStream adapters = stream_of(checkpoint);
  const bool sees_pictures = base_sees_pictures(checkpoint.folder(), manifest);
  for (TensorRecord& tensor : adapters.tensors) tensor.name = peft_name(tensor.name, sees_pictures);
  WeightFile file;
  file.name = kPeftWeights;
  for (std::size_t i = 0; i < adapters.tensors.size(); ++i) file.tensors.push_back(i);
  write_weights(folder.beside(), adapters, file, dtype);
  const nlohmann::ordered_json config =
      peft_config(manifest.architecture, manifest.option("model.from"), sees_pictures);
  write_text_atomically(folder.beside() / kPeftConfig, config.dump(2) + "\n");
  folder.finish();
}

bool write_hugging_face(const std::filesystem::path& path, const CheckpointReader& checkpoint, DType dtype,
                        std::int64_t largest_file, bool full_state) {
  if (full_state && checkpoint.manifest().content == StateContent::weights) {
    throw refuse("export.optimizer", true).because("{} holds weights only", checkpoint.folder().string()).use("false");
  }
  const bool merges = checkpoint.manifest().architecture.adapters.on();
  const TensorStream weights = merges ? merged_stream(checkpoint) : stream_of(checkpoint);
  FreshFolder folder(path);
  const auto files = divide_into_files(weights.tensors, dtype, largest_file);
  for (const WeightFile& file : files) write_weights(folder.beside(), weights, file, dtype);
  if (files.size() > 1) write_index(folder.beside(), weights.tensors, files);
  nlohmann::ordered_json config = config_of(checkpoint.manifest().architecture);
  if (const auto origin = copy_companions_of(checkpoint.folder(), checkpoint.manifest(), folder.beside());
      !origin.empty()) {
    restore_kept_keys(origin, config);
  }
  if (add_byte_tokenizer(checkpoint.manifest(), folder.beside()))
    config["bos_token_id"] = config["eos_token_id"] = nullptr;  // Transformers' defaults are GPT-2's, 50256
  config["torch_dtype"] = torch_name_of(dtype);
  write_text_atomically(folder.beside() / "config.json", config.dump(2) + "\n");
  const bool is_settled = finish_tokenizer(folder.beside());
  if (full_state) write_full_state(folder.beside() / "state.h5", checkpoint);
  folder.finish();
  return is_settled;
}

}  // namespace tessera
