// Memory and bytes sent, as tables.
#include <algorithm>
#include <map>
#include <set>

#include "tessera/base/format.hpp"
#include "tessera/base/text_table.hpp"
#include "tessera/schedule/formula.hpp"
#include "tessera/schedule/print.hpp"

namespace tessera {

namespace {

template <class F>
void for_each_played(const StepSchedule& s, F&& f) {
  for (const Play& play : s.step) {
    const Segment& segment = s.segments[play.segment];
    for (const OperationId id : segment.operations()) f(s.operation(id));
  }
}

std::string print_categories(const StepSchedule& s, const MemoryPlan& whole) {
  const SpacePlan& plan = whole.at(MemorySpace::device);
  TextTable table({"category", ">at the peak", ">own peak"});
  for (std::size_t c = 0; c < kCategories; ++c) {
    table.row({std::string(name_of(static_cast<Category>(c))), format_bytes(plan.at_peak[c]),
               format_bytes(plan.own_peak[c])});
  }
  table.row({"idle", format_bytes(plan.idle_at_peak()), ""});
  const bool on_host = whole.at(MemorySpace::host).total() > 0;
  table.row({on_host ? "to allocate on the device" : "to allocate", format_bytes(plan.total()), ""});
  if (on_host) table.line("on the host: " + describe_host_memory(s));
  if (on_host && s.grid.ranks_per_node() > 1) {
    const std::int64_t ranks = std::min(s.grid.world(), s.grid.ranks_per_node());
    table.line(fmt::format("on the host of a node, by its {} ranks: {}", ranks,
                           format_bytes(ranks * whole.at(MemorySpace::host).total())));
  }
  return fmt::format("memory per rank by category; the peak is at {}\n", describe_operation(s, plan.peak_operation)) +
         table.text() + "  idle: allocated for another time than the peak\n";
}

std::string print_regions(const MemoryPlan& plan) {
  TextTable table({"region", ">size", ">lower bound", ">fragmentation"});
  auto add = [&](const std::string& name, std::int64_t bytes, std::int64_t bound) {
    const double fragmentation = bound > 0 ? static_cast<double>(bytes) / static_cast<double>(bound) - 1.0 : 0.0;
    table.row({name, format_bytes(bytes), format_bytes(bound), format_percent(fragmentation)});
  };
  for (const MemorySpace space : {MemorySpace::device, MemorySpace::host}) {
    for (std::size_t r = 0; r < kRegions; ++r) {
      const RegionPlan& region = plan.at(space).regions[r];
      if (space == MemorySpace::device || region.bytes > 0)
        add((space == MemorySpace::host ? "host, " : "") + std::string(name_of(static_cast<RegionKind>(r))),
            region.bytes, region.lower_bound);
    }
  }
  add("to allocate", plan.total(), plan.lower_bound());
  return "regions, each one allocation\n" + table.text() +
         "  at rest: kept from step to step; shared with peers: other ranks read it; private: a rank's own, for a "
         "while\n"
         "  lower bound: no plan can be smaller; fragmentation: how much larger this one is\n";
}

/// Adds one line per reason: "12.4 MB: kept from forward to backward (wte, h.11)".
void add_savings(const StepSchedule& s, TextTable& table) {
  struct Reason {
    std::int64_t bytes = 0;
    std::vector<std::string> units;
  };
  std::map<std::string, Reason> reasons;
  for (const Saving& saving : s.savings) {
    Reason& reason = reasons[saving.reason];
    reason.bytes += saving.bytes;
    if (!saving.unit.empty()) reason.units.push_back(saving.unit);
  }
  for (const auto& [name, reason] : reasons) {
    std::string units;
    for (std::size_t i = 0; i < reason.units.size(); ++i) {
      if (i == 4 && reason.units.size() > 5) {
        units += fmt::format(" and {} more", reason.units.size() - i);
        break;
      }
      units += (i == 0 ? "" : ", ") + reason.units[i];
    }
    table.row({(reason.bytes >= 0 ? "saved: " : "more: ") + name + (units.empty() ? "" : " (" + units + ")"), "",
               format_bytes(-reason.bytes)});
  }
}

/// Returns the bytes of matrices that members send to their owners and back, the least and the most; empty without any.
std::string print_exchanges(const StepSchedule& s) {
  std::vector<std::int64_t> sent(static_cast<std::size_t>(s.grid.size(rules_of(s.policy.strategy).state)));
  for_each_played(s, [&](const Operation& op) {
    if (op.kind != OperationKind::exchange) return;
    for (std::size_t member = 0; member < sent.size(); ++member)
      sent[member] +=
          elements_sent(op.runs, static_cast<std::int64_t>(member)) * size_of(s.value(op.reads.at(0)).dtype());
  });
  const auto [least, most] = std::ranges::minmax(sent);
  if (most == 0) return "";
  return fmt::format(
      "  exchange of matrices: counted as the member sends that sends most, exchange by exchange; over a step a "
      "member\n"
      "  sends {} to {}\n",
      format_bytes(least), format_bytes(most));
}

std::string print_sent(const StepSchedule& s) {
  TextTable table({"sent per step and rank", ">calls", ">bytes"});
  for (const Traffic& t : traffic_of(s)) {
    const char* groups = t.group == Group::world   ? "world"
                         : t.group == Group::shard ? "shard groups"
                         : t.group == Group::sub   ? "sub-groups"
                                                   : "replica groups";
    table.row({fmt::format("{}{}, {} of {}", t.name, t.in_formula ? "" : " (apart)", groups, t.ranks),
               std::to_string(t.calls), format_bytes(t.bytes)});
  }
  table.row({"by the formula of " + std::string(name_of(s.policy.strategy)), "", format_bytes(formula_wire_bytes(s))});
  add_savings(s, table);
  table.row({"in all", "", format_bytes(s.wire_bytes_per_step())});
  return table.text() + "  (apart): not in the formula and not in the sum\n" + print_exchanges(s);
}

/// Returns where offloaded state is kept; empty if there is none.
std::string print_offloaded_state(const StepSchedule& s) {
  const OffloadAccount account = offload_account(s);
  if (account.elements == 0) return "";
  return fmt::format(
      "shard.offload = {}: the state of {} of a rank's {} elements rests on the host ({} from {} on)\n"
      "  at rest on the host {} more, on the device {} less; from backward to their update {} of gradients on the "
      "host\n"
      "  updated there in the order of use, each unit ahead of its forward in the next step\n",
      name_of(s.policy.offload), format_count(account.elements), format_count(account.of),
      counted(s.layout.units.end_id() - s.offloaded_from, "unit"), s.unit(s.offloaded_from).name,
      format_bytes(account.on_host), format_bytes(account.off_device), format_bytes(account.gradients));
}

/// Returns which inputs of blocks wait on the host; empty if none do.
std::string print_offloaded_inputs(const StepSchedule& s) {
  if (s.offloaded_inputs == 0) return "";
  const std::int64_t each = bytes_of_input(s);
  return fmt::format(
      "memory.offload_activations: the {} of recomputed blocks wait for backward on the host, {} each, {} in all\n"
      "  on the device at most {} that go out, none while the head computes, and at most {} that are back\n",
      counted(s.offloaded_inputs, "input"), format_bytes(each), format_bytes(s.offloaded_inputs * each),
      s.policy.inputs_in_flight, s.policy.inputs_in_flight);
}

/// Returns what is offloaded and what is copied for it; empty if nothing is.
std::string print_offload(const StepSchedule& s) {
  const std::string what = print_offloaded_state(s) + print_offloaded_inputs(s);
  if (what.empty()) return "";
  TextTable table({"copied between device and host per step and rank", ">bytes"});
  for (const auto& terms : {copy_terms(s), input_copy_terms(s)}) {
    for (const FormulaTerm& term : terms)
      table.row({fmt::format("{}, {} x {} bytes an element", term.name, term.times, size_of(term.dtype)),
                 format_bytes(term.bytes)});
  }
  for (const Saving& saving : s.copy_savings) table.row({"saved: " + saving.name(), format_bytes(-saving.bytes)});
  table.row({"in all", format_bytes(s.copied_bytes_per_step())});
  return what + table.text();
}

/// Returns whether a value that a micro-step finds is a sum over micro-steps, not a gradient that is yet to be reduced.
bool is_accumulator(const StepSchedule& s, const Value& value) {
  if (value.kind != ValueKind::gradient || s.storage(value.storage).space == MemorySpace::host) return false;
  const bool reduced = s.policy.reduce_each_micro_step && s.grid.size(rules_of(s.policy.strategy).inner) > 1;
  return !reduced || !value.placement.shard.empty();
}

/// Calls f(unit, bytes) for each accumulator.
template <class F>
void for_each_accumulator(const StepSchedule& s, F&& f) {
  std::set<StorageId> seen;
  for (const Segment& segment : s.segments) {
    if (segment.role != SegmentRole::micro_step) continue;
    for (const ValueId v : segment.carried_in) {
      const Value& value = s.value(v);
      if (is_accumulator(s, value) && seen.insert(value.storage).second) f(value.unit, s.storage(value.storage).bytes);
    }
  }
}

std::string print_accumulators(const StepSchedule& s) {
  if (s.policy.accumulation == 1) return "";
  std::map<UnitId, std::int64_t> levels;
  std::int64_t deepest = 0, one_level = 0;
  for_each_accumulator(s, [&](UnitId unit, std::int64_t bytes) {
    if (levels[unit]++ == 0) one_level += bytes;
    deepest = std::max(deepest, levels[unit]);
  });
  std::string text = fmt::format("accumulation over {} micro-steps keeps {} of gradient sums", s.policy.accumulation,
                                 format_bytes(accumulator_bytes(s)));
  if (s.policy.deterministic && deepest > 1) {
    text += fmt::format(" ({} a unit, for the fixed order of summation; a running sum would be {})", deepest,
                        format_bytes(one_level));
  }
  return text + "\n";
}

}  // namespace

std::int64_t accumulator_bytes(const StepSchedule& schedule) {
  std::int64_t all = 0;
  for_each_accumulator(schedule, [&](UnitId, std::int64_t bytes) { all += bytes; });
  return all;
}

std::map<std::string, std::int64_t> host_memory(const StepSchedule& schedule) {
  std::map<std::string, std::int64_t> bytes;
  for (const Storage& storage : schedule.storages) {
    if (storage.space == MemorySpace::host) bytes[storage.use] += storage.bytes;
  }
  return bytes;
}

std::int64_t limited_host_bytes(const StepSchedule& schedule, const MemoryPlan& plan) {
  return limited_bytes(schedule, plan) - plan.at(MemorySpace::device).total();
}

std::string describe_peak(const MemoryPlan& plan) {
  std::string text;
  for (std::size_t c = 0; c < kCategories; ++c) {
    const std::int64_t bytes = plan.at(MemorySpace::device).at_peak[c];
    if (bytes > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(static_cast<Category>(c)), format_bytes(bytes));
  }
  return text;
}

std::string describe_host_memory(const StepSchedule& schedule) {
  return joined(host_memory(schedule),
                [](const auto& one) { return fmt::format("{} {}", one.first, format_bytes(one.second)); });
}

std::vector<Traffic> traffic_of(const StepSchedule& schedule) {
  std::map<std::pair<std::string, int>, Traffic> traffic;  // by name, then replica, shard and world
  for_each_played(schedule, [&](const Operation& op) {
    if (!schedule.communicates(op) || op.wire_bytes == 0) return;
    const bool is_scalar = op.kind == OperationKind::all_reduce;
    std::string name = op.unit ? "all-reduce of magnitudes" : "all-reduce of loss and norm";
    if (op.kind == OperationKind::reduce_scatter)
      name = "reduce-scatter of gradients";
    else if (op.kind == OperationKind::exchange)
      name = "exchange of matrices";
    else if (!is_scalar)
      name = schedule.value(op.reads.at(0)).kind == ValueKind::gradient ? "all-gather of gradients"
                                                                        : "all-gather of parameters";
    Traffic& sum = traffic[{name, -static_cast<int>(op.group)}];
    if (sum.calls == 0) sum = {name, op.group, schedule.grid.size(op.group), 0, 0, !is_scalar};
    ++sum.calls, sum.bytes += op.wire_bytes;
  });
  std::vector<Traffic> rows;
  for (auto& [key, row] : traffic) rows.push_back(std::move(row));
  return rows;
}

std::int64_t collectives_per_step(const StepSchedule& schedule) {
  std::int64_t count = 0;
  for_each_played(schedule, [&](const Operation& op) { count += schedule.communicates(op) ? 1 : 0; });
  return count;
}

std::string print_memory(const StepSchedule& schedule, const MemoryPlan& plan) {
  std::string text = print_categories(schedule, plan) + "\n" + print_regions(plan) + "\n";
  if (const std::string accumulators = print_accumulators(schedule); !accumulators.empty()) text += accumulators + "\n";
  if (const std::string offload = print_offload(schedule); !offload.empty()) text += offload + "\n";
  return text + print_sent(schedule);
}

}  // namespace tessera
