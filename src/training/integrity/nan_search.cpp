#include "training/integrity/nan_search.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tessera/schedule/made_values.hpp"
#include "tessera/schedule/print.hpp"

namespace tessera {

namespace {

bool is_looked_at(ValueKind kind) {
  return kind == ValueKind::parameter || kind == ValueKind::activation || kind == ValueKind::activation_gradient ||
         kind == ValueKind::saved;
}

/// Returns the index of the first number that is infinite or not a number, and which of these; -1: there is none.
template <class Bits>
std::pair<std::int64_t, const char*> first_bad(const std::vector<std::byte>& bytes, Bits exponent, Bits mantissa) {
  for (std::size_t i = 0; i < bytes.size() / sizeof(Bits); ++i) {
    Bits bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    if ((bits & exponent) == exponent) return {static_cast<std::int64_t>(i), (bits & mantissa) == 0 ? "inf" : "nan"};
  }
  return {-1, ""};
}

std::pair<std::int64_t, const char*> first_bad(const std::vector<std::byte>& bytes, DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return first_bad<std::uint32_t>(bytes, 0x7f800000, 0x007fffff);
    case DType::bf16:
      return first_bad<std::uint16_t>(bytes, 0x7f80, 0x007f);
    case DType::fp16:
      return first_bad<std::uint16_t>(bytes, 0x7c00, 0x03ff);
    case DType::e4m3:
      return first_bad<std::uint8_t>(bytes, 0x7f, 0x7f);
    default:
      return {-1, ""};
  }
}

}  // namespace

void NanSearch::begin(const Play& play) {
  const std::scoped_lock lock(mutex_);
  ++play_, micro_step_ = play.micro_step;
}

void NanSearch::look(OperationId id) {
  const Operation& op = schedule_.operation(id);
  for (const ValueId value : op.writes) {
    if (is_looked_at(schedule_.value(value).kind)) look_at(id, value);
  }
  for (const auto& update : op.updates) {
    if (is_looked_at(schedule_.value(update.after).kind)) look_at(id, update.after);
  }
  if (op.kind == OperationKind::norm) {
    for (const ValueId value : op.reads) {
      if (schedule_.value(value).kind == ValueKind::gradient) look_at(id, value);
    }
  }
}

void NanSearch::look_at(OperationId id, ValueId value) {
  const Value& made = schedule_.value(value);
  std::vector<std::byte> bytes(static_cast<std::size_t>(numbers_of(schedule_, made) * size_of(made.dtype())));
  resources_.device->copy(bytes.data(), resources_.address(made.storage), std::ssize(bytes));
  const auto [element, what] = first_bad(bytes, made.dtype());
  if (element < 0) return;
  const std::scoped_lock lock(mutex_);
  if (!first_.empty() && std::pair(first_play_, first_operation_) <= std::pair(play_, std::int64_t{id.number()}))
    return;
  first_play_ = play_, first_operation_ = id.number(), first_micro_step_ = micro_step_;
  first_ = fmt::format("{} makes {} in {}, element {}", describe_operation(schedule_, id), what,
                       name_of_value(schedule_, value), element);
}

std::string NanSearch::found(RankContext& context, std::int64_t first_sample) const {
  constexpr std::size_t kPlace = 32;  // characters that sort like the place in the step
  std::string mine;
  if (!first_.empty()) {
    const std::int64_t batch = schedule_.model.batch;
    const std::int64_t first =
        first_sample + batch * schedule_.micro_batches().micro_batch(schedule_.grid, schedule_.policy.accumulation,
                                                                     context.rank(), first_micro_step_);
    mine = fmt::format("{:016}{:016}rank {}, micro-step {} (samples {} to {}): {}", first_play_, first_operation_,
                       context.rank(), first_micro_step_, first, first + batch - 1, first_);
  }
  std::vector<std::string> all = context.control().all_gather(mine);
  std::erase(all, "");
  return all.empty() ? "" : std::ranges::min(all).substr(kPlace);
}

}  // namespace tessera
