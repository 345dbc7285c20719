// A split of a Megatron data set as samples, in the order of Megatron-Core's GPTDataset.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/data/dataset.hpp"
#include "runtime/data/gpt_index.hpp"
#include "runtime/data/indexed_dataset.hpp"

namespace railyard::data {

class GptDataset : public Dataset {
 public:
  // `index` is what build_gpt_index or cached_gpt_index gave for `request`. UsageError: the file holds no ids.
  GptDataset(std::shared_ptr<const IndexedDataset> file, const GptIndexRequest& request, GptIndex index,
             SampleRules rules);

  std::int64_t window(std::int64_t number, std::span<std::int32_t> tokens) const override;
  [[nodiscard]] std::string place(std::int64_t number) const override;
  [[nodiscard]] Json order() const override;
  [[nodiscard]] bool has_padding() const override { return !request_.drop_last_partial; }

 private:
  std::shared_ptr<const IndexedDataset> file_;
  GptIndexRequest request_;
  GptIndex index_;
};

// The indices of a request from the cache folder, built and stored there when they are missing or damaged. Keyed on the
// content of the data set, so data made again under the same name never meets old indices. UsageErrors name the file.
GptIndex cached_gpt_index(const IndexedDataset& file, const GptIndexRequest& request,
                          const std::filesystem::path& cache);

}  // namespace railyard::data
