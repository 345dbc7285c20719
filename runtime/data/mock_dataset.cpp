// Draws mock samples.
#include "runtime/data/mock_dataset.hpp"

#include "runtime/base/error.hpp"
#include "runtime/base/philox.hpp"

namespace railyard::data {

MockDataset::MockDataset(const char* split, std::uint64_t seed, std::int64_t seq_length, std::int64_t samples,
                         SampleRules rules)
    : Dataset(seq_length, samples, rules),
      split_(split),
      seed_(seed),
      key_(stream_key(seed, std::string("data.mock.") + split)),
      vocab_(static_cast<std::uint32_t>(rules.vocab_size)) {
  RAILYARD_CHECK(rules.vocab_size > 0);
}

std::int64_t MockDataset::window(std::int64_t number, std::span<std::int32_t> tokens) const {
  const auto n = static_cast<std::uint64_t>(number);
  const PhiloxBlock draw = philox4x32(static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0, 0, key_);
  std::uint64_t value = draw.x[0] % vocab_;
  const std::uint64_t step = 1 + draw.x[1] % 8;
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(value);
    value = (value + step) % vocab_;
  }
  return static_cast<std::int64_t>(tokens.size());
}

std::string MockDataset::place(std::int64_t) const { return "data.mock"; }

Json MockDataset::order() const {
  return Json{{"mock", split_}, {"vocab", vocab_}, {"seq_length", seq_length()}, {"seed", seed_}};
}

}  // namespace railyard::data
