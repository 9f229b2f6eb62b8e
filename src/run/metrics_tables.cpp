#include "run/metrics_tables.hpp"

#include <utility>

namespace tessera {

namespace {

void write_attributes(hid_t group, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [name, value] : values) hdf5_write_attribute(group, name, std::string_view(value));
}

void write_attribute(hid_t group, const std::string& name, const AttributeValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    hdf5_write_attribute(group, name, std::string_view(*text));
  } else if (const auto* number = std::get_if<double>(&value)) {
    hdf5_write_attribute(group, name, *number);
  } else {
    hdf5_write_attribute(group, name, std::get<std::int64_t>(value));
  }
}

void write_attributes(hid_t file, const AttributeGroup& attributes) {
  const Hdf5Group group = hdf5_create_group(file, attributes.path);
  for (const auto& [name, value] : attributes.values) write_attribute(group.id(), name, value);
}

}  // namespace

MetricsTables::MetricsTables(const std::filesystem::path& path, const MetricsLayout& layout)
    : file_(Hdf5File::create(path, Hdf5File::Create::truncate,
                             layout.swmr ? Hdf5File::Format::newest : Hdf5File::Format::v18)) {
  hdf5_write_attribute(file_.id(), "format", std::string_view("tessera metrics"));
  hdf5_write_attribute(file_.id(), "format_version", std::int64_t{1});
  write_attributes(hdf5_create_group(file_.id(), "config").id(), layout.config);
  provenance_ = hdf5_create_group(file_.id(), "provenance");
  write_attributes(provenance_.id(), layout.provenance);
  for (const auto& [name, value] : layout.numbers) hdf5_write_attribute(provenance_.id(), name, value);
  write_attributes(file_.id(), {"model", layout.model});
  for (const AttributeGroup& group : layout.prediction) write_attributes(file_.id(), group);
  if (!layout.schedule.empty()) {
    const Hdf5Dataset schedule = hdf5_write_text(file_.id(), "schedule", layout.schedule);
    hdf5_write_attribute(schedule.id(), "format", std::string_view(layout.schedule_format));
  }
  create_steps(layout);
  create_evals(layout);
  create_checkpoints();
  if (layout.device) create_device();
  if (layout.sample_bytes > 0) create_samples(layout.sample_bytes);
  create_memory(layout);
  if (!layout.layers.empty()) layers_ = create_layers(file_.id(), layout.layers);
  ranks_ = create_ranks(file_.id(), layout);
  overlap_ = create_overlap(file_.id(), layout.overlap_times);
  file_.flush();
  if (layout.swmr) file_.start_swmr_write();
}

void MetricsTables::create_steps(const MetricsLayout& layout) {
  const Hdf5Group group = hdf5_create_group(file_.id(), "steps");
  steps_.add<std::int64_t>(group.id(), "step", &StepRow::step);
  steps_.add<std::int64_t>(group.id(), "skipped", &StepRow::skipped);
  steps_.add<std::int64_t>(group.id(), "timed", &StepRow::timed);
  steps_.add<double>(group.id(), "loss", &StepRow::loss);
  steps_.add<double>(group.id(), "grad_norm", &StepRow::grad_norm);
  steps_.add<double>(group.id(), "lr", &StepRow::lr);
  steps_.add<double>(group.id(), "seconds", &StepRow::seconds);
  steps_.add<double>(group.id(), "unix_time", &StepRow::unix_time);
  steps_.add<double>(group.id(), "tokens_per_second", &StepRow::tokens_per_second);
  const Hdf5Group time = hdf5_create_group(group.id(), "time");
  for (std::size_t i = 0; i < layout.step_times.size(); ++i)
    steps_.add<double>(time.id(), layout.step_times[i], [i](const StepRow& row) { return row.times[i]; });
  const Hdf5Group all = hdf5_create_group(file_.id(), "comm");
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    const Hdf5Group kind = hdf5_create_group(all.id(), kCollectiveNames[i]);
    steps_.add<std::int64_t>(kind.id(), "calls", [i](const StepRow& row) { return row.communication[i].calls; });
    steps_.add<std::int64_t>(kind.id(), "bytes", [i](const StepRow& row) { return row.communication[i].bytes; });
    steps_.add<double>(kind.id(), "seconds", [i](const StepRow& row) { return row.communication[i].seconds; });
  }
}

