// Finding, comparing and cutting checkpoints.
#include "runtime/checkpoint/tools.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <system_error>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/builder.hpp"
#include "runtime/checkpoint/store.hpp"

namespace railyard {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPiece = 8 << 20;

// Calls `body` with rectangles that together are the whole, each of whole rows and about kPiece bytes.
void for_each_piece(const Extents& shape, std::size_t element, const std::function<void(const Rectangle&)>& body) {
  if (volume(shape) == 0) return;
  const std::int64_t rows = shape.empty() ? 1 : shape[0];
  const std::int64_t row = volume(shape) / rows * static_cast<std::int64_t>(element);
  const std::int64_t step = std::max<std::int64_t>(1, kPiece / row);
  for (std::int64_t first = 0; first < rows; first += step) {
    Rectangle piece{Extents(shape.size(), 0), shape};
    if (!shape.empty()) {
      piece.offset[0] = first;
      piece.shape[0] = std::min(step, rows - first);
    }
    body(piece);
  }
}

// "[3, 7]": where the element stands that is the n-th of the piece.
std::string place_text(const Rectangle& piece, std::int64_t n) {
  Extents index(piece.shape.size());
  for (std::size_t axis = piece.shape.size(); axis-- > 0; n /= piece.shape[axis])
    index[axis] = piece.offset[axis] + n % piece.shape[axis];
  return shape_text(index);
}

// How the elements of two tensors of the same shape and type differ; nothing when they do not.
std::optional<std::string> diff_values(CheckpointReader& left, CheckpointReader& right, const std::string& name,
                                       const ManifestTensor& tensor, double tolerance,
                                       const std::function<void(std::uint64_t)>& progress) {
  const std::size_t element = dtype_size(tensor.dtype);
  const bool floats = dtype_is_float(tensor.dtype);
  std::vector<std::byte> a, b;
  std::vector<double> x, y;
  std::int64_t differing = 0;
  double largest = 0.0;
  std::string first;
  for_each_piece(tensor.shape, element, [&](const Rectangle& piece) {
    const auto count = static_cast<std::size_t>(volume(piece.shape));
    a.resize(count * element);
    b.resize(count * element);
    left.read(name, piece, {a.data(), tensor.dtype, 0});
    right.read(name, piece, {b.data(), tensor.dtype, 0});
    if (progress) progress(a.size());
    if (a == b) return;
    if (floats) {
      x.resize(count);
      y.resize(count);
      convert_elements(a.data(), tensor.dtype, x.data(), DType::kFloat64, count);
      convert_elements(b.data(), tensor.dtype, y.data(), DType::kFloat64, count);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (std::memcmp(a.data() + i * element, b.data() + i * element, element) == 0) continue;
      const double distance = floats ? std::abs(x[i] - y[i]) : INFINITY;
      if (floats && distance <= tolerance && tolerance > 0) continue;
      // A NaN on one side is infinitely far.
      largest = std::max(largest, std::isnan(distance) ? INFINITY : distance);
      if (differing++ == 0) first = place_text(piece, static_cast<std::int64_t>(i));
    }
  });
  if (differing == 0) return std::nullopt;
  std::string text = fmt::format("{} of {} elements differ, first at {}", differing, volume(tensor.shape), first);
  if (floats) text += fmt::format(", by at most {:.6g}", largest);
  return text;
}

// Keys of two documents that differ, with both values.
void diff_json(const std::string& path, const Json& left, const Json& right, std::vector<std::string>& out) {
  if (left == right) return;
  if (!left.is_object() || !right.is_object()) {
    const auto text = [](const Json& json) {
      std::string dump = json.dump(-1, ' ', false, Json::error_handler_t::replace);
      return dump.size() > 60 ? dump.substr(0, 57) + "..." : dump;
    };
    out.push_back(fmt::format("{}: {} and {}", path, text(left), text(right)));
    return;
  }
  static const Json kNothing = nullptr;
  std::set<std::string> keys;
  for (const auto& [key, value] : left.items()) keys.insert(key);
  for (const auto& [key, value] : right.items()) keys.insert(key);
  for (const std::string& key : keys)
    diff_json(path + "." + key, left.contains(key) ? left[key] : kNothing, right.contains(key) ? right[key] : kNothing,
              out);
}

}  // namespace

