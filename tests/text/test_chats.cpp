#include <nlohmann/json.hpp>

#include "file_support.hpp"
#include "sweep/fake_programs.hpp"
#include "tessera/text/chats.hpp"
#include "tessera/text/corpus.hpp"
#include "text/chat_encoder.hpp"
#include "text/text_case.hpp"

using namespace tessera;
using namespace tessera::testing;
using Catch::Contains;
using Catch::EndsWith;

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Runs = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Writes the folder of a model with that template.
fs::path write_model(const TemporaryFolder& folder, const Json& of) {
  const fs::path reference = TESSERA_REFERENCE_DIR;
  const std::string tokenizer = of.value("tokenizer", "qwen2");
  folder.write("model/tokenizer.json", test::read_file(reference / "tokenizers" / tokenizer / "tokenizer.json"));
  folder.write("model/tokenizer_config.json", of.value("config", Json::object()).dump());
  if (of.contains("template")) folder.write("model/chat_template.jinja", of["template"].get<std::string>());
  return folder / "model";
}

/// Returns why a conversation is not rendered, or what it becomes after a "=".
std::string rendered(const std::string& source, const std::string& conversation) {
  const TemporaryFolder folder;
  const fs::path model = write_model(folder, {{"template", source}});
  ChatRenderer renderer(chat_form({}, *open_tokenizer(model), model.string()));
  const RenderedChat chat = renderer.render(conversation);
  return chat.problem.empty() ? "=" + chat.text : chat.problem;
}

constexpr const char* kNames = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";
constexpr const char* kAsked = R"({"messages": [{"role": "user", "content": "hi"}]})";

}  // namespace

TEST_CASE("Conversations become what Transformers makes of them, and the assistant's turns count") {
  const auto cases = Json::parse(test::read_file(fs::path(TESSERA_REFERENCE_DIR) / "chats.json"));
  REQUIRE(cases.size() > 20);
  std::int64_t encoded = 0, refused = 0;
  for (const Json& one : cases) {
    const TemporaryFolder folder;
    const fs::path model = write_model(folder, one);
    const auto tokenizer = open_tokenizer(model);
    DataOptions options;
    options.chat_turns = one["turns"] == "last" ? ChatTurns::last : ChatTurns::all;
    const ChatForm form = chat_form(options, *tokenizer, model.string());
    const auto encoder = tokenizer->encoder();
    ChatEncoder chats(form, *tokenizer, *encoder);
    for (const Json& row : one["rows"]) {
      INFO(one["name"] << " " << one["turns"] << " " << row["conversation"].dump());
      Encoded out;
      chats.ask(std::array{row["conversation"].dump()});
      const std::string problem = chats.take(out);
      INFO(problem);
      REQUIRE(problem.empty() == row.contains("ids"));
      (problem.empty() ? encoded : refused) += 1;
      if (!problem.empty()) continue;
      CHECK(out.ids == row["ids"].get<std::vector<std::int32_t>>());
      Runs runs;
      for (const TokenRun& run : out.uncounted) runs.emplace_back(run.begin, run.end);
      CHECK(runs == row["uncounted"].get<Runs>());
      CHECK(out.ends == std::vector<std::int64_t>{std::ssize(out.ids)});
    }
  }
  CHECK(encoded > 70);
  CHECK(refused > 5);
}

