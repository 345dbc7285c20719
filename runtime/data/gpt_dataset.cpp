// Reads samples through the three indices, and keeps the indices in a cache folder.
#include "runtime/data/gpt_dataset.hpp"

#include <algorithm>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/data/digest.hpp"
#include "runtime/data/npy.hpp"

namespace railyard::data {
namespace {

constexpr const char* kKind = "railyard gpt index 1";
constexpr const char* kNames[] = {"document_index", "sample_index", "shuffle_index"};

Json describe(const GptIndexRequest& request) {
  return Json{{"first", request.first},
              {"last", request.last},
              {"seq_length", request.seq_length},
              {"samples", request.samples ? Json(*request.samples) : Json(nullptr)},
              {"seed", request.seed},
              {"drop_last_partial", request.drop_last_partial}};
}

// The cached indices, when description and files are there and belong together.
std::optional<GptIndex> load(const std::filesystem::path& stem, const Json& key) {
  try {
    const auto path = with_suffix(stem, "-description.json");
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
    const Json description = read_json_file(path);
    if (description.at("key") != key) return std::nullopt;
    GptIndex index;
    IntArray* arrays[] = {&index.documents, &index.samples, &index.shuffle};
    for (std::size_t i = 0; i < 3; ++i) {
      *arrays[i] = read_npy(with_suffix(stem, fmt::format("-{}.npy", kNames[i]).c_str()));
      if (sampled_digest(arrays[i]->bytes()) != description.at(kNames[i]).get<std::string>()) return std::nullopt;
    }
    index.epochs = description.at("epochs").get<std::int64_t>();
    index.separate_last_epoch = description.at("separate_last_epoch").get<bool>();
    return index;
  } catch (const std::exception&) {
    return std::nullopt;  // a damaged cache is made again
  }
}

void store(const std::filesystem::path& stem, const Json& key, const GptIndex& index) {
  std::error_code error;
  std::filesystem::create_directories(stem.parent_path(), error);
  if (error)
    throw RunError("{}: cannot create the cache folder: {}; set data.cache to a writable one",
                   stem.parent_path().string(), error.message());
  Json description{
      {"kind", kKind}, {"key", key}, {"epochs", index.epochs}, {"separate_last_epoch", index.separate_last_epoch}};
  const IntArray* arrays[] = {&index.documents, &index.samples, &index.shuffle};
  for (std::size_t i = 0; i < 3; ++i) {
    write_npy(with_suffix(stem, fmt::format("-{}.npy", kNames[i]).c_str()), *arrays[i], i == 1 ? 2 : 1);
    description[kNames[i]] = sampled_digest(arrays[i]->bytes());
  }
  write_file_atomic(with_suffix(stem, "-description.json"),
                    description.dump(2) + "\n");  // last: it makes the rest count
}

}  // namespace

GptIndex cached_gpt_index(const IndexedDataset& file, const GptIndexRequest& request,
                          const std::filesystem::path& cache) {
  const auto build = [&] {
    try {
      return build_gpt_index(file.lengths(), request);
    } catch (const UsageError& error) {
      throw UsageError("{}: {}", file.prefix().string(), error.what());
    }
  };
  if (cache.empty()) return build();
  const Json key{{"kind", kKind}, {"data", file.digest()}, {"request", describe(request)}};
  const auto stem = cache / ("gpt-" + digest_of(key.dump()));
  if (auto found = load(stem, key)) return *std::move(found);
  GptIndex index = build();
  store(stem, key, index);
  return index;
}

GptDataset::GptDataset(std::shared_ptr<const IndexedDataset> file, const GptIndexRequest& request, GptIndex index,
                       SampleRules rules)
    : Dataset(request.seq_length, static_cast<std::int64_t>(index.shuffle.size()), rules),
      file_(std::move(file)),
      request_(request),
      index_(std::move(index)) {
  if (token_is_float(file_->type()))
    throw UsageError("{}.idx: holds {} numbers, not token ids", file_->prefix().string(),
                     token_type_name(file_->type()));
}

std::int64_t GptDataset::window(std::int64_t number, std::span<std::int32_t> tokens) const {
  const auto row = static_cast<std::size_t>(index_.shuffle[static_cast<std::size_t>(number)]);
  auto document = static_cast<std::size_t>(index_.samples[2 * row]);
  std::int64_t offset = index_.samples[2 * row + 1];
  std::size_t done = 0;
  for (; done < tokens.size() && document < index_.documents.size(); ++document, offset = 0) {
    const std::int64_t sequence = index_.documents[document];
    const auto left = static_cast<std::size_t>(file_->length(sequence) - offset);
    const std::size_t count = std::min(left, tokens.size() - done);
    file_->read(sequence, offset, tokens.subspan(done, count));
    done += count;
  }
  return static_cast<std::int64_t>(done);
}

std::string GptDataset::place(std::int64_t number) const {
  const auto row = static_cast<std::size_t>(index_.shuffle[static_cast<std::size_t>(number)]);
  const std::int64_t sequence = index_.documents[static_cast<std::size_t>(index_.samples[2 * row])];
  return fmt::format("{}.bin, from document {} on", file_->prefix().string(), file_->document_of(sequence));
}

Json GptDataset::order() const {
  return Json{{"data", file_->digest()},
              {"first", request_.first},
              {"last", request_.last},
              {"seq_length", seq_length()},
              {"seed", request_.seed},
              {"epochs", index_.epochs},
              {"separate_last_epoch", index_.separate_last_epoch},
              {"samples", index_.shuffle.size()}};
}

}  // namespace railyard::data
