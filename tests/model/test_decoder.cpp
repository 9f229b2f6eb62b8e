#include <catch2/catch.hpp>

#include "model/decoder_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Direction = ModelRun::Direction;

TEST_CASE("loss and every gradient against the double-precision decoder, odd shapes", "[decoder]") {
  compare_with_double(small(2, 2, 6, 13), 2, 5, DType::fp32, DType::fp32, 1e-6, 1e-5);
  compare_with_double(small(1, 1, 5, 7), 1, 1, DType::fp32, DType::fp32, 1e-6, 1e-5);
  compare_with_double(small(2, 3, 9, 11, false), 1, 9, DType::fp32, DType::fp32, 1e-6, 1e-5);
  compare_with_double(small(1, 2, 4, 5), 3, 70, DType::fp32, DType::fp32, 1e-6, 1e-5);
}

TEST_CASE("Qwen2, Llama and Qwen3 against the double-precision decoder, odd shapes", "[decoder]") {
  const auto compare = [](const Architecture& a, std::int64_t batch, std::int64_t sequence) {
    compare_with_double(a, batch, sequence, DType::fp32, DType::fp32, 1e-6, 1e-5);
  };
  compare(small_qwen2(), 2, 5);
  compare(small_llama(), 1, 9);
  compare(small_rotary(Family::qwen2, {1, 1, 1, 2, 3, 7}, false), 1, 1);
  compare(small_rotary(Family::llama, {1, 2, 2, 4, 1, 5}, true), 1, 70);
  compare(small_rotary(Family::qwen2, {1, 6, 3, 12, 5, 6}, false), 3, 4);
  compare(small_qwen3(), 2, 5);
  compare(small_qwen3(false), 1, 11);
  Architecture narrow = small_rotary(Family::qwen3, {1, 3, 1, 24, 7, 9}, true);
  narrow.head_dim = 4;
  compare(narrow, 3, 7);
  // Biases, and heads that are wider or narrower than width / heads.
  for (const Family family : {Family::llama, Family::qwen3}) {
    for (const std::int64_t head : {2, 10}) {
      Architecture biased = small_rotary(family, {1, 6, 3, 12, 5, 6}, head == 2);
      biased.head_dim = head, biased.attention_bias = true, biased.mlp_bias = family == Family::llama;
      compare(biased, 2, 5);
    }
  }
}

/// A family in so small a size that central differences of all its numbers are cheap.
Architecture tiny(Family family, bool tied) {
  Architecture a = small_rotary(family, {2, 2, 1, 6, 3, 5}, tied);
  a.head_dim = 4;
  return a;
}

TEST_CASE("windows, two rotary bases and scaled queries against the double-precision decoder", "[decoder]") {
  for (std::int64_t window = 1; window <= 4; ++window) {
    Architecture a = tiny(Family::qwen3, window % 2 == 0);
    a.window = window, a.rope_local_theta = window < 3 ? 7 : 0;
    if (window % 2 == 0) a.full_every = 2;
    if (window == 3) a.full_layers = {true, false};
    if (window > 1) a.rope_scaling.factor = 3;
    a.query_scalar = window == 4 ? 11 : 0;
    compare_with_double(a, 1, 7, DType::fp32, DType::fp32, 1e-6, 1e-5);
  }
}

TEST_CASE("Gemma 3 against the double-precision decoder", "[decoder]") {
  for (const std::int64_t scalar : {0, 5}) {
    Architecture a = tiny(Family::gemma3, scalar == 0);
    a.window = 3, a.full_every = 2, a.query_scalar = scalar;
    if (scalar > 0) a.rope_scaling.factor = 3, a.rope_local_theta = 7;
    compare_with_double(a, 2, 5, DType::fp32, DType::fp32, 1e-6, 1e-5);
  }
  Architecture a = tiny(Family::gemma3, true);
  a.window = 2;
  compare_with_double(a, 1, 4, DType::fp16, DType::fp32, 2e-3, 4e-2);
}

TEST_CASE("Qwen2, Llama and Qwen3 in 16-bit storage stay near the double-precision decoder", "[decoder]") {
  // A key's bias moves all scores of a query nearly alike: its gradient is a difference of large terms.
  compare_with_double(small_qwen2(), 2, 5, DType::bf16, DType::fp32, 1e-2, 8e-2);
  compare_with_double(small_llama(), 2, 5, DType::fp16, DType::fp32, 2e-3, 5e-3);
  compare_with_double(small_llama(), 1, 5, DType::fp32, DType::bf16, 1e-6, 4e-3);
  compare_with_double(small_qwen2(), 1, 5, DType::bf16, DType::bf16, 1e-2, 8e-2);
  compare_with_double(small_qwen3(), 2, 5, DType::bf16, DType::fp32, 1e-2, 8e-2);
}