fs::path locate_checkpoint(const fs::path& path, std::optional<std::int64_t> step) {
  std::error_code error;
  if (!fs::exists(path, error)) throw UsageError("{}: no such folder", path.string());
  if (!step && fs::exists(path / kManifestName, error)) return path;
  std::string rejected;
  for (const fs::path& dir : {path, path / "ckpt"}) {
    for (const std::int64_t candidate : list_steps(dir)) {
      if (step && candidate != *step) continue;
      if (step) return step_folder(dir, candidate);
      try {
        static_cast<void>(read_manifest(step_folder(dir, candidate)));
        return step_folder(dir, candidate);
      } catch (const Error& fault) {
        if (rejected.empty()) rejected = fmt::format("; the newest was rejected: {}", fault.what());
      }
    }
  }
  if (step) throw UsageError("{}: holds no checkpoint of step {}", path.string(), *step);
  throw UsageError("{}: holds no checkpoint{}", path.string(), rejected);
}

bool is_weight(const std::string& tensor) { return tensor.find('/') == std::string::npos; }

std::vector<std::string> diff_checkpoints(CheckpointReader& left, CheckpointReader& right, const DiffSettings& settings,
                                          const std::function<void(std::uint64_t)>& progress) {
  std::vector<std::string> out;
  const Manifest &a = left.manifest(), &b = right.manifest();
  if (!settings.weights_only) {
    const auto summary = [](const CheckpointInfo& info) {
      return Json{{"step", info.step},
                  {"consumed_samples", info.consumed_samples},
                  {"consumed_tokens", info.consumed_tokens},
                  {"loss_scale", info.loss_scale},
                  {"data_order", info.data_order},
                  {"generator", info.generator},
                  {"job", info.job},
                  {"state", info.state}};
    };
    const Json x = summary(a.info), y = summary(b.info);
    for (const auto& [key, value] : x.items()) diff_json(key, value, y[key], out);
  }
  std::set<std::string> names;
  for (const auto& [name, tensor] : a.tensors) names.insert(name);
  for (const auto& [name, tensor] : b.tensors) names.insert(name);
  for (const std::string& name : names) {
    if (settings.weights_only && !is_weight(name)) continue;
    const auto x = a.tensors.find(name), y = b.tensors.find(name);
    if (x == a.tensors.end() || y == b.tensors.end()) {
      out.push_back(fmt::format("{}: only in {}", name, (y == b.tensors.end() ? left : right).folder().string()));
    } else if (x->second.shape != y->second.shape || x->second.dtype != y->second.dtype) {
      out.push_back(fmt::format("{}: {} {} and {} {}", name, dtype_name(x->second.dtype), shape_text(x->second.shape),
                                dtype_name(y->second.dtype), shape_text(y->second.shape)));
    } else if (const auto text = diff_values(left, right, name, x->second, settings.tolerance, progress)) {
      out.push_back(fmt::format("{}: {}", name, *text));
    }
  }
  return out;
}

void reshard_checkpoint(CheckpointReader& reader, const fs::path& out, const ReshardSettings& settings,
                        const std::function<void(std::uint64_t)>& progress) {
  std::error_code error;
  const fs::path target = step_folder(out, reader.manifest().info.step);
  if (fs::exists(target, error)) throw UsageError("{}: exists already; give another folder", target.string());
  std::vector<std::vector<BuildPart>> files(static_cast<std::size_t>(settings.files));
  for (const auto& [name, tensor] : reader.manifest().tensors) {
    if (settings.weights_only && !is_weight(name)) continue;
    const DType dtype =
        settings.dtype && is_weight(name) && dtype_is_float(tensor.dtype) ? *settings.dtype : tensor.dtype;
    const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
    for (std::int64_t i = 0; i < settings.files; ++i) {
      // rows * k / files without the product.
      const auto cut = [&](std::int64_t k) {
        return rows / settings.files * k + rows % settings.files * k / settings.files;
      };
      Rectangle part{Extents(tensor.shape.size(), 0), tensor.shape};
      if (tensor.shape.empty()) {
        if (i > 0) continue;
      } else {
        part.offset[0] = cut(i);
        part.shape[0] = cut(i + 1) - cut(i);
        if (part.shape[0] == 0 && !(rows == 0 && i == 0)) continue;
      }
      files[static_cast<std::size_t>(i)].push_back({name, dtype, tensor.shape, part});
    }
  }
  build_checkpoint(
      out, reader.manifest().info, files,
      [&](const BuildPart& part, const Rectangle& rows, std::span<std::byte> bytes) {
        reader.read(part.tensor, rows, {bytes.data(), part.dtype, 0});
      },
      progress);
}

}  // namespace railyard
