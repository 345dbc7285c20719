// One pre-norm transformer layer: x + proj(attention(norm(x))), then + down(activation(up(norm(.)))).
#pragma once

#include "runtime/model/layer.hpp"

namespace railyard {

// Layer `index` of the whole model. Output projections may start scaled by 1 / sqrt(2 layers).
std::unique_ptr<Layer> make_transformer_block(const ModelShape& shape, std::int64_t index);

}  // namespace railyard
