#include "run/metrics_tables.hpp"

#include "run/append_column.hpp"
#include "tessera/base/error.hpp"

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
  const Hdf5Group model = hdf5_create_group(file_.id(), "model");
  for (const auto& [name, value] : layout.model) write_attribute(model.id(), name, value);
  if (!layout.schedule.empty()) {
    const Hdf5Dataset schedule = hdf5_write_text(file_.id(), "schedule", layout.schedule);
    hdf5_write_attribute(schedule.id(), "format", std::string_view(layout.schedule_format));
  }
  create_steps(layout);
  create_evals(layout);
  create_checkpoints();
  create_communication();
  if (layout.device) create_device();
  if (layout.sample_bytes > 0) {
    const Hdf5Group samples = hdf5_create_group(file_.id(), "samples");
    samples_.push_back({Hdf5Series<std::int64_t>::create(samples.id(), "step"),
                        Hdf5Texts::create(samples.id(), "text", layout.sample_bytes)});
  }
  create_memory(layout);
  if (!layout.layers.empty()) create_layers(layout.layers);
  ranks_ = RankTables(file_.id(), layout);
  overlap_ = OverlapTables(file_.id(), layout.overlap_times);
  file_.flush();
  if (layout.swmr) file_.start_swmr_write();
}

void MetricsTables::create_steps(const MetricsLayout& layout) {
  const Hdf5Group steps = hdf5_create_group(file_.id(), "steps");
  step_ = Hdf5Series<std::int64_t>::create(steps.id(), "step");
  skipped_ = Hdf5Series<std::int64_t>::create(steps.id(), "skipped");
  timed_ = Hdf5Series<std::int64_t>::create(steps.id(), "timed");
  const std::pair<const char*, double StepRow::*> columns[] = {{"loss", &StepRow::loss},
                                                               {"grad_norm", &StepRow::grad_norm},
                                                               {"lr", &StepRow::lr},
                                                               {"seconds", &StepRow::seconds},
                                                               {"unix_time", &StepRow::unix_time},
                                                               {"tokens_per_second", &StepRow::tokens_per_second}};
  for (const auto& [name, member] : columns) {
    columns_.emplace_back(member, Hdf5Series<double>::create(steps.id(), name));
  }
  const Hdf5Group time = hdf5_create_group(steps.id(), "time");
  for (const std::string& name : layout.step_times) times_.push_back(Hdf5Series<double>::create(time.id(), name));
}

void MetricsTables::create_evals(const MetricsLayout& layout) {
  const auto add = [&](const Hdf5Group& group, std::size_t set) {
    evals_.push_back(
        {set, Hdf5Series<std::int64_t>::create(group.id(), "step"), Hdf5Series<double>::create(group.id(), "loss")});
  };
  const Hdf5Group eval = hdf5_create_group(file_.id(), "eval");
  add(eval, 0);
  for (std::size_t set = 0; set < layout.eval_sets.size(); ++set) {
    if (!layout.eval_sets[set].empty()) add(hdf5_create_group(eval.id(), layout.eval_sets[set]), set);
  }
}

void MetricsTables::create_checkpoints() {
  const Hdf5Group checkpoints = hdf5_create_group(file_.id(), "checkpoints");
  checkpoint_step_ = Hdf5Series<std::int64_t>::create(checkpoints.id(), "step");
  checkpoint_bytes_ = Hdf5Series<std::int64_t>::create(checkpoints.id(), "bytes");
  checkpoint_blocked_ = Hdf5Series<double>::create(checkpoints.id(), "blocked_seconds");
  checkpoint_waited_ = Hdf5Series<double>::create(checkpoints.id(), "waited_seconds");
  checkpoint_background_ = Hdf5Series<double>::create(checkpoints.id(), "background_seconds");
}

void MetricsTables::create_communication() {
  const Hdf5Group all = hdf5_create_group(file_.id(), "comm");
  for (const char* name : kCollectiveNames) {
    const Hdf5Group group = hdf5_create_group(all.id(), name);
    communication_.push_back({Hdf5Series<std::int64_t>::create(group.id(), "calls"),
                              Hdf5Series<std::int64_t>::create(group.id(), "bytes"),
                              Hdf5Series<double>::create(group.id(), "seconds")});
  }
}

void MetricsTables::create_device() {
  const Hdf5Group group = hdf5_create_group(file_.id(), "device");
  device_.push_back({Hdf5Series<std::int64_t>::create(group.id(), "step"),
                     Hdf5Series<std::int64_t>::create(group.id(), "memory_used"),
                     Hdf5Series<double>::create(group.id(), "utilization"),
                     Hdf5Series<double>::create(group.id(), "power"),
                     Hdf5Series<double>::create(group.id(), "energy")});
}

void MetricsTables::create_memory(const MetricsLayout& layout) {
  const Hdf5Group all = hdf5_create_group(file_.id(), "memory");
  for (const PlannedMemory& planned : layout.memory) {
    const Hdf5Group group = hdf5_create_group(all.id(), planned.category);
    const auto ranks = static_cast<std::int64_t>(planned.bytes.size());
    hdf5_write<std::int64_t>(group.id(), "planned", planned.bytes, {ranks});
    measured_.emplace(planned.category, Hdf5Array<std::int64_t>::create_rewritable(group.id(), "measured", ranks, -1));
  }
}

