// Megatron's arguments as a ModelSpec, its tensors as ours.
#include "runtime/checkpoint/megatron/import.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/builder.hpp"
#include "runtime/checkpoint/megatron/torch_dist.hpp"
#include "runtime/checkpoint/megatron/torch_file.hpp"

namespace railyard {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLargest = 1 << 24;  // of any size: products of two, and their sums, stay in 63 bits

// The command line that trained the model, as common.pt keeps it.
class Arguments {
 public:
  Arguments(const PickleNode& node, std::string source) : node_(node), source_(std::move(source)) {}

  [[nodiscard]] std::int64_t size(const char* key) const {
    const PickleNode* found = value(key);
    if (found == nullptr) throw UsageError("{}: args lacks {}", source_, key);
    const std::int64_t number = found->to_integer(source_ + ": args." + key);
    if (number < 1 || number > kLargest) throw UsageError("{}: args.{} is {}", source_, key, number);
    return number;
  }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t fallback) const {
    const PickleNode* found = value(key);
    return found == nullptr ? fallback : found->to_integer(source_ + ": args." + key);
  }
  [[nodiscard]] bool flag(const char* key, bool fallback = false) const { return integer(key, fallback ? 1 : 0) != 0; }
  [[nodiscard]] double number(const char* key, double fallback) const {
    const PickleNode* found = value(key);
    if (found == nullptr) return fallback;
    return found->kind == PickleNode::Kind::kFloat ? found->number
                                                   : static_cast<double>(found->to_integer(source_ + ": args." + key));
  }
  [[nodiscard]] std::string text(const char* key, const std::string& fallback) const {
    const PickleNode* found = value(key);
    return found == nullptr ? fallback : found->to_string(source_ + ": args." + key);
  }
  [[nodiscard]] bool given(const char* key) const { return value(key) != nullptr; }
  [[noreturn]] void refuse(const char* key) const { throw UsageError("{}: args.{}: not built yet", source_, key); }

 private:
  [[nodiscard]] const PickleNode* value(const char* key) const {
    const PickleNode* found = node_.find(key);
    return found == nullptr || found->kind == PickleNode::Kind::kNone ? nullptr : found;
  }
  const PickleNode& node_;
  std::string source_;
};

std::string activation_of(const Arguments& args) {
  if (args.flag("swiglu")) return "swiglu";
  if (args.flag("squared_relu")) return "squared_relu";
  // The fused bias and GELU is the tanh form, whatever the plain one is.
  const bool fused = args.flag("bias_gelu_fusion", true) && args.flag("add_bias_linear", true);
  return args.flag("openai_gelu") || fused ? "gelu_tanh" : "gelu";
}

