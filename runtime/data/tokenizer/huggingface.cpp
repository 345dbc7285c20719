// Hugging Face's tokenizer.json: the BPE model with the normalisers, pre-tokenizers and decoders that language models
// use.
#include <string>
#include <vector>

#include "runtime/data/digest.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/tokenizer/bpe_tokenizer.hpp"
#include "runtime/data/tokenizer/json_file.hpp"
#include "runtime/data/tokenizer/utf8.hpp"

namespace railyard::data {
namespace {

using simdjson::dom::element;

constexpr std::int64_t kMostIds = 1 << 24;
constexpr const char* kSpaceMark = "\xe2\x96\x81";  // U+2581, which stands for a space

class Loader {
 public:
  explicit Loader(const std::filesystem::path& path) : file_(path), rules_(std::make_shared<BpeRules>()) {}

  std::shared_ptr<BpeRules> load() {
    return file_.checked("tokenizer.json", [&] {
      element part;
      if (json_member(file_.root(), "normalizer", part)) add_normalizer(part);
      if (json_member(file_.root(), "pre_tokenizer", part)) add_pre_tokenizer(part, true);
      if (json_member(file_.root(), "decoder", part)) read_decoder(part);
      const element model = file_.root().at_key("model").value();
      read_vocabulary(model);
      read_merges(model);
      if (json_member(file_.root(), "added_tokens", part)) read_added(part);
      cut_at_space_marks();
      choose_end_of_document();
      return rules_;
    });
  }

 private:
  [[noreturn]] void refuse(const char* kind, std::string_view name) const {
    throw UsageError("{}: {} \"{}\": not built yet", file_.name(), kind, name);
  }

  static std::string type_of(element object) { return std::string(object.at_key("type").get_string().value()); }

  void add_normalizer(element object) {
    using Kind = Normalizer::Kind;
    const std::string type = type_of(object);
    if (type == "Sequence") {
      for (const element part : json_array(object.at_key("normalizers"))) add_normalizer(part);
    } else if (type == "NFC")
      rules_->normalizer.add({.kind = Kind::kNfc});
    else if (type == "NFD")
      rules_->normalizer.add({.kind = Kind::kNfd});
    else if (type == "NFKC")
      rules_->normalizer.add({.kind = Kind::kNfkc});
    else if (type == "NFKD")
      rules_->normalizer.add({.kind = Kind::kNfkd});
    else if (type == "Prepend")
      rules_->normalizer.add(
          {.kind = Kind::kPrepend, .to = std::string(object.at_key("prepend").get_string().value())});
    else if (type == "Replace") {
      std::string_view from;
      if (object.at_key("pattern").at_key("String").get(from) != simdjson::SUCCESS)
        refuse("normalizer with a pattern", type);
      rules_->normalizer.add({.kind = Kind::kReplace,
                              .from = std::string(from),
                              .to = std::string(object.at_key("content").get_string().value())});
    } else
      refuse("normalizer", type);
  }

  static SplitBehavior behavior_of(std::string_view name) {
    if (name == "Removed") return SplitBehavior::kRemoved;
    if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
    if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
    if (name == "Contiguous") return SplitBehavior::kContiguous;
    return SplitBehavior::kIsolated;
  }

