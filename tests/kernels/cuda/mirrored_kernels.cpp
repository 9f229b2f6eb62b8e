#include "kernels/cuda/mirrored_kernels.hpp"

#include <cstring>
#include <deque>
#include <stdexcept>

#include "kernels/guarded.hpp"
#include "kernels/tested.hpp"
#include "tessera/base/math.hpp"
#include "tessera/kernels/needs.hpp"

namespace tessera::testing {

namespace {

/// The device's copies of one call's memory.
class Mirror {
 public:
  Mirror(tessera::Device& device, Stream& stream) : device_(device), stream_(stream) {}

  /// Returns the device's address for `host`. Memory without a Block has `bytes` bytes from there on.
  template <class T>
  const T* read(const T* host, std::int64_t bytes) {
    return static_cast<const T*>(place(const_cast<T*>(host), bytes, false));
  }
  template <class T>
  T* write(T* host, std::int64_t bytes) {
    return static_cast<T*>(place(host, bytes, true));
  }
  /// Returns the device's addresses of several arrays, which live as long as this.
  std::span<void* const> write(std::span<void* const> arrays, std::int64_t bytes) {
    for (void* const host : arrays) written_.push_back(write(host, bytes));
    return written_;
  }
  void in(ConstView& view, std::int64_t rows, std::int64_t columns) {
    view.data = read(view.data, bytes_of(view, rows, columns));
  }
  void out(View& view, std::int64_t rows, std::int64_t columns) {
    view.data = write(view.data, bytes_of(view, rows, columns));
  }
  /// Reads the copies of an operand [rows, columns] with what surrounds them.
  void in(Fp8Operand& operand, std::int64_t rows, std::int64_t columns) {
    in(operand.view, round_up(rows, kFp8Pad), operand.view.stride);
    in(operand.turned, round_up(columns, kFp8Pad), operand.turned.stride);
    operand.factor = read(operand.factor, sizeof(float));
  }
  void out(GradientView& gradient, std::int64_t rows, std::int64_t columns) { out(gradient.view, rows, columns); }
  void out(PartialSums& sums, std::int64_t columns) { sums.data = write(sums.data, sums.rows * columns * 4); }
  void in(Dropout& dropout) { dropout.scalars = read(dropout.scalars, sizeof(StepScalars)); }

  /// Waits for the stream and brings everything back.
  void finish() {
    stream_.synchronize();
    for (const Copy& copy : copies_) {
      if (copy.written) {
        device_.copy(copy.host, copy.device, copy.bytes);
        continue;
      }
      std::vector<std::byte> now(static_cast<std::size_t>(copy.bytes));
      device_.copy(now.data(), copy.device, copy.bytes);
      if (std::memcmp(now.data(), copy.host, now.size()) != 0) {
        throw std::runtime_error("a kernel changed memory that it may only read");
      }
    }
  }

 private:
  struct Copy {
    std::byte* host;
    std::int64_t bytes;
    std::byte* device;
    std::unique_ptr<DeviceMemory> memory;
    bool written;
  };

  static std::int64_t bytes_of(const ConstView& view, std::int64_t rows, std::int64_t columns) {
    return ((rows - 1) * view.stride + columns) * size_of(view.dtype);
  }

  void* place(const void* address, std::int64_t bytes, bool written) {
    if (address == nullptr) return nullptr;
    auto* host = static_cast<std::byte*>(const_cast<void*>(address));
    for (Copy& copy : copies_) {
      if (host < copy.host || host >= copy.host + copy.bytes) continue;
      copy.written = copy.written || written;
      return copy.device + (host - copy.host);
    }
    const Block::Place block = Block::find(host);
    std::byte* begin = block.data != nullptr ? block.data : host;
    const std::int64_t size = block.data != nullptr ? block.bytes : bytes;
    // The same offset between multiples of 256 as on the host: alignment is part of a test.
    const auto offset = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(begin) % 256);
    auto memory = device_.allocate(MemoryKind::device, size + offset);
    std::byte* device = memory->data() + offset;
    device_.copy(device, begin, size);
    copies_.push_back({begin, size, device, std::move(memory), written});
    return device + (host - begin);
  }

