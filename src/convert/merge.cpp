#include "convert/merge.hpp"

#include <algorithm>
#include <memory>

#include "tessera/convert/base_weights.hpp"
#include "tessera/model/adapters.hpp"

namespace tessera {

namespace {

/// A matrix of fp32 numbers.
struct Numbers {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;

  Numbers transposed() const {
    Numbers t{columns, rows, std::vector<float>(values.size())};
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) t.at(c, r) = values[static_cast<std::size_t>(r * columns + c)];
    }
    return t;
  }
  float& at(std::int64_t row, std::int64_t column) { return values[static_cast<std::size_t>(row * columns + column)]; }
};

Numbers read_matrix(const CheckpointReader& checkpoint, std::size_t tensor) {
  const TensorRecord& record = checkpoint.manifest().tensors[tensor];
  Numbers all{record.shape.at(0), record.shape.at(1), {}};
  stream_tensor(checkpoint, StateKind::parameter, tensor, [&](std::int64_t, std::span<const float> values) {
    all.values.insert(all.values.end(), values.begin(), values.end());
  });
  return all;
}

/// What is added to a weight: the product of two matrices, times a factor.
struct Product {
  Numbers left, right;
  float scale = 1;

  /// Adds elements [first, first + values.size()) of the product.
  void add_to(std::int64_t first, std::span<float> values) const {
    const std::int64_t width = right.columns, rank = right.rows;
    std::vector<float> sum(static_cast<std::size_t>(width));
    for (std::int64_t done = 0; done < std::ssize(values);) {
      const std::int64_t row = (first + done) / width, column = (first + done) % width;
      const std::int64_t count = std::min(width - column, std::ssize(values) - done);
      std::fill_n(sum.begin(), count, 0.0F);
      for (std::int64_t r = 0; r < rank; ++r) {
        const float factor = left.values[static_cast<std::size_t>(row * rank + r)];
        const float* const from = right.values.data() + r * width + column;
        for (std::int64_t i = 0; i < count; ++i) sum[static_cast<std::size_t>(i)] += factor * from[i];
      }
      for (std::int64_t i = 0; i < count; ++i)
        values[static_cast<std::size_t>(done + i)] += scale * sum[static_cast<std::size_t>(i)];
      done += count;
    }
  }
};

class Merged {
 public:
  explicit Merged(const CheckpointReader& adapters)
      : adapters_(adapters), base_(adapters.manifest()), hashes_(base_.tensors().size()) {}

  const BaseWeights& base() const { return base_; }

  void read(std::size_t number, const UsePiece& use) {
    const TensorId id(number);
    const ParameterTensor& tensor = base_.tensors()[id];
    const std::optional<Product> added = product_of(tensor);
    std::vector<float> values;
    const ReadTensor read_and_use = [&](TensorId, std::int64_t first, std::span<float> out) {
      base_.read(id, first, out);
      values.assign(out.begin(), out.end());
      if (added) added->add_to(first, values);
      use(first, values);
    };
    hashes_[number] = tensor_hash(read_and_use, id, tensor.elements);
    if (++read_ == hashes_.size()) base_.require(model_hash(hashes_));
  }

 private:
  std::optional<Product> product_of(const ParameterTensor& tensor) const {
    const auto& records = adapters_.manifest().tensors;
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.') + 1);
    const auto place = [&](std::string_view which) {
      const auto found = std::ranges::find(records, module + std::string(which), &TensorRecord::name);
      return static_cast<std::size_t>(found - records.begin());
    };
    const std::size_t a = place(kAdapterA), b = place(kAdapterB);
    if (!tensor.name.ends_with(".weight") || a == records.size() || b == records.size()) return std::nullopt;
    const Architecture& architecture = adapters_.manifest().architecture;
    const auto scale = static_cast<float>(architecture.adapters.scale());
    const Numbers left = read_matrix(adapters_, b), right = read_matrix(adapters_, a);
    if (rules_of(architecture.family).weight_layout == WeightLayout::out_in) return Product{left, right, scale};
    return Product{right.transposed(), left.transposed(), scale};
  }

  const CheckpointReader& adapters_;
  BaseWeights base_;
  std::vector<std::uint64_t> hashes_;  ///< of the base's tensors
  std::size_t read_ = 0;               ///< tensors
};

}  // namespace

TensorStream merged_stream(const CheckpointReader& adapters) {
  const auto merged = std::make_shared<Merged>(adapters);
  const std::vector<ParameterTensor>& tensors = merged->base().tensors();
  return {tensor_records(tensors), [merged](std::size_t tensor, const UsePiece& use) { merged->read(tensor, use); }};
}

}  // namespace tessera
