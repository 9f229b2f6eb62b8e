#include <catch2/catch.hpp>

#include "bench/machine_rates.hpp"

using namespace tessera;

TEST_CASE("datasheets are found by whole words of a GPU's name") {
  CHECK(datasheet_rate("NVIDIA H100 80GB HBM3, sm_90", {DType::bf16}) == 989e12);
  CHECK(datasheet_rate("NVIDIA H100 PCIe, sm_90", {DType::bf16}) == 756e12);
  CHECK(datasheet_rate("NVIDIA A100-SXM4-80GB, sm_80", {DType::fp32}) == 19.5e12);
  CHECK(datasheet_rate("NVIDIA A10, sm_86", {DType::fp16}) == 125e12);
  CHECK(datasheet_rate("NVIDIA L40S, sm_89", {DType::bf16}) == 362e12);
  PrecisionOptions tf32;
  tf32.matmul = MatmulPrecision::tf32;
  CHECK(datasheet_rate("NVIDIA A100-SXM4-80GB, sm_80", tf32) == 156e12);
  for (const char* unknown : {"NVIDIA RTX A4000, sm_86", "NVIDIA A10G, sm_86", "emulated GPU, sm_90", ""})
    CHECK(datasheet_rate(unknown, {DType::bf16}) == 0);
}
