// Translates flags into keys and writes the job file.
#include "lua/megatron/import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "lua/megatron/options.hpp"
#include "lua/megatron/shell_words.hpp"
#include "lua/schema/job_schema.hpp"
#include "lua/source/source_map.hpp"
#include "runtime/base/error.hpp"

namespace railyard::lua {
namespace {

struct Flag {
  std::string name;  // without dashes
  std::vector<ShellWord> values;

  [[nodiscard]] std::string told() const {
    std::string text = "--" + name;
    for (const ShellWord& value : values) text += " " + value.plain();
    return text;
  }
};

bool is_flag(const ShellWord& word) {
  const std::string text = word.plain();
  return text.size() > 2 && text.starts_with("--") && !word.pieces.front().variable;
}

std::vector<Flag> flags_of(std::string_view text) {
  std::vector<Flag> flags;
  const auto words = shell_words(text);
  for (std::size_t i = 0; i < words.size();) {
    if (!is_flag(words[i])) {
      ++i;
      continue;
    }
    ShellWord word = words[i++];
    Flag flag;
    std::string& head = word.pieces.front().text;
    const auto equals = head.find('=');
    flag.name = head.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (equals != std::string::npos) {
      head.erase(0, equals + 1);
      if (head.empty() && word.pieces.size() > 1) word.pieces.erase(word.pieces.begin());
      flag.values.push_back(word);
    }
    const MegatronOption* option = find_megatron_option(flag.name);
    const int wanted = option == nullptr ? -1 : option->values;
    const auto goes_on = [&] {
      if (i >= words.size() || is_flag(words[i])) return false;
      if (wanted >= 0) return static_cast<int>(flag.values.size()) < wanted;
      return !words[i - 1].ends_command && !(option == nullptr && words[i - 1].ends_line);
    };
    while (goes_on()) flag.values.push_back(words[i++]);
    flags.push_back(flag);
  }
  return flags;
}

std::optional<double> number_of(const ShellWord& word) {
  const std::string text = word.plain();
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (word.has_variable() || text.empty() || *end != '\0' || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string lua_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      result += fmt::format("\\{:03d}", static_cast<int>(c));
    else
      result += c;
  }
  return result + "\"";
}

// env.NAME, or env["1"] for what is no name in Lua (its keywords are in lower case).
std::string variable_expression(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
  if (plain && std::isdigit(static_cast<unsigned char>(name.front())) == 0) return "env." + name;
  return "env[" + lua_text(name) + "]";
}

// A text as a Lua expression: "a" .. env.B
std::string text_expression(const ShellWord& word) {
  std::string result;
  for (const auto& piece : word.pieces) {
    if (!result.empty()) result += " .. ";
    result += piece.variable ? variable_expression(piece.text) : lua_text(piece.text);
  }
  return result.empty() ? "\"\"" : result;
}

// A number as a Lua expression, or nothing when it is none.
std::optional<std::string> number_expression(const ShellWord& word) {
  if (word.has_variable()) return "tonumber(" + text_expression(word) + ")";
  if (!number_of(word)) return std::nullopt;
  std::string text = word.plain();
  text.erase(0, text.find_first_not_of(" +"));
  return text;
}

// "checkpoint.dir" -> its parts; the tree keeps the order in which keys were first set.
struct Tree {
  std::string expression;  // of a leaf
  std::vector<std::pair<std::string, Tree>> children;

  Tree& at(const std::string& name) {
    const auto found =
        std::find_if(children.begin(), children.end(), [&](const auto& child) { return child.first == name; });
    return found == children.end() ? children.emplace_back(name, Tree{}).second : found->second;
  }

  [[nodiscard]] std::string one_line() const {
    if (children.empty()) return expression;
    std::string text = "{ ";
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (i > 0) text += ", ";
      text += children[i].first + " = " + children[i].second.one_line();
    }
    return text + " }";
  }
};

class Importer {
 public:
  Importer(std::vector<Flag> flags, std::string name) : flags_(std::move(flags)), name_(std::move(name)) {}

  MegatronImport run() {
    megatron_defaults();
    for (const Flag& flag : flags_) one(flag);
    activation();
    data();
    tokenizer();
    checkpoints();
    batches();
    return {write(), std::move(inexpressible_)};
  }

 private:
  void set(const std::string& path, std::string expression) { values_[path] = std::move(expression); }

