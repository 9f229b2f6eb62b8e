#include <catch2/catch.hpp>

#include "tessera/record/run_facts.hpp"

using namespace tessera;

TEST_CASE("versions of libraries are taken from what kernels say of themselves") {
  using Libraries = std::vector<std::pair<std::string, std::string>>;
  CHECK(libraries_in("NEON, OpenBLAS 0.3.21 for armv8") == Libraries{{"openblas", "0.3.21"}});
  CHECK(libraries_in("AVX-512, oneDNN 2.6.3 with bf16 matmuls") == Libraries{{"onednn", "2.6.3"}});
  CHECK(libraries_in("NVIDIA H100, CUDA, cuBLASLt 13.1.0, attention by own kernels (cuDNN 9.19.0: fp32 storage)") ==
        Libraries{{"cublaslt", "13.1.0"}, {"cudnn", "9.19.0"}});
  CHECK(libraries_in("cuBLASLt 13.1.0") == Libraries{{"cublaslt", "13.1.0"}});
  CHECK(libraries_in("attention by own kernels (cuDNN is not found)").empty());
  CHECK(libraries_in("").empty());
}