TEST_CASE("16-bit storage stays near the double-precision decoder", "[decoder]") {
  compare_with_double(small(2, 2, 6, 13), 2, 5, DType::bf16, DType::fp32, 1e-2, 4e-2);
  compare_with_double(small(2, 2, 6, 13), 2, 5, DType::fp16, DType::fp32, 2e-3, 5e-3);
  compare_with_double(small(2, 2, 6, 13), 2, 5, DType::fp32, DType::bf16, 1e-6, 4e-3);
  compare_with_double(small(1, 2, 6, 13, false), 2, 5, DType::bf16, DType::bf16, 1e-2, 4e-2);
}

TEST_CASE("the same bits on any number of threads", "[decoder]") {
  for (const DType compute : {DType::fp32, DType::bf16}) {
    std::vector<std::unique_ptr<ModelRun>> runs;
    Architecture a = small(2, 4, 128, 1000);
    if (compute == DType::bf16) a = small_rotary(Family::qwen2, {2, 4, 2, 128, 300, 1000}, true);
    for (const int threads : {1, 2, 3}) {
      runs.push_back(std::make_unique<ModelRun>(a, 3, 70, compute, DType::fp32, threads));
      prepare(*runs.back());
      runs.back()->train();
      CHECK(runs.back()->loss == runs.front()->loss);
      for (std::size_t i = 0; i < runs.front()->gradient_memory.size(); ++i) {
        CHECK(same_bits(runs.back()->gradient_memory[i], runs.front()->gradient_memory[i]));
      }
    }
  }
}

TEST_CASE("recompute makes the same saved values and output, with and without dropout, with and without output",
          "[decoder]") {
  Architecture with_dropout = small(2, 2, 24, 50);
  with_dropout.dropout = 0.2;
  PartChoices choices{.keeps_activated = GENERATE(false, true)};
  if (choices.keeps_activated) choices.fp8 = Fp8Linears{};  // what is kept are codes
  for (const Architecture& a : {small(2, 2, 24, 50), with_dropout, small_qwen2(), small_llama(), small_qwen3()}) {
    ModelRun run(a, 2, 33, DType::fp32, DType::fp32, 2, 7, choices);
    prepare(run);
    run.forward();
    const auto saved = run.saved;
    const auto activations = run.activations;
    for (std::size_t p = 1; p + 1 < run.model.parts.size(); ++p) {
      for (const bool with_output : {true, false}) {
        for (Guarded& s : run.saved[p]) std::memset(s.data(), 0xff, static_cast<std::size_t>(s.bytes()));
        if (with_output)
          std::memset(run.activations[p].data(), 0xff, static_cast<std::size_t>(run.activations[p].bytes()));
        run.run(p, Direction::recompute, with_output);
        for (std::size_t s = 0; s < saved[p].size(); ++s) CHECK(same_bits(run.saved[p][s], saved[p][s]));
        CHECK(same_bits(run.activations[p], activations[p]));
      }
    }
    CHECK(run.intact());
  }
}

TEST_CASE("linears in fp8 share the copy of their input with those before them that have one", "[decoder]") {
  const auto run = [](const char* frozen) {
    PartChoices choices{.fp8 = Fp8Linears{}};
    choices.trains = [=](const ParameterTensor& tensor) { return tensor.name.find(frozen) == tensor.name.npos; };
    auto made = std::make_unique<ModelRun>(small_qwen3(), 2, 33, DType::fp32, DType::fp32, 2, 7, choices);
    prepare(*made);
    made->train();
    CHECK(made->intact());
    return made;
  };
  const auto all = run("none");
  for (const char* const frozen : {"gate_proj", "q_proj", "up_proj"}) {
    const auto some = run(frozen);
    for (const TensorId i : some->gradients.ids()) {
      INFO(some->model.tensors[i].name << ", without " << frozen);
      if (some->model.tensors[i].trains) CHECK(gradient_of(*some, i) == gradient_of(*all, i));
    }
  }
}

TEST_CASE("linears in fp8 scale an input alike where it is kept, in numbers that an adapter reads, and where it is not",
          "[decoder]") {
  Architecture a = small_qwen3();
  a.adapters = {.rank = 2, .alpha = 2, .targets = {"mlp.down_proj"}};
  const auto run = [&](bool keeps) {
    PartChoices choices{.keeps_activated = keeps, .fp8 = Fp8Linears{3}};
    choices.trains = [](const ParameterTensor&) { return true; };
    auto made = std::make_unique<ModelRun>(a, 2, 33, DType::fp32, DType::fp32, 2, 7, choices);
    prepare(*made);
    made->train();
    return made;
  };
  const auto kept = run(true), again = run(false);
  CHECK(kept->loss == again->loss);
  for (const TensorId i : kept->gradients.ids()) CHECK(gradient_of(*kept, i) == gradient_of(*again, i));
}