/// The first set's losses are in the group itself, and those of sets with names are in separate groups.
void MetricsTables::create_evals(const MetricsLayout& layout) {
  const auto add = [&](const Hdf5Group& group, std::size_t set) {
    evals_.add<std::int64_t>(group.id(), "step", &EvalRow::step);
    evals_.add<double>(group.id(), "loss", [set](const EvalRow& row) { return row.losses[set]; });
  };
  const Hdf5Group eval = hdf5_create_group(file_.id(), "eval");
  add(eval, 0);
  for (std::size_t set = 0; set < layout.eval_sets.size(); ++set) {
    if (!layout.eval_sets[set].empty()) add(hdf5_create_group(eval.id(), layout.eval_sets[set]), set);
  }
}

void MetricsTables::create_checkpoints() {
  const Hdf5Group group = hdf5_create_group(file_.id(), "checkpoints");
  checkpoints_.add<std::int64_t>(group.id(), "step", &CheckpointRow::step);
  checkpoints_.add<std::int64_t>(group.id(), "bytes", &CheckpointRow::bytes);
  checkpoints_.add<double>(group.id(), "blocked_seconds", &CheckpointRow::blocked_seconds);
  checkpoints_.add<double>(group.id(), "waited_seconds", &CheckpointRow::waited_seconds);
  checkpoints_.add<double>(group.id(), "background_seconds", &CheckpointRow::background_seconds);
}

void MetricsTables::create_device() {
  const Hdf5Group group = hdf5_create_group(file_.id(), "device");
  device_.add<std::int64_t>(group.id(), "step", &DeviceRow::step);
  device_.add<std::int64_t>(group.id(), "memory_used", &DeviceRow::memory_used);
  device_.add<double>(group.id(), "utilization", &DeviceRow::utilization);
  device_.add<double>(group.id(), "power", &DeviceRow::power);
  device_.add<double>(group.id(), "energy", &DeviceRow::energy);
}

void MetricsTables::create_samples(std::int64_t bytes) {
  const Hdf5Group group = hdf5_create_group(file_.id(), "samples");
  samples_.add<std::int64_t>(group.id(), "step", &SampleRow::step);
  sample_texts_ = Hdf5Texts::create(group.id(), "text", bytes);
}

void MetricsTables::create_memory(const MetricsLayout& layout) {
  const Hdf5Group all = hdf5_create_group(file_.id(), "memory");
  for (const PlannedMemory& planned : layout.memory) {
    const Hdf5Group group = hdf5_create_group(all.id(), planned.category);
    const auto ranks = static_cast<std::int64_t>(planned.bytes.size());
    hdf5_write<std::int64_t>(group.id(), "planned", planned.bytes, {ranks});
    if (planned.category == "process")
      process_memory_ = Hdf5Array<std::int64_t>::create_rewritable(group.id(), "measured", ranks, -1);
  }
}

void MetricsTables::write(const MetricsRows& rows) {
  steps_.append(rows.steps);
  evals_.append(rows.evals);
  samples_.append(rows.samples);
  for (const SampleRow& row : rows.samples) sample_texts_->append(row.text);
  checkpoints_.append(rows.checkpoints);
  device_.append(rows.devices);
  ranks_.append(rows.ranks);
  for (const RankRow& row : rows.ranks) overlap_.append(row.overlap);
  layers_.append(rows.ranks);
  if (!rows.process_memory.empty()) process_memory_->write(0, rows.process_memory);
  for (const auto& [name, value] : rows.numbers) hdf5_update_attribute(provenance_.id(), name, value);
  flush();
}

void MetricsTables::flush() {
  steps_.flush();
  device_.flush();
  samples_.flush();
  if (sample_texts_) sample_texts_->flush();
  layers_.flush();
  evals_.flush();
  checkpoints_.flush();
  process_memory_->flush();
  ranks_.flush();
  overlap_.flush();
  hdf5_check(H5Oflush(provenance_.id()), "cannot write " + file_.path().string());
}

void MetricsTables::flush_file() { file_.flush(); }

void MetricsTables::close() {
  Hdf5File file = std::move(file_);
  { const MetricsTables datasets = std::move(*this); }  // they are closed before the file
  file.close();
}

}  // namespace tessera
