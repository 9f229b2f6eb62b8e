#pragma once
// From an architecture to parts.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/math.hpp"
#include "tessera/model/parts.hpp"

namespace tessera {

enum class InBackward : bool { not_read, read };

/// Adds parts to a model, and to the last one tensors, matrices, constants and layers.
class PartWriter {
 public:
  explicit PartWriter(ModelParts& model) : model_(model), a_(model.architecture), rules_(rules_of(a_.family)) {}

 protected:
  using Shape = std::vector<std::int64_t>;

  void start(std::string name, PartKind kind, int block) {
    Part& part = model_.parts.emplace_back();
    part.name = std::move(name), part.kind = kind, part.block = block;
    if (kind == PartKind::mlp) part.chunk = model_.mlp_chunk;
    for (const Matrix::Place place : {Matrix::Place::input, Matrix::Place::output})
      part.matrices.push_back({.place = place, .dtype = model_.compute, .rows = rows(), .columns = a_.width});
  }
  Part& part() const { return model_.parts.back(); }
  /// Returns the rows that the part's layers take at a time.
  std::int64_t rows() const { return part().chunk > 0 ? part().chunk : model_.tokens(); }
  Layer& add(Layer layer) { return part().layers.emplace_back(std::move(layer)); }

  MatrixSlice whole(MatrixId id) const { return {id, 0, part().matrices[id].columns}; }
  MatrixSlice input() const { return whole(kPartInput); }
  MatrixSlice output() const { return whole(kPartOutput); }
  MatrixId matrix(const char* name, std::int64_t rows, std::int64_t columns, std::optional<DType> dtype = {}) {
    const DType type = dtype.value_or(model_.compute);
    const MatrixId id = part().matrices.add({.name = name, .dtype = type, .rows = rows, .columns = columns});
    part().matrices[id].gradient_with = id;
    return id;
  }

  ParameterTensor& tensor(std::int32_t place_in_part) {
    return model_.tensors[part().tensors[static_cast<std::size_t>(place_in_part)]];
  }
  /// Adds a tensor to the model and to the part, and returns its place in the part, as the next functions do.
  std::int32_t table(std::string_view module, InBackward in_backward) {
    const std::int32_t at = weight(module, {a_.vocab, a_.width}, in_backward);
    tensor(at).is_table = true;
    return at;
  }
  std::int32_t bias(std::string_view module, std::int64_t elements, InBackward in_backward) {
    return append(module, "bias", {elements}, Initialization::zero, in_backward);
  }
  std::int32_t weight(std::string_view module, Shape shape, InBackward in_backward = InBackward::read,
                      Initialization initialization = Initialization::normal) {
    return append(module, "weight", std::move(shape), initialization, in_backward);
  }
  std::int32_t place(TensorId tensor, InBackward in_backward) {
    part().tensors.push_back(tensor);
    part().read_in_backward.push_back(in_backward == InBackward::read);
    return static_cast<std::int32_t>(part().tensors.size()) - 1;
  }
  /// Returns a table's place among the part's constants. Parts that rotate alike read the same one.
  std::int32_t constant(const RotaryTable& angles) {
    ConstantTensor table{.name = "rotary", .angles = angles};
    table.elements = checked_multiply(model_.generates() ? model_.cache : model_.sequence, angles.width);
    const auto place_in = [](auto& all, const auto& one) {
      const auto found = std::ranges::find(all, one) - all.begin();
      if (found == std::ssize(all)) all.push_back(one);
      return static_cast<std::int32_t>(found);
    };
    return place_in(part().constants, place_in(model_.constants, table));
  }

  ModelParts& model_;
  const Architecture& a_;
  const FamilyRules& rules_;

 private:
  static constexpr double kDeviation = 0.02;  ///< as GPT-2's (Radford et al. 2019) and Hugging Face's initializer_range

  std::int32_t append(std::string_view module, const char* what, Shape shape, Initialization initialization,
                      InBackward in_backward) {
    TESSERA_ASSERT(!module.empty(), "{} has a layer in {} without a name", rules_.name, part().name);
    ParameterTensor t;
    t.block = part().block;
    const std::string block = t.block < 0 ? "" : fmt::format(fmt::runtime(rules_.block), t.block);
    t.name = fmt::format("{}{}{}.{}", module == kHeadModule ? "" : rules_.prefix, block, module, what);
    t.elements = 1;
    for (const std::int64_t side : shape) t.elements = checked_multiply(t.elements, side);
    t.initialization = initialization;
    if (initialization == Initialization::normal) t.standard_deviation = kDeviation;
    t.decays = shape.size() > 1;
    t.shape = std::move(shape);
    return place(model_.tensors.add(std::move(t)), in_backward);
  }
};

/// Appends the parts of `model`, with their layers, and the tensors and constants that these need. The architecture,
/// sizes, types and choices in `model` are there already. UsageError if the architecture is impossible.
void build_layers(ModelParts& model);

/// Adds Architecture::adapters to the linears of blocks: to each module a linear of A and one of B, behind it.
void add_adapters(ModelParts& model);

/// Decides what follows from each part's layers: what it saves, the turns of backward, and by dry runs scratch and
/// FLOPs of each direction.
void plan_parts(ModelParts& model);

}  // namespace tessera
