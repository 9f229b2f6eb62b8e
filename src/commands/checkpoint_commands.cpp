#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tessera/backend/cores.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"
#include "tessera/checkpoint/best.hpp"
#include "tessera/checkpoint/shard_file.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/config/removed_options.hpp"
#include "tessera/convert/convert.hpp"
#include "tessera/convert/hugging_face_companions.hpp"
#include "tessera/convert/tensor_stream.hpp"
#include "tessera/data/evaluation.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/formats/hugging_face.hpp"
#include "tessera/resolve/run_checkpoints.hpp"
#include "tessera/telemetry/provenance.hpp"

namespace tessera {

namespace {

/// Returns the checkpoint itself, or the newest one of a run.
std::filesystem::path checkpoint_at(const std::filesystem::path& given) {
  std::filesystem::path path = given.lexically_normal();
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();  // "RUN/"
  if (!path_exists(path)) throw refusal("{} does not exist", path.string());
  if (const auto checkpoint = checkpoint_in(path)) return *checkpoint;
  throw refusal("{} is neither a checkpoint nor a run with checkpoints", path.string())
      .because("it has no {}", kManifestName)
      .hint("Name RUN or RUN/checkpoints/step-N");
}

/// Statistics of values, gathered piece by piece (Welford's updates over pieces).
struct Statistics {
  std::int64_t count = 0;
  double mean = 0, squares = 0;
  float least = std::numeric_limits<float>::infinity(), greatest = -least;

  void add(std::span<const float> values) {
    for (const float value : values) {
      ++count;
      const double delta = value - mean;
      mean += delta / static_cast<double>(count);
      squares += delta * (value - mean);
      least = std::min(least, value);
      greatest = std::max(greatest, value);
    }
  }
  double deviation() const { return count > 0 ? std::sqrt(squares / static_cast<double>(count)) : 0; }
};

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("{}", fmt::join(shape, " x ")); }

Statistics statistics_of(const CheckpointReader& reader, std::size_t tensor) {
  Statistics statistics;
  stream_tensor(reader, StateKind::parameter, tensor,
                [&](std::int64_t, std::span<const float> values) { statistics.add(values); });
  return statistics;
}

/// States the result of a checkpoint's own evaluation, and its place among the other checkpoints there.
std::string evaluation_line(const CheckpointReader& reader, JudgedCheckpoints& judged) {
  const Manifest& m = reader.manifest();
  std::string line;
  for (const auto& [set, loss] : m.evaluation) {
    line += fmt::format("{}{}{:.4f} (perplexity {})", line.empty() ? "validation loss " : ", ",
                        set.empty() ? "" : shown(set) + " ", loss, perplexity_text(loss));
  }
  const auto own = judged_loss(m.evaluation);
  if (!own) return line;
  const auto losses = judged.losses(std::numeric_limits<std::int64_t>::max());
  if (!losses.contains(m.step) || losses.at(m.step) != *own) return line;  // it is not among them
  const auto lower = std::ranges::count_if(losses, [&](const auto& other) { return other.second < *own; });
  const std::string all = counted(std::ssize(losses), "evaluated checkpoint") + " here";
  return line + (lower == 0 ? "; the best of " + all : fmt::format("; {} of {} have a lower one", lower, all));
}

/// Lists a run's checkpoints with their losses, and marks the best one.
void list_checkpoints(const Log& log, const CheckpointFolder& folder, JudgedCheckpoints& judged) {
  const auto losses = judged.losses(std::numeric_limits<std::int64_t>::max());
  const auto best = judged.best(1, std::numeric_limits<std::int64_t>::max());
  for (const std::int64_t step : folder.steps()) {
    const auto loss = losses.find(step);
    log.info(fmt::format("kept       {}{}{}", folder.of_step(step).filename().string(),
                         loss == losses.end() ? "" : fmt::format(": validation loss {:.4f}", loss->second),
                         best.contains(step) ? ", the best" : ""));
  }
}

std::map<std::string, std::string> default_options() {
  std::map<std::string, std::string> values;
  for (const OptionValue& option : flat_options({})) values.emplace(option.name, option.value);
  for (const RemovedOption& removed : removed_options()) values.emplace(removed.name, removed.by_default);
  return values;
}

void warn_of_index(const Log& log, const std::filesystem::path& folder) {
  if (const std::string defect = index_defect(folder); !defect.empty())
    log.warn(
        fmt::format("{}; nothing is loaded from it. Make it again with tessera index {}", defect, folder.string()));
}

}  // namespace