TEST_CASE("A conversation that is none says why") {
  CHECK(rendered(kNames, kAsked) == "=user: hi\n");
  CHECK_THAT(rendered(kNames, R"({"messages": []})"), Contains("has no message"));
  CHECK_THAT(rendered(kNames, R"({"messages": [3]})"), Contains("message 1 of \"messages\" is not an object"));
  CHECK_THAT(rendered(kNames, R"({"messages": [{"content": "x"}]})"),
             Contains("message 1 of \"messages\" has no role"));
  CHECK_THAT(rendered(kNames, R"({"messages": [{"role": "user", "content": ""}], "tools": "{"})"), Contains("tools"));
  CHECK_THAT(rendered("{{ raise_exception('no ' + messages[0].role) }}", kAsked),
             Contains("refuses this conversation: no user"));
  CHECK_THAT(rendered("{{ messages[0].content.missing.more }}", kAsked),
             Contains("fails on this conversation: UndefinedError"));
  CHECK_THAT(rendered("{{ ''.__class__.__mro__ }}", kAsked), Contains("fails on this conversation: SecurityError"));
  CHECK_THAT(rendered("{% if false %}{% endif %}", kAsked), Contains("an empty text"));
  CHECK(rendered("{{ messages[0] | tojson }}", R"({"messages": [{"role": "a<b>", "content": null}]})") ==
        "={\"role\": \"a<b>\"}");
  CHECK_THAT(error_of([] { rendered("{% for %}", kAsked); }), Contains("does not compile: line 1"));
}

TEST_CASE("Strange templates and messages are refused in words of their own") {
  const std::string talk =
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]})";
  for (const char* broken : {"{% break %}", "{{ ((((((", "{% macro %}"})
    CHECK_THAT(error_of([&] { rendered(broken, kAsked); }), Contains("the chat template does not compile"));
  CHECK_THAT(error_of([&] { rendered("{{ " + std::string(3000, '(') + "1" + std::string(3000, ')') + " }}", kAsked); }),
             Contains("the chat template does not compile"));
  CHECK_THAT(rendered("{{ raise_exception('\\ud800') }}", kAsked), Contains("refuses this conversation: ?"));
  CHECK_THAT(rendered("{{ '\\ud800' }}", kAsked), Contains("fails on this conversation: UnicodeEncodeError"));
  CHECK_THAT(rendered("{% macro turn(m) %}{{ m.role }}: {% generation %}{{ m.content }}{% endgeneration %}"
                      "{% endmacro %}{% for m in messages %}{{ turn(m) }}{% endfor %}",
                      talk),
             Contains("marks text that it writes in another place"));
  const std::string begins = R"({"messages": [{"role": "assistant", "content": "yo"}, {"role": "assistant"}]})";
  CHECK_THAT(rendered("{{ messages[0].role }}", begins),
             Contains("cannot write no message (UndefinedError") && Contains("data.chat_turns = last"));
  CHECK_THAT(rendered("{{ messages | length }}{{ 'x' if add_generation_prompt }}", talk),
             Contains("message 2 does not begin with the template's generation prompt") &&
                 Contains("{% generation %}") && !Contains("data.chat_turns"));
  const auto of = [](const std::string& message) { return R"({"messages": [)" + message + "]}"; };
  CHECK(rendered(kNames, of(R"({"from": "human", "value": "a", "role": null})")) == "=user: a\n");
  CHECK_THAT(rendered(kNames, of(R"({"from": ["human"]})")), Contains("has a role that is not a text"));
  CHECK_THAT(rendered(kNames, of(R"({"role": 3})")), Contains("has a role that is not a text"));
  CHECK_THAT(rendered(kNames, of(R"({"role": "user", "content": [{"type": "text", "text": "hi"}]})")),
             Contains("takes only content that is a text"));
  CHECK(rendered("{{ messages[0].content[0].text }}", of(R"({"role": "user", "content": [{"text": "hi"}]})")) == "=hi");
  CHECK(rendered(kNames, of(R"({"role": "user", "content": []})")) == "=user: []\n");
  CHECK_THAT(rendered("{{ messages[0].role.strip() }}{{ messages[0].role.__class__.x }}", kAsked),
             Contains("SecurityError"));
#ifndef __aarch64__  // qemu-user limits no program's memory
  CHECK_THAT(rendered("{{ 'x' * 10000000000 }}", kAsked), Contains("MemoryError"));
#endif
  CHECK_THAT(rendered("{{ raise_exception('no user.') }}", kAsked), EndsWith("no user"));
}

