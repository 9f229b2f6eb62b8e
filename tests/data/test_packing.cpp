#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "tessera/data/dataset.hpp"
#include "tessera/data/reader.hpp"

using namespace tessera;
using Catch::Contains;

namespace {

/// Tokens 1, 2, 3, ... in documents that end where `ends` says.
class Documents final : public TokenSource {
 public:
  explicit Documents(std::vector<std::int64_t> ends) : ends_(std::move(ends)) {}
  std::int64_t size() const override { return ends_.back(); }
  std::int64_t id_bound() const override { return size() + 1; }
  void copy(std::int64_t first, std::int64_t count, std::int32_t* out) const override {
    std::iota(out, out + count, static_cast<std::int32_t>(first + 1));
  }
  bool has_documents() const override { return true; }
  std::int64_t document_end(std::int64_t token) const override { return *std::ranges::upper_bound(ends_, token); }
  std::string describe() const override { return "documents"; }
  const std::vector<std::int64_t>& ends() const { return ends_; }

 private:
  std::vector<std::int64_t> ends_;
};

Documents drawn(std::mt19937& draw, std::int64_t documents, std::int64_t most) {
  std::geometric_distribution<std::int64_t> length(std::min(0.5, 3.0 / static_cast<double>(most)));
  std::vector<std::int64_t> ends;
  std::int64_t end = 0;
  for (std::int64_t i = 0; i < documents; ++i) ends.push_back(end += 1 + std::min(length(draw), 2 * most));
  return Documents(ends);
}

/// How often each token is a target, over all samples of a packing; checks each sample on the way.
std::vector<int> targets_in(const Documents& source, const DocumentPacking& packing) {
  std::vector<int> times(static_cast<std::size_t>(source.size()));
  bool is_right = true;
  for (std::int64_t sample = 0; sample < packing.samples(); ++sample) {
    std::int64_t tokens = 0, before = 0;
    for (const TokenRange& range : packing.ranges(sample)) {
      const std::int64_t end = range.first + range.count;
      is_right = is_right && range.first >= before && source.document_end(range.first) >= end;  // of one document
      before = end;
      tokens += range.count;
      for (std::int64_t token = range.first + 1; token < end; ++token) ++times[static_cast<std::size_t>(token)];
    }
    is_right = is_right && tokens >= 2 && tokens <= packing.seq_len() + 1;
  }
  REQUIRE(is_right);
  return times;
}

}  // namespace

TEST_CASE(
    "Each token but the first of a document is a target once, whole documents stay whole, and little is padding") {
  std::mt19937 draw(5);
  for (const std::int64_t seq_len : {1, 7, 64, 3000}) {
    const Documents source = drawn(draw, 20000, seq_len + 1);
    const TokenRange all{0, source.size()};
    const DocumentPacking cut(source, all, seq_len, TooLong::cut), skip(source, all, seq_len, TooLong::skip);
    std::vector<int> wanted(static_cast<std::size_t>(source.size()), 1), whole = wanted;
    std::int64_t begin = 0, too_long = 0, packed = 0;
    for (const std::int64_t end : source.ends()) {
      const bool is_too_long = end - begin > seq_len + 1;
      too_long += is_too_long ? 1 : 0;
      packed += end - begin >= 2 ? 1 : 0;
      wanted[static_cast<std::size_t>(begin)] = whole[static_cast<std::size_t>(begin)] = 0;
      if (is_too_long) std::fill(whole.begin() + begin, whole.begin() + end, 0);
      begin = end;
    }
    CHECK(targets_in(source, cut) == wanted);
    CHECK(targets_in(source, skip) == whole);
    INFO(seq_len << " tokens: " << cut.samples() << " samples, padding " << cut.padding());
    CHECK((cut.documents() == packed && skip.documents() == packed - too_long));
    CHECK((cut.too_long() == too_long && skip.too_long() == too_long));
    CHECK(cut.targets_from(0) == std::reduce(wanted.begin(), wanted.end()));
    CHECK(cut.targets_from(cut.samples()) == 0);
    if (seq_len >= 64) CHECK(cut.padding() < 0.02);
  }
}

TEST_CASE("A packing is the same in any order of use, and counts what is left of it") {
  std::mt19937 draw(6);
  const Documents source = drawn(draw, 60000, 30);
  const DocumentPacking one(source, {0, source.size()}, 20, TooLong::cut),
      other(source, {0, source.size()}, 20, TooLong::cut);
  REQUIRE(source.size() > (std::int64_t{1} << 18));  // several windows
  std::vector<TokenRanges> all;
  for (std::int64_t sample = 0; sample < one.samples(); ++sample) all.push_back(one.ranges(sample));
  std::int64_t left = one.targets_from(0);
  for (std::int64_t i = 0; i < 2000; ++i) {
    const auto sample = std::uniform_int_distribution<std::int64_t>(0, one.samples() - 1)(draw);
    REQUIRE(other.ranges(sample) == all[static_cast<std::size_t>(sample)]);
  }
  for (std::int64_t sample = 0; sample < 500; ++sample) {
    for (const TokenRange& range : all[static_cast<std::size_t>(sample)]) left -= range.count - 1;
    REQUIRE(one.targets_from(sample + 1) == left);
  }
}

