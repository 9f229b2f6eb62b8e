#include "gpu_emulator/libraries/cudnn/program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "tessera/base/dtype.hpp"

namespace emulator {

namespace {

using tessera::bf16;
using tessera::fp16;
using tessera::cudnn::Data;
using tessera::cudnn::Kind;
using tessera::cudnn::Pointwise;
using tessera::cudnn::Reduction;

float rounded(Data type, float value) {
  switch (type) {
    case Data::bf16:
      return static_cast<float>(bf16(value));
    case Data::fp16:
      return static_cast<float>(fp16(value));
    default:
      return value;
  }
}

std::int64_t count(const Four& sizes) { return sizes[0] * sizes[1] * sizes[2] * sizes[3]; }

/// Calls f(index) for every place of a tensor.
template <class F>
void for_each(const Four& sizes, F f) {
  Four at{};
  for (at[0] = 0; at[0] < sizes[0]; ++at[0])
    for (at[1] = 0; at[1] < sizes[1]; ++at[1])
      for (at[2] = 0; at[2] < sizes[2]; ++at[2])
        for (at[3] = 0; at[3] < sizes[3]; ++at[3]) f(at);
}

/// The place that `at` of a tensor of `whole` sizes reads: sizes of one are repeated, heads are shared by groups.
Four reading(const Four& at, const Four& whole, const Four& sizes) {
  Four from{};
  for (std::size_t i = 0; i < 4; ++i) from[i] = sizes[i] == 1 ? 0 : at[i] * sizes[i] / whole[i];
  return from;
}

class Run {
 public:
  /// `lengths`: the tensor of how many rows of queries each sequence has; an id of 0: all.
  Run(const GraphMemory& memory, const GraphTensor& lengths) : memory_(memory), lengths_(lengths) {}

  void step(const GraphStep& s) {
    switch (s.kind) {
      case Kind::matmul_operation:
        return matmul(s);
      case Kind::reduction_operation:
        return reduction(s);
      case Kind::reshape_operation:
        return for_each(s.y.sizes, [&](const Four& at) { store(s.y, at, load(s.x, {at[0], at[1], at[3], at[2]})); });
      default:
        return pointwise(s);
    }
  }

 private:
  static std::size_t dense(const GraphTensor& t, const Four& at) {
    return static_cast<std::size_t>(((at[0] * t.sizes[1] + at[1]) * t.sizes[2] + at[2]) * t.sizes[3] + at[3]);
  }

  std::int32_t integer(std::int64_t id, std::int64_t i) const {
    return static_cast<const std::int32_t*>(memory_.addresses.at(id))[i];
  }
  /// How many rows, columns or terms of a sequence count.
  std::int64_t limit(const GraphTensor& lengths, std::int64_t sequence, std::int64_t all) const {
    return lengths.id == 0 ? all : integer(lengths.id, sequence);
  }
  std::int64_t place(const GraphTensor& t, const Four& at) const {
    const std::int64_t first = t.offsets != 0 ? integer(t.offsets, at[0]) : at[0] * t.strides[0];
    return first + at[1] * t.strides[1] + at[2] * t.strides[2] + at[3] * t.strides[3];
  }

  float load(const GraphTensor& t, const Four& at) const {
    if (t.by_value) return memory_.numbers.at(t.id);
    if (t.is_virtual) return passing_.at(t.id)[dense(t, at)];
    // Beyond a sequence of some length lies another one, or nothing. Its tokens are rows, or columns of the transposed.
    const std::size_t tokens = t.strides[2] == 1 && t.strides[3] > 1 ? 3 : 2;
    if (t.offsets != 0 && at[tokens] >= limit(lengths_, at[0], t.sizes[tokens]))
      return std::numeric_limits<float>::quiet_NaN();
    const void* const data = memory_.addresses.at(t.id);
    const std::int64_t i = place(t, at);
    switch (t.type) {
      case Data::int32:
        return static_cast<float>(static_cast<const std::int32_t*>(data)[i]);
      case Data::bf16:
        return static_cast<float>(static_cast<const bf16*>(data)[i]);
      case Data::fp16:
        return static_cast<float>(static_cast<const fp16*>(data)[i]);
      default:
        return static_cast<const float*>(data)[i];
    }
  }

