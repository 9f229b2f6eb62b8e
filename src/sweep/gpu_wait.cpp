#include "sweep/gpu_wait.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "tessera/base/clock.hpp"
#include "tessera/base/environment.hpp"
#include "tessera/base/format.hpp"

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
  const auto begin = std::chrono::steady_clock::now();
  const int asked = signals.asked();
  for (bool told = false;; told = true) {
    const std::int64_t others = gpu_processes();
    if (others < 0) return "whether its GPUs were busy is not known (nvidia-smi does not tell)";
    if (others == 0 || signals.asked() > asked) return "";
    const std::string who =
        others == 1 ? "another process computes" : fmt::format("{} other processes compute", others);
    if (seconds_since(begin) >= patience) return fmt::format("{} on its GPUs", who);
    if (!told) say(fmt::format("{} on the GPUs: waiting up to {}", who, format_seconds(patience)));
    // The end of nvidia-smi also sends a signal.
    const auto looked = std::chrono::steady_clock::now();
    for (double left = interval; left > 0 && signals.asked() == asked; left = interval - seconds_since(looked))
      signals.wait(left);
  }
}

}  // namespace tessera
