// Every register, constant, symbol and special value becomes a row of the warp.

#include "gpu_emulator/ptx/kernel_builder.hpp"

#include <algorithm>
#include <stdexcept>

namespace ptx {

namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Special::count)> kSpecialNames = {
    "%tid.x",   "%tid.y",   "%tid.z",    "%ntid.x",   "%ntid.y",   "%ntid.z", "%ctaid.x",
    "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid"};

std::int64_t aligned(std::int64_t offset, std::int64_t to) { return (offset + to - 1) / to * to; }

class KernelBuilder {
 public:
  KernelBuilder(const Globals& globals, const Body& body) : globals_(globals), body_(body) {}

  Kernel build() {
    kernel_.name = body_.name;
    Scope scope;
    for (const Variable& p : body_.parameters) {
      kernel_.parameter_bytes = aligned(kernel_.parameter_bytes, p.alignment);
      kernel_.parameters.push_back({kernel_.parameter_bytes, p.bytes});
      scope.symbols[p.name] = static_cast<std::uint64_t>(kernel_.parameter_bytes);
      kernel_.parameter_bytes += p.bytes;
    }
    const std::size_t limit = body_.header.text.find(".maxntid");
    if (limit != std::string::npos)
      kernel_.most_threads = extent(std::string_view(body_.header.text).substr(limit + 8));
    play_body(body_, scope);
    if (dynamic_row_ >= 0) {
      const auto at = static_cast<std::uint64_t>(kSharedBase + aligned(kernel_.static_shared, 16));
      for (auto& [row, value] : kernel_.constants) {
        if (row == dynamic_row_) value = at;
      }
    }
    return std::move(kernel_);
  }

 private:
  /// The meaning of names inside one function (or one call of it).
  struct Scope {
    std::map<std::string, int, std::less<>> rows;               ///< registers, parameters and results of calls
    std::map<std::string, std::uint64_t, std::less<>> symbols;  ///< addresses
    std::map<std::string, int, std::less<>> labels;
    std::vector<std::pair<std::size_t, std::string>> branches;  ///< instructions whose label is to be found
    std::vector<std::size_t> returns;                           ///< of a called function: where it leaves
    bool called = false;
  };

  static std::int64_t extent(std::string_view text) {
    std::int64_t product = 1;
    for (const std::string_view part : split(text.substr(0, text.find('.')))) {
      product *= integer(part, {std::string(part), 0, 0});
    }
    return product;
  }

  void play_body(const Body& body, Scope& scope) {
    for (const Statement* s = body.first; s != body.last; ++s) {
      if (s->text == "{" || s->text == "}") continue;
      if (s->text.back() == ':') {
        scope.labels[s->text.substr(0, s->text.size() - 1)] = static_cast<int>(kernel_.code.size());
      } else if (s->text.front() == '.') {
        declare(*s, scope);
      } else {
        instruction(*s, scope);
      }
    }
    for (const auto& [at, label] : scope.branches) {
      const auto found = scope.labels.find(label);
      if (found == scope.labels.end()) throw std::runtime_error("PTX: no label " + label + " in " + body.name);
      kernel_.code[at].target = found->second;
    }
  }

  void declare(const Statement& s, Scope& scope) {
    std::string_view rest = s.text;
    const std::string_view what = take_word(rest);
    if (what == ".reg" || what == ".pragma" || what == ".maxntid" || what == ".minnctapersm") return;
    if (what == ".shared") {
      scope.symbols[variable(rest, s).name] = place_shared(variable(rest, s));
    } else if (what == ".local") {
      const Variable v = variable(rest, s);
      kernel_.local_bytes = aligned(kernel_.local_bytes, v.alignment);
      scope.symbols[v.name] = static_cast<std::uint64_t>(kernel_.local_bytes);
      kernel_.local_bytes += v.bytes;
    } else if (what == ".param") {  // of a call
      scope.rows[variable(rest, s).name] = kernel_.rows++;
    } else {
      refuse(s, "a declaration that is not known");
    }
  }

  std::uint64_t place_shared(const Variable& v) {
    kernel_.static_shared = aligned(kernel_.static_shared, v.alignment);
    const std::int64_t at = kSharedBase + kernel_.static_shared;
    kernel_.static_shared += v.bytes;
    return static_cast<std::uint64_t>(at);
  }