  void store(const GraphTensor& t, const Four& at, float value) {
    if (t.is_virtual) {
      auto& values = passing_[t.id];
      values.resize(static_cast<std::size_t>(count(t.sizes)), std::numeric_limits<float>::quiet_NaN());
      values[dense(t, at)] = rounded(t.type, value);
      return;
    }
    if (t.offsets != 0 && at[2] >= limit(lengths_, at[0], t.sizes[2])) return;
    void* const data = memory_.addresses.at(t.id);
    const std::int64_t i = place(t, at);
    switch (t.type) {
      case Data::bf16:
        static_cast<bf16*>(data)[i] = bf16(value);
        break;
      case Data::fp16:
        static_cast<fp16*>(data)[i] = fp16(value);
        break;
      default:
        static_cast<float*>(data)[i] = value;
    }
  }

  void matmul(const GraphStep& s) {
    for_each(s.y.sizes, [&](const Four& at) {
      const bool counts = at[2] < limit(s.rows, at[0], s.y.sizes[2]) && at[3] < limit(s.columns, at[0], s.y.sizes[3]);
      if (!counts) return store(s.y, at, std::numeric_limits<float>::quiet_NaN());
      const std::int64_t depth = limit(s.depth, at[0], s.x.sizes[3]);
      Four a = reading(at, s.y.sizes, s.x.sizes), b = reading(at, s.y.sizes, s.b.sizes);
      a[2] = at[2], b[3] = at[3];
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        a[3] = b[2] = k;
        sum += static_cast<double>(load(s.x, a)) * static_cast<double>(load(s.b, b));
      }
      store(s.y, at, static_cast<float>(sum));
    });
  }

  void reduction(const GraphStep& s) {
    const bool adds = s.mode == static_cast<int>(Reduction::add);
    std::vector<double> out(static_cast<std::size_t>(count(s.y.sizes)),
                            adds ? 0 : -std::numeric_limits<double>::infinity());
    for_each(s.x.sizes, [&](const Four& at) {
      double& place = out[dense(s.y, reading(at, s.x.sizes, s.y.sizes))];
      const auto value = static_cast<double>(load(s.x, at));
      place = adds ? place + value : (value > place || std::isnan(value) ? value : place);
    });
    for_each(s.y.sizes, [&](const Four& at) { store(s.y, at, static_cast<float>(out[dense(s.y, at)])); });
  }

  void pointwise(const GraphStep& s) {
    for_each(s.y.sizes, [&](const Four& at) {
      const float x = load(s.x, reading(at, s.y.sizes, s.x.sizes));
      const float b = s.b.id != 0 ? load(s.b, reading(at, s.y.sizes, s.b.sizes)) : 0.0f;
      store(s.y, at, value(s, at, x, b));
    });
  }

  float value(const GraphStep& s, const Four& at, float x, float b) const {
    switch (static_cast<Pointwise>(s.mode)) {
      case Pointwise::add:
        return x + b;
      case Pointwise::multiply:
        return x * b;
      case Pointwise::divide:
        return x / b;
      case Pointwise::subtract:
        return x - b;
      case Pointwise::exp:
        return std::exp(x);
      case Pointwise::log:
        return std::log(x);
      case Pointwise::identity:
        return x;
      case Pointwise::greater_or_equal:
        return x >= b ? 1.0f : 0.0f;
      case Pointwise::less:
        return x < b ? 1.0f : 0.0f;
      case Pointwise::both:
        return x != 0 && b != 0 ? 1.0f : 0.0f;
      case Pointwise::index:
        return static_cast<float>(at[static_cast<std::size_t>(s.axis)]);
      case Pointwise::select:
        return load(s.condition, at) != 0 ? x : b;
    }
    throw std::runtime_error("the emulated cuDNN has no pointwise mode " + std::to_string(s.mode));
  }

  const GraphMemory& memory_;
  const GraphTensor& lengths_;
  std::map<std::int64_t, std::vector<float>> passing_;
};

/// Every size of `part` is that of `whole`, or one.
bool repeats(const GraphTensor& part, const GraphTensor& whole) {
  for (std::size_t i = 0; i < 4; ++i) {
    if (part.sizes[i] != whole.sizes[i] && part.sizes[i] != 1) return false;
  }
  return true;
}

bool shares_heads(const GraphTensor& few, const GraphTensor& many) {
  return few.sizes[0] == many.sizes[0] && few.sizes[1] > 0 && many.sizes[1] % few.sizes[1] == 0;
}

}  // namespace

