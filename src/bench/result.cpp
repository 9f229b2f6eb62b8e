#include "bench/result.hpp"

#include "tessera/base/log.hpp"
#include "tessera/config/describe.hpp"
#include "tessera/record/run_facts.hpp"

namespace tessera {

BenchOutput::BenchOutput(World& world, const Options& options, const Invocation& invocation)
    : world_(world), options_(options), invocation_(invocation) {
  if (world.rank() == 0 && !options.bench.output.empty()) file_.emplace(options.bench.output);
}

void BenchOutput::write(const BenchResult& result) {
  Log(static_cast<int>(world_.rank()), static_cast<int>(world_.size())).info(result.text);
  if (options_.bench.output.empty()) return;
  const RunFacts facts = run_facts(world_, options_, invocation_, result.gpu, result.kernels);
  if (!file_) return;
  TableFile::Attributes config;
  for (const OptionValue& option : flat_options(options_)) config.emplace_back(option.name, option.value);
  file_->write(result.tables, config, provenance(facts));
}

}  // namespace tessera
