// SentencePiece models: byte-pair models without a character map by our own encoder (any bytes come back, nearly linear
// time), the others by libsentencepiece.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/data/digest.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/tokenizer/bpe_tokenizer.hpp"
#include "runtime/data/tokenizer/utf8.hpp"

namespace railyard::data {
namespace {

constexpr const char* kSpaceMark = "\xe2\x96\x81";  // U+2581, which stands for a space

// The fields of a protocol-buffer message, one after the other (the wire format of
// protobuf.dev/programming-guides/encoding).
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  // False at the end, or where the bytes are no message.
  bool next() {
    if (at_ >= bytes_.size()) return false;
    const std::uint64_t tag = varint();
    number = static_cast<int>(tag >> 3);
    text = {};
    value = 0;
    switch (tag & 7U) {
      case 0:
        value = varint();
        return !bad_;
      case 1:
        return take(8);
      case 2:
        return take(varint());
      case 5:
        return take(4);
      default:
        return false;
    }
  }
  int number = 0;
  std::uint64_t value = 0;  // of a varint
  std::string_view text;    // of anything else

 private:
  std::uint64_t varint() {
    std::uint64_t out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ >= bytes_.size()) break;
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      out |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return out;
    }
    bad_ = true;
    return 0;
  }
  bool take(std::uint64_t size) {
    if (bad_ || size > bytes_.size() - at_) return false;
    text = bytes_.substr(at_, size);
    at_ += size;
    return true;
  }
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool bad_ = false;
};

enum PieceType : std::uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct Piece {
  std::string text;
  float score = 0.0F;
  std::uint64_t type = kNormal;
};

// What decides how a model is run (sentencepiece_model.proto).
struct Model {
  std::vector<Piece> pieces;
  std::uint64_t type = 1;  // 1 unigram, 2 byte-pair
  bool suffix_spaces = false;
  bool has_map = false, dummy_prefix = true, remove_spaces = true, escape_spaces = true;
};

Model read_model(std::string_view bytes) {
  Model model;
  for (Fields fields(bytes); fields.next();) {
    if (fields.number == 1) {
      Piece piece;
      for (Fields part(fields.text); part.next();) {
        if (part.number == 1) piece.text = std::string(part.text);
        if (part.number == 2 && part.text.size() == 4) std::memcpy(&piece.score, part.text.data(), 4);
        if (part.number == 3) piece.type = part.value;
      }
      model.pieces.push_back(std::move(piece));
    } else if (fields.number == 2) {
      for (Fields part(fields.text); part.next();) {
        if (part.number == 3) model.type = part.value;
        if (part.number == 24) model.suffix_spaces = part.value != 0;
      }
    } else if (fields.number == 3) {
      for (Fields part(fields.text); part.next();) {
        if (part.number == 2) model.has_map = !part.text.empty();
        if (part.number == 3) model.dummy_prefix = part.value != 0;
        if (part.number == 4) model.remove_spaces = part.value != 0;
        if (part.number == 5) model.escape_spaces = part.value != 0;
      }
    }
  }
  return model;
}