bool is_consistent(const GraphStep& s) {
  if (s.y.by_value) return false;
  switch (s.kind) {
    case Kind::matmul_operation:
      return s.x.sizes[3] == s.b.sizes[2] && s.x.sizes[2] == s.y.sizes[2] && s.b.sizes[3] == s.y.sizes[3] &&
             shares_heads(s.x, s.y) && shares_heads(s.b, s.y);
    case Kind::reduction_operation:
      return repeats(s.y, s.x) ||
             (shares_heads(s.y, s.x) && s.x.sizes[2] == s.y.sizes[2] && s.x.sizes[3] == s.y.sizes[3]);
    case Kind::reshape_operation:
      return s.y.sizes == Four{s.x.sizes[0], s.x.sizes[1], s.x.sizes[3], s.x.sizes[2]} &&
             s.y.strides == Four{s.x.strides[0], s.x.strides[1], s.x.strides[3], s.x.strides[2]};
    default:
      return repeats(s.x, s.y) && (s.b.id == 0 || repeats(s.b, s.y)) &&
             (s.condition.id == 0 || (s.condition.sizes == s.y.sizes && s.condition.type == Data::boolean));
  }
}

bool is_deterministic_backward(const GraphProgram& program) {
  return std::ranges::count(program, Kind::matmul_operation, &GraphStep::kind) == 5 &&
         program.back().kind == Kind::matmul_operation;
}

bool has_lengths(const GraphProgram& program) {
  return std::ranges::any_of(program, [](const GraphStep& s) { return s.rows.id != 0; });
}

namespace {

/// Returns whether lengths limit no matmul, or each as its place in attention says: scores have rows and columns, what
/// is made of them rows and depth.
bool is_limited_alike(const GraphProgram& program) {
  const bool limited = has_lengths(program);
  std::vector<const GraphStep*> matmuls;
  for (const GraphStep& s : program) {
    if (s.kind == Kind::matmul_operation) matmuls.push_back(&s);
  }
  for (std::size_t i = 0; i < matmuls.size(); ++i) {
    const GraphStep& s = *matmuls[i];
    const bool makes_scores = i == 0 || (i == 2 && matmuls.size() == 5);
    const bool columns = limited && makes_scores, depth = limited && !makes_scores;
    if ((s.rows.id != 0) != limited || (s.columns.id != 0) != columns || (s.depth.id != 0) != depth) return false;
  }
  return true;
}

}  // namespace

bool is_known(const GraphProgram& program) {
  if (!is_limited_alike(program)) return false;
  constexpr int kMatmul = 10000, kTurn = 20000, kReduce = 30000;
  std::vector<int> codes;
  for (const GraphStep& s : program) {
    codes.push_back(s.kind == Kind::matmul_operation      ? kMatmul
                    : s.kind == Kind::reshape_operation   ? kTurn
                    : s.kind == Kind::reduction_operation ? kReduce + s.mode
                                                          : s.mode);
  }
  // A mask of lengths comes between the factor of the scores and what follows.
  if (has_lengths(program)) {
    const std::vector<int> lengths = {501, 501, 304, 304, 400, 601};
    const auto found = std::ranges::search(codes, lengths);
    if (found.empty() || found.begin() - codes.begin() < 2 || *(found.begin() - 2) != kMatmul) return false;
    codes.erase(found.begin(), found.end());
  }
  const std::vector<int> forward = {kMatmul, 1, 501, 501, 303, 601, kReduce + 3, 9, 13, kReduce, 15, 0, 6, kMatmul};
  const std::vector<int> backward = {1,     kReduce, 1,       kMatmul, 1, 9, 501,   501,     303,   601,     13,
                                     kTurn, kMatmul, kMatmul, 9,       1, 1, kTurn, kMatmul, kTurn, kMatmul, 21};
  const std::vector<int> shared = {1,   kReduce, 1,     kMatmul, 1,       9,       501,     501,
                                   303, 601,     13,    kTurn,   kMatmul, kReduce, kMatmul, 9,
                                   1,   1,       kTurn, kMatmul, kReduce, kTurn,   kMatmul, 21};
  if (is_deterministic_backward(program)) codes.push_back(21);  // otherwise it is the same
  return codes == forward || codes == backward || codes == shared;
}

void run(const GraphProgram& program, const GraphMemory& memory) {
  const auto limited = std::ranges::find_if(program, [](const GraphStep& s) { return s.rows.id != 0; });
  const GraphTensor none, &lengths = limited == program.end() ? none : limited->rows;
  Run run(memory, lengths);
  for (const GraphStep& step : program) run.step(step);
}

}  // namespace emulator
