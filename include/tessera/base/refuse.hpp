#pragma once
// Refusals of what a user gave, as sentences: what is wrong, why, what to do. For example
//   throw refuse("shard.offload", "params").because("ddp keeps full parameters on every rank")
//       .use("shard.offload = optimizer, or zero3");
// says "shard.offload = params does not work, because ddp keeps full parameters on every rank. Use shard.offload =
// optimizer, or zero3."

#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera {

/// A UsageError whose message is made of parts. Each part is a format string without the full stop at its end.
class Refusal : public UsageError {
 public:
  /// `problem`: a clause with a verb, "data.source is empty", which UsageError::what() returns alone.
  explicit Refusal(const std::string& problem) : UsageError("{}", problem), text_(problem + ".") {}

  /// Adds why it is a problem: ", because ...".
  template <class... Args>
  Refusal& because(fmt::format_string<Args...> reason, Args&&... args) {
    return add(", because ", fmt::format(reason, std::forward<Args>(args)...));
  }
  /// Adds what is allowed: " Use ...".
  template <class... Args>
  Refusal& use(fmt::format_string<Args...> allowed, Args&&... args) {
    return add(". Use ", fmt::format(allowed, std::forward<Args>(args)...));
  }
  /// Adds a sentence about what to do, or about what is known: " Give data.tokenizer".
  template <class... Args>
  Refusal& hint(fmt::format_string<Args...> sentence, Args&&... args) {
    return add(". ", fmt::format(sentence, std::forward<Args>(args)...));
  }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  /// Replaces the full stop by `link`, `words` and a full stop.
  Refusal& add(std::string_view link, const std::string& words) {
    text_.pop_back();
    text_.append(link).append(words).append(".");
    return *this;
  }

  std::string text_;
};

/// Refuses the value of an option: "optim.lr = 3 does not work".
template <class T>
Refusal refuse(std::string_view option, const T& value) {
  return Refusal(fmt::format("{} = {} does not work", option, value));
}

/// Refuses with a clause that the caller writes: refusal("{} is a folder", path).
template <class... Args>
Refusal refusal(fmt::format_string<Args...> problem, Args&&... args) {
  return Refusal(fmt::format(problem, std::forward<Args>(args)...));
}

}  // namespace tessera
