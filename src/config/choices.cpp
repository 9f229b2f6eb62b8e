#include "tessera/config/choices.hpp"

namespace tessera {

// Defines choices<E>() for the given list.
#define TESSERA_CHOICES(E, ...)                      \
  template <>                                        \
  std::span<const Choice<E>> choices<E>() {          \
    static constexpr Choice<E> list[] = __VA_ARGS__; \
    return list;                                     \
  }

// Defines name_of(E) too.
#define TESSERA_NAMED(E, ...)         \
  TESSERA_CHOICES(E, __VA_ARGS__)     \
  template <>                         \
  std::string_view name_of(E value) { \
    return spelling(value);           \
  }

TESSERA_CHOICES(bool, {{true, "true"}, {false, "false"}})
TESSERA_CHOICES(DeviceChoice, {{std::nullopt, "auto"},
                               {DeviceKind::cpu, name_of(DeviceKind::cpu)},
                               {DeviceKind::cuda, name_of(DeviceKind::cuda)}})
std::string_view name_of(DeviceChoice value) { return spelling(value); }
TESSERA_CHOICES(Tristate, {{Tristate::automatic, "auto"}, {Tristate::yes, "true"}, {Tristate::no, "false"}})
TESSERA_CHOICES(AttentionChoice, {{AttentionChoice::automatic, "auto"},
                                  {AttentionChoice::own, "own"},
                                  {AttentionChoice::cudnn, "cudnn"}})
TESSERA_NAMED(CommBackend,
              {{CommBackend::automatic, "auto"}, {CommBackend::nccl, "nccl"}, {CommBackend::staged, "staged"}})
TESSERA_NAMED(QueueMode, {{QueueMode::automatic, "auto"},
                          {QueueMode::serial, "serial"},
                          {QueueMode::chaos, "chaos"},
                          {QueueMode::parallel, "parallel"}})
#define TESSERA_ROW(enumerator, name, ...) {Strategy::enumerator, name},
TESSERA_CHOICES(Strategy, {TESSERA_STRATEGIES(TESSERA_ROW)})
#undef TESSERA_ROW
TESSERA_NAMED(Wrap, {{Wrap::block, "block"}, {Wrap::size, "size"}, {Wrap::model, "model"}})
TESSERA_NAMED(ReduceWhen,
              {{ReduceWhen::by_strategy, "auto"}, {ReduceWhen::micro_step, "micro_step"}, {ReduceWhen::step, "step"}})
TESSERA_NAMED(ActivationCheckpointing, {{ActivationCheckpointing::none, "none"},
                                        {ActivationCheckpointing::block, "block"},
                                        {ActivationCheckpointing::selective, "selective"},
                                        {ActivationCheckpointing::fit, "fit"}})
TESSERA_NAMED(Offload, {{Offload::none, "none"}, {Offload::optimizer, "optimizer"}, {Offload::params, "params"}})
TESSERA_NAMED(MatmulPrecision, {{MatmulPrecision::fp32, "fp32"}, {MatmulPrecision::tf32, "tf32"}})
TESSERA_CHOICES(LogitsPrecision, {{LogitsPrecision::compute, "compute"}, {LogitsPrecision::fp32, "fp32"}})
TESSERA_CHOICES(LinearPrecision, {{LinearPrecision::compute, "compute"}, {LinearPrecision::fp8, "fp8"}})
TESSERA_CHOICES(Fp8, {{Fp8::e5m2, name_of(Fp8::e5m2)}, {Fp8::e4m3, name_of(Fp8::e4m3)}})
TESSERA_CHOICES(Fp8Scale, {{Fp8Scale::current, "current"}})
TESSERA_NAMED(SampleOrder, {{SampleOrder::shuffled, "shuffled"}, {SampleOrder::sequential, "sequential"}})
TESSERA_NAMED(Packing, {{Packing::stream, "stream"}, {Packing::documents, "documents"}})
TESSERA_NAMED(TooLong, {{TooLong::cut, "cut"}, {TooLong::skip, "skip"}})
TESSERA_NAMED(OnError, {{OnError::stop, "stop"}, {OnError::skip, "skip"}})
TESSERA_NAMED(ChatTurns, {{ChatTurns::all, "all"}, {ChatTurns::last, "last"}})
TESSERA_NAMED(ChatCounts, {{ChatCounts::assistant, "assistant"}, {ChatCounts::all, "all"}})
TESSERA_NAMED(OptimizerName, {{OptimizerName::adamw, "adamw"}, {OptimizerName::muon, "muon"}})
TESSERA_CHOICES(StateType, {{StateType::fp32, "fp32"}, {StateType::bf16, "bf16"}})
TESSERA_CHOICES(MuonScale, {{MuonScale::match_rms_adamw, "match_rms_adamw"}, {MuonScale::original, "original"}})
TESSERA_CHOICES(LearningRateSchedule, {{LearningRateSchedule::constant, "constant"},
                                       {LearningRateSchedule::cosine, "cosine"},
                                       {LearningRateSchedule::linear, "linear"},
                                       {LearningRateSchedule::wsd, "wsd"}})
TESSERA_CHOICES(PlanView, {{PlanView::table, "table"},
                           {PlanView::schedule, "schedule"},
                           {PlanView::units, "units"},
                           {PlanView::timeline, "timeline"},
                           {PlanView::fit, "fit"},
                           {PlanView::largest, "largest"}})
TESSERA_CHOICES(ResultFormat, {{ResultFormat::text, "text"}, {ResultFormat::json, "json"}})
TESSERA_CHOICES(SweepAction, {{SweepAction::print, "print"},
                              {SweepAction::run, "run"},
                              {SweepAction::submit, "submit"},
                              {SweepAction::status, "status"},
                              {SweepAction::retry, "retry"},
                              {SweepAction::row, "row"}})
TESSERA_CHOICES(SweepOrder, {{SweepOrder::file, "file"}, {SweepOrder::fastest, "fastest"}})
TESSERA_CHOICES(std::optional<DType>,
                {{std::nullopt, "source"}, {DType::fp32, "fp32"}, {DType::bf16, "bf16"}, {DType::fp16, "fp16"}})
TESSERA_CHOICES(TokenBytes, {{TokenBytes::automatic, "auto"}, {TokenBytes::two, "2"}, {TokenBytes::four, "4"}})
TESSERA_CHOICES(DType, {{DType::fp32, "fp32"}, {DType::bf16, "bf16"}, {DType::fp16, "fp16"}})

#undef TESSERA_NAMED
#undef TESSERA_CHOICES

}  // namespace tessera