TEST_CASE("Padding is a document of its own whose loss does not count") {
  const Documents source({3, 5, 6, 13});
  const DocumentPacking packing(source, {0, 13}, 9, TooLong::cut);
  REQUIRE(packing.samples() == 2);
  std::vector<std::int32_t> row(10), tokens(9), targets(9), positions(9);
  const auto fill = [&](std::int64_t sample) {
    fill_sample(source, packing.ranges(sample), 14, row, tokens.data(), targets.data(), positions.data());
  };
  using Row = std::vector<std::int32_t>;
  constexpr std::int32_t no = kUncountedToken;
  fill(0);  // tokens 1 to 3 beside 7 to 13
  CHECK(tokens == Row{1, 2, 3, 7, 8, 9, 10, 11, 12});
  CHECK(targets == Row{2, 3, no, 8, 9, 10, 11, 12, 13});
  CHECK(positions == Row{0, 1, 2, 0, 1, 2, 3, 4, 5});
  fill(1);  // tokens 4 and 5; token 6 is a document alone
  CHECK(tokens == Row{4, 5, 0, 0, 0, 0, 0, 0, 0});
  CHECK(targets == Row{5, no, no, no, no, no, no, no, no});
  CHECK(positions == Row{0, 1, 0, 1, 2, 3, 4, 5, 6});
  const Sampler sampler(std::make_shared<DocumentPacking>(source, TokenRange{0, 13}, 9, TooLong::cut),
                        SampleOrder::sequential, 1);
  CHECK(counted_targets(source, sampler, 0, 4, row) == 2 * (2 + 6 + 1));
  CHECK(sampler.targets_after(1) == 1);
}

TEST_CASE("Parts for training and validation meet where a document ends") {
  std::mt19937 draw(7);
  DataOptions options;
  options.packing = Packing::documents;
  for (const double fraction : {0.0, 0.1, 0.5}) {
    auto documents = std::make_unique<Documents>(drawn(draw, 300, 40));
    const Documents& source = *documents;
    options.val_fraction = fraction;
    DataSources sources;
    sources.train = std::move(documents);
    const Dataset data(std::move(sources), options, source.size() + 1, 32);
    const std::int64_t border = data.split().train.count;
    CHECK(border + data.split().validation.count == source.size());
    CHECK(std::ranges::find(source.ends(), border) != source.ends().end());
    CHECK(data.validation().size() == (fraction > 0 ? 1 : 0));
    for (std::int64_t sample = 0; sample < data.train().samples_per_epoch(); ++sample)
      for (const TokenRange& range : data.train().ranges(sample)) REQUIRE(range.first + range.count <= border);
    for (const ValidationSet& set : data.validation())
      for (std::int64_t sample = 0; sample < set.samples.samples_per_epoch(); ++sample)
        for (const TokenRange& range : set.samples.ranges(sample)) REQUIRE(range.first >= border);
  }
  const auto opened = [&](const std::vector<std::int64_t>& ends, double fraction, TooLong too_long) {
    DataSources sources;
    sources.train = std::make_unique<Documents>(ends);
    options.val_fraction = fraction, options.too_long = too_long;
    return Dataset(std::move(sources), options, 300, 32);
  };
  // A border that lies between two documents stays there.
  CHECK(opened({64, 128, 192, 256}, 0.5, TooLong::cut).split().train.count == 128);
  const auto refused = [&](double fraction, TooLong too_long) { return opened({100, 200}, fraction, too_long); };
  CHECK_THROWS_WITH(refused(0.1, TooLong::cut), Contains("data.val_fraction") && Contains("the last document"));
  CHECK_THROWS_WITH(refused(0, TooLong::skip), Contains("no document of 2 to 33 tokens"));
  CHECK(refused(0, TooLong::cut).train().samples_per_epoch() == 7);
  DataSources sources;
  sources.train = tokens_in_memory({0, 1, 2, 3}, 4);
  CHECK_THROWS_WITH(Dataset(std::move(sources), options, 4, 1), Contains("data.packing = documents"));
}