  int constant(std::uint64_t value) {
    const auto [at, fresh] = constant_rows_.emplace(value, kernel_.rows);
    if (fresh) kernel_.constants.emplace_back(kernel_.rows++, value);
    return at->second;
  }

  /// The row of a register, number, symbol or special value.
  int row(std::string_view text, const Statement& s, Scope& scope) {
    if (const auto number = immediate(text, s)) return constant(*number);
    for (std::size_t i = 0; i < kSpecialNames.size(); ++i) {
      if (text == kSpecialNames[i]) return special(static_cast<Special>(i));
    }
    if (const auto known = scope.rows.find(text); known != scope.rows.end()) return known->second;
    if (text.starts_with('%') || text == "_") {
      scope.rows[std::string(text)] = kernel_.rows;
      return kernel_.rows++;
    }
    if (text == globals_.dynamic_shared) {
      if (dynamic_row_ < 0) {
        dynamic_row_ = kernel_.rows++;
        kernel_.constants.emplace_back(dynamic_row_, 0);
      }
      return dynamic_row_;
    }
    if (const auto symbol = scope.symbols.find(text); symbol != scope.symbols.end()) return constant(symbol->second);
    for (const Variable& v : globals_.shared) {
      if (v.name == text) return constant(scope.symbols[v.name] = place_shared(v));
    }
    // A register that was declared without '%': inline assembly and calls may.
    if (text.empty() || !std::all_of(text.begin(), text.end(), is_word)) refuse(s, "an operand that is not known");
    scope.rows[std::string(text)] = kernel_.rows;
    return kernel_.rows++;
  }

  int special(Special which) {
    for (const auto& [row, known] : kernel_.specials) {
      if (known == which) return row;
    }
    kernel_.specials.emplace_back(kernel_.rows, which);
    return kernel_.rows++;
  }

  void instruction(const Statement& s, Scope& scope) {
    std::string_view rest = s.text;
    Instruction i;
    i.file = s.file, i.line = s.line;
    if (rest.front() == '@') {
      std::string_view guard = take_word(rest).substr(1);
      i.guard_negated = guard.front() == '!';
      if (i.guard_negated) guard.remove_prefix(1);
      i.guard = row(guard, s, scope);
    }
    const std::string name(take_word(rest));
    if (name == "call.uni" || name == "call") return call(rest, s, scope);
    i.name = names_of_instructions(name);
    if (parameter_of_call(name, rest, s, scope, i)) {
      kernel_.code.push_back(i);
      return;
    }
    const std::optional<Spec> spec = find_instruction(name);
    if (!spec) {  // a fault once a lane comes here
      i.spec.control = Control::unknown;
      kernel_.code.push_back(i);
      return;
    }
    i.spec = *spec;
    if (i.spec.control == Control::branch) {
      scope.branches.emplace_back(kernel_.code.size(), std::string(rest));
    } else if (i.spec.control == Control::leave && scope.called) {
      i.spec.control = Control::branch;
      scope.returns.push_back(kernel_.code.size());
    } else {
      operands(i, rest, s, scope);
    }
    kernel_.code.push_back(i);
  }

  /// st.param and ld.param around calls are moves.
  bool parameter_of_call(const std::string& name, std::string_view rest, const Statement& s, Scope& scope,
                         Instruction& i) {
    if (!name.starts_with("st.param") && !name.starts_with("ld.param")) return false;
    const auto parts = split(rest);
    const bool store = name.starts_with("st");
    std::string_view place = parts[store ? 0 : 1];
    place = place.substr(1, place.size() - 2);
    if (const std::size_t plus = place.find('+'); plus != std::string_view::npos) {
      if (place.substr(plus) != "+0") return false;
      place = place.substr(0, plus);
    }
    const auto known = scope.rows.find(place);
    if (known == scope.rows.end() || place.starts_with('%')) return false;
    i.spec = *find_instruction("mov.b64");
    const int value = row(parts[store ? 1 : 0], s, scope);
    i.to[0] = store ? known->second : value;
    i.from[0] = store ? value : known->second;
    i.sources = 1;
    return true;
  }