ModelSpec read_model(const Arguments& args, const MegatronSettings& settings) {
  for (const char* key :
       {"num_experts", "multi_latent_attention", "rotary_interleaved", "quick_geglu", "mtp_num_layers",
        "heterogeneous_layers_config_path", "apply_residual_connection_post_layernorm"})
    if (args.given(key) && args.integer(key, 0) != 0) args.refuse(key);
  ModelSpec model;
  model.layers = args.size("num_layers");
  model.hidden = args.size("hidden_size");
  model.heads = args.size("num_attention_heads");
  model.kv_heads = args.flag("group_query_attention") ? args.size("num_query_groups") : model.heads;
  model.head_dim = args.given("kv_channels") ? args.size("kv_channels") : model.hidden / model.heads;
  model.ffn = args.size("ffn_hidden_size");
  model.seq_length = args.size("seq_length");
  model.max_positions = args.given("max_position_embeddings") ? args.size("max_position_embeddings") : model.seq_length;
  if (!settings.vocab && !args.given("vocab_size"))
    throw UsageError("the checkpoint does not say how many tokens its padded vocabulary really has: give --vocab");
  model.vocab = settings.vocab ? *settings.vocab : args.size("vocab_size");
  if (args.given("make_vocab_size_divisible_by")) model.vocab_divisible_by = args.size("make_vocab_size_divisible_by");
  model.norm = args.text("normalization", "LayerNorm") == "RMSNorm" ? "rmsnorm"
               : args.flag("apply_layernorm_1p")                    ? "layernorm1p"
                                                                    : "layernorm";
  model.norm_eps = args.number("norm_epsilon", 1e-5);
  model.activation = activation_of(args);
  const std::string position = args.text("position_embedding_type", "learned_absolute");
  if (position == "learned_absolute") {
    model.position = "learned";
  } else if (position == "rope" || position == "none") {
    model.position = position;
  } else {
    args.refuse("position_embedding_type");
  }
  model.rope_theta = args.number("rotary_base", 10000.0);
  model.rotary_percent = args.number("rotary_percent", 1.0);
  if (args.flag("use_rope_scaling"))
    model.rope_scaling = RopeScaling{"llama3", args.number("rope_scaling_factor", 8.0), 1.0, 4.0, 8192};
  model.bias = args.flag("add_bias_linear", true);
  model.qkv_bias = args.flag("add_qkv_bias");
  model.qk_norm = args.flag("qk_layernorm");
  if (model.qk_norm && model.norm != "rmsnorm") args.refuse("qk_layernorm");
  if (model.norm == "layernorm" && !model.bias) {
    // Theirs keeps the norms' biases when the linear layers have none.
    throw UsageError("LayerNorm with biases and --disable-bias-linear: not built yet");
  }
  if (args.given("window_size")) args.refuse("window_size");
  model.tied_embeddings = !args.flag("untie_embeddings_and_output_weights");
  model.attention_dropout = args.number("attention_dropout", 0.1);
  model.hidden_dropout = args.number("hidden_dropout", 0.1);
  model.init_std = args.number("init_method_std", 0.02);
  if (model.heads % model.kv_heads != 0)
    throw UsageError("args.num_attention_heads is no multiple of args.num_query_groups");
  return model;
}

// Our rows, as stretches of theirs.
struct Stretch {
  std::int64_t first, count;
};
struct Part {
  std::string ours;
  Extents shape;
  std::string theirs;
  std::optional<std::int64_t> layer;  // index along a leading axis of theirs
  std::int64_t their_rows;
  std::vector<Stretch> stretches;
};

class PartList {
 public:
  PartList(const TorchDistReader& reader, const ModelSpec& model) : reader_(reader), model_(model) {}

  std::vector<Part> build(std::int64_t padded_vocab) {
    const ModelSpec& m = model_;
    whole("embedding.word_embeddings.weight", {m.vocab, m.hidden}, "embedding.word_embeddings.weight", padded_vocab);
    if (m.position == "learned")
      whole("embedding.position_embeddings.weight", {m.max_positions, m.hidden}, "embedding.position_embeddings.weight",
            m.max_positions);
    for (layer_ = 0; layer_ < m.layers; ++layer_) add_layer();
    whole("final_norm.weight", {m.hidden}, "decoder.final_layernorm.weight", m.hidden);
    if (m.norm_has_bias()) whole("final_norm.bias", {m.hidden}, "decoder.final_layernorm.bias", m.hidden);
    if (!m.tied_embeddings) whole("output.weight", {m.vocab, m.hidden}, "output_layer.weight", padded_vocab);
    return std::move(parts_);
  }

 private:
  void whole(const std::string& ours, const Extents& shape, const std::string& theirs, std::int64_t their_rows) {
    parts_.push_back({ours, shape, theirs, std::nullopt, their_rows, {{0, shape[0]}}});
  }

  // The name that exists, with all layers in one tensor or one each.
  [[nodiscard]] std::pair<std::string, bool> name_of(const std::vector<std::string>& candidates) const {
    for (const std::string& candidate : candidates) {
      if (reader_.holds("decoder.layers." + candidate)) return {"decoder.layers." + candidate, true};
      const std::string single = fmt::format("decoder.layers.{}.{}", layer_, candidate);
      if (reader_.holds(single)) return {single, false};
    }
    throw UsageError("the checkpoint holds no tensor decoder.layers.{}", candidates.front());
  }

