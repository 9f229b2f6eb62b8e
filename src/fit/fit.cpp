#include "tessera/fit/fit.hpp"

#include "fit/fit_changes.hpp"
#include "tessera/base/format.hpp"
#include "tessera/schedule/print.hpp"

namespace tessera {

FitAnswer examine_fit(const RunShape& shape, const StepSchedule& schedule, const MemoryPlan& plan,
                      std::int64_t allowed) {
  FitAnswer answer;
  answer.needed = limited_bytes(schedule, plan);
  answer.allowed = allowed;
  answer.peak = describe_operation(schedule, plan.at(MemorySpace::device).peak_operation);
  if (schedule.model.most_documents > 0)
    answer.peak += fmt::format(", with {} documents of a micro-batch", schedule.model.most_documents);
  if (answer.fits()) return answer;

  for (const Change& change : single_changes(shape, allowed)) {
    const auto bytes = bytes_with(change);
    if (bytes && *bytes <= allowed) answer.changes.push_back({change.option, *bytes});
  }
  if (answer.changes.empty()) combine(shape, answer);
  return answer;
}

std::string describe_fit(const FitAnswer& answer) {
  std::string text =
      fmt::format("needs {} per rank, {} allowed", format_bytes(answer.needed), format_bytes(answer.allowed));
  if (answer.fits()) return text + fmt::format(": fits, {} to spare", format_bytes(answer.allowed - answer.needed));
  text += fmt::format(": {} too much (peak at {}). ", format_bytes(answer.needed - answer.allowed), answer.peak);
  if (answer.changes.empty()) {
    if (!answer.together.empty()) return text + "No single option makes it fit; would fit: " + answer.together;
    if (answer.smallest.empty()) return text + "More ranks, a shorter train.seq_len or a smaller model would help";
    return text +
           "The least over strategies, gathers in flight, memory.checkpoint, memory.mlp_chunk, micro-batch, offload, "
           "precision and "
           "checkpoint.async is " +
           answer.smallest + "; more ranks, a shorter train.seq_len or a smaller model would help";
  }
  text += "Would fit: ";
  for (std::size_t i = 0; i < answer.changes.size(); ++i) {
    text +=
        fmt::format("{}{} ({})", i == 0 ? "" : ", ", answer.changes[i].option, format_bytes(answer.changes[i].bytes));
    if (answer.changes[i].option.starts_with("train.micro_batch=")) text += ", train.accumulation then keeps the batch";
  }
  return text;
}

void require_fit(const FitAnswer& answer, const std::string& limit_name) {
  if (!answer.fits())
    throw DoesNotFit("{} is too little, so the run does not fit in it. The run {}.", limit_name, describe_fit(answer));
}

void require_machine_fit(const StepSchedule& schedule, const MemoryPlan& plan, std::int64_t usable, int machine_ranks) {
  const std::int64_t needed = machine_bytes(schedule, plan);
  if (needed <= usable) return;
  throw DoesNotFit(
      "{} of the machine's memory for each of its {} is too little, so the run does not fit in it. It needs {} per "
      "rank, {} in all; {} of a rank's are on the host ({}). Use a smaller shard.offload_fraction, shard.offload = "
      "none, memory.offload_activations = false, checkpoint.async = false or fewer ranks on the machine.",
      format_bytes(usable), counted(machine_ranks, "rank"), format_bytes(needed), format_bytes(needed * machine_ranks),
      format_bytes(plan.at(MemorySpace::host).total()), describe_host_memory(schedule));
}

}  // namespace tessera
