// The table of measures. To record another number, add a row: TESSERA_UPDATE=1 build/ci/bin/test_commands then writes
// the pages and the table that tessera-report reads.
#include "tessera/record/measures.hpp"

#include "tessera/record/recorder.hpp"
#include "tessera/run/published.hpp"

namespace tessera {

namespace {

using Text = std::string;

constexpr const char* kNats = "nats per token";

Measure whole(Text path, Text unit, Text log, Text help) {
  return {std::move(path), Measure::Kind::integer, std::move(unit), std::move(log), std::move(help)};
}
Measure flag(Text path, Text log, Text help) {
  return {std::move(path), Measure::Kind::flag, {}, std::move(log), std::move(help)};
}
Measure real(Text path, Text unit, Text log, Text help) {
  return {std::move(path), Measure::Kind::real, std::move(unit), std::move(log), std::move(help)};
}
Measure reported(Measure measure) {
  measure.reported = true;
  return measure;
}

template <class Row>
void add_communication(Measures<Row>& measures, const Text& group) {
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
    const Text kind = group + kCollectiveNames[i];
    const auto of = [i](auto member) { return [=](const Row& row) { return row.communication[i].*member; }; };
    measures.insert(
        measures.end(),
        {{whole(kind + "/calls", "", "", "collectives"), of(&CommunicationCount::calls)},
         {whole(kind + "/bytes", "bytes", "", "sent in them; of an `exchange` those of the rank that sends most"),
          of(&CommunicationCount::bytes)},
         {real(kind + "/seconds", "s", "",
               "their time, hidden or not, waiting for peers included; NaN over NCCL, whose calls return at once"),
          of(&CommunicationCount::seconds)}});
  }
}

}  // namespace

const Measures<StepReport>& step_measures() {
  using Row = StepReport;
  static const Measures<Row> measures = [] {
    Measures<Row> all{
        {whole("steps/step", "", "step", "its number, from 1"), &Row::step},
        {flag("steps/timed", "", "its operations were timed one by one (`metrics.time_every`); 0: `time` has NaN"),
         [](const Row& row) { return row.times.measured; }},
        {real("steps/loss", kNats, "loss", "mean over all tokens of the global batch"),
         [](const Row& row) { return row.result.loss; }},
        {real("steps/grad_norm", "", "grad_norm", "norm of the full gradient, before clipping"),
         [](const Row& row) { return row.result.grad_norm; }},
        {real("steps/lr", "", "lr", "learning rate"), [](const Row& row) { return row.result.learning_rate; }},
        {real("steps/seconds", "s", "seconds", "duration"), &Row::seconds},
        {real("steps/unix_time", "s", "", "at its end, since 1970"), &Row::unix_time},
        {real("steps/tokens_per_second", "tokens/s", "tokens_per_second", "tokens of all ranks / duration"),
         &Row::tokens_per_second},
        {real("", "", "exposed_share", "share in which compute on rank 0 waited for communication; null if not timed"),
         &Row::exposed_share},
        {flag("steps/skipped", "skipped", "the gradient overflowed (fp16), and weights stayed as they were"),
         [](const Row& row) { return row.result.skipped; }},
        {real("steps/time/recording", "s", "",
              "that rank 0 spent on metrics, log and status since the row before; not in `seconds`"),
         &Row::recording_seconds}};
    for (std::size_t i = 0; const std::string& name : time_category_names()) {
      const auto category = static_cast<TimeCategory>(i++);
      all.push_back({real("steps/time/" + name, "s", "", "on rank 0"),
                     [=](const Row& row) { return row.times.seconds(category); }});
    }
    add_communication(all, "comm/");
    return all;
  }();
  return measures;
}

