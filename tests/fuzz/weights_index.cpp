// model.safetensors.index.json, next to a file with one tensor.
#include "fuzz/target.hpp"
#include "tessera/formats/hugging_face.hpp"

using namespace tessera;

namespace {

/// A safetensors file with the tensor "w", two fp32 numbers.
std::string one_tensor() {
  std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(8, '\0');
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto weights = fuzz::write_input("weights.safetensors", one_tensor());
  fuzz::write_input("model.safetensors.index.json", fuzz::text_of(data, size));
  ParameterTensor expected;
  expected.name = "w", expected.shape = {2}, expected.elements = 2, expected.is_table = true;
  fuzz::read_hostile([&] {
    const HuggingFaceWeights read(weights.parent_path(), {expected});
    std::vector<float> values(2);
    read.read(TensorId(0), 0, values);
  });
  return 0;
}
