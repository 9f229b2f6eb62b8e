#include "tessera/resolve/companions.hpp"

#include "tessera/checkpoint/manifest.hpp"
#include "tessera/config/settings.hpp"
#include "tessera/convert/hugging_face_companions.hpp"
#include "tessera/files/fresh_output.hpp"
#include "tessera/resolve/model_tokenizer.hpp"
#include "tessera/resolve/run_checkpoints.hpp"
#include "tessera/text/choose_tokenizer.hpp"

namespace tessera {

void keep_companions(const Options& options, std::optional<DType> dtype) {
  const std::filesystem::path kept = run_folder(options) / kCompanionFolder;
  std::error_code unseen;  // then it is not there
  if (std::filesystem::exists(kept, unseen) && !std::filesystem::is_empty(kept, unseen)) return;  // it is whole
  std::filesystem::path from;
  if (!options.model.from.empty()) {
    const auto checkpoint = checkpoint_in(options.model.from);
    from = checkpoint ? companions_of(*checkpoint, read_manifest(*checkpoint)) : companions_at(options.model.from);
  }
  const std::string& resume = options.checkpoint.resume;
  if (from.empty() && resume != "none" && resume != "auto") {
    if (const auto checkpoint = checkpoint_in(resume)) from = companions_of(*checkpoint, read_manifest(*checkpoint));
  }
  FreshFolder folder(kept);
  copy_companions(from, folder.beside(), options.data.tokenizer);
  if (!options.data.tokenizer.empty() && !from.empty())
    restate_token_ids(folder.beside(), from, tokenizer_name(options));
  if (dtype) keep_dtype(folder.beside(), *dtype);
  if (!options.data.chat_template.empty()) keep_chat_template(folder.beside(), options.data.chat_template);
  if (!std::filesystem::is_empty(folder.beside(), unseen)) folder.finish();
}

}  // namespace tessera
