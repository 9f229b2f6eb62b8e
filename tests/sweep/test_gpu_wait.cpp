#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sweep/gpu_wait.hpp"
#include "temporary_folder.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

/// PATH with a fake program in front, during its lifetime.
class FakeSmi {
 public:
  explicit FakeSmi(const std::string& script) : before_(std::getenv("PATH")) {
    const std::filesystem::path file = folder_.write("nvidia-smi", "#!/bin/sh\n" + script);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    ::setenv("PATH", (folder_.path().string() + ":" + before_).c_str(), 1);
  }
  ~FakeSmi() { ::setenv("PATH", before_.c_str(), 1); }
  FakeSmi(const FakeSmi&) = delete;
  FakeSmi& operator=(const FakeSmi&) = delete;
  std::filesystem::path folder() const { return folder_.path(); }

 private:
  testing::TemporaryFolder folder_;
  std::string before_;
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
    CHECK(wait_for_gpus(signals, say, 0.05, 0.01) == "2 other processes compute on its GPUs");
    CHECK_THAT(said, Contains("2 other processes compute on the GPUs: waiting up to 50 ms\n"));
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
  ::setenv("CUDA_VISIBLE_DEVICES", "2,3", 1);
  gpu_processes();
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  std::string words;
  std::getline(std::ifstream(smi.folder() / "nvidia-smi.words"), words);
  CHECK_THAT(words, Contains("--id=2,3"));
}
