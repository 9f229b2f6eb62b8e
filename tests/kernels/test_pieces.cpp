// Work that is cut into pieces when a workspace is short, and bits that do not depend on the implementation.

#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"
#include "tessera/backend/thread_pool.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

/// The plain C++ kernels of the CPU: the reference for bits.
struct PlainCpu {
  ThreadPool pool{1};
  std::unique_ptr<Kernels> kernels = make_cpu_kernels(pool, InstructionSet::scalar);
  std::unique_ptr<Stream> stream = make_serial_stream("plain");
};

/// Compares bits on CPUs. A GPU's library may sum in another order for another number of rows.
bool agree(const Tensor& a, const Tensor& b, DType dtype) {
  return a.same_bits(b) ||
         (tested_kind() == DeviceKind::cuda && relative_error(a.values(), b.values()) < tolerance(dtype));
}

}  // namespace

TEST_CASE("linear in pieces of rows gives what it gives at once", "[linear]") {
  Device whole(1), pieces(1, best_instruction_set(), Pieces::small);
  const std::int64_t tokens = 130, in = 37, out = 101;
  StepScalars scalars;
  scalars.seed = 4, scalars.step = 9;
  for (const WeightLayout layout : {WeightLayout::in_out, WeightLayout::out_in}) {
    const bool in_out = layout == WeightLayout::in_out;
    const Tensor x = Tensor::random(tokens, in, DType::bf16, 1), r = Tensor::random(tokens, out, DType::bf16, 3);
    const Tensor w = Tensor::random(in_out ? in : out, in_out ? out : in, DType::bf16, 2, 0.2);
    const Tensor b = Tensor::random(1, out, DType::bf16, 4), dy = Tensor::random(tokens, out, DType::bf16, 5);
    const Tensor before = Tensor::random(tokens, in, DType::bf16, 6);
    std::vector<Tensor> y, dx, dw;
    for (Device* device : {&whole, &pieces}) {
      y.emplace_back(tokens, out, DType::bf16), dx.emplace_back(tokens, in, DType::bf16);
      dw.emplace_back(in_out ? in : out, in_out ? out : in, DType::fp16);
      LinearForward f;
      f.tokens = tokens, f.in = in, f.out = out, f.layout = layout;
      f.input = x.view(), f.weight = w.view(), f.bias = b.view(), f.residual = r.view(), f.output = y.back().view();
      f.dropout = {0.25f, 65, 1, DropoutSite::mlp_residual, &scalars};
      device->run(f);
      LinearBackward g;
      g.tokens = tokens, g.in = in, g.out = out, g.layout = layout;
      g.input = x.view(), g.weight = w.view(), g.output_gradient = dy.view(), g.before_gelu = before.view();
      g.input_dropout = {0.25f, 65, 2, DropoutSite::mlp_residual, &scalars};
      g.input_gradient = dx.back().view(), g.weight_gradient = dw.back().gradient();
      device->run(g);
      CHECK((y.back().intact() && dx.back().intact() && dw.back().intact()));
    }
    CHECK(agree(y[0], y[1], DType::bf16));
    CHECK(agree(dx[0], dx[1], DType::bf16));
    CHECK(agree(dw[0], dw[1], DType::fp16));
  }
}

