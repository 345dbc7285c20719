// Reading, merging, finding and writing calibration files.
#include "launch/plan/calibration.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <system_error>

#include "launch/plan/gpu_spec.hpp"
#include "launch/process.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

// Reads the values of one object; messages name the file and the key.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw UsageError("{}: an object is expected", where_);
  }
  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) throw UsageError("{}: {}: a string is expected", where_, key);
    return value.get<std::string>();
  }
  [[nodiscard]] double rate(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number() || !(value.get<double>() > 0) || value.get<double>() > 1e18)
      throw UsageError("{}: {}: a positive number is expected, got {}", where_, key, value.dump());
    return value.get<double>();
  }
  [[nodiscard]] std::int64_t extent(const char* key) const {
    const double value = rate(key);
    if (value != std::floor(value) || value > 1e15) throw UsageError("{}: {}: an integer is expected", where_, key);
    return static_cast<std::int64_t>(value);
  }
  [[nodiscard]] const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) throw UsageError("{}: {}: missing", where_, key);
    return *found;
  }

 private:
  const Json& object_;
  std::string where_;
};

template <class Read>
void read_list(const Json& document, const char* key, const std::string& source, const Read& read) {
  const auto found = document.find(key);
  if (found == document.end()) return;
  if (!found->is_array()) throw UsageError("{}: {}: a list is expected", source, key);
  for (std::size_t i = 0; i < found->size(); ++i) read(Fields((*found)[i], fmt::format("{}: {}[{}]", source, key, i)));
}

template <class Entry, class Same>
void merge_list(std::vector<Entry>& list, const std::vector<Entry>& newer, const Same& same) {
  for (const Entry& entry : newer) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const Entry& old) { return same(old, entry); });
    if (found == list.end())
      list.push_back(entry);
    else
      *found = entry;
  }
}

bool same_device(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto left = find_gpu(a), right = find_gpu(b);
  return left && right && left->name == right->name;
}

Calibration read_calibration(const fs::path& path) {
  return Calibration::from_json(read_json_file(path), path.string());
}

bool names_a_file(const std::string& path) { return path.ends_with(".json"); }

// Folders of calibration files, in the order in which they count.
std::vector<fs::path> folders(const CalibrationSearch& search) {
  std::vector<fs::path> found;
  if (search.named && !names_a_file(*search.named)) found.emplace_back(*search.named);
  if (search.home) found.emplace_back(*search.home);
  if (search.site) found.emplace_back(*search.site);
  return found;
}

std::optional<FoundCalibration> find_in(const fs::path& folder, const std::string& device) {
  std::error_code error;
  const fs::path exact = folder / calibration_file_name(device);
  if (fs::is_regular_file(exact, error)) return FoundCalibration{exact, read_calibration(exact)};
  std::vector<fs::path> files;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".json") files.push_back(it->path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    try {
      FoundCalibration found{file, read_calibration(file)};
      if (same_device(found.calibration.device, device)) return found;
    } catch (const UsageError&) {
      continue;  // another device's broken file is not this one's business
    }
  }
  return std::nullopt;
}

}  // namespace

Json Calibration::to_json() const {
  Json document{{"schema", 1},
                {"device", device},
                {"date", date},
                {"program", program},
                {"copy_gb_s", copy_gb_s ? Json(*copy_gb_s) : Json(nullptr)},
                {"gemm", Json::array()},
                {"attention", Json::array()},
                {"comm", Json::array()}};
  for (const GemmRate& rate : gemm)
    document["gemm"].push_back(
        {{"dtype", rate.dtype}, {"m", rate.m}, {"n", rate.n}, {"k", rate.k}, {"tflops", rate.tflops}});
  for (const AttentionRate& rate : attention)
    document["attention"].push_back({{"tokens", rate.tokens},
                                     {"heads", rate.heads},
                                     {"head_dim", rate.head_dim},
                                     {"dtype", rate.dtype},
                                     {"forward_tflops", rate.forward_tflops},
                                     {"backward_tflops", rate.backward_tflops}});
  for (const CommRate& rate : comm)
    document["comm"].push_back({{"operation", rate.operation},
                                {"ranks", rate.ranks},
                                {"bytes", rate.bytes},
                                {"gb_s", rate.gb_s},
                                {"class", rate.link_class}});
  return document;
}

