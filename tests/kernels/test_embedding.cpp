#include <catch2/catch.hpp>

#include "kernels/tensors.hpp"

using namespace tessera;
using namespace tessera::testing;

namespace {

std::vector<std::int32_t> some_tokens(std::int64_t n, std::int64_t vocab) {
  std::mt19937 generator(3);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < n; ++i)
    tokens.push_back(static_cast<std::int32_t>(generator() % static_cast<std::uint32_t>(vocab)));
  return tokens;
}

}  // namespace

TEST_CASE("embedding forward adds the two tables' rows, one of them scaled, exactly", "[embedding]") {
  Device device;
  for (const DType dtype : kFloatTypes) {
    const std::int64_t batch = 3, sequence = 13, width = 37, vocab = 11;
    const auto tokens = some_tokens(batch * sequence, vocab);
    const Tensor table = Tensor::random(vocab, width, dtype, 1), positions = Tensor::random(20, width, dtype, 2);
    Tensor out(batch * sequence, width, dtype);
    EmbeddingForward a;
    a.batch = batch, a.sequence = sequence, a.width = width, a.vocab = vocab, a.tokens = tokens.data();
    a.token_table = table.view(), a.position_table = positions.view(), a.output = out.view();
    a.scale = dtype == DType::fp16 ? 1.0f : 2.0f;  // scaled exactly
    device.run(a);
    Doubles sums;
    for (std::int64_t t = 0; t < batch * sequence; ++t) {
      for (std::int64_t i = 0; i < width; ++i) {
        sums.push_back(static_cast<double>(a.scale) *
                           at(table.values(), width, tokens[static_cast<std::size_t>(t)], i) +
                       at(positions.values(), width, t % sequence, i));
      }
    }
    Tensor expected(batch * sequence, width, dtype);
    from_doubles(sums, dtype, expected.data());
    CHECK(out.same_bits(expected));
    CHECK(out.intact());
    const std::vector<std::int32_t> bad(static_cast<std::size_t>(batch * sequence), 11);
    a.tokens = bad.data();
    if (tested_kind() == DeviceKind::cpu) {
      CHECK_THROWS_AS(device.run(a), InternalError);
    } else {  // a GPU's kernel cannot throw
      device.run(a);
      for (const double v : out.values()) CHECK(std::isnan(v));
    }
  }
}

TEST_CASE("embedding backward of many tokens, one of them most of the time", "[embedding]") {
  const std::int64_t batch = 1, sequence = 2500, width = 9, vocab = 700;
  auto tokens = some_tokens(sequence, vocab);
  for (std::size_t i = 0; i < tokens.size(); i += i % 3 + 1) tokens[i] = 333;
  const Tensor dy = Tensor::random(sequence, width, DType::fp32, 1);
  const Doubles d = dy.values();
  Doubles expected(static_cast<std::size_t>(vocab * width));
  for (std::int64_t t = 0; t < sequence; ++t) {
    for (std::int64_t i = 0; i < width; ++i) {
      expected[static_cast<std::size_t>(tokens[static_cast<std::size_t>(t)] * width + i)] += at(d, width, t, i);
    }
  }
  Device device;
  Tensor gradient(vocab, width, DType::fp32);
  Guarded scratch(kernel_needs(tested_kind()).embedding_backward(sequence));
  EmbeddingBackward a;
  a.batch = batch, a.sequence = sequence, a.width = width, a.vocab = vocab, a.context = sequence;
  a.tokens = tokens.data(), a.output_gradient = dy.view(), a.scratch = scratch.data();
  a.token_gradient = gradient.gradient();
  device.run(a);
  CHECK(relative_error(gradient.values(), expected) < tolerance(DType::fp32));
  CHECK((gradient.intact() && scratch.intact()));
}