void MetricsTables::create_layers(const std::vector<std::string>& names) {
  const Hdf5Group group = hdf5_create_group(file_.id(), "layers");
  hdf5_write_attribute(group.id(), "names", std::string_view(fmt::format("{}", fmt::join(names, ","))));
  layers_.push_back({Hdf5Series<std::int64_t>::create(group.id(), "step"),
                     Hdf5Rows<double>::create(group.id(), "grad_norm", static_cast<std::int64_t>(names.size()))});
}

void MetricsTables::write_steps(const std::vector<StepRow>& rows) {
  append_column(step_, rows, [](const StepRow& row) { return row.step; });
  append_column(skipped_, rows, [](const StepRow& row) { return std::int64_t{row.skipped}; });
  append_column(timed_, rows, [](const StepRow& row) { return std::int64_t{row.timed}; });
  for (auto& [member, series] : columns_) {
    append_column(series, rows, [member = member](const StepRow& row) { return row.*member; });
  }
  for (std::size_t i = 0; i < times_.size(); ++i) {
    append_column(times_[i], rows, [i](const StepRow& row) { return row.times[i]; });
  }
  for (std::size_t i = 0; i < communication_.size(); ++i) {
    append_column(communication_[i].calls, rows, [i](const StepRow& row) { return row.communication[i].calls; });
    append_column(communication_[i].bytes, rows, [i](const StepRow& row) { return row.communication[i].bytes; });
    append_column(communication_[i].seconds, rows, [i](const StepRow& row) { return row.communication[i].seconds; });
  }
}

void MetricsTables::write_evals(const std::vector<EvalRow>& rows) {
  for (Eval& eval : evals_) {
    append_column(eval.step, rows, [](const EvalRow& row) { return row.step; });
    append_column(eval.loss, rows, [&](const EvalRow& row) { return row.losses[eval.set]; });
  }
}

void MetricsTables::write_samples(const std::vector<SampleRow>& rows) {
  for (Samples& samples : samples_) {
    append_column(samples.step, rows, [](const SampleRow& row) { return row.step; });
    for (const SampleRow& row : rows) samples.text.append(row.text);
  }
}

void MetricsTables::write_checkpoints(const std::vector<CheckpointRow>& rows) {
  append_column(checkpoint_step_, rows, [](const CheckpointRow& row) { return row.step; });
  append_column(checkpoint_bytes_, rows, [](const CheckpointRow& row) { return row.bytes; });
  append_column(checkpoint_blocked_, rows, [](const CheckpointRow& row) { return row.blocked_seconds; });
  append_column(checkpoint_waited_, rows, [](const CheckpointRow& row) { return row.waited_seconds; });
  append_column(checkpoint_background_, rows, [](const CheckpointRow& row) { return row.background_seconds; });
}

void MetricsTables::write_device(const std::vector<DeviceRow>& rows) {
  for (Device& device : device_) {
    append_column(device.step, rows, [](const DeviceRow& row) { return row.step; });
    append_column(device.memory_used, rows, [](const DeviceRow& row) { return row.memory_used; });
    append_column(device.utilization, rows, [](const DeviceRow& row) { return row.utilization; });
    append_column(device.power, rows, [](const DeviceRow& row) { return row.power; });
    append_column(device.energy, rows, [](const DeviceRow& row) { return row.energy; });
  }
}

void MetricsTables::write_measured_memory(const std::string& category, const std::vector<std::int64_t>& bytes) {
  measured_.at(category).write(0, bytes);
}

void MetricsTables::write_ranks(const std::vector<RankRow>& rows) {
  ranks_.append(rows);
  for (const RankRow& row : rows) overlap_.append(row.overlap);
  for (Layers& layers : layers_) {
    for (const RankRow& row : rows) layers.grad_norm.append(row.layer_norms);
    append_column(layers.step, rows, [](const RankRow& row) { return row.step; });
  }
}

void MetricsTables::write_number(const std::string& name, double value) {
  hdf5_update_attribute(provenance_.id(), name, value);
}

template <class F>
void MetricsTables::for_each_series(F&& f) {
  f(step_);
  f(skipped_);
  f(timed_);
  for (auto& column : columns_) f(column.second);
  for (auto& series : times_) f(series);
  for (auto& communication : communication_) {
    f(communication.calls);
    f(communication.bytes);
    f(communication.seconds);
  }
  for (Device& device : device_) {
    f(device.step);
    f(device.memory_used);
    f(device.utilization);
    f(device.power);
    f(device.energy);
  }
  for (Samples& samples : samples_) {
    f(samples.step);
    f(samples.text);
  }
  for (Layers& layers : layers_) {
    f(layers.step);
    f(layers.grad_norm);
  }
  for (Eval& eval : evals_) {
    f(eval.step);
    f(eval.loss);
  }
  f(checkpoint_step_);
  f(checkpoint_bytes_);
  f(checkpoint_blocked_);
  f(checkpoint_waited_);
  f(checkpoint_background_);
  for (auto& [category, array] : measured_) f(array);
}

void MetricsTables::flush() {
  for_each_series([](auto& series) { series.flush(); });
  ranks_.flush();
  overlap_.flush();
  hdf5_check(H5Oflush(provenance_.id()), "cannot write " + file_.path().string());
}

void MetricsTables::flush_file() { file_.flush(); }

void MetricsTables::close() {
  for_each_series([](auto& series) { series = {}; });
  ranks_ = {};
  overlap_ = {};
  provenance_ = {};
  file_.close();
}

}  // namespace tessera
