// SentencePiece models by libsentencepiece.
#include <sentencepiece_processor.h>

#include <memory>

#include "runtime/base/error.hpp"
#include "runtime/data/digest.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/tokenizer/bpe_tokenizer.hpp"

namespace railyard::data {
namespace {

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
  return std::make_unique<SentencePieceTokenizer>(std::move(processor),
                                                  digest_of("sentencepiece-1" + digest_of(file.text())));
}

}  // namespace railyard::data
