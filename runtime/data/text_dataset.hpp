// A plain text file as a data set: tokenised once into a file of ids that is mapped, then read in windows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "runtime/data/dataset.hpp"
#include "runtime/data/gpt_index.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/token_view.hpp"

namespace railyard::data {

// The ids of a whole text.
class TextTokens {
 public:
  // Opens the prepared file in `cache` for this content and tokenizer, or tokenises and stores it there. UsageError:
  // the text is missing, empty, or holds what the tokenizer has no token for. RunError: the cache cannot be written.
  TextTokens(const std::filesystem::path& text, Tokenizer& tokenizer, const std::filesystem::path& cache);

  [[nodiscard]] std::int64_t size() const { return size_; }
  void read(std::int64_t first, std::span<std::int32_t> out) const {
    load_tokens(type_, file_.bytes().data() + static_cast<std::size_t>(first) * token_size(type_), out);
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& digest() const { return digest_; }  // of the text and the tokenizer

 private:
  std::string name_;
  std::string digest_;
  TokenType type_ = TokenType::kUInt16;
  std::int64_t size_ = 0;
  MappedFile file_;
};

// Windows of the tokens [first, last) of a text. Random: sample n starts at a place drawn from (seed, split name, n),
// with replacement. Sequential: the text is one document of a GPTDataset.
class TextDataset : public Dataset {
 public:
  struct Range {
    const char* split;
    std::int64_t first, last;
  };
  TextDataset(std::shared_ptr<const TextTokens> text, Range range, const JobSpec& job, std::int64_t samples,
              SampleRules rules);

  std::int64_t window(std::int64_t number, std::span<std::int32_t> tokens) const override;
  [[nodiscard]] std::string place(std::int64_t number) const override;
  [[nodiscard]] Json order() const override;

 private:
  TextDataset(std::shared_ptr<const TextTokens> text, Range range, std::uint64_t seed, std::int64_t seq_length,
              std::unique_ptr<GptIndex> index, std::int64_t samples, SampleRules rules);

  std::shared_ptr<const TextTokens> text_;
  Range range_;
  std::uint64_t seed_;
  std::unique_ptr<GptIndex> index_;  // null: random windows
};

}  // namespace railyard::data
