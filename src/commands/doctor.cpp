#include "tessera/doctor/doctor.hpp"

#include "tessera/base/log.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/engine/backend.hpp"
#include "tessera/resolve/resolved_run.hpp"

namespace tessera {

namespace {

/// Returns why the step of these options would be refused here: its shape, its memory, its weights' files. Text is not
/// read, because that may take long. Empty if it would not. Collective.
std::string refusal_of_step(World& world, Options options, const MachineShape& machine) {
  const DataOptions none;
  options.data.source = none.source, options.data.val_source = none.val_source;
  try {
    const ResolvedRun run(options, {Purpose::bench, world, machine});
    return {};
  } catch (const UsageError& error) {
    return error.what();
  } catch (const DoesNotFit& error) {
    return error.what();
  }
}

}  // namespace

int run_doctor(World& world, const Options& given, bool has_model) {
  const ResolvedRun here(given, {Purpose::machine, world});
  const auto device = backend_of(device_of(here.options.run)).open_device(world, true);
  std::vector<Finding> findings = examine(world, here.options, here.machine, device.get(), true);
  if (has_model) {
    const std::string refusal = refusal_of_step(world, here.options, here.machine);
    findings.push_back(refusal.empty() ? Finding{"step", Verdict::fine, "it can run here", ""}
                                       : Finding{"step", Verdict::refused, refusal, ""});
  }
  if (world.rank() != 0) return 0;
  bool refused = false;
  for (const Finding& finding : findings) {
    Log(0, 1).info(finding_text(finding));
    refused = refused || finding.verdict == Verdict::refused;
  }
  return refused ? static_cast<int>(ExitCode::usage) : 0;
}

}  // namespace tessera