TEST_CASE("What stands next to the messages reaches the template") {
  const char* source = "{% for m in messages %}{{ m.role }} {{ m.content }};{% endfor %}{{ deep }}{{ bos_token }}";
  const auto text = [&](const std::string& fields) {
    return rendered(source, R"({"conversations": [{"from": "human", "value": "hi"}])" + fields + "}");
  };
  CHECK(text("") == "=user hi;");
  CHECK(text(R"(, "system": "S", "messages": [])") == "=system S;user hi;");
  CHECK(text(R"(, "system": "")") == "=user hi;");
  CHECK(text(R"(, "chat_template_kwargs": {"deep": 3, "messages": 4})") == "=user hi;3");
  CHECK(text(R"(, "chat_template_kwargs": "{\"deep\": 5}")") == "=user hi;5");
  CHECK_THAT(text(R"(, "chat_template_kwargs": [1])"), Contains("\"chat_template_kwargs\" is not an object"));
  CHECK_THAT(text(R"(, "system": 3)"), Contains("\"system\" is not a text"));
  CHECK_THAT(rendered(source, R"({"system": "S", "messages": [{"role": "system", "content": "T"}]})"),
             Contains("\"system\" stands next to a message of the role system"));
}

TEST_CASE("A template's marks count whatever it calls the role that answers") {
  const TemporaryFolder folder;
  const fs::path model =
      write_model(folder, {{"template",
                            "{% for m in messages %}<{% if m.role == 'model' %}{% generation %}{{ m.content }}"
                            "{% endgeneration %}{% else %}{{ m.content }}{% endif %}>{% endfor %}"}});
  const auto tokenizer = open_tokenizer(model);
  for (const ChatTurns turns : {ChatTurns::all, ChatTurns::last}) {
    DataOptions options;
    options.chat_turns = turns;
    ChatRenderer renderer(chat_form(options, *tokenizer, model.string()));
    const RenderedChat chat =
        renderer.render(R"({"messages": [{"role": "user", "content": "a"}, {"role": "model", "content": "b"}, )"
                        R"({"role": "user", "content": "c"}, {"role": "model", "content": "d"}]})");
    REQUIRE(chat.problem.empty());
    CHECK(chat.counts.size() == (turns == ChatTurns::all ? 2U : 1U));
    CHECK(chat.counts.back().begin == 10);
  }
}

TEST_CASE("A helper that cannot start is started once") {
  const TemporaryFolder folder;
  const fs::path model = write_model(folder, {{"template", "{% for %}"}});
  const auto tokenizer = open_tokenizer(model);
  const auto encoder = tokenizer->encoder();
  const ChatForm form = chat_form({}, *tokenizer, model.string());
  ChatEncoder chats(form, *tokenizer, *encoder);
  Encoded out;
  const std::string first = error_of([&] { chats.ask(std::array{std::string(kAsked)}), chats.take(out); });
  CHECK_THAT(first, Contains("does not compile"));
  const test::FakeVariable none("TESSERA_PYTHON", "/no/python");  // would be another error
  CHECK(error_of([&] { chats.ask(std::array{std::string(kAsked)}), chats.take(out); }) == first);
}

TEST_CASE("Conversations need no separator, but texts among them do") {
  const TemporaryFolder folder;
  Options options;
  options.data.tokenizer = write_model(folder, {{"tokenizer", "gemma"}, {"template", kNames}}).string();
  options.data.cache = (folder / "cache").string();
  const std::string answered = R"({"messages": [{"role": "user"}, {"role": "assistant", "content": "hi"}]})";
  const auto prepared = [&](const std::string& name, const std::string& lines) {
    options.data.source = folder.write(name, lines).string();
    return error_of([&] { prepare_in_cache(options, "data.source", {}); });
  };
  CHECK(prepared("a.jsonl", answered) == "");
  CHECK_THAT(prepared("b.jsonl", answered + "\n{\"text\": \"x\"}"), Contains("data.separator = auto does not work"));
  CHECK_THAT(prepared("c.txt", "x"), Contains("data.separator = auto does not work"));
}

TEST_CASE("A folder's template is a file of its own, or the one named default") {
  const TemporaryFolder folder;
  const auto text_of = [&](const Json& tools) {
    const auto tokenizer = open_tokenizer(folder / "model");
    ChatRenderer renderer(chat_form({}, *tokenizer, (folder / "model").string(), true));
    return renderer.render(Json{{"messages", {{{"role", "user"}}}}, {"tools", tools}}.dump()).text;
  };
  const auto named = [](const char* name) { return Json{{"name", name}, {"template", name}}; };
  Json config{{"chat_template", {named("rag"), named("default"), named("tool_use")}}, {"bos_token", "<|endoftext|>"}};
  write_model(folder, {{"config", config}});
  CHECK(text_of({}) == "default");
  CHECK(text_of(Json::array({Json::object()})) == "tool_use");
  config["chat_template"] = "{{ bos_token }}{{ add_generation_prompt }}{{ tools is none }}";
  write_model(folder, {{"config", config}});
  CHECK(text_of({}) == "<|endoftext|>TrueTrue");
  write_model(folder, {{"config", config}, {"template", "own file"}});
  CHECK(text_of({}) == "own file");
  CHECK(text_of(Json::array({Json::object()})) == "own file");
  config["chat_template"] = {named("rag")};
  fs::remove(folder / "model/chat_template.jinja");
  write_model(folder, {{"config", config}});
  CHECK_THAT(error_of([&] { text_of({}); }), Contains("the one named default") && Contains("data.chat_template"));
}
