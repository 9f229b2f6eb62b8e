#include "bench/machine_rates.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <limits>
#include <memory>

#include "tessera/base/clock.hpp"

namespace tessera {

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
/// Keeps rows off multiples of 4 KiB.
constexpr std::int64_t kPad = 16;

/// Squares and the shape of a linear, and two whose operands stay in a core's own cache, because the best one depends
/// on the machine.
RateSizes cpu_sizes() {
  const auto cache = static_cast<std::int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE));
  return {{{1024, 1024, 1024}, {1536, 1536, 1536}, {2048, 768, 2304}, {1024, 512, 128}, {1024, 512, 256}},
          std::clamp(4 * cache, 64 * kMiB, 512 * kMiB),
          0};
}

/// Writes values between -0.5 and 0.5, so that matmuls neither overflow nor become subnormal, and draw the power that
/// real ones do.
void fill(Device& device, Stream& stream, Kernels& kernels, const DeviceMemory& memory, DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(std::min<std::int64_t>(kMiB, memory.size() / size_of(dtype))));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 1021) / 1021.0f - 0.5f;
  const auto count = static_cast<std::int64_t>(values.size()), bytes = count * size_of(DType::fp32);
  const auto staged = device.allocate(MemoryKind::device, bytes);
  device.copy(staged->data(), values.data(), bytes);
  kernels.run(stream, Cast{{staged->data(), DType::fp32}, {memory.data(), dtype}, count});
  stream.synchronize();
  for (std::int64_t done = count * size_of(dtype), more = 0; done < memory.size(); done += more) {  // doubles it
    more = std::min(done, memory.size() - done);
    device.copy(memory.data() + done, memory.data(), more);
  }
}

}  // namespace

RateSizes gpu_rate_sizes(RankContext& context, std::int64_t total, std::int64_t free) {
  total = -context.control().maximum(-total), free = -context.control().maximum(-free);
  std::int64_t edge = 8192;
  const auto bytes = [&] { return 3 * edge * edge * size_of(DType::fp32); };
  while (edge > 256 && (bytes() > total / 96 || bytes() > free / 2)) edge /= 2;
  return {{{edge, edge, edge}, {edge / 2, edge / 2, edge / 2}},
          std::clamp(std::min(total / 128, free / 4), kMiB, 1024 * kMiB),
          2.0};
}

RateSizes rate_sizes(RankContext& context, const Device& device) {
  const std::int64_t total = device.total_memory();  // of a GPU alone
  return total > 0 ? gpu_rate_sizes(context, total, device.free_memory()) : cpu_sizes();
}

void Ceiling::sample() {
  for (const Call& call : calls_) make(call);
}

double Ceiling::best() {
  const std::vector<double> seconds = clock_.take();
  for (std::size_t i = 0; i < seconds.size(); ++i) best_ = std::max(best_, calls_[i % calls_.size()].work / seconds[i]);
  return best_;
}

double Ceiling::held(double seconds) {
  if (seconds <= 0) return std::numeric_limits<double>::quiet_NaN();
  constexpr double kBatchSeconds = 0.05;  // the host stays ahead of the device within a batch
  const auto start = std::chrono::steady_clock::now();
  double spent = 0, counted = 0, done = 0;
  std::int64_t batch = 1;
  do {
    for (std::int64_t i = 0; i < batch; ++i) make(calls_.front());
    const std::vector<double> times = clock_.take();
    if (static_cast<double>(batch) * times.front() < kBatchSeconds) batch *= 2;
    spent = seconds_since(start);
    if (spent < seconds / 2) continue;
    for (const double time : times) counted += time, done += calls_.front().work;
  } while (spent < seconds);
  return done / counted;
}

