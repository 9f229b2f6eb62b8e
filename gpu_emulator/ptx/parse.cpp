// A module: its functions and what they share.

#include <algorithm>
#include <map>
#include <utility>

#include "gpu_emulator/ptx/kernel_builder.hpp"

namespace ptx {

namespace {

std::vector<Variable> parameters(std::string_view list, const Statement& s) {
  std::vector<Variable> all;
  for (const std::string_view part : split(list)) {
    std::string_view rest = part;
    if (take_word(rest) != ".param") refuse(s, "a parameter that is not understood");
    all.push_back(variable(rest, s));
  }
  return all;
}

/// The text between the bracket at `open` and its partner.
std::string_view inside(std::string_view text, std::size_t open) {
  const std::size_t close = text.find(')', open);
  return text.substr(open + 1, close - open - 1);
}

Body function_of(const Statement& header, bool entry) {
  Body body;
  body.header = header;
  std::string_view text = header.text;
  text.remove_prefix(text.find(entry ? ".entry" : ".func") + (entry ? 6 : 5));
  text = trimmed(text);
  if (!entry && text.front() == '(') {
    body.results = parameters(inside(text, 0), header);
    text = trimmed(text.substr(text.find(')') + 1));
  }
  const std::size_t open = std::min(text.find('('), text.size());
  body.name = std::string(trimmed(text.substr(0, open)));
  if (open < text.size()) body.parameters = parameters(inside(text, open), header);
  return body;
}

}  // namespace

struct Module::Contents {
  std::vector<std::string> files = std::vector<std::string>(1);  ///< numbers begin at 1
  std::vector<Statement> statements;
  Globals globals;
  std::map<std::string, Body> entries;
  std::map<std::string, Kernel> kernels;  ///< of those that were asked for
};

Module::Module(std::string_view text) : contents_(std::make_unique<Contents>()) {
  auto& [files, statements, globals, entries, kernels] = *contents_;
  statements = cut(text, files);
  for (std::size_t at = 0; at < statements.size(); ++at) {
    const Statement& s = statements[at];
    const bool entry = s.text.find(".entry") != std::string::npos;
    if (entry || s.text.find(".func") != std::string::npos) {
      Body body = function_of(s, entry);
      if (at + 1 == statements.size() || statements[at + 1].text != "{") continue;  // declared only
      at += 2;
      body.first = &statements[at];
      for (int depth = 1;; ++at) {
        if (at == statements.size()) refuse(s, "a body without an end");
        depth += statements[at].text == "{" ? 1 : statements[at].text == "}" ? -1 : 0;
        if (depth == 0) break;
      }
      body.last = &statements[at];
      if (entry) entries[body.name] = body;
      if (!entry) globals.functions[body.name] = body;
    } else if (s.text.starts_with(".extern .shared")) {
      globals.dynamic_shared = variable(s.text.substr(15), s).name;
    } else if (s.text.starts_with(".shared")) {
      globals.shared.push_back(variable(s.text.substr(7), s));
    } else if (!s.text.starts_with(".global") && !s.text.starts_with(".weak")) {
      refuse(s, "a statement that is not understood");
    }
  }
}

Module::~Module() = default;

const Kernel* Module::kernel(const std::string& name) {
  if (const auto made = contents_->kernels.find(name); made != contents_->kernels.end()) return &made->second;
  const auto entry = contents_->entries.find(name);
  if (entry == contents_->entries.end()) return nullptr;
  Kernel kernel = build_kernel(contents_->globals, entry->second);
  kernel.files = contents_->files;
  return &(contents_->kernels[name] = std::move(kernel));
}

}  // namespace ptx