int run_verify(const std::filesystem::path& path) {
  const Log log(0, 1);
  const std::filesystem::path checkpoint = checkpoint_at(path);
  std::vector<std::filesystem::path> folders{checkpoint};
  if (const auto weights = checkpoint / std::string(kWeightsFolder); path_exists(weights)) folders.push_back(weights);
  std::vector<std::string> problems;
  for (const auto& folder : folders)
    std::ranges::copy(verify_checkpoint(folder, allowed_cores()), std::back_inserter(problems));
  for (const std::string& problem : problems) log.error(problem);
  if (!problems.empty()) return static_cast<int>(ExitCode::input_output);
  for (const auto& folder : folders) warn_of_index(log, folder);
  const CheckpointReader reader(checkpoint);
  std::int64_t bytes = 0;
  for (const FileRecord& file : reader.manifest().files) bytes += file.bytes;
  log.info(fmt::format("{} is complete and undamaged: step {}, {}, {}", checkpoint.string(), reader.manifest().step,
                       counted(std::ssize(reader.manifest().files), "file"), format_bytes(bytes)));
  return static_cast<int>(ExitCode::finished);
}

int run_inspect(const std::filesystem::path& path) {
  const Log log(0, 1);
  const CheckpointReader reader(checkpoint_at(path));
  const Manifest& m = reader.manifest();
  std::int64_t parameters = 0;
  for (const TensorRecord& tensor : m.tensors) parameters += tensor.elements;
  log.info(fmt::format("checkpoint {}", reader.folder().string()));
  log.info(fmt::format("step       {}; {} updates done, {} skipped, loss scale {}", m.step, m.optimizer.adam_step,
                       m.optimizer.skipped_steps, m.optimizer.loss_scale));
  const CheckpointFolder folder(reader.folder().parent_path());
  JudgedCheckpoints judged(folder);
  if (const std::string line = evaluation_line(reader, judged); !line.empty()) log.info("evaluated  " + line);
  if (!path_exists(path / std::string(kManifestName))) list_checkpoints(log, folder, judged);
  warn_of_index(log, reader.folder());
  if (m.content == StateContent::weights) log.info("content    weights only, without the optimizer's state");
  log.info(fmt::format("grid       {} ({} per node), shard group {}, strategy {}; {}", counted(m.grid.world, "rank"),
                       m.grid.ranks_per_node, m.grid.shard_group, shown(m.grid.strategy),
                       counted(std::ranges::count_if(m.files, &FileRecord::is_shard), "shard")));
  const Adapters& adapters = m.architecture.adapters;
  log.info(fmt::format("model      {}, {} {}: {}", name_of(m.architecture.family), format_count(parameters),
                       adapters.on() ? "parameters of adapters" : "parameters", describe(m.architecture)));
  if (adapters.on())
    log.info(
        fmt::format("adapters   {}; of the weights in {}", describe(adapters), shown(m.option("model.from"), 1000)));
  if (m.data.known) {
    log.info(fmt::format("data       sample {} is next; {} samples of {} tokens per step, order {}, corpus {}",
                         m.data.next_sample, m.data.global_batch, m.data.sequence, shown(m.data.order),
                         shown(m.data.fingerprint)));
  }
  for (const auto& [name, value] : m.provenance)
    log.info(fmt::format("made       {} = {}", shown(name), shown(value, 1000)));
  const std::map<std::string, std::string> defaults = default_options();
  for (const auto& [name, value] : m.options) {
    const auto known = defaults.find(name);
    if (known == defaults.end() || known->second != value)
      log.info(fmt::format("option     {} = {}", shown(name), shown(value, 1000)));
  }
  if (!m.options.empty())
    log.info(fmt::format("           the other options have their defaults ({} lists all)", kManifestName));
  log.info(fmt::format("\n{:<48} {:>16} {:>12} {:>12} {:>12} {:>12}", "tensor", "shape", "mean", "deviation", "least",
                       "greatest"));
  for (std::size_t i = 0; i < m.tensors.size(); ++i) {
    const Statistics s = statistics_of(reader, i);
    log.info(fmt::format("{:<48} {:>16} {:>12.4g} {:>12.4g} {:>12.4g} {:>12.4g}", shown(m.tensors[i].name),
                         shape_text(m.tensors[i].shape), s.mean, s.deviation(), s.least, s.greatest));
  }
  return static_cast<int>(ExitCode::finished);
}