Calibration Calibration::from_json(const Json& document, const std::string& source) {
  const Fields fields(document, source);
  if (fields.extent("schema") != 1)
    throw UsageError("{}: schema: {} is not 1; measure again with railyard bench", source, fields.extent("schema"));
  Calibration calibration;
  calibration.device = fields.text("device");
  calibration.date = fields.text("date");
  calibration.program = fields.text("program");
  if (!fields.at("copy_gb_s").is_null()) calibration.copy_gb_s = fields.rate("copy_gb_s");
  read_list(document, "gemm", source, [&](const Fields& entry) {
    calibration.gemm.push_back(
        {entry.text("dtype"), entry.extent("m"), entry.extent("n"), entry.extent("k"), entry.rate("tflops")});
  });
  read_list(document, "attention", source, [&](const Fields& entry) {
    calibration.attention.push_back({entry.extent("tokens"), entry.extent("heads"), entry.extent("head_dim"),
                                     entry.text("dtype"), entry.rate("forward_tflops"), entry.rate("backward_tflops")});
  });
  read_list(document, "comm", source, [&](const Fields& entry) {
    const auto ranks = entry.extent("ranks");
    if (ranks > (1 << 24)) throw UsageError("{}: comm: {} ranks are out of range", source, ranks);
    calibration.comm.push_back({entry.text("operation"), static_cast<int>(ranks), entry.rate("bytes"),
                                entry.rate("gb_s"), entry.text("class")});
  });
  return calibration;
}

void Calibration::merge(const Calibration& newer) {
  date = newer.date;
  program = newer.program;
  if (newer.copy_gb_s) copy_gb_s = newer.copy_gb_s;
  merge_list(gemm, newer.gemm, [](const GemmRate& a, const GemmRate& b) {
    return a.dtype == b.dtype && a.m == b.m && a.n == b.n && a.k == b.k;
  });
  merge_list(attention, newer.attention, [](const AttentionRate& a, const AttentionRate& b) {
    return a.dtype == b.dtype && a.tokens == b.tokens && a.heads == b.heads && a.head_dim == b.head_dim;
  });
  merge_list(comm, newer.comm, [](const CommRate& a, const CommRate& b) {
    return a.operation == b.operation && a.ranks == b.ranks && a.bytes == b.bytes && a.link_class == b.link_class;
  });
}

CalibrationSearch calibration_search(const std::string& site_cache) {
  CalibrationSearch search;
  if (auto named = environment_value("RAILYARD_CALIBRATION"); named && !named->empty()) search.named = *named;
  if (auto cache = environment_value("XDG_CACHE_HOME"); cache && !cache->empty())
    search.home = *cache + "/railyard/calibration";
  else if (auto home = environment_value("HOME"); home && !home->empty())
    search.home = *home + "/.cache/railyard/calibration";
  if (!site_cache.empty()) search.site = site_cache + "/calibration";
  return search;
}

std::string calibration_file_name(const std::string& device) {
  std::string name;
  for (const char c : device)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' ? c : '_';
  return (name.empty() ? "unknown" : name) + ".json";
}

std::optional<FoundCalibration> find_calibration(const std::string& device, const CalibrationSearch& search) {
  if (search.named && names_a_file(*search.named))
    return FoundCalibration{*search.named, read_calibration(*search.named)};
  for (const fs::path& folder : folders(search))
    if (auto found = find_in(folder, device)) return found;
  return std::nullopt;
}

fs::path store_calibration(const Calibration& calibration, const CalibrationSearch& search) {
  std::vector<fs::path> places;
  if (search.named && names_a_file(*search.named))
    places.emplace_back(*search.named);
  else
    for (const fs::path& folder : folders(search)) places.push_back(folder / calibration_file_name(calibration.device));
  std::string refused;
  for (const fs::path& place : places) {
    std::error_code error;
    if (place.has_parent_path()) fs::create_directories(place.parent_path(), error);
    Calibration whole = calibration;
    try {
      whole = read_calibration(place);
      whole.merge(calibration);
    } catch (const UsageError&) {
      whole = calibration;  // there is none, or one that nobody can use
    }
    try {
      write_file_atomic(place, whole.to_json().dump(1) + "\n");
      return place;
    } catch (const RunError& why) {
      refused += std::string(refused.empty() ? "" : "; ") + why.what();
    }
  }
  throw RunError("the calibration cannot be stored: {}; name a folder with RAILYARD_CALIBRATION",
                 refused.empty() ? "there is no home and no paths.cache of a site" : refused);
}

}  // namespace railyard::launch
