#include "sweep/gpu_wait.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/environment.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/waited_time.hpp"

namespace tessera {

std::int64_t gpu_processes() {
  if (find_program("nvidia-smi").empty()) return -1;
  std::vector<std::string> words = {"nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"};
  if (const std::string visible = variable("CUDA_VISIBLE_DEVICES"); !visible.empty())
    words.push_back("--id=" + visible);
  const auto [code, text] = output_of(words);
  return code == 0 ? std::ranges::count(text, '\n') : -1;
}

std::string wait_for_gpus(SweepSignals& signals, const std::function<void(const std::string&)>& say, double patience,
                          double interval) {
  WaitedTime waited;
  const int asked = signals.asked();
  for (bool told = false;; told = true) {
    const std::int64_t others = gpu_processes();
    if (others < 0) return "whether its GPUs were busy is not known (nvidia-smi does not tell)";
    if (others == 0 || signals.asked() > asked) return "";
    const std::string who =
        others == 1 ? "another process computes" : fmt::format("{} other processes compute", others);
    const double looked = waited.look();
    if (looked >= patience) return fmt::format("{} on its GPUs", who);
    if (!told) say(fmt::format("{} on the GPUs: waiting up to {}", who, format_seconds(patience)));
    // The end of nvidia-smi also sends a signal.
    for (double left = interval; left > 0 && signals.asked() == asked; left = looked + interval - waited.look())
      signals.wait(std::min(left, waited.pause()));
  }
}

}  // namespace tessera
