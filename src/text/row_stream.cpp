#include "text/row_stream.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/refuse.hpp"
#include "tessera/base/shown.hpp"

namespace tessera {

namespace {

constexpr std::size_t kShown = 600;  ///< bytes of a helper's clause

[[noreturn]] void refuse_python(const std::string& path, const std::string& why) {
  throw refusal("{} is read by pyarrow in Python, but {}", path, why)
      .hint(
          "Make an environment with it (python3 -m venv VENV && VENV/bin/pip install pyarrow jinja2) and set "
          "TESSERA_PYTHON=VENV/bin/python, or write the rows as .jsonl elsewhere");
}

constexpr const char* kCopyAgain = "Copy the file again";

[[noreturn]] void refuse_file(const std::string& path, std::string_view why, const char* advice) {
  throw refusal("{} cannot be read: {}", path, shown(why, kShown)).hint("{}", advice);
}

nlohmann::json answer_of(Helper& helper) {
  try {
    return nlohmann::json::parse(helper.line());
  } catch (const nlohmann::json::exception& error) {
    throw IoError("the helper that reads rows does not answer with JSON ({})", shown(error.what()));
  }
}

std::string clause_of(const nlohmann::json& answer) { return shown(answer["error"].get<std::string>(), kShown); }

class RowBytes final : public ByteStream {
 public:
  RowBytes(SourceFile file, Helper& helper, std::int64_t rows) : file_(std::move(file)), helper_(helper), rows_(rows) {}

  std::size_t read(char* out, std::size_t bytes) override {
    if (used_ == line_.size() && !next()) return 0;
    const std::size_t count = line_.copy(out, bytes, used_);
    used_ += count;
    return count;
  }
  std::int64_t taken() const override {
    if (row_ == rows_) return file_.state.size;
    return static_cast<std::int64_t>(static_cast<double>(file_.state.size) *
                                     (static_cast<double>(row_) / static_cast<double>(rows_)));
  }

 private:
  bool next() {
    if (row_ == rows_) {
      require_unchanged(file_);
      return false;
    }
    try {
      line_ = helper_.line();
    } catch (const IoError& error) {
      throw IoError("{} is not read on after row {}: {}", file_.path.string(), row_, error.what());
    }
    if (line_.starts_with('?')) {
      require_unchanged(file_);
      refuse_file(file_.path.string(), fmt::format("after row {}: {}", row_, line_.substr(1)), kCopyAgain);
    }
    line_ += '\n';
    used_ = 0;
    ++row_;
    return true;
  }

  SourceFile file_;
  Helper& helper_;
  std::int64_t rows_, row_ = 0;
  std::string line_;  ///< that is handed out
  std::size_t used_ = 0;
};

}  // namespace

RowReader::RowReader(const std::filesystem::path& file) {
  try {
    helper_ = std::make_unique<Helper>("read_rows.py");
    const nlohmann::json answer = answer_of(*helper_);
    if (answer.contains("error")) refuse_python(file.string(), clause_of(answer));
  } catch (const IoError& error) {
    refuse_python(file.string(), error.what());
  }
}

std::unique_ptr<ByteStream> RowReader::open(const SourceFile& file, const std::string& key) {
  require_unchanged(file);
  const std::string path = file.path.string();
  std::string bytes;
  for (const char byte : path) bytes += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  const nlohmann::json asked = {{"file", bytes}, {"key", key}};
  helper_->send(asked.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  const nlohmann::json answer = answer_of(*helper_);
  if (answer.contains("error")) {
    const bool lacks_columns = answer.value("columns", false);
    refuse_file(path, clause_of(answer),
                lacks_columns ? "Give data.text_key the name of a column of texts" : kCopyAgain);
  }
  return std::make_unique<RowBytes>(file, *helper_, answer.at("rows").get<std::int64_t>());
}

}  // namespace tessera