  // `first`: nothing was cut before it, so it sees whole texts.
  void add_pre_tokenizer(element object, bool first) {
    const std::string type = type_of(object);
    cuts_ = true;
    if (type == "Sequence") {
      for (const element part : json_array(object.at_key("pretokenizers"))) {
        add_pre_tokenizer(part, first);
        first = false;
      }
    } else if (type == "ByteLevel") {
      byte_level_ = true;
      SplitStage stage;
      stage.prefix_space = json_or<bool>(object, "add_prefix_space", true);
      if (json_or<bool>(object, "use_regex", true)) stage.regex = std::make_unique<Regex>(kGpt2Pattern, file_.name());
      if (stage.regex || stage.prefix_space) rules_->pre_tokenizer.add(std::move(stage));
    } else if (type == "Split") {
      SplitStage stage;
      const element pattern = object.at_key("pattern").value();
      std::string_view text;
      if (pattern.at_key("Regex").get(text) == simdjson::SUCCESS)
        stage.regex = std::make_unique<Regex>(std::string(text), file_.name());
      else
        stage.regex =
            std::make_unique<Regex>(quote_for_regex(pattern.at_key("String").get_string().value()), file_.name());
      stage.behavior = behavior_of(object.at_key("behavior").get_string().value());
      stage.invert = json_or<bool>(object, "invert", false);
      rules_->pre_tokenizer.add(std::move(stage));
    } else if (type == "Digits") {
      rules_->pre_tokenizer.add({std::make_unique<Regex>(
          json_or<bool>(object, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", file_.name())});
    } else if (type == "Metaspace" && first) {
      using Kind = Normalizer::Kind;
      const std::string mark(json_or<std::string_view>(object, "replacement", kSpaceMark));
      const std::string scheme(json_or<std::string_view>(
          object, "prepend_scheme", json_or<bool>(object, "add_prefix_space", true) ? "always" : "never"));
      rules_->normalizer.add({.kind = Kind::kReplace, .from = " ", .to = mark});
      if (scheme != "never")
        rules_->normalizer.add(
            {.kind = Kind::kPrepend, .to = mark, .first_only = scheme == "first", .unless_there = true});
      if (json_or<bool>(object, "split", true)) {
        SplitStage stage;
        stage.regex = std::make_unique<Regex>(quote_for_regex(mark), file_.name());
        stage.behavior = SplitBehavior::kMergedWithNext;
        rules_->pre_tokenizer.add(std::move(stage));
      }
    } else
      refuse("pre_tokenizer", type);
  }

  // Of the decoders only what changes bytes matters: whether tokens are in GPT-2's alphabet, what marks a space,
  // whether a first space goes. (ByteFallback and Fuse are what set_decoded does anyway, and keep invalid bytes as they
  // are.)
  void read_decoder(element object) {
    const std::string type = type_of(object);
    if (type == "Sequence") {
      for (const element part : json_array(object.at_key("decoders"))) read_decoder(part);
    } else if (type == "ByteLevel")
      byte_level_ = true;
    else if (type == "Metaspace") {
      space_mark_ = std::string(json_or<std::string_view>(object, "replacement", kSpaceMark));
      const std::string_view scheme = json_or<std::string_view>(
          object, "prepend_scheme", json_or<bool>(object, "add_prefix_space", true) ? "always" : "never");
      rules_->strip_first_space = scheme != "never";
    } else if (type == "Replace") {
      std::string_view from;
      const std::string_view content = object.at_key("content").get_string().value();
      if (object.at_key("pattern").at_key("String").get(from) != simdjson::SUCCESS || content != " ")
        refuse("decoder", type);
      space_mark_ = std::string(from);
    } else if (type == "Strip") {
      rules_->strip_first_space = object.at_key("content").get_string().value() == std::string_view(" ") &&
                                  object.at_key("start").get_int64().value() == 1;
    } else if (type != "ByteFallback" && type != "Fuse")
      refuse("decoder", type);
  }

  std::string token_bytes(std::string_view text) const {
    if (!byte_level_) return std::string(text);
    auto bytes = bytes_of_byte_level(text);
    return bytes ? *std::move(bytes) : std::string();
  }

  static int fallback_byte(std::string_view text) {  // "<0x0A>" is 10; else -1
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
    int value = 0;
    for (const char c : text.substr(3, 2)) {
      const std::size_t digit = std::string_view("0123456789ABCDEF").find(c);
      if (digit == std::string_view::npos) return -1;
      value = 16 * value + static_cast<int>(digit);
    }
    return value;
  }

  void read_vocabulary(element model) {
    element type;
    if (json_member(model, "type", type) && type.get_string().value() != std::string_view("BPE"))
      refuse("model", type.get_string().value());
    if (json_or<double>(model, "dropout", 0.0) != 0.0) refuse("model option", "dropout");
    for (const char* option : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!json_or<std::string_view>(model, option, "").empty()) refuse("model option", option);
    BpeTables& tables = rules_->tables;
    const bool fallback = json_or<bool>(model, "byte_fallback", false);
    tables.by_character = !byte_level_;
    tables.whole_first = json_or<bool>(model, "ignore_merges", false);
    tables.fuse_unknown = json_or<bool>(model, "fuse_unk", false);
    const std::string unknown(json_or<std::string_view>(model, "unk_token", ""));
    for (const auto [text, value] : json_object(model.at_key("vocab"))) {
      const std::int64_t id = value.get_int64().value();
      if (id < 0 || id >= kMostIds) throw UsageError("{}: model.vocab: token \"{}\" has id {}", file_.name(), text, id);
      const auto index = static_cast<std::size_t>(id);
      if (index >= tables.tokens.size()) tables.tokens.resize(index + 1);
      tables.tokens[index] = token_bytes(text);
      if (!unknown.empty() && text == unknown) tables.unknown = static_cast<std::int32_t>(id);
      const int byte = !byte_level_ && fallback ? fallback_byte(text) : -1;
      std::string decoded = tables.tokens[index].empty() ? std::string(text) : tables.tokens[index];
      if (byte >= 0) {
        tables.byte_ids[static_cast<std::size_t>(byte)] = static_cast<std::int32_t>(id);
        decoded = std::string(1, static_cast<char>(byte));
      } else if (!space_mark_.empty()) {
        for (std::size_t at = decoded.find(space_mark_); at != std::string::npos;
             at = decoded.find(space_mark_, at + 1))
          decoded.replace(at, space_mark_.size(), " ");
      }
      rules_->set_decoded(static_cast<std::int32_t>(id), std::move(decoded));
    }
    tables.finish();
    if (!tables.by_character)
      for (int b = 0; b < 256; ++b) {
        const char byte = static_cast<char>(b);
        tables.byte_ids[static_cast<std::size_t>(b)] = tables.ids.find(std::string_view(&byte, 1));
      }
  }

  void read_merges(element model) {
    BpeTables& tables = rules_->tables;
    const auto list = json_array(model.at_key("merges"));
    tables.merges.reserve(list.size());
    std::uint32_t rank = 0;
    for (const element merge : list) {
      std::string_view a, b;
      if (merge.is_array()) {
        a = merge.at(0).get_string().value();
        b = merge.at(1).get_string().value();
      } else {
        const std::string_view text = merge.get_string().value();
        const std::size_t space = text.find(' ', 1);
        if (space == std::string_view::npos)
          throw UsageError("{}: model.merges[{}]: expected two tokens, found \"{}\"", file_.name(), rank, text);
        a = text.substr(0, space);
        b = text.substr(space + 1);
      }
      const std::string left = token_bytes(a), right = token_bytes(b);
      const std::int32_t left_id = tables.ids.find(left), right_id = tables.ids.find(right),
                         id = tables.ids.find(left + right);
      if (left_id < 0 || right_id < 0 || id < 0)
        throw UsageError("{}: model.merges[{}]: \"{}\" + \"{}\": not all in model.vocab", file_.name(), rank, a, b);
      tables.merges.add(left_id, right_id, rank++, id);
    }
  }

  void read_added(element list) {
    for (const element item : json_array(list)) {
      AddedToken token;
      token.text = std::string(item.at_key("content").get_string().value());
      const std::int64_t id = item.at_key("id").get_int64().value();
      if (id < 0 || id >= kMostIds)
        throw UsageError("{}: added_tokens: \"{}\" has id {}", file_.name(), token.text, id);
      token.id = static_cast<std::int32_t>(id);
      token.special = json_or<bool>(item, "special", false);
      token.normalized = json_or<bool>(item, "normalized", false);
      token.strip_left = json_or<bool>(item, "lstrip", false);
      token.strip_right = json_or<bool>(item, "rstrip", false);
      token.single_word = json_or<bool>(item, "single_word", false);
      rules_->set_decoded(token.id, token.text);
      added_.push_back(token);
      (token.normalized ? rules_->added_normalized : rules_->added).add(std::move(token));
    }
  }

  void cut_at_space_marks() {
    if (!byte_level_ && !cuts_ && cuts_at_space_marks(rules_->tables))
      rules_->pre_tokenizer.add({std::make_unique<Regex>(kSpaceMarkPattern, file_.name())});
  }

  void choose_end_of_document() {
    const auto id_of = [&](std::string_view text) -> std::optional<std::int32_t> {
      for (const AddedToken& token : added_)
        if (token.text == text) return token.id;
      return std::nullopt;
    };
    const auto config = std::filesystem::path(file_.name()).parent_path() / "tokenizer_config.json";
    std::error_code error;
    if (std::filesystem::is_regular_file(config, error)) {
      const JsonFile settings(config);
      element eos;
      std::string_view text;
      if (json_member(settings.root(), "eos_token", eos) &&
          (eos.get(text) == simdjson::SUCCESS || eos.at_key("content").get(text) == simdjson::SUCCESS))
        rules_->eod = id_of(text);
    }
    for (const char* name : {"<|endoftext|>", "<|end_of_text|>",
                             "<\xef\xbd\x9c"
                             "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
                             "</s>", "<eos>", "<|eot_id|>"})
      if (!rules_->eod) rules_->eod = id_of(name);
  }

  JsonFile file_;
  std::shared_ptr<BpeRules> rules_;
  std::vector<AddedToken> added_;
  bool byte_level_ = false, cuts_ = false;
  std::string space_mark_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_huggingface(const std::filesystem::path& path) {
  const auto rules = Loader(path).load();
  rules->fingerprint = digest_of("huggingface-1" + digest_of(MappedFile(path).text()));
  return std::make_unique<BpeTokenizer>(rules);
}

}  // namespace railyard::data