Ceiling matmul_ceiling(Device& device, Stream& stream, Kernels& kernels, DType dtype,
                       const std::vector<MatmulShape>& shapes) {
  std::int64_t input = 0, weight = 0, output = 0;
  for (const MatmulShape& shape : shapes) {
    input = std::max(input, shape.tokens * (shape.in + kPad));
    weight = std::max(weight, shape.in * (shape.out + kPad));
    output = std::max(output, shape.tokens * (shape.out + kPad));
  }
  const auto allocate = [&](std::int64_t elements) -> std::shared_ptr<DeviceMemory> {
    return device.allocate(MemoryKind::device, elements * size_of(dtype));
  };
  const auto inputs = allocate(input), weights = allocate(weight), outputs = allocate(output);
  fill(device, stream, kernels, *inputs, dtype), fill(device, stream, kernels, *weights, dtype);
  std::vector<Ceiling::Call> calls;
  for (const MatmulShape& shape : shapes) {
    const Ceiling::Call call{flops_of(shape), [=, &kernels](Stream& on) {
                               LinearForward matmul;
                               matmul.tokens = shape.tokens, matmul.in = shape.in, matmul.out = shape.out;
                               matmul.input = {inputs->data(), dtype, shape.in + kPad};
                               matmul.weight = {weights->data(), dtype, shape.out + kPad};
                               matmul.output = {outputs->data(), dtype, shape.out + kPad};
                               kernels.run(on, matmul);
                             }};
    calls.insert(calls.end(), 2, call);
  }
  return {device, stream, std::move(calls)};
}

Ceiling copy_ceiling(Device& device, Stream& stream, Kernels& kernels, std::int64_t bytes) {
  const std::shared_ptr<DeviceMemory> from = device.allocate(MemoryKind::device, bytes);
  const std::shared_ptr<DeviceMemory> to = device.allocate(MemoryKind::device, bytes);
  // A CPU's unwritten pages are all the same page of zeros, so `to` also gets its own pages here.
  fill(device, stream, kernels, *from, DType::fp32);
  device.copy(to->data(), from->data(), bytes);
  const double moved = 2.0 * static_cast<double>(bytes);
  return {
      device,
      stream,
      {{moved,
        [=, &kernels](Stream& on) {
          kernels.run(on, Cast{{from->data(), DType::fp32}, {to->data(), DType::fp32}, bytes / size_of(DType::fp32)});
        }},
       {moved, [=, &device](Stream& on) { device.copy(on, to->data(), from->data(), bytes); }}}};
}

double flops_of(const MatmulShape& shape) { return 2.0 * static_cast<double>(shape.tokens * shape.in * shape.out); }

std::string flop_rate_text(double rate) {
  return rate < 1e13 ? fmt::format("{:.0f} GFLOP/s", rate * 1e-9) : fmt::format("{:.1f} TFLOP/s", rate * 1e-12);
}

namespace {

/// Returns whether `text` has these words, delimited by characters other than letters and digits: "A40" is not in "RTX
/// A4000".
bool has_words(const std::string& text, const std::string& words) {
  const auto is_border = [&](std::size_t at) { return at >= text.size() || std::isalnum(text[at]) == 0; };
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
    if ((at == 0 || is_border(at - 1)) && is_border(at + words.size())) return true;
  }
  return false;
}

}  // namespace

double datasheet_rate(const std::string& model, const PrecisionOptions& precision) {
  struct Sheet {
    const char* name;
    double half, single;  ///< TFLOP/s: bf16 and fp16 with fp32 sums, without sparsity; fp32 (no TF32)
  };
  // NVIDIA's datasheets, for SXM boards if they exist; a name that contains another comes first.
  static constexpr Sheet kSheets[] = {
      {"H100 PCIe", 756, 51}, {"H100 NVL", 835, 60}, {"H200 NVL", 835, 60}, {"H200", 989, 67},    {"H100", 989, 67},
      {"GH200", 989, 67},     {"A100", 312, 19.5},   {"A30", 165, 10.3},    {"A40", 149.7, 37.4}, {"A10", 125, 31.2},
      {"L40S", 362, 91.6},    {"L40", 181, 90.5},    {"L4", 121, 30.3}};
  for (const Sheet& sheet : kSheets) {
    if (!has_words(model, sheet.name)) continue;
    if (precision.compute != DType::fp32) return sheet.half * 1e12;
    // On all of them TF32 has half the rate of 16-bit types.
    return (precision.matmul == MatmulPrecision::tf32 ? sheet.half / 2 : sheet.single) * 1e12;
  }
  return 0;
}

}  // namespace tessera