int run_index(const std::filesystem::path& path) {
  const std::filesystem::path checkpoint = checkpoint_at(path);
  const bool is_new = add_virtual_tensors(checkpoint);
  Log(0, 1).info(fmt::format("{} {}", (checkpoint / std::string(kVirtualName)).string(),
                             is_new ? "shows the checkpoint's tensors" : "is there already"));
  return static_cast<int>(ExitCode::finished);
}

int run_import(const std::filesystem::path& source, const std::filesystem::path& checkpoint) {
  NamedTexts made = build_facts();
  made.emplace_back("imported_from", source.string());
  import_hugging_face(source, checkpoint, made);
  Log(0, 1).info(fmt::format("{0} imported as {1}: tessera train --checkpoint.resume={1} trains it", source.string(),
                             checkpoint.string()));
  return static_cast<int>(ExitCode::finished);
}

namespace {

int export_adapters(const std::filesystem::path& target, const CheckpointReader& reader, const ExportOptions& options) {
  if (options.optimizer) {
    throw refuse("export.optimizer", true)
        .because("a folder of PEFT has no place for the optimizer's state")
        .use("false, or export.merged = true");
  }
  const DType dtype = options.dtype.value_or(DType::fp32);
  write_peft(target, reader, dtype);
  Log(0, 1).info(fmt::format("adapters of step {} of {} exported to {} in {}, as PEFT has them", reader.manifest().step,
                             reader.folder().string(), target.string(), name_of(dtype)));
  return static_cast<int>(ExitCode::finished);
}

}  // namespace

int run_export(const std::filesystem::path& path, const std::filesystem::path& target, const ExportOptions& options) {
  if (target.extension() == ".bin") {
    throw refusal("{} would be a model file of llm.c, which only earlier versions write", target.string())
        .hint("Name a folder, which Transformers loads");
  }
  const CheckpointReader reader(checkpoint_at(path));
  const bool has_adapters = reader.manifest().architecture.adapters.on();
  if (options.merged && !has_adapters)
    throw refuse("export.merged", true).because("{} has no adapters", reader.folder().string()).use("false");
  if (has_adapters && !options.merged) return export_adapters(target, reader, options);
  const std::optional<DType> origin = dtype_of_origin(reader.folder(), reader.manifest());
  const bool keeps = !options.dtype && origin;
  const DType dtype = options.dtype.value_or(origin.value_or(DType::fp32));
  const bool is_settled = write_hugging_face(target, reader, dtype, options.largest_file, options.optimizer);
  Log(0, 1).info(fmt::format("step {} of {} exported to {} in {}{}", reader.manifest().step, reader.folder().string(),
                             target.string(), name_of(dtype),
                             keeps ? ", the type of the weights that it began from" : ""));
  if (!is_settled) {
    Log(0, 1).warn(
        "AutoTokenizer will give other ids than the run had, because it reads the tokenizer as that of the model's "
        "family. Load data.tokenizer's own folder in Transformers instead");
  }
  return static_cast<int>(ExitCode::finished);
}

}  // namespace tessera