Measures<StepReport> source_measures(const std::vector<std::string>& names) {
  using Row = StepReport;
  Measures<Row> measures;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Text group = "steps/sources/" + names[i];
    measures.push_back({real(group + "/loss", kNats, "loss/" + names[i],
                             "of a mixture's source; NaN in a step that counts none of it"),
                        [i](const Row& row) { return row.sources.at(i).loss; }});
    measures.push_back({whole(group + "/targets", "", "", "of that source, which the loss counts"),
                        [i](const Row& row) { return row.sources.at(i).targets; }});
  }
  return measures;
}

Measures<EvaluationReport> evaluation_measures(const std::vector<std::string>& sets) {
  using Row = EvaluationReport;
  Measures<Row> measures{{whole("eval/step", "", "step", "after which step"), &Row::step}};
  const auto add = [&](std::size_t i, const Text& group, const Text& end, const Text& help) {
    measures.push_back(
        {real(group + "/loss", kNats, "validation_loss" + end, "over the evaluated micro-batches" + help),
         [i](const Row& row) { return row.sets.at(i).loss; }});
    measures.push_back({real("", "", "validation_perplexity" + end, "the loss's exponential"),
                        [i](const Row& row) { return row.sets.at(i).perplexity(); }});
  };
  add(0, "eval", "", ", of the first validation set");
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i].empty()) continue;
    measures.push_back({whole("eval/" + sets[i] + "/step", "", "", "after which step"), &Row::step});
    add(i, "eval/" + sets[i], "/" + sets[i], ", of a set with a name");
  }
  return measures;
}

const Measures<CheckpointReport>& checkpoint_measures() {
  using Row = CheckpointReport;
  static const Measures<Row> measures{
      {whole("checkpoints/step", "", "step", "after which step"), &Row::step},
      {whole("checkpoints/bytes", "bytes", kCheckpointKey, "of all its files"), &Row::bytes},
      {real("checkpoints/blocked_seconds", "s", "blocked_seconds", "in which training waited"), &Row::blocked_seconds},
      {real("checkpoints/waited_seconds", "s", "waited_seconds",
            "of these, for the checkpoint before, which was still being written"),
       &Row::waited_seconds},
      {real("checkpoints/background_seconds", "s", "background_seconds",
            "in which training went on (0 without `checkpoint.async`)"),
       &Row::background_seconds}};
  return measures;
}

Measures<DeviceSample> device_measures(const Text& group) {
  return {{whole(group + "memory_used", "bytes", "", "in use by all processes"), &DeviceSample::memory_used},
          {real(group + "utilization", "", "", "share of the last second in which a kernel ran"),
           &DeviceSample::utilization},
          {real(group + "power", "W", "", "as its driver gives it"), &DeviceSample::power},
          {real(group + "energy", "J", "", "since the driver was loaded"), &DeviceSample::energy}};
}

Measures<RankRow> step_of_report(const Text& path) {
  return {{whole(path, "", "", "after which step it was made"), &RankRow::step}};
}

const Measures<RankRow>& report_measures() {
  using R = const RankRow&;
  static const Measures<RankRow> measures{
      {whole("ranks/report", "", "step", "after which step it was made"), &RankRow::step},
      {whole("ranks/steps", "", "", "since the report before"), &RankRow::steps},
      {whole("ranks/timed_steps", "", "", "those of them with `/steps/timed` = 1"), &RankRow::timed_steps},
      {whole("ranks/straggler", "", "straggler", "as in `/overlap`, over the timed steps together"),
       [](R row) { return row.straggler.rank; }},
      {real("ranks/behind_seconds", "s", "behind_seconds", "as in `/overlap`"),
       [](R row) { return row.straggler.behind_seconds; }},
      {real("", "", "behind_share", "of its work and exposed communication together"),
       [](R row) { return row.straggler.behind_share; }}};
  return measures;
}