TEST_CASE("Another packing is other data") {
  const auto fingerprint = [](Packing packing, TooLong too_long) {
    DataSources sources;
    sources.train = std::make_unique<Documents>(std::vector<std::int64_t>{10, 90, 100});
    DataOptions options;
    options.packing = packing, options.too_long = too_long, options.val_fraction = 0;
    return Dataset(std::move(sources), options, 101, 16).fingerprint();
  };
  const auto stream = fingerprint(Packing::stream, TooLong::cut);
  CHECK(stream == fingerprint(Packing::stream, TooLong::skip));
  const auto cut = fingerprint(Packing::documents, TooLong::cut), skip = fingerprint(Packing::documents, TooLong::skip);
  CHECK((stream != cut && stream != skip && cut != skip));
}

TEST_CASE("Packed sources of a mixture share the tokens of any samples, whatever they leave to padding") {
  std::mt19937 draw(8);
  DataOptions options;
  options.packing = Packing::documents, options.val_fraction = 0;
  constexpr std::int64_t window = 10'000;
  for (const SampleOrder order : {SampleOrder::shuffled, SampleOrder::sequential}) {
    options.order = order;
    std::vector<std::int64_t> long_ends, short_ends;
    for (int i = 0; i < 3000; ++i) long_ends.push_back((i + 1) * 40);  // a sample of 65 tokens holds one of them
    std::int64_t end = 0;
    for (int i = 0; i < 9000; ++i) short_ends.push_back(end += 2 + draw() % 30);
    std::vector<NamedSource> named;
    named.push_back({"long", std::make_unique<Documents>(long_ends), 0.3});
    named.push_back({"short", std::make_unique<Documents>(short_ends), 0.7});
    const Dataset data(mix_sources(std::move(named)), options, 500'000, 64);
    CHECK(data.train().sources()[0].packing()->padding() > 0.3);
    for (const std::int64_t first : {0, 123'456}) {
      std::vector<std::int64_t> tokens(2), samples(2);
      for (std::int64_t sample = first; sample < first + window; ++sample) {
        const std::size_t source = data.train().source_of(sample);
        ++samples[source];
        for (const TokenRange& range : data.train().ranges(sample)) {
          tokens[source] += range.count;
          REQUIRE((range.first >= long_ends.back()) == (source == 1));
        }
      }
      const auto all = static_cast<double>(tokens[0] + tokens[1]);
      CHECK(std::abs(static_cast<double>(tokens[0]) / all - 0.3) < 1e-3);
      CHECK(samples[0] > window * 7 / 20);  // because they hold fewer
    }
  }
}

TEST_CASE("The most documents of any sample are those that some sample has, trained on or evaluated") {
  std::mt19937 draw(9);
  const auto found = [](const TokenSource& source, const Sampler& samples) {
    const auto length = static_cast<std::size_t>(samples.seq_len());
    std::vector<std::int32_t> row(length + 1), tokens(length), targets(length), positions(length);
    std::int64_t most = 0;
    for (std::int64_t sample = 0; sample < samples.samples_per_epoch(); ++sample) {
      fill_sample(source, samples.ranges(sample), source.size() + 1, row, tokens.data(), targets.data(),
                  positions.data());
      most = std::max<std::int64_t>(most, std::ranges::count(positions, 0));
    }
    return most;
  };
  for (const Packing packing : {Packing::stream, Packing::documents}) {
    for (const double fraction : {0.0, 0.3}) {
      for (const int sources : {1, 2}) {
        for (const std::int64_t length : {1, 16, 33}) {
          std::vector<NamedSource> named;
          for (int i = 0; i < sources; ++i)
            named.push_back({std::string(1, static_cast<char>('a' + i)),
                             std::make_unique<Documents>(drawn(draw, 400, length + 1)), 0.5});
          DataOptions options;
          options.packing = packing, options.val_fraction = fraction;
          const Dataset data(mix_sources(std::move(named)), options, 500'000, length);
          std::int64_t most = 0, first = 0;
          if (sources == 1) most = found(data.source(), data.train());
          for (const Sampler& one : data.train().sources()) most = std::max(most, found(data.source(), one));
          for (const ValidationSet& set : data.validation()) first = std::max(first, found(*set.source, set.samples));
          INFO(name_of(packing) << ", " << length << " tokens, " << fraction << ", " << sources);
          CHECK(data.most_documents() == std::max(most, first));
          CHECK(most_documents(data.validation()) == first);
        }
      }
    }
  }
  // Documents of one token each, one for all, and borders where samples have theirs.
  const auto most = [&](const std::vector<std::int64_t>& ends) {
    const Documents source(ends);
    return Sampler({0, source.size()}, 4, SampleOrder::shuffled, 1).most_documents(source);
  };
  CHECK(most({1, 2, 3, 4, 5, 6, 7, 8, 9}) == 4);
  CHECK(most({100}) == 1);
  CHECK(most({4, 8, 12, 16, 17}) == 1);
  CHECK(most({3, 7, 11, 13}) == 2);
  CHECK(most({2, 3, 4, 13}) == 3);
}