TEST_CASE("casts, sums, dropout, AdamW and square sums have the plain CPU's bits", "[elementwise][adamw][dropout]") {
  PlainCpu plain;
  Device device(3);
  const std::int64_t n = 10007;
  StepScalars scalars;
  scalars.seed = 7, scalars.step = 3, scalars.learning_rate = 3e-3f, scalars.clip_coefficient = 0.71f;
  scalars.bias_correction1 = 0.271f, scalars.bias_correction2 = 0.002997f, scalars.first_sample = 5;
  const std::vector<DecayRun> runs = {{3, 131, true}, {131, 5000, false}, {5003, 5004, true}, {6000, n, true}};
  for (const DType dtype : kFloatTypes) {
    INFO(name_of(dtype));
    const Tensor x = Tensor::random(1, n, dtype, 1, 0.3), y = Tensor::random(1, n, dtype, 2);
    for (const DType to : kFloatTypes) {
      Tensor a(1, n, to), b(1, n, to);
      plain.kernels->run(*plain.stream, Cast{{x.data(), dtype}, {a.data(), to}, n});
      device.run(Cast{{x.data(), dtype}, {b.data(), to}, n});
      CHECK(a.same_bits(b));
      plain.kernels->run(*plain.stream, Add{{x.data(), dtype}, {y.data(), dtype}, {a.data(), to}, n});
      device.run(Add{{x.data(), dtype}, {y.data(), dtype}, {b.data(), to}, n});
      CHECK(a.same_bits(b));
    }
    Tensor a(1, n, dtype), b(1, n, dtype);
    const Dropout dropout{0.1f, 10, 3, DropoutSite::embedding, &scalars};
    plain.kernels->run(*plain.stream, ApplyDropout{.rows = 588,
                                                   .columns = 17,
                                                   .input = View{const_cast<void*>(x.data()), dtype, 17},
                                                   .output = View{a.data(), dtype, 17},
                                                   .dropout = dropout});
    device.run(ApplyDropout{.rows = 588,
                            .columns = 17,
                            .input = View{const_cast<void*>(x.data()), dtype, 17},
                            .output = View{b.data(), dtype, 17},
                            .dropout = dropout});
    CHECK(a.same_bits(b));

    ExactSum s, t;
    s.clear(), t.clear();
    plain.kernels->run(*plain.stream, SquareSum{{x.data(), dtype}, n, &s});
    device.run(SquareSum{{x.data(), dtype}, n, &t});
    CHECK(s.bins == t.bins);

    std::vector<Tensor> states[2];
    for (auto& state : states) {
      const DType kept = dtype == DType::bf16 ? DType::bf16 : DType::fp32;
      for (std::uint32_t i = 0; i < 3; ++i) state.push_back(Tensor::random(1, n, i == 0 ? DType::fp32 : kept, 10 + i));
      state.emplace_back(1, n, dtype);
      Doubles squares = state[2].values();
      for (double& square : squares) square = std::abs(square);
      from_doubles(squares, kept, state[2].data());
      ParameterUpdate adamw;
      void* const moments[] = {state[1].data(), state[2].data()};
      adamw.elements = n, adamw.master = state[0].floats(), adamw.states = moments, adamw.states_dtype = kept;
      adamw.gradient = x.data(), adamw.gradient_dtype = dtype;
      adamw.weight_decay = 0.1, adamw.runs = runs, adamw.scalars = &scalars;
      adamw.copy = state[3].data(), adamw.copy_dtype = dtype;
      &state == &states[0] ? plain.kernels->run(*plain.stream, adamw) : device.run(adamw);
    }
    for (std::size_t i = 0; i < 4; ++i) CHECK(states[0][i].same_bits(states[1][i]));
  }
}

TEST_CASE("attention with dropout is the plain CPU's, mask by mask", "[attention][dropout]") {
  PlainCpu plain;
  Device device;
  const AttentionShape shape{2, 83, 4, 2, 24};
  const std::int64_t tokens = shape.batch * shape.sequence, width = shape.heads * shape.head_width;
  const std::int64_t kv = shape.kv_heads * shape.head_width;
  StepScalars scalars;
  scalars.seed = 3, scalars.step = 5, scalars.first_sample = 11;
  for (const DType dtype : kFloatTypes) {
    INFO(name_of(dtype));
    const Tensor q = Tensor::random(tokens, width, dtype, 1), k = Tensor::random(tokens, kv, dtype, 2);
    const Tensor v = Tensor::random(tokens, kv, dtype, 3), up = Tensor::random(tokens, width, dtype, 4);
    std::vector<Tensor> results[2];
    for (auto& r : results) {
      r.emplace_back(tokens, width, dtype), r.emplace_back(shape.heads, tokens, DType::fp32);
      r.emplace_back(tokens, width, dtype), r.emplace_back(tokens, kv, dtype), r.emplace_back(tokens, kv, dtype);
      const bool on_plain = &r == &results[0];
      Kernels& kernels = on_plain ? *plain.kernels : *device.kernels;
      Stream& stream = on_plain ? *plain.stream : *device.stream;
      AttentionForward f;
      f.shape = shape, f.query = q.view(), f.key = k.view(), f.value = v.view(), f.output = r[0].view();
      f.log_sum_exp = r[1].floats();
      f.dropout = {0.3f, shape.sequence, 2, DropoutSite::attention, &scalars};
      kernels.run(stream, f);
      Guarded scratch(
          kernel_needs(on_plain ? DeviceKind::cpu : tested_kind()).attention_backward(shape, dtype, GpuAttention::own));
      AttentionBackward b;
      b.shape = shape, b.query = f.query, b.key = f.key, b.value = f.value, b.output = r[0].view();
      b.log_sum_exp = f.log_sum_exp, b.output_gradient = up.view(), b.dropout = f.dropout;
      b.query_gradient = r[2].view(), b.key_gradient = r[3].view(), b.value_gradient = r[4].view();
      b.scratch = scratch.data();
      kernels.run(stream, b);
      CHECK(scratch.intact());
    }
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      INFO(i);
      CHECK(relative_error(results[1][i].values(), results[0][i].values()) < tolerance(i == 1 ? DType::fp32 : dtype));
    }
  }
}
