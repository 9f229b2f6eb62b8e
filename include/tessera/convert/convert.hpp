#pragma once
// Weights from other programs into a checkpoint and back, slice by slice, so that a model may be larger than memory.

#include <filesystem>
#include <vector>

#include "tessera/base/dtype.hpp"
#include "tessera/checkpoint/reader.hpp"

namespace tessera {

/// Gives elements [first, first + out.size()) of tensor number `tensor`.
using WeightSource = std::function<void(std::int64_t tensor, std::int64_t first, std::span<float> out)>;

/// Writes a checkpoint of step 0 with these parameters and zero moments, and adds the companion files of folder
/// `companions`, unless that is empty; these keep the type of the weights there, `dtype`. PATH must be missing or an
/// empty folder; it exists only once it is complete. Throws UsageError and IoError.
void write_imported_checkpoint(const std::filesystem::path& path, const Architecture& architecture,
                               const WeightSource& weights, const NamedTexts& provenance,
                               const std::filesystem::path& companions = {}, DType dtype = DType::fp32);

/// Writes a folder that Transformers loads: config.json, the companion files of the origin (companions_of), and
/// model.safetensors. A model larger than `largest_file` bytes (0: no limit) becomes model-0000I-of-0000N.safetensors
/// with an index. With `full_state` also state.h5, one plain HDF5 file with everything: /parameter, /first_moment and
/// /second_moment by name, and the optimizer's scalars as attributes. The same checkpoint gives the same bytes. PATH as
/// above. Returns finish_tokenizer's answer.
bool write_hugging_face(const std::filesystem::path& path, const CheckpointReader& checkpoint, DType dtype,
                        std::int64_t largest_file, bool full_state = false);

/// llm.c's model file (GPT-2 with a tied head and ffn_width = 4 x width, in fp32 or bf16). Provides the shape in its
/// header, and its parameters under Tessera's names and in its layout.
class LlmcFile {
 public:
  /// Throws UsageError if it is not such a file.
  explicit LlmcFile(std::filesystem::path path);
  const Architecture& architecture() const { return architecture_; }
  /// Reads elements. One thread at a time: the last matrix is kept, because it is transposed as a whole.
  void read(std::int64_t tensor, std::int64_t first, std::span<float> out);

 private:
  std::filesystem::path path_;
  Architecture architecture_;
  DType dtype_ = DType::fp32;
  std::vector<std::int64_t> offsets_;  ///< first byte of each tensor
  std::vector<ParameterTensor> tensors_;
  std::int64_t turned_tensor_ = -1;
  std::vector<float> turned_;
};

/// Writes that file, which must not exist. UsageError also if llm.c does not know such a model, or for a dtype of fp16.
void write_llmc(const std::filesystem::path& path, const CheckpointReader& checkpoint, DType dtype);

}  // namespace tessera
