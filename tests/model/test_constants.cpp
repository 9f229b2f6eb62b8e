#include <catch2/catch.hpp>
#include <cmath>
#include <complex>

#include "tessera/model/initialize.hpp"

using namespace tessera;

TEST_CASE("the rotary table is Llama 3's", "[constants]") {
  // Head width 64 and base 5e5 scaled by 32 from a context of 8192, as Llama 3.2 has them. Frequencies from Hugging
  // Face's rope_init_fn (transformers 5.23, fp32).
  ModelParts m = declare_parts(preset("llama-1b"), 1, 3, DType::bf16);
  REQUIRE(m.constants.size() == 1);
  for (const Part& p : m.parts) CHECK(p.constants.size() == (p.kind == PartKind::attention ? 1 : 0));
  const std::vector<float> table = constant_values(m, 0);
  REQUIRE(table.size() == 3 * 64);
  const std::pair<std::size_t, double> frequencies[] = {{0, 1},
                                                        {1, 0.663601279},
                                                        {10, 0.0165604409},
                                                        {14, 0.00321144611},
                                                        {15, 0.00129054801},
                                                        {16, 0.000429556705},
                                                        {17, 9.70828623e-05},
                                                        {18, 1.94616387e-05},
                                                        {20, 8.57025589e-06},
                                                        {25, 1.10288363e-06},
                                                        {31, 9.41830649e-08}};
  for (const auto& [i, f] : frequencies) {
    INFO("frequency " << i);
    for (std::size_t position = 0; position < 3; ++position) {
      const double angle = static_cast<double>(position) * f;
      CHECK(static_cast<double>(table[position * 64 + 2 * i]) == Approx(std::cos(angle)).margin(1e-12).epsilon(5e-7));
      CHECK(static_cast<double>(table[position * 64 + 2 * i + 1]) ==
            Approx(std::sin(angle)).margin(1e-12).epsilon(5e-7));
    }
  }
  CHECK(declare_parts(preset("nano"), 1, 3, DType::fp32).constants.empty());
  Architecture a = preset("llama-1b");
  a.rope_scaling.high_freq_factor = 0.5;
  CHECK_THROWS_WITH(validate(a), Catch::Contains("high_freq_factor"));
}

TEST_CASE("without scaling each position rotates its pairs once more by their frequency", "[constants]") {
  for (const char* name : {"qwen2-0.5b", "llama-8b"}) {
    INFO(name);
    Architecture a = preset(name);
    a.rope_scaling = {};
    const ModelParts m = declare_parts(a, 1, 37, DType::fp32);
    const std::vector<float> table = constant_values(m, 0);
    const std::int64_t half = a.head_width() / 2;
    REQUIRE(static_cast<std::int64_t>(table.size()) == 37 * half * 2);
    for (std::int64_t i = 0; i < half; ++i) {
      const double frequency = std::exp(-std::log(a.rope_theta) * static_cast<double>(i) / static_cast<double>(half));
      const std::complex<double> rotation(std::cos(frequency), std::sin(frequency));
      std::complex<double> now = 1;
      for (std::int64_t position = 0; position < 37; ++position, now *= rotation) {
        const auto at = static_cast<std::size_t>((position * half + i) * 2);
        if (std::abs(static_cast<double>(table[at]) - now.real()) > 1e-7 ||
            std::abs(static_cast<double>(table[at + 1]) - now.imag()) > 1e-7)
          FAIL("position " << position << " pair " << i);
      }
    }
  }
  const ModelParts m = declare_parts(preset("qwen2-0.5b"), 1, 3, DType::fp32);
  CHECK_THROWS(constant_values(m, 1));
}