TEST_CASE("gradients that add: a second micro-batch on top of the first", "[decoder]") {
  for (const Architecture& a : {small(1, 2, 12, 40), small_qwen2(), small_llama(), small_qwen3()}) {
    ModelRun run(a, 2, 11, DType::fp32, DType::fp32, 2);
    prepare(run);
    run.train();
    IndexedVector<TensorId, Doubles> once;
    for (const TensorId i : run.gradients.ids()) once.push_back(gradient_of(run, i));
    run.train(true);
    for (const TensorId i : run.gradients.ids()) {
      INFO(run.model.tensors[i].name);
      Doubles twice = once[i];
      for (double& v : twice) v *= 2;
      CHECK(relative_error(gradient_of(run, i), twice) < 1e-6);
    }
  }
}

TEST_CASE("with dropout, backward is the gradient of the forward of the same step; evaluation has none",
          "[decoder][dropout]") {
  Architecture a = small(2, 2, 16, 20);
  a.dropout = 0.3;
  ModelRun run(a, 2, 20, DType::fp32, DType::fp32, 2);
  prepare(run);
  run.train();
  const double with_dropout = run.loss;
  check_along_gradient(run, 2e-3);
  CHECK(run.evaluate() == with_dropout);
  run.scalars.step = 2;
  CHECK(run.evaluate() != with_dropout);
  run.evaluation = true;
  const double plain = run.evaluate();
  run.scalars.step = 3;
  CHECK(run.evaluate() == plain);
}

TEST_CASE("a part refuses buffers that do not match its declaration", "[decoder]") {
  ModelRun run(small(1, 1, 4, 5), 1, 3, DType::fp32, DType::fp32, 1);
  prepare(run);
  PartBuffers b;
  CHECK_THROWS_AS(part_forward(run.model, run.model.parts[PartId(1)], b), InternalError);
}

TEST_CASE("a part refuses queries, keys and values with a gap between them", "[decoder]") {
  ModelRun run(small_qwen2(), 1, 3, DType::fp32, DType::fp32, 1);
  prepare(run);
  run.train();
  const auto key = std::ranges::find_if(run.model.tensors, [](const ParameterTensor& t) { return bool(t.follows); });
  const TensorId id(key - run.model.tensors.begin());
  std::swap(run.parameters[id], run.parameters[id + 2]);
  CHECK_THROWS_AS(run.run(1, ModelRun::Direction::forward), InternalError);
  std::swap(run.parameters[id], run.parameters[id + 2]);
  std::swap(run.gradients[id], run.gradients[id + 2]);
  CHECK_NOTHROW(run.run(1, ModelRun::Direction::forward));
  CHECK_THROWS_AS(run.run(1, ModelRun::Direction::backward), InternalError);
}

TEST_CASE("documents of one sequence have the loss and gradients of training them apart, in double", "[decoder]") {
  const std::vector<std::int64_t> lengths{1, 4, 2, 6};
  const std::int64_t total = 13;
  for (const Architecture& a : {small(2, 2, 6, 13), small_qwen2(), small_llama(), small_qwen3()}) {
    INFO(name_of(a.family));
    ModelRun packed(a, 1, total, DType::fp32, DType::fp32, 2);
    prepare(packed);
    packed.model.documents = true;
    double loss = 0;
    std::map<std::string, Doubles> gradients;
    for (const std::int64_t length : lengths) {
      const auto begin = std::ssize(packed.positions);
      for (std::int64_t i = 0; i < length; ++i) packed.positions.push_back(static_cast<std::int32_t>(i));
      const auto cut = [&](const std::vector<std::int32_t>& all) {
        return std::vector(all.begin() + begin, all.begin() + begin + length);
      };
      const ModelParts alone = declare_parts(a, 1, length, DType::fp32);
      DoubleDecoder truth(alone, cut(packed.tokens), cut(packed.targets));
      for (const TensorId i : packed.parameters.ids()) {
        const ParameterTensor& tensor = packed.model.tensors[i];
        truth.parameters[tensor.name] = to_doubles(packed.parameters[i], DType::fp32, tensor.elements);
      }
      const double share = static_cast<double>(length) / static_cast<double>(total);
      loss += share * truth.loss();
      for (const ParameterTensor& tensor : packed.model.tensors) {
        if (kSanitized) break;  // takes a minute there
        Doubles& sum = gradients[tensor.name];
        const Doubles one = truth.gradient(tensor.name);
        sum.resize(one.size());
        for (std::size_t i = 0; i < one.size(); ++i) sum[i] += share * one[i];
      }
    }
    packed.train();
    CHECK(packed.loss / static_cast<double>(total) == Approx(loss).epsilon(1e-6));
    for (const TensorId i : packed.parameters.ids()) {
      if (kSanitized) break;
      INFO(packed.model.tensors[i].name);
      CHECK(relative_error(gradient_of(packed, i), gradients[packed.model.tensors[i].name]) < 1e-5);
    }
    CHECK(packed.intact());
    const double once = packed.loss;
    CHECK(packed.evaluate() == once);
  }
}