  tessera::Device& device_;
  Stream& stream_;
  std::deque<Copy> copies_;
  std::vector<void*> written_;
};

/// Of a view or an operand in fp8.
template <class Weight>
void weight(Mirror& m, Weight& weight, WeightLayout layout, std::int64_t in, std::int64_t out) {
  layout == WeightLayout::in_out ? m.in(weight, in, out) : m.in(weight, out, in);
}

void mirror(Mirror& m, EmbeddingForward& a) {
  a.tokens = m.read(a.tokens, a.batch * a.sequence * 4);
  m.in(a.token_table, a.vocab, a.width);
  std::int64_t positions = a.sequence;
  for (std::int64_t i = 0; a.positions != nullptr && i < a.batch * a.sequence; ++i)
    positions = std::max<std::int64_t>(positions, a.positions[i] + 1);
  m.in(a.position_table, positions, a.width);
  a.positions = m.read(a.positions, a.batch * a.sequence * 4);
  m.out(a.output, a.batch * a.sequence, a.width), m.in(a.dropout);
}

void mirror(Mirror& m, EmbeddingBackward& a) {
  a.tokens = m.read(a.tokens, a.batch * a.sequence * 4);
  a.positions = m.read(a.positions, a.batch * a.sequence * 4);
  m.in(a.output_gradient, a.batch * a.sequence, a.width);
  m.out(a.token_gradient, a.vocab, a.width), m.out(a.position_gradient, a.context, a.width), m.in(a.dropout);
  a.scratch = m.write(a.scratch, kernel_needs(DeviceKind::cuda).embedding_backward(a.batch * a.sequence));
}

void mirror(Mirror& m, NormForward& a) {
  m.in(a.input, a.tokens, a.width), m.in(a.gain, 1, a.width), m.in(a.bias, 1, a.width);
  m.in(a.residual, a.tokens, a.width), m.out(a.output, a.tokens, a.width);
  a.mean = m.write(a.mean, a.tokens * 4);
  a.reciprocal_deviation = m.write(a.reciprocal_deviation, a.tokens * 4);
  a.largest = m.write(a.largest, sizeof(float));
}

void mirror(Mirror& m, NormBackward& a) {
  m.in(a.input, a.tokens, a.width), m.in(a.gain, 1, a.width), m.in(a.bias, 1, a.width);
  m.in(a.output_gradient, a.tokens, a.width), m.out(a.normalized, a.tokens, a.width);
  a.mean = m.read(a.mean, a.tokens * 4);
  a.reciprocal_deviation = m.read(a.reciprocal_deviation, a.tokens * 4);
  m.out(a.input_gradient, a.tokens, a.width), m.out(a.input_gradient_sums, a.width);
  m.out(a.gain_gradient, 1, a.width), m.out(a.bias_gradient, 1, a.width);
  a.scratch = m.write(a.scratch, kernel_needs(DeviceKind::cuda).norm_backward(a.tokens, a.width));
  a.normalized_largest = m.write(a.normalized_largest, sizeof(float));
  a.gradient_largest = m.write(a.gradient_largest, sizeof(float));
}

void mirror(Mirror& m, ToFp8& a) {
  m.in(a.input, a.rows, a.columns);
  m.out(a.output, round_up(a.rows, kFp8Pad), a.output.stride);
  m.out(a.turned, round_up(a.columns, kFp8Pad), a.turned.stride);
  a.factor = m.write(a.factor, 2 * sizeof(float)), a.largest = m.read(a.largest, sizeof(float));
}

void mirror(Mirror& m, LargestMagnitude& a) {
  m.in(a.x, 1, a.elements), a.largest = m.write(a.largest, sizeof *a.largest);
}

void mirror(Mirror& m, ToCodes& a) {
  m.in(a.x, 1, a.elements), a.largest = m.read(a.largest, sizeof *a.largest), a.codes = m.write(a.codes, a.elements);
}

void mirror(Mirror& m, LinearForward& a) {
  m.in(a.input, a.tokens, a.in), weight(m, a.weight, a.layout, a.in, a.out), m.in(a.bias, 1, a.out);
  m.in(a.residual, a.tokens, a.out), m.out(a.output, a.tokens, a.out), m.out(a.activated, a.tokens, a.out);
  m.in(a.dropout);
  m.in(a.input8, a.tokens, a.in), weight(m, a.weight8, a.layout, a.in, a.out);
  a.largest = m.write(a.largest, sizeof(float));
}

void mirror(Mirror& m, LinearBackward& a) {
  const bool in_out = a.layout == WeightLayout::in_out;
  m.in(a.input, a.tokens, a.in), weight(m, a.weight, a.layout, a.in, a.out);
  m.in(a.output_gradient, a.tokens, a.out), m.in(a.before_gelu, a.tokens, a.in);
  m.out(a.input_gradient, a.tokens, a.in), m.out(a.output_gradient_sums, a.out);
  m.out(a.weight_gradient, in_out ? a.in : a.out, in_out ? a.out : a.in), m.out(a.bias_gradient, 1, a.out);
  m.in(a.input8, a.tokens, a.in), weight(m, a.weight8, a.layout, a.in, a.out);
  m.in(a.gradient8, a.tokens, a.out);
}

void mirror(Mirror& m, GeluForward& a) {
  m.in(a.input, a.rows, a.columns), m.out(a.output, a.rows, a.columns), a.largest = m.write(a.largest, sizeof(float));
}

void mirror(Mirror& m, AttentionForward& a) {
  const AttentionShape& s = a.shape;
  const std::int64_t rows = s.batch * s.sequence, width = s.heads * s.head_width, kv = s.kv_heads * s.head_width;
  m.in(a.query, rows, width), m.in(a.key, rows, kv), m.in(a.value, rows, kv), m.out(a.output, rows, width);
  a.log_sum_exp = m.write(a.log_sum_exp, rows * s.heads * 4);
  a.positions = m.read(a.positions, rows * 4), a.borders = m.read(a.borders, (s.documents + 1) * 4);
  m.in(a.dropout);
}

void mirror(Mirror& m, AttentionBackward& a) {
  const AttentionShape& s = a.shape;
  const std::int64_t rows = s.batch * s.sequence, width = s.heads * s.head_width, kv = s.kv_heads * s.head_width;
  m.in(a.query, rows, width), m.in(a.key, rows, kv), m.in(a.value, rows, kv), m.in(a.output, rows, width);
  a.log_sum_exp = m.read(a.log_sum_exp, rows * s.heads * 4);
  a.positions = m.read(a.positions, rows * 4), a.borders = m.read(a.borders, (s.documents + 1) * 4);
  m.in(a.output_gradient, rows, width);
  m.out(a.query_gradient, rows, width), m.out(a.key_gradient, rows, kv), m.out(a.value_gradient, rows, kv);
  m.in(a.dropout);
  a.scratch =
      m.write(a.scratch, kernel_needs(DeviceKind::cuda).attention_backward(s, a.query.dtype, tested_attention()));
}

void mirror(Mirror& m, AttentionCached& a) {
  const AttentionShape& s = a.shape;
  const std::int64_t rows = s.batch * s.sequence, width = s.heads * s.head_width, kv = s.kv_heads * s.head_width;
  a.positions = m.read(a.positions, rows * 4), a.counts = m.read(a.counts, s.batch * 4);
  m.in(a.query, rows, width), m.in(a.key, rows, kv), m.in(a.value, rows, kv), m.out(a.output, rows, width);
  m.out(a.key_cache, s.batch * a.limit, kv), m.out(a.value_cache, s.batch * a.limit, kv);
}

void mirror(Mirror& m, Rotate& a) {
  std::int64_t positions = a.sequence;
  for (std::int64_t i = 0; a.positions != nullptr && i < a.batch * a.sequence; ++i)
    positions = std::max<std::int64_t>(positions, a.positions[i] + 1);
  a.table = m.read(a.table, positions * a.head_width * 4);
  a.positions = m.read(a.positions, a.batch * a.sequence * 4);
  m.in(a.input, a.batch * a.sequence, a.heads * a.head_width);
  m.out(a.output, a.batch * a.sequence, a.heads * a.head_width);
}

void mirror(Mirror& m, GluForward& a) {
  m.in(a.gate, a.tokens, a.width), m.in(a.up, a.tokens, a.width), m.out(a.output, a.tokens, a.width);
  a.largest = m.write(a.largest, sizeof(float));
}

void mirror(Mirror& m, GluBackward& a) {
  m.in(a.gate, a.tokens, a.width), m.in(a.up, a.tokens, a.width), m.in(a.output_gradient, a.tokens, a.width);
  m.out(a.gate_gradient, a.tokens, a.width), m.out(a.up_gradient, a.tokens, a.width);
  m.out(a.output, a.tokens, a.width);
  for (float** const largest : {&a.gate_largest, &a.up_largest, &a.output_largest})
    *largest = m.write(*largest, sizeof(float));
  for (Fp8Output* const made : {&a.gate_gradient8, &a.up_gradient8, &a.output8}) {
    m.out(made->output, round_up(a.tokens, kFp8Pad), made->output.stride);
    m.out(made->turned, round_up(a.width, kFp8Pad), made->turned.stride);
    made->factor = m.write(made->factor, sizeof(float));
  }
}

void mirror(Mirror& m, HeadLoss& a) {
  m.in(a.input, a.tokens, a.width), m.in(a.gain, 1, a.width), m.in(a.bias, 1, a.width);
  m.in(a.table, a.table_rows, a.width);
  a.targets = m.read(a.targets, a.tokens * 4), a.loss = m.write(a.loss, sizeof(double));
  a.token_losses = m.write(a.token_losses, a.tokens * 4);
  a.sample_losses = m.write(a.sample_losses, a.samples * std::int64_t{sizeof(double)});
  a.scratch = m.write(a.scratch, 0);  // always in a Block
  if (a.training()) {
    m.out(a.input_gradient, a.tokens, a.width), m.out(a.gain_gradient, 1, a.width);
    m.out(a.bias_gradient, 1, a.width), m.out(a.table_gradient, a.table_rows, a.width);
    a.scalars = m.read(a.scalars, sizeof(StepScalars));
    a.gradient_largest = m.write(a.gradient_largest, sizeof(float));
  }
}

void mirror(Mirror& m, ApplyDropout& a) {
  m.in(a.input, a.rows, a.columns), m.out(a.output, a.rows, a.columns), m.in(a.dropout);
}

void mirror(Mirror& m, Cast& a) { m.in(a.from, 1, a.elements), m.out(a.to, 1, a.elements); }

void mirror(Mirror& m, FillZero& a) { a.data = m.write(a.data, a.bytes); }

void mirror(Mirror& m, Add& sum) {
  m.in(sum.a, 1, sum.elements), m.in(sum.b, 1, sum.elements), m.out(sum.out, 1, sum.elements);
}

void mirror(Mirror& m, SquareSum& a) { m.in(a.x, 1, a.elements), a.sum = m.write(a.sum, sizeof(ExactSum)); }

void mirror(Mirror& m, AddChecksum& a) { a.data = m.read(a.data, 4 * a.words), a.sum = m.write(a.sum, sizeof *a.sum); }

void mirror(Mirror& m, ParameterUpdate& a) {
  a.master = m.write(a.master, a.elements * 4);
  a.states = m.write(a.states, a.elements * size_of(a.states_dtype));
  a.direction = m.read(a.direction, a.elements * 4);
  a.gradient = m.read(a.gradient, a.elements * size_of(a.gradient_dtype));
  if (a.copy != nullptr) a.copy = m.write(a.copy, a.elements * size_of(a.copy_dtype));
  a.scalars = m.read(a.scalars, sizeof(StepScalars));
  a.sums = m.write(a.sums, std::ssize(a.states) * 8 + 8);
}

void mirror(Mirror& m, MuonDirection& a) {
  a.state = m.read(a.state, a.elements * size_of(a.state_dtype)), a.output = m.write(a.output, a.elements * 4);
  a.gradient = m.read(a.gradient, a.elements * size_of(a.gradient_dtype));
  a.scalars = m.read(a.scalars, sizeof(StepScalars));
}

void mirror(Mirror& m, Orthogonalize& a) {
  m.in(a.input, a.rows, a.columns), m.out(a.output, a.rows, a.columns);
  a.scratch = m.write(a.scratch, kernel_needs(DeviceKind::cuda).orthogonalize(a.rows, a.columns));
}

void mirror(Mirror& m, AddLoss& a) {
  a.scalars = m.read(a.scalars, sizeof(StepScalars)), a.reduced = m.write(a.reduced, sizeof(ReducedScalars));
}

void mirror(Mirror& m, Clip& a) {
  a.reduced = m.read(a.reduced, sizeof(ReducedScalars)), a.scalars = m.write(a.scalars, sizeof(StepScalars));
}

class MirroredKernels final : public Kernels {
 public:
  MirroredKernels(tessera::Device& device, Kernels& kernels) : device_(device), kernels_(kernels) {}
  void run(Stream& stream, const KernelArguments& call) override {
    Mirror m(device_, stream);
    KernelArguments mirrored = call;
    std::visit([&](auto& a) { mirror(m, a); }, mirrored);
    kernels_.run(stream, mirrored);
    m.finish();
  }
  Implementation description() const override { return kernels_.description(); }

 private:
  tessera::Device& device_;
  Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Kernels> make_mirrored_kernels(tessera::Device& device, Kernels& kernels) {
  return std::make_unique<MirroredKernels>(device, kernels);
}

}  // namespace tessera::testing
