// libFuzzer: any bytes as a pickle; only UsageError may come out.
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/megatron/pickle.hpp"
#include "runtime/checkpoint/megatron/torch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using railyard::Pickle;
  for (const auto unknown : {Pickle::Unknown::kRefuse, Pickle::Unknown::kOpaque}) {
    try {
      const Pickle pickle(std::as_bytes(std::span(data, size)), "fuzz", railyard::torch_allows, unknown);
      for (const char* key : {"args", "state_dict_metadata", "iteration"})
        if (const auto* found = pickle.root().find(key)) static_cast<void>(found->to_integers(key));
    } catch (const railyard::UsageError&) {
    }
  }
  return 0;
}
