// Checks, merges and counts.
#include "runtime/data/maintain.hpp"

#include <algorithm>
#include <bit>

#include "runtime/base/error.hpp"
#include "runtime/data/indexed_writer.hpp"

namespace railyard::data {
namespace {

constexpr std::int64_t kReportEvery = 1 << 14;  // sequences

}  // namespace

std::vector<std::string> verify_dataset(const IndexedDataset& file, const VerifyOptions& options,
                                        const ShareDone& done) {
  std::vector<std::string> findings;
  const auto width = static_cast<std::int64_t>(token_size(file.type()));
  if (!file.contiguous()) findings.push_back("sequences do not lie back to back in .bin");
  if (const std::int64_t used = file.tokens() * width, have = static_cast<std::int64_t>(file.bin().size());
      file.contiguous() && used != have)
    findings.push_back(
        fmt::format(".bin has {} bytes and its sequences take {}: it belongs to another .idx, or a writer was stopped",
                    have, used));
  for (const char* part : {".bin.part", ".lengths.part", ".documents.part"})
    if (std::filesystem::exists(with_suffix(file.prefix(), part)))
      findings.push_back(
          fmt::format("{}{} is there: a writer was stopped or is at work", file.prefix().string(), part));
  if (token_is_float(file.type())) {
    findings.push_back(fmt::format("holds {} numbers, not token ids", token_type_name(file.type())));
    return findings;
  }
  std::int64_t negative = 0, outside = 0, first_outside = -1, empty = 0, without_eod = 0;
  const std::int64_t limit = options.vocab_size > 0 ? options.vocab_size : INT64_MAX;
  std::vector<std::int32_t> ids;
  std::int64_t next_bound = 1;
  for (std::int64_t s = 0; s < file.sequences(); ++s) {
    ids.resize(static_cast<std::size_t>(file.length(s)));
    file.read(s, 0, ids);
    empty += ids.empty() ? 1 : 0;
    std::int64_t below = 0, above = 0;
    for (const std::int32_t id : ids) {
      below += id < 0 ? 1 : 0;
      above += id >= limit ? 1 : 0;
    }
    negative += below;
    outside += above;
    if (below + above > 0 && first_outside < 0) first_outside = file.document_of(s);
    while (next_bound < file.documents() && file.document_bound(next_bound) <= s) ++next_bound;
    if (options.eod && s + 1 == file.document_bound(next_bound) && (ids.empty() || ids.back() != *options.eod))
      ++without_eod;
    if (s % kReportEvery == 0) done(static_cast<double>(s) / static_cast<double>(file.sequences()));
  }
  const std::int64_t empty_documents = summarise(file).empty_documents;
  if (negative > 0)
    findings.push_back(
        fmt::format("{} ids are negative or beyond 32 bits, the first in document {}", negative, first_outside));
  if (outside > 0)
    findings.push_back(fmt::format("{} ids are outside the vocabulary of {}, the first in document {}", outside,
                                   options.vocab_size, first_outside));
  if (empty > 0) findings.push_back(fmt::format("{} sequences are empty", empty));
  if (empty_documents > 0) findings.push_back(fmt::format("{} documents have no sequence", empty_documents));
  if (without_eod > 0)
    findings.push_back(
        fmt::format("{} documents do not end with the end-of-document token {}", without_eod, *options.eod));
  if (file.sequences() == 0) findings.push_back("holds no sequences");
  return findings;
}

void merge_datasets(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output, bool force,
                    const ShareDone& done) {
  const auto prefix = dataset_prefix(output);
  if (!force && std::filesystem::exists(with_suffix(prefix, ".idx")))
    throw UsageError("{}.idx: exists already; give another output, or --force to replace it", prefix.string());
  std::vector<IndexedDataset> files;
  std::int64_t all = 0;
  for (const auto& input : inputs) {
    files.emplace_back(input);
    all += files.back().sequences();
    std::error_code error;
    if (std::filesystem::equivalent(with_suffix(files.back().prefix(), ".bin"), with_suffix(prefix, ".bin"), error))
      throw UsageError("{}: is an input and the output", prefix.string());
  }
  const bool multimodal = files.front().multimodal();
  TokenType type = files.front().type();
  for (const IndexedDataset& file : files) {
    if (token_is_float(file.type()))
      throw UsageError("{}: holds {} numbers, not token ids", file.prefix().string(), token_type_name(file.type()));
    if (file.multimodal() != multimodal)
      throw UsageError("{}: only some of the inputs have sequence modes", file.prefix().string());
    if (file.type() != type) type = TokenType::kInt32;
  }
  if (prefix.has_parent_path()) std::filesystem::create_directories(prefix.parent_path());
  IndexedWriter writer(prefix, type, multimodal);
  std::vector<std::int32_t> ids;
  std::int64_t written = 0;
  for (const IndexedDataset& file : files) {
    file.bin().expect_sequential();
    std::int64_t document = 1;
    const auto end_documents = [&](std::int64_t sequence) {
      for (; document <= file.documents() && file.document_bound(document) == sequence; ++document)
        writer.end_document();
    };
    end_documents(0);
    for (std::int64_t s = 0; s < file.sequences(); ++s) {
      const std::uint8_t mode = multimodal ? file.mode(s) : 0;
      if (file.type() == type) {
        writer.add_raw(file.raw(s), mode);
      } else {
        ids.resize(static_cast<std::size_t>(file.length(s)));
        file.read(s, 0, ids);
        if (file.type() == TokenType::kInt64 &&
            std::any_of(ids.begin(), ids.end(), [](std::int32_t id) { return id < 0; }))
          throw UsageError("{}: document {} has an id that is negative or does not fit int32", file.prefix().string(),
                           file.document_of(s));
        writer.add(ids, mode);
      }
      end_documents(s + 1);
      if (++written % kReportEvery == 0) done(static_cast<double>(written) / static_cast<double>(all));
    }
  }
  writer.finish();
}

DatasetSummary summarise(const IndexedDataset& file) {
  DatasetSummary summary;
  for (std::int64_t s = 0; s < file.sequences(); ++s) {
    const std::int64_t length = file.length(s);
    summary.shortest = s == 0 ? length : std::min(summary.shortest, length);
    summary.longest = std::max(summary.longest, length);
    ++summary.histogram[static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(length)))];
  }
  if (file.sequences() > 0) summary.mean = static_cast<double>(file.tokens()) / static_cast<double>(file.sequences());
  for (std::int64_t d = 0; d < file.documents(); ++d)
    summary.empty_documents += file.document_bound(d) == file.document_bound(d + 1) ? 1 : 0;
  return summary;
}

}  // namespace railyard::data