  void rows(const std::string& ours, const Extents& shape, const std::vector<std::string>& theirs,
            std::int64_t their_rows, std::vector<Stretch> stretches) {
    const auto [name, stacked] = name_of(theirs);
    const Extents& found = reader_.at(name).shape;
    if (stacked && (found.empty() || found[0] != model_.layers))
      throw UsageError("tensor {} has shape {}, but the checkpoint's arguments say {} layers", name, shape_text(found),
                       model_.layers);
    parts_.push_back({fmt::format("layers.{}.{}", layer_, ours), shape, name,
                      stacked ? std::optional(layer_) : std::nullopt, their_rows, std::move(stretches)});
  }
  void linear(const std::string& ours, std::int64_t out, std::int64_t in, const std::string& theirs,
              std::int64_t their_rows, const std::vector<Stretch>& stretches, bool bias) {
    rows(ours + ".weight", {out, in}, {theirs + ".weight"}, their_rows, stretches);
    if (bias) rows(ours + ".bias", {out}, {theirs + ".bias"}, their_rows, stretches);
  }
  // A norm of a layer: of its own, or fused into the linear layer behind it (Transformer Engine).
  void layer_norm(const std::string& ours, const std::string& own, const std::string& fused) {
    const std::int64_t n = model_.hidden;
    rows(ours + ".weight", {n}, {own + ".weight", fused + ".layer_norm_weight"}, n, {{0, n}});
    if (model_.norm_has_bias()) rows(ours + ".bias", {n}, {own + ".bias", fused + ".layer_norm_bias"}, n, {{0, n}});
  }

  void add_layer() {
    const ModelSpec& m = model_;
    layer_norm("input_norm", "input_layernorm", "self_attention.linear_qkv");
    // Theirs holds, group by group, the queries, the key and the value.
    const std::int64_t queries = m.heads / m.kv_heads * m.head_dim, group = queries + 2 * m.head_dim;
    std::vector<Stretch> query, key, value;
    for (std::int64_t g = 0; g < m.kv_heads; ++g) {
      query.push_back({g * group, queries});
      key.push_back({g * group + queries, m.head_dim});
      value.push_back({g * group + queries + m.head_dim, m.head_dim});
    }
    const std::int64_t packed = m.kv_heads * group, kv = m.kv_heads * m.head_dim;
    const bool bias = m.bias || m.qkv_bias;
    const std::string qkv = "self_attention.linear_qkv";
    linear("self_attention.query", m.heads * m.head_dim, m.hidden, qkv, packed, query, bias);
    linear("self_attention.key", kv, m.hidden, qkv, packed, key, bias);
    linear("self_attention.value", kv, m.hidden, qkv, packed, value, bias);
    linear("self_attention.proj", m.hidden, m.heads * m.head_dim, "self_attention.linear_proj", m.hidden,
           {{0, m.hidden}}, m.bias);
    if (m.qk_norm) {
      rows("self_attention.query_norm.weight", {m.head_dim}, {"self_attention.q_layernorm.weight"}, m.head_dim,
           {{0, m.head_dim}});
      rows("self_attention.key_norm.weight", {m.head_dim}, {"self_attention.k_layernorm.weight"}, m.head_dim,
           {{0, m.head_dim}});
    }
    layer_norm("pre_mlp_norm", "pre_mlp_layernorm", "mlp.linear_fc1");
    const std::int64_t first = m.gated() ? 2 * m.ffn : m.ffn;
    if (m.gated()) linear("mlp.gate", m.ffn, m.hidden, "mlp.linear_fc1", first, {{0, m.ffn}}, m.bias);
    linear("mlp.up", m.ffn, m.hidden, "mlp.linear_fc1", first, {{first - m.ffn, m.ffn}}, m.bias);
    linear("mlp.down", m.hidden, m.ffn, "mlp.linear_fc2", m.hidden, {{0, m.hidden}}, m.bias);
  }

  const TorchDistReader& reader_;
  const ModelSpec& model_;
  std::int64_t layer_ = 0;
  std::vector<Part> parts_;
};