  /// (results), function, (arguments)
  void call(std::string_view rest, const Statement& s, Scope& caller) {
    const auto parts = split(rest);
    if (parts.size() != 3) refuse(s, "a call that is not understood");
    const auto found = globals_.functions.find(parts[1]);
    if (found == globals_.functions.end()) refuse(s, "a function that is not known");
    const Body& body = found->second;
    Scope scope;
    scope.called = true;
    const auto bind = [&](std::string_view list, const std::vector<Variable>& names) {
      const auto given = split(list.substr(1, list.size() - 2));
      if (given.size() != names.size()) refuse(s, "a call with other parameters");
      for (std::size_t i = 0; i < names.size(); ++i) scope.rows[names[i].name] = row(given[i], s, caller);
    };
    bind(parts[0], body.results);
    bind(parts[2], body.parameters);
    play_body(body, scope);
    for (const std::size_t at : scope.returns) kernel_.code[at].target = static_cast<int>(kernel_.code.size());
  }

  void operands(Instruction& i, std::string_view rest, const Statement& s, Scope& scope) {
    const auto parts = split(rest);
    std::size_t results = 0, addresses = 0;
    const auto add_source = [&](int of) {
      if (i.sources == static_cast<int>(i.from.size())) refuse(s, "too many operands");
      i.from[static_cast<std::size_t>(i.sources++)] = of;
    };
    for (std::size_t p = 0; p < parts.size(); ++p) {
      std::string_view part = parts[p];
      if (part.front() == '[') {
        part = trimmed(part.substr(1, part.size() - 2));
        const std::size_t plus = part.find('+');
        if (plus != std::string_view::npos) {
          i.offset[addresses] = integer(trimmed(part.substr(plus + 1)), s);
          part = trimmed(part.substr(0, plus));
        }
        ++addresses;
        add_source(row(part, s, scope));
        continue;
      }
      const bool vector = part.front() == '{';
      for (const std::string_view element : vector ? split(part.substr(1, part.size() - 2)) : std::vector{part}) {
        if (p == 0 && i.spec.has_result) {
          const std::size_t bar = element.find('|');  // shuffles write "value|predicate"
          if (results + 1 >= i.to.size() + (bar == std::string_view::npos ? 1 : 0)) refuse(s, "too many results");
          i.to[results++] = row(element.substr(0, bar), s, scope);
          if (bar != std::string_view::npos) i.to[results++] = row(element.substr(bar + 1), s, scope);
        } else {
          add_source(row(element, s, scope));
        }
      }
    }
    if (i.spec.run == nullptr && i.spec.control == Control::none) refuse(s, "an instruction that does nothing");
    if (i.spec.size != 0) {
      const std::size_t values = i.spec.has_result ? results : static_cast<std::size_t>(i.sources) - addresses;
      if (values != i.spec.count) refuse(s, "a vector of another length");
    }
    i.results = static_cast<int>(results);
    packs(i, results, s);
  }

  /// mov.b32 and mov.b64 also put registers together and take them apart.
  static void packs(Instruction& i, std::size_t results, const Statement& s) {
    if (!i.name.starts_with("mov.") || (results == 1 && i.sources == 1)) return;
    const bool apart = results > 1;
    const std::int64_t pieces = apart ? static_cast<std::int64_t>(results) : i.sources;
    if ((apart && i.sources != 1) || (!apart && results != 1)) refuse(s, "a move that is not understood");
    i.spec = *find_instruction(apart ? "mov.apart" : "mov.together");
    i.offset[0] = pieces;
    i.offset[1] = (i.name.ends_with("64") ? 64 : i.name.ends_with("32") ? 32 : 16) / pieces;
  }

  static std::string_view names_of_instructions(const std::string& name) {
    static std::map<std::string, bool, std::less<>> names;  // they live as long as the program
    return names.emplace(name, true).first->first;
  }

  const Globals& globals_;
  const Body& body_;
  Kernel kernel_;
  std::map<std::uint64_t, int> constant_rows_;
  int dynamic_row_ = -1;
};

}  // namespace

Kernel build_kernel(const Globals& globals, const Body& body) { return KernelBuilder(globals, body).build(); }

}  // namespace ptx