TEST_CASE("embedding backward sums repeated tokens, leaves the others alone, on any number of threads", "[embedding]") {
  for (const DType gradient : {DType::fp32, DType::bf16}) {
    for (const bool adds : {false, true}) {
      for (const std::int64_t vocab : {1, 5, 1000}) {
        const std::int64_t batch = 5, sequence = 23, width = 29, context = 31;
        const auto tokens = some_tokens(batch * sequence, vocab);
        const Tensor dy = Tensor::random(batch * sequence, width, DType::fp32, 1);
        const Doubles d = dy.values();
        std::vector<Tensor> token_gradients, position_gradients;
        for (const int threads : {1, 2, 3}) {
          INFO(name_of(gradient) << " adds " << adds << " vocab " << vocab << " threads " << threads);
          Device device(threads);
          const float scale = vocab == 5 ? 1.0f : 3.3f;
          token_gradients.push_back(Tensor::random(vocab, width, gradient, 5));
          position_gradients.push_back(Tensor::random(context, width, gradient, 6));
          Tensor &dt = token_gradients.back(), &dp = position_gradients.back();
          Doubles token_sum = adds ? dt.values() : Doubles(static_cast<std::size_t>(vocab * width));
          Doubles position_sum = adds ? dp.values() : Doubles(static_cast<std::size_t>(context * width));
          for (std::int64_t t = 0; t < batch * sequence; ++t) {
            for (std::int64_t i = 0; i < width; ++i) {
              token_sum[static_cast<std::size_t>(tokens[static_cast<std::size_t>(t)] * width + i)] +=
                  static_cast<double>(scale) * at(d, width, t, i);
              position_sum[static_cast<std::size_t>((t % sequence) * width + i)] += at(d, width, t, i);
            }
          }
          Guarded scratch(kernel_needs(tested_kind()).embedding_backward(batch * sequence));
          EmbeddingBackward a;
          a.batch = batch, a.sequence = sequence, a.width = width, a.vocab = vocab, a.context = context;
          a.tokens = tokens.data(), a.output_gradient = dy.view(), a.scratch = scratch.data();
          a.token_gradient = dt.gradient(adds), a.position_gradient = dp.gradient(adds), a.scale = scale;
          device.run(a);
          CHECK(relative_error(dt.values(), token_sum) < tolerance(gradient));
          CHECK(relative_error(dp.values(), position_sum) < tolerance(gradient));
          CHECK(dt.same_bits(token_gradients.front()));
          CHECK(dp.same_bits(position_gradients.front()));
          CHECK((dt.intact() && dp.intact() && scratch.intact()));
        }
      }
    }
  }
}

TEST_CASE("embedding forward adds the rows of given positions, exactly", "[embedding]") {
  const std::int64_t batch = 2, sequence = 4, width = 13, vocab = 5;
  const auto tokens = some_tokens(batch * sequence, vocab);
  const std::vector<std::int32_t> positions{0, 1, 0, 1, 2, 3, 4, 0};
  const Tensor table = Tensor::random(vocab, width, DType::fp32, 1), places = Tensor::random(5, width, DType::fp32, 2);
  Tensor out(batch * sequence, width, DType::fp32), expected(batch * sequence, width, DType::fp32);
  Device device;
  EmbeddingForward a;
  a.batch = batch, a.sequence = sequence, a.width = width, a.vocab = vocab, a.tokens = tokens.data();
  a.positions = positions.data(), a.token_table = table.view(), a.position_table = places.view();
  a.output = out.view();
  device.run(a);
  Doubles sums;
  for (std::size_t t = 0; t < positions.size(); ++t) {
    for (std::int64_t i = 0; i < width; ++i)
      sums.push_back(at(table.values(), width, tokens[t], i) + at(places.values(), width, positions[t], i));
  }
  from_doubles(sums, DType::fp32, expected.data());
  CHECK((out.same_bits(expected) && out.intact()));
}

TEST_CASE("embedding backward sums rows by the position in their document", "[embedding]") {
  const std::int64_t batch = 2, sequence = 11, width = 9, context = 13, rows = batch * sequence;
  const std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows), 0);
  const std::vector<std::int32_t> positions{0, 0, 1, 2, 0, 1, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 0, 0, 1, 2};
  const Tensor dy = Tensor::random(rows, width, DType::fp32, 1);
  for (const bool adds : {false, true}) {
    Device device(3);
    Tensor gradient = Tensor::random(context, width, DType::fp32, 6), of_token(1, width, DType::fp32);
    Doubles expected = adds ? gradient.values() : Doubles(static_cast<std::size_t>(context * width));
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t i = 0; i < width; ++i)
        expected[static_cast<std::size_t>(positions[static_cast<std::size_t>(t)] * width + i)] +=
            at(dy.values(), width, t, i);
    }
    Guarded scratch(kernel_needs(tested_kind()).embedding_backward(rows));
    EmbeddingBackward a;
    a.batch = batch, a.sequence = sequence, a.width = width, a.vocab = 1, a.context = context;
    a.tokens = tokens.data(), a.positions = positions.data(), a.output_gradient = dy.view();
    a.scratch = scratch.data(), a.position_gradient = gradient.gradient(adds);
    a.token_gradient = of_token.gradient(), a.scale = 0.7f;
    device.run(a);
    Doubles sum(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < rows * width; ++i)
      sum[static_cast<std::size_t>(i % width)] +=
          static_cast<double>(a.scale) * dy.values()[static_cast<std::size_t>(i)];
    CHECK(relative_error(of_token.values(), sum) < tolerance(DType::fp32));
    CHECK(relative_error(gradient.values(), expected) < tolerance(DType::fp32));
    CHECK((gradient.intact() && scratch.intact()));
  }
}