// What theirs must be for a part.
Extents their_shape(const Part& part, std::int64_t layers) {
  Extents shape = part.shape;
  shape[0] = part.their_rows;
  if (part.layer) shape.insert(shape.begin(), layers);
  return shape;
}

// Fills `out` with rows [first, first + count) of a part.
void read_rows(TorchDistReader& reader, const Part& part, const std::string& theirs, std::int64_t first,
               std::int64_t count, DType dtype, std::byte* out) {
  const std::int64_t inner = part.shape.size() > 1 ? part.shape[1] : 1;
  std::int64_t before = 0;
  for (const Stretch& stretch : part.stretches) {
    const std::int64_t begin = std::max(first, before), end = std::min(first + count, before + stretch.count);
    if (begin < end) {
      Rectangle where{{stretch.first + begin - before}, {end - begin}};
      if (part.shape.size() > 1) {
        where.offset.push_back(0);
        where.shape.push_back(inner);
      }
      if (part.layer) {
        where.offset.insert(where.offset.begin(), *part.layer);
        where.shape.insert(where.shape.begin(), 1);
      }
      reader.read(theirs, where,
                  {out + (begin - first) * inner * static_cast<std::int64_t>(dtype_size(dtype)), dtype, 0});
    }
    before += stretch.count;
  }
}

// Ours and theirs of what the optimizer keeps beside each weight.
struct OptimizerKind {
  const char* ours;
  const char* theirs;
};
constexpr OptimizerKind kOptimizerKinds[] = {{"exp_avg/", "optimizer.state.exp_avg."},
                                             {"exp_avg_sq/", "optimizer.state.exp_avg_sq."},
                                             {"master/", "optimizer.state.fp32_param."}};

fs::path iteration_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / ".metadata", error)) return folder;
  if (fs::exists(folder / "latest_checkpointed_iteration.txt", error)) {
    std::string text = read_file(folder / "latest_checkpointed_iteration.txt");
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    std::int64_t iteration = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), iteration);
    const fs::path named = folder / fmt::format("iter_{:07}", iteration);
    if (fault == std::errc() && end == text.data() + text.size() && fs::exists(named / ".metadata", error))
      return named;
    if (text == "release" && fs::exists(folder / "release/.metadata", error)) return folder / "release";
  }
  // The tracker may be empty or stale after a crash.
  fs::path newest;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator(); entry.increment(error))
    if (entry->path().filename().string().starts_with("iter_") && fs::exists(entry->path() / ".metadata", error) &&
        entry->path() > newest)
      newest = entry->path();
  if (newest.empty())
    throw UsageError(
        "{}: holds no torch_dist checkpoint (no .metadata, no iter_*/.metadata); other Megatron formats: "
        "not built yet",
        folder.string());
  return newest;
}

// Which of the optimizer's kinds are there, whole and in the shape of the weights.
std::vector<OptimizerKind> find_optimizer(const TorchDistReader& reader, const std::vector<Part>& parts,
                                          std::int64_t layers) {
  std::vector<OptimizerKind> kinds;
  std::string misfit;
  for (const OptimizerKind& kind : kOptimizerKinds) {
    std::size_t fitting = 0;
    for (const Part& part : parts) {
      const std::string name = kind.theirs + part.theirs;
      if (reader.holds(name) && reader.at(name).shape == their_shape(part, layers)) ++fitting;
    }
    if (fitting == parts.size()) {
      kinds.push_back(kind);
    } else if (fitting > 0) {
      misfit = kind.theirs;
    }
  }
  for (const auto& [name, tensor] : reader.tensors())
    if (kinds.size() < 2 && misfit.empty() && name.find("optimizer.") != std::string::npos && !tensor.shape.empty())
      misfit = name;
  if (!misfit.empty())
    throw UsageError(
        "the optimizer state ({}) is kept in a form that depends on the layout that saved it: save with "
        "--dist-ckpt-optim-fully-reshardable or without --use-distributed-optimizer, or import the weights "
        "alone (--weights)",
        misfit);
  return kinds;
}