  void cannot(const Flag& flag, std::string_view why) {
    inexpressible_.push_back(why.empty() ? flag.told() : fmt::format("{}: {}", flag.told(), why));
  }

  [[nodiscard]] const Flag* find(std::string_view name) const {
    const Flag* found = nullptr;
    for (const Flag& flag : flags_)
      if (const auto* option = find_megatron_option(flag.name); option != nullptr && option->name == name)
        found = &flag;
    return found;
  }
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
  [[nodiscard]] std::optional<double> number(std::string_view name) const {
    const Flag* flag = find(name);
    return flag == nullptr || flag->values.empty() ? std::nullopt : number_of(flag->values.front());
  }

  // Where leaving a flag out means something else there than here.
  void megatron_defaults() {
    set("model.bias", "true");
    set("model.tied_embeddings", "true");
    set("model.attention_dropout", "0.1");
    set("model.hidden_dropout", "0.1");
    set("train.optimizer.weight_decay", "0.01");
    set("train.lr.schedule", "\"linear\"");
    set("eval.every", "1000");
    set("eval.batches", "100");
  }

  void one(const Flag& flag) {
    const MegatronOption* option = find_megatron_option(flag.name);
    if (option == nullptr) return cannot(flag, "unknown option");
    if (static_cast<int>(flag.values.size()) < option->values) return cannot(flag, "its value is missing");
    const std::string path(option->ours);
    switch (option->means) {
      case MegatronOption::Means::kCopy:
        return copy(flag, path);
      case MegatronOption::Means::kSet:
        return set(path, "true");
      case MegatronOption::Means::kClear:
        return set(path, "false");
      case MegatronOption::Means::kWord: {
        const auto word = megatron_word(option->name, flag.values.front().plain());
        if (!word) return cannot(flag, fmt::format("{} has no such choice", path));
        return set(path, lua_text(*word));
      }
      case MegatronOption::Means::kSpecial:
        return special(flag, option->name, path);
      case MegatronOption::Means::kNothing:
        return;
      case MegatronOption::Means::kLacking:
        return cannot(flag, option->note);
    }
  }

