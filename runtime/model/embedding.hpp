// The first layer: token embedding (split over the vocabulary), learned positions, dropout.
#pragma once

#include "runtime/model/layer.hpp"

namespace railyard {

std::unique_ptr<Layer> make_embedding(const ModelShape& shape);

// The spec of the token embedding, also the tied output weight of another stage.
ParameterSpec word_embedding_spec(const ModelShape& shape, const std::string& name);

}  // namespace railyard