// The model as byte-pair rules, or null where it needs what only libsentencepiece does.
std::shared_ptr<BpeRules> byte_pair_rules(const Model& model) {
  if (model.type != 2 || model.has_map || model.remove_spaces || !model.escape_spaces || model.suffix_spaces)
    return nullptr;
  auto rules = std::make_shared<BpeRules>();
  BpeTables& tables = rules->tables;
  tables.by_character = true;
  tables.tokens.resize(model.pieces.size());
  int bytes = 0;
  std::vector<std::int32_t> order;  // normal pieces, the best first
  for (std::size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    const auto id = static_cast<std::int32_t>(i);
    if (piece.type == kUnused) return nullptr;
    std::string decoded;
    if (piece.type == kUserDefined) {
      // A piece of its own wherever its text stands, in plain text too, and never merged.
      if (piece.text.find(' ') != std::string::npos || piece.text.find(kSpaceMark) != std::string::npos) return nullptr;
      decoded = piece.text;
      rules->added_normalized.add({.text = piece.text, .id = id});
    } else if (piece.type == kNormal) {
      tables.tokens[i] = decoded = piece.text;
      for (std::size_t at = decoded.find(kSpaceMark); at != std::string::npos; at = decoded.find(kSpaceMark, at + 1))
        decoded.replace(at, 3, " ");
      order.push_back(id);
    } else if (piece.type == kByte) {
      const int byte = bytes++;
      if (byte > 255 || piece.text != fmt::format("<0x{:02X}>", byte)) return nullptr;
      tables.byte_ids[static_cast<std::size_t>(byte)] = id;
      decoded = std::string(1, static_cast<char>(byte));
    } else if (piece.type == kUnknown) {
      decoded = " \xe2\x81\x87 ";
    }
    rules->set_decoded(id, std::move(decoded));
  }
  if (bytes != 256) return nullptr;  // without them text is lost in the unknown token, in the library's own way
  tables.finish();
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return model.pieces[static_cast<std::size_t>(a)].score > model.pieces[static_cast<std::size_t>(b)].score;
  });
  std::uint32_t rank = 0;
  float score = 0.0F;
  for (const std::int32_t id : order) {
    const Piece& piece = model.pieces[static_cast<std::size_t>(id)];
    if (piece.score != score) {
      ++rank;
      score = piece.score;
    }
    const std::string_view text = piece.text;
    for (std::size_t cut = 0; cut < text.size();) {
      const CodePoint point = code_point_at(text, cut);
      const bool whole = cut == 0 && point.bytes == text.size();
      // Merging starts from characters: all that are in a piece must be tokens.
      if (!whole && tables.ids.find(text.substr(cut, point.bytes)) < 0) return nullptr;
      cut += point.bytes;
      if (cut >= text.size()) break;
      const std::int32_t left = tables.ids.find(text.substr(0, cut)), right = tables.ids.find(text.substr(cut));
      if (left >= 0 && right >= 0) tables.merges.add(left, right, rank, id);
    }
  }
  rules->normalizer.add({.kind = Normalizer::Kind::kReplace, .from = " ", .to = kSpaceMark});
  if (model.dummy_prefix)
    rules->normalizer.add({.kind = Normalizer::Kind::kPrepend, .to = kSpaceMark, .first_only = true});
  rules->strip_first_space = model.dummy_prefix;
  if (cuts_at_space_marks(tables))
    rules->pre_tokenizer.add({std::make_unique<Regex>(kSpaceMarkPattern, "sentencepiece")});
  return rules;
}

// Normalises as the model says; bytes that are not UTF-8 become U+FFFD there.
class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor,
                         std::string fingerprint)
      : processor_(std::move(processor)), fingerprint_(std::move(fingerprint)) {}

  void encode(std::string_view text, std::vector<std::int32_t>& ids, SpecialTokens) override {
    std::vector<int> found;
    const auto status = processor_->Encode({text.data(), text.size()}, &found);
    if (!status.ok()) throw UsageError("SentencePiece cannot encode the text: {}", status.ToString());
    ids.insert(ids.end(), found.begin(), found.end());
  }

  void decode(std::span<const std::int32_t> ids, std::string& text) const override {
    for (const std::int32_t id : ids)
      if (id < 0 || id >= processor_->GetPieceSize())
        throw UsageError("id {} is not in the vocabulary of {}", id, processor_->GetPieceSize());
    std::string decoded;
    const auto status = processor_->Decode(std::vector<int>(ids.begin(), ids.end()), &decoded);
    if (!status.ok()) throw UsageError("SentencePiece cannot decode the ids: {}", status.ToString());
    text += decoded;
  }

  [[nodiscard]] std::int64_t vocab_size() const override { return processor_->GetPieceSize(); }
  [[nodiscard]] std::optional<std::int32_t> eod() const override {
    const int id = processor_->eos_id();
    return id >= 0 ? std::optional<std::int32_t>(id) : std::nullopt;
  }
  [[nodiscard]] std::unique_ptr<Tokenizer> clone() const override {
    return std::make_unique<SentencePieceTokenizer>(processor_, fingerprint_);
  }
  [[nodiscard]] std::string fingerprint() const override { return fingerprint_; }

 private:
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_;
  std::string fingerprint_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& path) {
  const MappedFile file(path);
  auto processor = std::make_shared<sentencepiece::SentencePieceProcessor>();
  const auto status = processor->LoadFromSerializedProto({file.text().data(), file.text().size()});
  if (!status.ok() || processor->GetPieceSize() == 0)
    throw UsageError("{}: not a SentencePiece model: {}", path.string(), status.ToString());
  const std::string fingerprint = digest_of("sentencepiece-1" + digest_of(file.text()));
  if (const auto rules = byte_pair_rules(read_model(file.text()))) {
    if (processor->eos_id() >= 0) rules->eod = processor->eos_id();
    rules->fingerprint = fingerprint;
    return std::make_unique<BpeTokenizer>(rules);
  }
  return std::make_unique<SentencePieceTokenizer>(std::move(processor), fingerprint);
}

}  // namespace railyard::data
