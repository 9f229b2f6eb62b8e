#include <catch2/catch.hpp>
#include <fstream>

#include "sweep/fake_programs.hpp"
#include "sweep/gpu_wait.hpp"

using namespace tessera;
using namespace tessera::test;
using Catch::Contains;

namespace {

struct FakeSmi : FakePrograms {
  explicit FakeSmi(const std::string& script) : FakePrograms({{"nvidia-smi", script}}) {}
};

}  // namespace

TEST_CASE("A row waits for GPUs that others use, and notes it when they do not end") {
  SweepSignals signals;
  std::string said;
  const auto say = [&](const std::string& line) { said += line + "\n"; };
  {
    const FakeSmi none("exit 0\n");
    CHECK(gpu_processes() == 0);
    CHECK(wait_for_gpus(signals, say) == "");
  }
  {
    const FakeSmi busy("printf '4711\\n4712\\n'\n");
    CHECK(gpu_processes() == 2);
    CHECK(wait_for_gpus(signals, say, 1, 0.01) == "2 other processes compute on its GPUs");
    CHECK_THAT(said, Contains("2 other processes compute on the GPUs: waiting up to 1 s\n"));
    CHECK(said.find('\n') == said.size() - 1);
  }
  {
    const FakeSmi broken("exit 9\n");
    CHECK(gpu_processes() == -1);
    CHECK_THAT(wait_for_gpus(signals, say), Contains("not known"));
  }
  const FakeSmi ends("test -e $0.free || { touch $0.free; echo 4711; }\n");
  CHECK(wait_for_gpus(signals, say, 60, 0.01) == "");
  CHECK_THAT(said, Contains("another process computes on the GPUs"));
}

TEST_CASE("Only the GPUs that this process may use are looked at") {
  const FakeSmi smi("echo \"$@\" >$0.words\n");
  const FakeVariable visible("CUDA_VISIBLE_DEVICES", "2,3");
  gpu_processes();
  std::string words;
  std::getline(std::ifstream(smi.folder() / "nvidia-smi.words"), words);
  CHECK_THAT(words, Contains("--id=2,3"));
}