  // The value as its key wants it: a number, or a text.
  void copy(const Flag& flag, const std::string& path) {
    const auto& keys = job_schema().keys();
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const Key& k) { return k.path == path; });
    const bool numeric = key != keys.end() && (key->kind == Kind::kInteger || key->kind == Kind::kNumber);
    const ShellWord& value = flag.values.front();
    if (!numeric) return set(path, text_expression(value));
    const auto expression = number_expression(value);
    if (!expression) return cannot(flag, "expected a number");
    set(path, *expression);
  }

  void special(const Flag& flag, std::string_view name, const std::string& path) {
    const std::string value = flag.values.empty() ? "" : flag.values.front().plain();
    if (name == "num-layers-per-virtual-pipeline-stage") {
      const auto layers = number("num-layers"), stages = number("pipeline-model-parallel-size"), each = number(name);
      if (!layers || !stages || !each || *each < 1 || *stages < 1)
        return cannot(flag, "needs --num-layers and --pipeline-model-parallel-size");
      set(path, fmt::format("{:.0f}", *layers / *stages / *each));
    } else if (name == "use-tp-pp-dp-mapping") {
      set(path, "\"tp-cp-ep-pp-dp\"");
    } else if (name == "apply-layernorm-1p") {
      set(path, "\"layernorm1p\"");
    } else if (name == "use-rope-scaling") {
      set("model.rope_scaling.type", "\"llama3\"");
      if (!has("rope-scaling-factor")) set("model.rope_scaling.factor", "8");
    } else if (name == "use-rotary-position-embeddings") {
      set(path, "\"rope\"");
    } else if (name == "no-position-embedding") {
      if (!values_.contains(path)) set(path, "\"none\"");
    } else if (name == "window-size") {
      const auto first = value.find_first_of("0123456789");
      if (first == std::string::npos) return cannot(flag, "expected a number of tokens");
      set(path, value.substr(first, value.find_first_not_of("0123456789", first) - first));
    } else if (name == "bf16" || name == "fp16") {
      if (!has("fp8-format")) set(path, lua_text(name));
    } else if (name == "fp8-format") {
      set(path, "\"fp8\"");
    } else if (name == "grad-reduce-in-bf16") {
      set(path, "\"bf16\"");
    } else if (name == "optimizer") {
      if (value != "adam") return cannot(flag, "train.optimizer.type has \"adamw\" only");
    } else if (name == "recompute-activations") {
      set(path, "\"selective\"");
    } else if (name == "recompute-modules") {
      set_list(flag, path, true);
    } else if (name == "iterations-to-skip" || name == "profile-ranks" || name == "rampup-batch-size") {
      set_list(flag, path, false);
    } else if (name == "exit-duration-in-mins" || name == "distributed-timeout-minutes") {
      const auto minutes = number(name);
      if (!minutes) return cannot(flag, "expected minutes");
      set(path, fmt::format("{:g}", *minutes * 60));
    } else if (name == "tensorboard-dir") {
      set(path, "true");
    } else if (name == "dataloader-type") {
      if (value != "single") return cannot(flag, "samples come in the order of the single loader");
    }
    // The others are taken up together with those they belong to.
  }

  // All values of the flag as a list of texts or of numbers.
  void set_list(const Flag& flag, const std::string& path, bool texts) {
    std::string items;
    for (const ShellWord& value : flag.values) {
      const auto item = texts ? text_expression(value) : number_expression(value);
      if (!item) return cannot(flag, "expected numbers");
      items += (items.empty() ? "" : ", ") + *item;
    }
    set(path, "{ " + items + " }");
  }

  // Megatron's fused bias and GELU takes the tanh form; without a bias, or without the fusion, it is the erf form.
  void activation() {
    if (has("swiglu")) return set("model.activation", "\"swiglu\"");
    if (has("squared-relu")) return set("model.activation", "\"squared_relu\"");
    const bool tanh = has("openai-gelu") || (!has("disable-bias-linear") && !has("no-bias-gelu-fusion"));
    set("model.activation", tanh ? "\"gelu_tanh\"" : "\"gelu\"");
  }

  void data() {
    for (const auto& [option, path] :
         {std::pair("data-path", "data.train"), std::pair("train-data-path", "data.train"),
          std::pair("valid-data-path", "data.valid"), std::pair("test-data-path", "data.test")})
      if (const Flag* flag = find(option); flag != nullptr && !flag->values.empty()) sources(*flag, path);
    if (const Flag* flag = find("data-args-path"); flag != nullptr && !flag->values.empty()) sources_in_file(*flag);
  }

  // A file of what --data-path takes.
  void sources_in_file(Flag flag) {
    const Flag named = flag;
    std::error_code error;
    const std::filesystem::path file = flag.values.front().plain();
    if (flag.values.front().has_variable() || !std::filesystem::is_regular_file(file, error))
      return cannot(named, "cannot be read here; put its list into data.train");
    flag.values = shell_words(read_file(file));
    if (flag.values.empty()) return cannot(named, "holds no prefix");
    sources(flag, "data.train");
  }

  // A list of prefixes, or weights and prefixes in turn: pairs when the count is even and some weight is a number.
  void sources(const Flag& flag, const std::string& path) {
    const auto& words = flag.values;
    bool weighted = false;
    for (std::size_t i = 0; words.size() % 2 == 0 && i < words.size(); i += 2)
      weighted = weighted || number_of(words[i]).has_value();
    std::string items;
    for (std::size_t i = 0; i < words.size(); i += weighted ? 2 : 1) {
      if (!items.empty()) items += ", ";
      if (!weighted) {
        items += fmt::format("{{ path = {} }}", text_expression(words[i]));
        continue;
      }
      const auto weight = number_expression(words[i]);
      if (!weight) return cannot(flag, "expected weights and prefixes in turn");
      items += fmt::format("{{ path = {}, weight = {} }}", text_expression(words[i + 1]), *weight);
    }
    set(path, "{ " + items + " }");
  }

  void tokenizer() {
    const Flag* type = find("tokenizer-type");
    if (type == nullptr || type->values.empty()) return;
    static const std::map<std::string, std::string> known{{"GPT2BPETokenizer", "gpt2"},
                                                          {"HuggingFaceTokenizer", "huggingface"},
                                                          {"Llama3Tokenizer", "tiktoken"},
                                                          {"SentencePieceTokenizer", "sentencepiece"},
                                                          {"GPTSentencePieceTokenizer", "sentencepiece"},
                                                          {"Llama2Tokenizer", "sentencepiece"},
                                                          {"TikTokenizer", "tiktoken"}};
    const std::string value = type->values.front().plain();
    if (const auto found = known.find(value); found != known.end()) {
      set("data.tokenizer.type", lua_text(found->second));
      if (const Flag* file = find("vocab-file"); file != nullptr && !file->values.empty() && found->second == "gpt2") {
        ShellWord folder = file->values.front();
        auto& last = folder.pieces.back();
        if (!last.variable) {
          last.text = std::filesystem::path(last.text).parent_path().string();
          if (last.text.empty() && folder.pieces.size() == 1) last.text = ".";
        }
        set("data.tokenizer.path", text_expression(folder));
      }
    } else if (value == "NullTokenizer") {
      if (const auto size = number("vocab-size"))
        set("model.vocab", fmt::format("{:.0f}", *size + 1));  // it adds an end of document
    } else {
      cannot(*type, "there is no such tokenizer");
    }
    const bool numbered = values_.contains("model.vocab");
    if (!numbered && values_.contains("data.tokenizer.type")) set("model.vocab", "\"auto\"");
  }

  void checkpoints() {
    const Flag *save = find("save"), *load = find("load");
    const auto place = [](const Flag* flag) {
      return flag == nullptr || flag->values.empty() ? "" : flag->values.front().plain();
    };
    if (load == nullptr || load->values.empty()) return;
    if (has("finetune") || has("no-load-optim")) {
      set("checkpoint.init_from.path", text_expression(load->values.front()));
      set(has("finetune") ? "checkpoint.init_from.weights_only" : "checkpoint.init_from.reset_optimizer", "true");
    } else if (save == nullptr) {
      set("checkpoint.dir", text_expression(load->values.front()));
    } else if (place(save) != place(load)) {
      cannot(*load,
             "a run continues from its own checkpoint.dir; see checkpoint.init_from for starting from another's");
    }
  }

  void batches() {
    const auto batch = number("global-batch-size");
    if (!batch && !values_.contains("train.global_batch")) {
      // Without it Megatron takes micro-batch-size x dp, and dp is known to the launcher only.
      if (const auto micro = number("micro-batch-size")) set("train.global_batch", fmt::format("{:.0f}", *micro));
      if (const Flag* micro = find("micro-batch-size"))
        cannot(*micro, "without --global-batch-size the batch depends on the number of ranks; set train.global_batch");
    }
    for (const auto& [option, path] :
         {std::pair("lr-warmup-samples", "train.lr.warmup"), std::pair("lr-decay-samples", "train.lr.decay_iterations"),
          std::pair("lr-wsd-decay-samples", "train.lr.wsd_decay")}) {
      const Flag* flag = find(option);
      if (flag == nullptr) continue;
      const auto samples = number(option);
      if (samples && batch && *batch >= 1)
        set(path, fmt::format("{:.0f}", *samples / *batch));
      else
        cannot(*flag, "needs --global-batch-size");
    }
    const auto beta = [&](const char* option, const char* otherwise) {
      const Flag* flag = find(option);
      return flag == nullptr || flag->values.empty() || !number_of(flag->values.front()) ? std::string(otherwise)
                                                                                         : flag->values.front().plain();
    };
    set("train.optimizer.betas", fmt::format("{{ {}, {} }}", beta("adam-beta1", "0.9"), beta("adam-beta2", "0.999")));
  }

  std::string write() {
    // In the order of the schema, whatever the order of the flags.
    Tree tree;
    for (const Key& key : job_schema().keys()) {
      const auto found = values_.find(key.path);
      if (found == values_.end()) continue;
      Tree* at = &tree;
      for (const std::string& part : path_parts(key.path)) at = &at->at(part);
      at->expression = found->second;
    }
    std::string text = fmt::format(
        "#!/usr/bin/env railyard\n\nlocal models = require \"railyard.models\"\n\nreturn job {{\n  name = {},\n",
        lua_text(name_));
    for (const auto& [section, table] : tree.children) {
      text += fmt::format("  {} = {}{{\n", section, section == "model" ? "models.transformer " : "");
      for (const auto& [key, value] : table.children) text += fmt::format("    {} = {},\n", key, value.one_line());
      text += "  },\n";
    }
    return text + "}\n";
  }

  std::vector<Flag> flags_;
  std::string name_;
  std::map<std::string, std::string> values_;  // key path -> Lua expression
  std::vector<std::string> inexpressible_;
};

}  // namespace

MegatronImport import_megatron(std::string_view flags, const std::string& source, const std::string& name) {
  auto read = flags_of(flags);
  if (read.empty()) throw UsageError("{}: holds no option that begins with --", source);
  return Importer(std::move(read), name).run();
}

}  // namespace railyard::lua
