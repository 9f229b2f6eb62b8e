#include "tessera/backend/cores.hpp"
#include "tessera/base/log.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/commands/commands.hpp"
#include "tessera/config/data_sources.hpp"
#include "tessera/files/byte_file.hpp"
#include "tessera/text/corpus.hpp"
#include "tessera/text/prepared.hpp"

namespace tessera {

namespace {

void say_left_out(const Options& options, const std::string& option, const CorpusSettings& settings) {
  if (const std::string names = left_out(options, option); !names.empty()) settings.say("left out   " + names);
}

void prepare_one(const Options& options, const std::string& option, const CorpusSettings& settings) {
  say_left_out(options, option, settings);
  if (is_read_directly(options, option)) {
    settings.say(fmt::format("direct     {} needs no preparation: train reads it as it is",
                             option == "data.source" ? options.data.source : options.data.val_source));
    return;
  }
  settings.say(fmt::format("cached     {}", prepare_in_cache(options, option, settings).string()));
}

/// Says so where options of conversations have no effect. A validation set may have some.
void say_idle(const Options& options, const TokenSource& tokens) {
  const std::string idle = idle_chat_options(options, tokens.counted_share().conversations > 0);
  if (!idle.empty() && options.data.val_source.empty()) Log(0, 1).warn(idle);
}

}  // namespace

int run_data_prepare(const Options& options) {
  const DataOptions& data = options.data;
  if (data.source == "synthetic")
    throw refusal("data.source = synthetic is not a text to prepare").use("files, folders and globs of text");
  CorpusSettings settings;
  settings.threads = options.run.threads > 0 ? static_cast<int>(options.run.threads) : allowed_cores();
  settings.say = [](const std::string& line) { Log(0, 1).info(line); };
  if (!data.output.empty()) {
    say_left_out(options, "data.source", settings);
    prepare_output(options, settings);
    const bool has_mask = path_exists(mask_beside(data.output));
    settings.say(fmt::format("written    {0} (tokens), {0}.idx (documents){1}", data.output,
                             has_mask ? fmt::format(", {}.mask (tokens that the loss leaves out)", data.output) : ""));
    say_idle(options, *open_tokens(data.output, {}));
    return 0;
  }
  for (const Options& one : each_source(options)) prepare_one(one, "data.source", settings);
  Options one = options;
  for (const ValidationSource& set : validation_sources(data.val_source)) {
    one.data.val_source = set.source;
    prepare_one(one, "data.val_source", settings);
  }
  if (!idle_chat_options(options, false).empty()) say_idle(options, *open_corpus(options, kAnyVocabulary));
  return 0;
}

}  // namespace tessera
