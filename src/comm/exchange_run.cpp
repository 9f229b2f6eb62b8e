#include "tessera/comm/exchange_run.hpp"

#include <algorithm>
#include <map>

namespace tessera {

std::int64_t elements_sent(std::span<const ExchangeRun> runs, std::int64_t member) {
  std::int64_t elements = 0;
  for (const ExchangeRun& run : runs) elements += run.sender == member && run.receiver != member ? run.elements : 0;
  return elements;
}

std::int64_t most_elements_sent(std::span<const ExchangeRun> runs) {
  std::map<std::int64_t, std::int64_t> sent;
  for (const ExchangeRun& run : runs) sent[run.sender] += run.sender != run.receiver ? run.elements : 0;
  std::int64_t most = 0;
  for (const auto& [member, elements] : sent) most = std::max(most, elements);
  return most;
}

}  // namespace tessera
