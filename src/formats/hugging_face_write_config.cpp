#include "tessera/base/error.hpp"
#include "tessera/formats/hugging_face_json.hpp"

namespace tessera {

namespace {

nlohmann::ordered_json gpt2_config(const Architecture& a) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", "gelu_new"},
          {"attn_pdrop", a.dropout},
          {"embd_pdrop", a.dropout},
          {"resid_pdrop", a.dropout},
          {"layer_norm_epsilon", a.norm_epsilon},
          {"n_ctx", a.context},
          {"n_embd", a.width},
          {"n_head", a.heads},
          {"n_inner", a.ffn_width},
          {"n_layer", a.layers},
          {"n_positions", a.context},
          {"tie_word_embeddings", a.tied_head},
          {"vocab_size", a.vocab}};
}

nlohmann::ordered_json rotary_config(const Architecture& a) {
  const bool qwen = a.family == Family::qwen2;
  nlohmann::ordered_json json = {{"architectures", {qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
                                 {"model_type", qwen ? "qwen2" : "llama"},
                                 {"attention_dropout", a.dropout},
                                 {"hidden_act", "silu"},
                                 {"hidden_size", a.width},
                                 {"intermediate_size", a.ffn_width},
                                 {"max_position_embeddings", a.context},
                                 {"num_attention_heads", a.heads},
                                 {"num_hidden_layers", a.layers},
                                 {"num_key_value_heads", a.kv_heads},
                                 {"rms_norm_eps", a.norm_epsilon},
                                 {"rope_theta", a.rope_theta},
                                 {"tie_word_embeddings", a.tied_head},
                                 {"vocab_size", a.vocab}};
  if (qwen) json["use_sliding_window"] = false;
  if (a.rope_scaling.on()) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", a.rope_scaling.factor},
                            {"low_freq_factor", a.rope_scaling.low_freq_factor},
                            {"high_freq_factor", a.rope_scaling.high_freq_factor},
                            {"original_max_position_embeddings", a.rope_scaling.original_context}};
  }
  return json;
}

}  // namespace

nlohmann::ordered_json config_of(const Architecture& architecture) {
  switch (architecture.family) {
    case Family::gpt2:
      return gpt2_config(architecture);
    case Family::qwen2:
    case Family::llama:
      return rotary_config(architecture);
  }
  throw InternalError("no such family");
}

}  // namespace tessera
