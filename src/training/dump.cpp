#include "tessera/training/dump.hpp"

#include <utility>
#include <vector>

namespace tessera {

namespace {

/// Returns a gradient slice in fp32, divided by the loss scale (a power of two, so this is exact).
std::vector<float> widened(const Resources& resources, const GradientSlice& slice, float loss_scale) {
  std::vector<float> values(static_cast<std::size_t>(slice.count));
  std::vector<std::byte> stored(static_cast<std::size_t>(slice.count * size_of(slice.dtype)));
  resources.device->copy(stored.data(), slice.data, std::ssize(stored));
  convert(stored.data(), slice.dtype, values.data(), DType::fp32, slice.count);
  for (float& value : values) value /= loss_scale;
  return values;
}

}  // namespace

StepDump::StepDump(TrainingSession& session, RankContext& context, RunHdf5 hdf5, const std::filesystem::path& path)
    : session_(session), context_(context), hdf5_(std::move(hdf5)) {
  if (context.rank() != 0) return;
  std::vector<ParameterTensor> trained = session.schedule().model.tensors;
  std::erase_if(trained, [](const ParameterTensor& tensor) { return !tensor.trains; });
  hdf5_([&] { file_ = std::make_unique<DumpFile>(path, trained); });
}

StepDump::~StepDump() {
  if (file_ == nullptr) return;
  try {
    hdf5_([&] { file_.reset(); });
  } catch (const std::exception&) {
    return;  // an unfinished dump leaves no file behind; its cause is already being reported
  }
}

TensorId StepDump::number_in_file(const TensorRun& run) const {
  return TensorId(run.tensor - session_.schedule().model.first_trained_tensor());
}

/// Receives on rank 0 the slice of each member of its shard group (replicas hold copies) and writes its tensor runs.
template <class Slice, class Write>
void StepDump::collect(const Slice& slice, const float* values, Write&& write) {
  const Unit& unit = session_.schedule().unit(slice.unit);
  const std::int64_t members = unit.padded / slice.count;
  ControlPlane& control = context_.control();
  const std::size_t bytes = static_cast<std::size_t>(slice.count) * sizeof(float);
  if (context_.rank() != 0) {
    if (context_.rank() < members) control.send(0, {reinterpret_cast<const std::byte*>(values), bytes});
    return;
  }
  std::vector<float> received;
  for (std::int64_t member = 0; member < members; ++member) {
    const float* data = values;
    if (member > 0) {
      received.resize(static_cast<std::size_t>(slice.count));
      control.receive(static_cast<int>(member), {reinterpret_cast<std::byte*>(received.data()), bytes});
      data = received.data();
    }
    hdf5_([&] {
      for (const TensorRun& run : runs_in_slice(session_.schedule().model, unit, member * slice.count, slice.count)) {
        write(run, std::span<const float>(data + run.offset, static_cast<std::size_t>(run.count)));
      }
    });
  }
}

void StepDump::write_gradients() {
  const float scale = session_.optimizer().scalars().loss_scale;
  for (const UnitId unit : session_.schedule().layout.trained()) {
    const GradientSlice slice = gradient_slice(session_.schedule(), session_.resources(), unit);
    const std::vector<float> values = widened(session_.resources(), slice, scale);
    collect(slice, values.data(), [&](const TensorRun& run, std::span<const float> part) {
      file_->write(DumpTable::gradients, number_in_file(run), run.first, part);
    });
  }
}

void StepDump::write_weights(std::int64_t step, const StepResult& result) {
  session_.player().finish_step();
  for (const UnitId unit : session_.schedule().layout.trained()) {
    const StateSlice slice = state_slice(session_.schedule(), session_.resources(), unit);
    std::vector<float> values(static_cast<std::size_t>(slice.count));
    session_.resources().device->copy(values.data(), slice.master(), slice.count * size_of(DType::fp32));
    collect(slice, values.data(), [&](const TensorRun& run, std::span<const float> part) {
      file_->write(DumpTable::weights, number_in_file(run), run.first, part);
    });
  }
  if (context_.rank() == 0) hdf5_([&] { file_->finish(step, result.loss, result.grad_norm); });
}

}  // namespace tessera