void check_parts(const TorchDistReader& reader, const std::vector<Part>& parts, std::int64_t layers) {
  std::set<std::string> known;
  for (const Part& part : parts) {
    const Extents expected = their_shape(part, layers), &found = reader.at(part.theirs).shape;
    if (found != expected)
      throw UsageError("tensor {} has shape {}, but the checkpoint's arguments make it {}", part.theirs,
                       shape_text(found), shape_text(expected));
    known.insert(part.theirs);
  }
  for (const auto& [name, tensor] : reader.tensors()) {
    const bool other = name.find("optimizer.") != std::string::npos || name.find("_extra_state") != std::string::npos ||
                       name.find("rng_state") != std::string::npos || name.find("rerun_state") != std::string::npos;
    if (!other && !known.contains(name)) throw UsageError("tensor {} is none that the model has", name);
  }
}

}  // namespace

ImportedMegatron import_megatron(const fs::path& folder, const fs::path& out, const MegatronSettings& settings,
                                 const ConvertProgress& progress) {
  const fs::path iteration = iteration_folder(folder);
  const File common = File::open(iteration / "common.pt");
  const Pickle pickle = TorchArchive(common, 0, common.size()).pickle(Pickle::Unknown::kOpaque);
  const std::string source = common.path().string();
  const PickleNode* args_node = pickle.root().find("args");
  if (args_node == nullptr) throw UsageError("{}: does not hold the arguments of the run", source);
  const Arguments args(*args_node, source);

  TorchDistReader reader(iteration);
  ImportedMegatron imported;
  imported.model = read_model(args, settings);
  const PickleNode* step = pickle.root().find("iteration");
  imported.step = step == nullptr ? args.integer("iteration", 0) : step->to_integer(source + ": iteration");
  imported.consumed_samples = args.integer("consumed_train_samples", 0);
  if (imported.step < 0 || imported.consumed_samples < 0) throw UsageError("{}: a negative step", source);
  const Extents& embedding = reader.at("embedding.word_embeddings.weight").shape;
  imported.padded_vocab = embedding.empty() ? 0 : embedding[0];
  if (imported.padded_vocab < imported.model.vocab)
    throw UsageError("the vocabulary of {} tokens is larger than the embedding's {} rows", imported.model.vocab,
                     imported.padded_vocab);

  const std::vector<Part> parts = PartList(reader, imported.model).build(imported.padded_vocab);
  check_parts(reader, parts, imported.model.layers);
  std::vector<OptimizerKind> kinds = {{"", ""}};
  if (!settings.weights_only)
    for (const OptimizerKind& kind : find_optimizer(reader, parts, imported.model.layers)) kinds.push_back(kind);
  imported.with_optimizer = kinds.size() > 1;

  std::vector<std::vector<BuildPart>> files;
  std::map<std::string, std::pair<const Part*, std::string>> source_of;
  for (const OptimizerKind& kind : kinds) {
    files.emplace_back();
    for (const Part& part : parts) {
      const std::string theirs = kind.theirs + part.theirs;
      const DType dtype = reader.at(theirs).dtype;
      source_of[kind.ours + part.ours] = {&part, theirs};
      files.back().push_back({kind.ours + part.ours, dtype, part.shape, {Extents(part.shape.size(), 0), part.shape}});
      ++imported.tensors;
      imported.bytes += static_cast<std::uint64_t>(volume(part.shape)) * dtype_size(dtype);
    }
  }
  CheckpointInfo info;
  info.step = imported.step;
  info.consumed_samples = imported.consumed_samples;
  info.consumed_tokens = imported.consumed_samples * imported.model.seq_length;
  info.job = job_of(imported.model);
  info.state = {{"imported_from", "megatron"}};
  build_checkpoint(
      out, info, files,
      [&](const BuildPart& part, const Rectangle& rows, std::span<std::byte> bytes) {
        const auto& [from, theirs] = source_of.at(part.tensor);
        read_rows(reader, *from, theirs, rows.offset[0], rows.shape[0], part.dtype, bytes.data());
      },
      [&](std::uint64_t done) {
        if (progress) progress(done, imported.bytes);
      });
  return imported;
}

}  // namespace railyard