const Measures<RankValues>& rank_measures() {
  using Row = RankValues;
  static const Measures<Row> measures = [] {
    Measures<Row> all{
        {whole("ranks/memory/process/measured", "bytes", "", "at the report; -1: not measured"), &Row::process},
        {real("ranks/memory/peak", "bytes", "", "the highest in any report so far"), &Row::memory_peak},
        {real("ranks/memory/average", "bytes", "",
              "mean of the measurements since the report before; NaN: there were none"),
         &Row::memory_average}};
    for (std::size_t i = 0; const std::string& name : time_category_names()) {
      all.push_back({real("ranks/time/" + name, "s", "", "sum over timed steps; NaN: there was none"),
                     [i](const Row& row) { return row.times[i]; }});
      ++i;
    }
    add_communication(all, "ranks/comm/");
    return all;
  }();
  return measures;
}

const Measures<OverlapRow>& overlap_measures() {
  using Row = OverlapRow;
  static const Measures<Row> measures = [] {
    Measures<Row> all{
        {whole("overlap/step", "", "", "its number"), &Row::step},
        {whole("overlap/straggler", "", "", "the rank that slows the others down, or -1"),
         [](const Row& row) { return row.straggler.rank; }},
        {real("overlap/behind_seconds", "s", "", "by how much its own work exceeds the others' median; 0 for none"),
         [](const Row& row) { return row.straggler.behind_seconds; }}};
    for (std::size_t i = 0; const std::string& name : overlap_names()) {
      const auto add = [&](const char* end, double Spread::*of, const char* help) {
        all.push_back(
            {real("overlap/" + name + end, "s", "", help), [=](const Row& row) { return row.times.at(i).*of; }});
      };
      add("/min", &Spread::minimum, "the least of the ranks");
      add("/median", &Spread::median, "the middle");
      add("/max", &Spread::maximum, "the largest");
      ++i;
    }
    return all;
  }();
  return measures;
}

const Measures<double>& layer_measures() {
  static const Measures<double> measures{
      {real("layers/grad_norm", "", "", "norm of each layer's gradient, without a loss scale"), std::identity()}};
  return measures;
}

const Measures<RunAccount>& start_measures() {
  using R = const RunAccount&;
  const auto later = [](R) { return std::numeric_limits<double>::quiet_NaN(); };
  const Text group = "provenance/";
  static const Measures<RunAccount> measures{
      {real(group + kFirstStep, "s", "", "of the process up to its first step"), later},
      {real(group + "cores", "", "", "cores of rank 0's machine that its ranks may use"), &RunAccount::cores},
      {real(group + "compute_threads", "", "", "threads that compute, of all ranks on rank 0's machine"),
       &RunAccount::compute_threads},
      {reported(real(group + "load_average_start", "", "", "last minute's, of the busiest machine")),
       [](R row) { return row.load.load_average; }},
      {reported(real(group + kLoadAtEnd, "", "", "the same at the end")), later},
      {reported(real(group + "gpu_foreign_processes_start", "", "",
                     "other processes that compute on the run's GPUs; NaN where not known: some drivers do not show "
                     "them to a container")),
       [](R row) { return row.load.gpu_foreign_processes; }},
      {reported(real(group + kForeignAtEnd, "", "", "the same at the end")), later}};
  return measures;
}

std::vector<Measure> all_measures() {
  std::vector<Measure> all;
  const auto add = [&](const auto&... measures) {
    (std::ranges::transform(measures, std::back_inserter(all), [](const auto& one) { return one.measure; }), ...);
  };
  add(step_measures(), source_measures({"NAME"}), evaluation_measures({"", "NAME"}), checkpoint_measures(),
      step_of_report("device/step"), device_measures("device/"), report_measures(), rank_measures(),
      device_measures("ranks/device/"), overlap_measures(), step_of_report("layers/step"), layer_measures(),
      start_measures());
  return all;
}

JsonField logged(const Measure& measure, double value) {
  switch (measure.kind) {
    case Measure::Kind::integer:
      return {measure.log, static_cast<std::int64_t>(value)};
    case Measure::Kind::flag:
      return {measure.log, value != 0};
    case Measure::Kind::real:
      break;
  }
  return {measure.log, value};
}

}  // namespace tessera
